/**
 * What planning a step costs, with 256 sequences running and 10,000 waiting: `node bench/run.mjs scheduler`. The model is
 * left out, sequences that end are replaced, prompts are random, users are many, and the pool is roomy or so tight that
 * sequences are preempted. Times are of the processor, not of the clock.
 */
import { BatchBuilder } from '../src/engine/batch.js';
import { PagedCache } from '../src/engine/kv/paged-cache.js';
import { type GenerationRequest, PLAIN_REQUEST } from '../src/engine/protocol.js';
import { NO_TOKEN, Scheduler } from '../src/engine/scheduler/scheduler.js';
import { Sequence } from '../src/engine/sequence.js';

const RUNNING = 256;
const WAITING = 10_000;
const STEPS = 3000;
const BLOCK_SIZE = 32;

/** Milliseconds of processor time, so that what else the machine does counts less. */
function clock(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Lengths that repeat from run to run: a linear congruential generator. */
let state = 1;
function random(low: number, high: number): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return low + Math.floor((state / 2 ** 32) * (high - low + 1));
}

function requestOf(order: number): GenerationRequest {
  return {
    ...PLAIN_REQUEST,
    id: order,
    prompt: Int32Array.from({ length: random(10, 600) }, () => random(0, 50_000)),
    maxTokens: random(10, 300),
    priority: random(0, 9) === 0 ? -1 : 0,
    user: `user ${random(0, 99)}`,
    arrival: order,
  };
}

function measure(label: string, numBlocks: number): void {
  const scheduler = new Scheduler(new PagedCache(numBlocks, BLOCK_SIZE, { model: 'bench' }), {
    maxNumSeqs: RUNNING,
    maxNumBatchedTokens: 2048,
    maxScoredTokens: 1024,
  });
  const builder = new BatchBuilder();
  let order = 0;
  const refill = () => {
    while (scheduler.waiting < WAITING) {
      const request = requestOf(order);
      scheduler.add(new Sequence(request, 0, order++, 4096));
    }
  };
  const sampled: number[] = [];
  const times: { schedule: number[]; build: number[]; commit: number[] } = { schedule: [], build: [], commit: [] };
  let running = 0;
  for (let step = 0; step < STEPS; step++) {
    refill();
    const start = clock();
    const plan = scheduler.schedule(start);
    const scheduled = clock();
    builder.build(plan, () => true);
    const built = clock();
    sampled.length = 0;
    for (const chunk of plan.chunks) sampled.push(chunk.samples ? 1 : NO_TOKEN);
    const sampledAt = clock();
    scheduler.commit(plan, sampled);
    const end = clock();
    if (step < STEPS / 3) continue;
    running += scheduler.running;
    times.schedule.push(scheduled - start);
    times.build.push(built - scheduled);
    times.commit.push(end - sampledAt);
  }
  const columns = Object.entries(times).map(([name, values]) => {
    values.sort((a, b) => a - b);
    const at = (share: number) => `${(values[Math.floor(values.length * share)]! * 1000).toFixed(0)} µs`;
    return `${name} p50 ${at(0.5)} p90 ${at(0.9)} p99 ${at(0.99)}`;
  });
  console.log(
    `${label}: ${columns.join(', ')}; ${(running / times.schedule.length).toFixed(0)} running, ` +
      `${scheduler.waiting} waiting, ${scheduler.preemptions} preemptions`,
  );
}

measure('roomy pool', 16_384);
measure('tight pool', 2_600);
