/** A scheduler without a model: sequences of given lengths, and steps that always sample token 1. */
import { PagedCache } from '../../src/engine/kv/paged-cache.js';
import type { SchedulerLimits } from '../../src/engine/scheduler/limits.js';
import type { Plan } from '../../src/engine/scheduler/plan.js';
import { NO_TOKEN, Scheduler } from '../../src/engine/scheduler/scheduler.js';
import { Sequence } from '../../src/engine/sequence.js';
import { requestOf } from './engine.js';

export interface SchedulingSetup extends Partial<SchedulerLimits> {
  readonly numBlocks?: number;
  readonly blockSize?: number;
  readonly prefixes?: boolean;
}

export function setUpScheduling(setup: SchedulingSetup = {}) {
  const { numBlocks = 64, blockSize = 4, prefixes = false, ...limits } = setup;
  const cache = new PagedCache(numBlocks, blockSize, prefixes ? { model: 'test' } : undefined);
  const scheduler = new Scheduler(cache, { maxNumSeqs: 8, maxNumBatchedTokens: 32, maxScoredTokens: 1000, ...limits });
  let order = 0;
  const add = (promptLength: number, maxTokens: number, rest: Parameters<typeof requestOf>[0] = {}) => {
    const prompt = new Array<number>(promptLength).fill(2);
    const request = requestOf({ id: order, prompt, maxTokens, arrival: order, ...rest });
    const sequence = new Sequence(request, 0, order++, 100_000);
    scheduler.add(sequence);
    return sequence;
  };
  /** What each sequence got, in the plan's order. */
  const step = (now = order) => {
    const plan = scheduler.schedule(now);
    const chunks = plan.chunks.map(({ sequence, start, count, samples }) => ({ sequence, start, count, samples }));
    scheduler.commit(plan, tokensFor(plan));
    scheduler.check();
    return chunks;
  };
  return { cache, scheduler, add, step };
}

export function tokensFor(plan: Plan): number[] {
  return plan.chunks.map(({ samples }) => (samples ? 1 : NO_TOKEN));
}
