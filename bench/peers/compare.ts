/** Runs the same work on all engines in turn, round after round. */
import { setTimeout as sleep } from 'node:timers/promises';
import { readGreedy } from '../support/golden.js';
import { type Figures, figuresOf } from './figures.js';
import type { CpuUse } from './machine.js';
import type { DriverProcess } from './process.js';
import { type Cell, promptsOf, requestFor } from './workload.js';

export interface Engine {
  readonly name: string;
  readonly ours: boolean;
  readonly driver: DriverProcess;
}

export interface Sample {
  readonly engine: string;
  readonly cell: string;
  readonly round: number;
  readonly figures: Figures;
  readonly cpu: CpuUse;
}

/** Libraries keep threads spinning for a while after their last work. */
const PAUSE_MS = 300;

/**
 * In each round and cell every engine has its turn, right after one another, so that the machine's drift reaches all of
 * them; who begins moves on by one each time, so that none always follows the same neighbour.
 */
export async function compare(
  engines: readonly Engine[],
  cells: readonly Cell[],
  rounds: number,
  onSample: (sample: Sample) => void,
): Promise<Sample[]> {
  const samples: Sample[] = [];
  let turn = 0;
  for (let round = 0; round < rounds; round++) {
    for (const cell of cells) {
      const request = requestFor(cell, turn);
      const first = turn++ % engines.length;
      for (const engine of [...engines.slice(first), ...engines.slice(0, first)]) {
        await sleep(PAUSE_MS);
        const { cpu, ...result } = await engine.driver.run(request);
        const sample = { engine: engine.name, cell: cell.name, round, figures: figuresOf(cell, result), cpu };
        samples.push(sample);
        onSample(sample);
      }
    }
  }
  return samples;
}

/** Work of each cell's shape, not measured: memory is taken and kernels are chosen at the first of its kind. */
export async function warmUp(driver: DriverProcess, cells: readonly Cell[]): Promise<void> {
  for (const [index, cell] of cells.entries()) {
    const prompts = promptsOf(10_000 + index, cell.streams, cell.promptTokens);
    await driver.run({ prompts, newTokens: Math.min(cell.newTokens, 4) });
  }
}

/**
 * How many tokens of the reference's greedy answers an engine finds before it parts from them, of all there are: shows
 * that it computes the same model, and something of its accuracy.
 */
export async function agreement(driver: DriverProcess): Promise<{ readonly matched: number; readonly of: number }> {
  let matched = 0;
  let of = 0;
  for (const { prompt, greedy } of readGreedy()) {
    const { tokens } = await driver.run({ prompts: [prompt], newTokens: greedy.length });
    const parted = greedy.findIndex((token, i) => token !== tokens[0]![i]);
    matched += parted < 0 ? greedy.length : parted;
    of += greedy.length;
  }
  return { matched, of };
}
