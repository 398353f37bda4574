/**
 * What the prefix cache saves: one long prefix with many questions, on an engine with the cache and on one without, in
 * turn: `node bench/run.mjs shared-prefix`; `--write` puts the result into docs/scheduling.md. Ends with code 1 where
 * the answers differ, more than 5 % of the prompts are computed, or TTFT falls by less than 5 times.
 */
import { randomInteger, randomSource } from '../src/loadgen/random.js';
import { markdownTable, writeBlock } from './support/document.js';
import { type RequestRun, runRequest, startBenchEngine } from './support/engine-run.js';
import { describeMachine } from './support/machine.js';
import { benchConfig } from './support/model.js';
import { readNumbers, readOptions } from './support/options.js';
import { requestOf } from './support/request.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

const options = readOptions({
  prefix: { type: 'string', default: '1000' },
  question: { type: 'string', default: '20' },
  questions: { type: 'string', default: '32' },
  'output-tokens': { type: 'string', default: '8' },
  write: { type: 'boolean', default: false },
});
const [prefixTokens = 0] = readNumbers(options.prefix);
const [questionTokens = 0] = readNumbers(options.question);
const [questions = 0] = readNumbers(options.questions);
const [outputTokens = 0] = readNumbers(options['output-tokens']);

const config = benchConfig({ kvCacheMemory: 2 ** 28 });
const machine = describeMachine();
const engines = [true, false].map((enablePrefixCaching) => startBenchEngine({ ...config, enablePrefixCaching }));
const runs: [RequestRun[], RequestRun[]] = [[], []];
try {
  const random = randomSource(1, 'shared prefix');
  const text = (length: number) => Array.from({ length }, () => randomInteger(random, 1000, 20_000));
  const prefix = text(prefixTokens);
  // What the first steps pay for, with another prompt.
  for (const engine of engines) await runRequest(engine, requestOf(text(prefixTokens), 2));
  for (let question = 0; question <= questions; question++) {
    const request = requestOf([...prefix, ...text(questionTokens)], outputTokens);
    // Who goes first changes; the first question fills the cache and is not counted.
    for (const which of question % 2 === 0 ? [0, 1] : [1, 0]) {
      const run = await runRequest(engines[which]!, request);
      if (question > 0) runs[which]!.push(run);
    }
  }
} finally {
  await Promise.all(engines.map((engine) => engine.close()));
}

const [on, off] = runs;
const prompts = questions * (prefixTokens + questionTokens);
const row = (name: string, some: readonly RequestRun[]) => {
  const computed = prompts - some.reduce((sum, { cachedTokens }) => sum + cachedTokens, 0);
  const share = `${formatNumber((computed / prompts) * 100)} %`;
  const total = `${formatNumber(median(some.map((run) => run.total)))} ms`;
  return [name, share, `${formatNumber(median(some.map(({ ttft }) => ttft)))} ms`, total];
};
const ratio = median(off.map(({ ttft }, i) => ttft / on[i]!.ttft));
const equal = on.filter(({ tokens }, i) => tokens.join() === off[i]!.tokens.join()).length;
const rows = [['prefix cache', 'prompt tokens computed', 'TTFT p50', 'end to end p50'], row('on', on), row('off', off)];
const verdict = `TTFT falls ${formatNumber(ratio)} times (median of the ratios); ${equal} of ${questions} answers are equal.`;
console.log(`${machine}\n${formatTable(rows)}\n${verdict}`);
if (options.write) {
  const what = `${prefixTokens} tokens that all share, ${questions} different questions of ${questionTokens}, one after the other.`;
  writeBlock('scheduling.md', 'shared-prefix', `${machine}. ${what}\n\n${markdownTable(rows)}\n\n${verdict}`);
}
const computed = 1 - on.reduce((sum, { cachedTokens }) => sum + cachedTokens, 0) / prompts;
if (equal < questions || computed >= 0.05 || ratio < 5) process.exitCode = 1;
