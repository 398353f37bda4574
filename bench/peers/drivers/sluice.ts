/** Our own engine, through its client as the server uses it: scheduler, sampler and messages between threads included. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { EngineConfig } from '../../../src/engine/protocol.js';
import { startEngine } from '../../../src/engine/worker-client.js';
import { root } from '../../support/paths.js';
import { requestOf } from '../../support/request.js';
import type { RunRequest, RunResult } from '../protocol.js';
import type { DrivenEngine } from './driver.js';

export async function openSluice(config: EngineConfig): Promise<DrivenEngine> {
  const engine = startEngine(config, { worker: pathToFileURL(join(root, 'dist', 'engine', 'worker.js')) });
  const info = await engine.ready();
  return {
    description: `sluice ${info.precision}, ${info.deviceDescription}`,

    async run({ prompts, newTokens, concurrency = prompts.length }: RunRequest, now): Promise<RunResult> {
      const tokens: number[][] = prompts.map(() => []);
      const times: number[][] = prompts.map(() => []);
      let next = 0;
      const client = async (): Promise<void> => {
        while (next < prompts.length) {
          const index = next++;
          for await (const outputs of engine.generate(requestOf(prompts[index]!, newTokens))) {
            for (const output of outputs) {
              for (const token of output.tokens) {
                tokens[index]!.push(token);
                times[index]!.push(now());
              }
            }
          }
        }
      };
      await Promise.all(Array.from({ length: concurrency }, client));
      return { tokens, times };
    },

    close: () => engine.close(),
  };
}
