/**
 * The engine's heartbeat: read the inbox, schedule, run the model once, sample, publish, repeat; park while there is
 * nothing to do. It knows its model only as a ModelRunner and its client only as a port.
 */
import { type ModelRunner, RunnerLostError, type StepBatch, type StepLogits } from '../model/runner.js';
import { BatchBuilder } from './batch.js';
import { now as sharedClock } from './clock.js';
import { PagedCache } from './kv/paged-cache.js';
import type { EnginePort } from './port.js';
import type { Command, EngineFault, EngineStats, Seconds } from './protocol.js';
import { Readout } from './readout.js';
import { type RequestLimits, Requests } from './requests.js';
import type { SchedulerLimits } from './scheduler/limits.js';
import type { Plan } from './scheduler/plan.js';
import { Scheduler } from './scheduler/scheduler.js';

export interface LoopLimits extends Omit<SchedulerLimits, 'maxScoredTokens'>, RequestLimits {
  /** Whether prompts share what they begin with; true if not given. */
  readonly enablePrefixCaching?: boolean | undefined;
  /** Names the model in the keys of the prefix cache. */
  readonly model?: string;
}

/** What the logits of scored prompt tokens may take in one step; f32 rows of the vocabulary. */
const SCORED_LOGITS_BYTES = 64 * 2 ** 20;

/** Where the time of a step went, and its rows. */
const NO_STEP = {
  sequences: 0,
  prefillTokens: 0,
  decodeTokens: 0,
  decodePairs: 0,
  prefillPairs: 0,
  scheduleTime: 0,
  modelTime: 0,
  sampleTime: 0,
};
type StepRecord = Pick<EngineStats, keyof typeof NO_STEP>;

export class EngineLoop {
  readonly cache: PagedCache;
  readonly scheduler: Scheduler;
  /** Whether prompts and decodes share steps. */
  readonly mixedSteps: boolean;
  readonly #runner: ModelRunner;
  readonly #port: EnginePort;
  readonly #limits: LoopLimits;
  readonly #clock: () => Seconds;
  readonly #batches = new BatchBuilder();
  readonly #readout: Readout;
  readonly #requests: Requests;
  #steps = 0;
  #emptyPlans = 0;
  #stopping = false;

  constructor(runner: ModelRunner, port: EnginePort, limits: LoopLimits, clock = sharedClock) {
    this.#runner = runner;
    this.#port = port;
    this.#limits = limits;
    this.#clock = clock;
    this.#readout = new Readout(runner.vocabSize);
    const { enablePrefixCaching = true, model = '' } = limits;
    this.cache = new PagedCache(runner.numBlocks, runner.blockSize, enablePrefixCaching ? { model } : undefined);
    const scored = Math.floor(SCORED_LOGITS_BYTES / (4 * runner.vocabSize));
    this.mixedSteps = limits.mixedSteps ?? runner.mixedSteps;
    this.scheduler = new Scheduler(this.cache, {
      ...limits,
      mixedSteps: this.mixedSteps,
      maxScoredTokens: Math.max(scored, runner.blockSize),
    });
    this.#requests = new Requests(this.scheduler, this.cache, limits, runner.vocabSize, clock);
  }

  /** Serves until the client sends `shutdown`, then aborts what is left. Rejects only when the engine itself is broken. */
  async run(): Promise<void> {
    for (;;) {
      this.#readInbox();
      if (this.#stopping) break;
      if (this.scheduler.hasWork) {
        await this.#step();
      } else {
        await this.#idle();
      }
    }
    this.#requests.abortAll();
    this.#publish(NO_STEP);
  }

  /** Tells what there is to tell, and waits for a command, or so many seconds. */
  async #idle(timeout?: Seconds): Promise<void> {
    if (this.#requests.hasOutputs) this.#publish(NO_STEP);
    await this.#port.wait(timeout);
  }

  async #step(): Promise<void> {
    const start = this.#clock();
    this.#requests.endOverdue(start);
    const plan = this.scheduler.schedule(start);
    if (plan.chunks.length === 0) {
      this.scheduler.commit(plan, []);
      const { idleUntil } = this.scheduler;
      if (idleUntil === undefined) this.#countEmptyPlan();
      else await this.#idle(idleUntil - start);
      return;
    }
    this.#emptyPlans = 0;
    const batch = this.#batches.build(plan, (sequence) => this.#requests.choiceOf(sequence)?.greedy ?? false);
    const scheduled = this.#clock();
    let logits: StepLogits | undefined;
    let failure: unknown;
    try {
      const { sources, targets } = plan.copies;
      if (sources.length > 0) await this.#runner.copyBlocks(Int32Array.from(sources), Int32Array.from(targets));
      logits = await this.#runner.run(batch);
    } catch (error) {
      failure = error;
    }
    const computed = this.#clock();
    this.#readInbox();
    if (logits === undefined) this.#failStep(plan, failure);
    else this.#completeStep(plan, batch, logits);
    this.#steps++;
    this.#requests.measure(this.#clock() - start);
    this.#publish({
      sequences: plan.chunks.length,
      prefillTokens: plan.prefillTokens,
      decodeTokens: plan.decodeTokens,
      decodePairs: plan.decodePairs,
      prefillPairs: plan.prefillPairs,
      scheduleTime: scheduled - start,
      modelTime: computed - scheduled,
      sampleTime: this.#clock() - computed,
    });
    // Nothing can be computed any more, for any request: whoever runs the loop ends them all.
    if (failure instanceof RunnerLostError) throw failure;
  }

  #completeStep(plan: Plan, batch: StepBatch, logits: StepLogits): void {
    const sampled = this.#readout.read(plan, batch, logits, (sequence) => this.#requests.choiceOf(sequence)!);
    this.scheduler.commit(plan, sampled);
    for (const { sequence } of plan.chunks) {
      const choice = this.#requests.choiceOf(sequence);
      if (choice === undefined) continue;
      if (choice.fault !== undefined) this.scheduler.finish(sequence, 'error');
      this.#requests.report(choice);
    }
  }

  #failStep(plan: Plan, failure: unknown): void {
    this.scheduler.rollback(plan);
    const reason = failure instanceof Error ? failure.message : String(failure);
    const fault: EngineFault = {
      code: 'step_failed',
      message: `The model failed on a step of this request: ${reason}`,
    };
    for (const { sequence } of plan.chunks) {
      // What waits for its prompt fails with it.
      for (const failed of [...sequence.forks, sequence]) {
        const choice = this.#requests.choiceOf(failed);
        if (choice !== undefined) this.#requests.end(choice, 'error', fault);
      }
    }
  }

  #readInbox(): void {
    for (let batch = this.#port.receive(); batch !== undefined; batch = this.#port.receive()) {
      for (const command of batch.commands) this.#obey(command);
    }
  }

  #obey(command: Command): void {
    switch (command.kind) {
      case 'generate':
        this.#requests.accept(command.request);
        break;
      case 'abort':
        this.#requests.abort(command.request);
        break;
      case 'reset_prefix_cache':
        this.cache.resetPrefixes();
        break;
      case 'shutdown':
        this.#stopping = true;
    }
  }

  #publish(record: StepRecord): void {
    this.#port.send({
      kind: 'step',
      outputs: this.#requests.takeOutputs(),
      stats: {
        ...record,
        time: this.#clock(),
        running: this.scheduler.running,
        waiting: this.scheduler.waiting,
        blocksUsed: this.cache.numBlocks - this.cache.availableBlocks,
        blocksTotal: this.cache.numBlocks,
        emptySlots: this.scheduler.emptySlots,
        steps: this.#steps,
        preemptions: this.scheduler.preemptions,
        prefixQueries: this.scheduler.prefixQueries,
        prefixHits: this.scheduler.prefixHits,
      },
    });
  }

  /** A plan comes out empty when preemption took all of it, which cannot happen more often in a row than sequences run. */
  #countEmptyPlan(): void {
    if (++this.#emptyPlans > this.#limits.maxNumSeqs + 8) throw new Error('the scheduler makes no progress');
  }
}
