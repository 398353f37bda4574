/** One choice of a request as the loop reports it: its sequence, and what came out of the step under way. */
import type {
  ChoiceOutput,
  ChoiceTimings,
  EngineFault,
  GenerationRequest,
  Seconds,
  TokenId,
  TokenLogprobs,
} from './protocol.js';
import { Adjustments } from './sampler/adjustments.js';
import { isGreedy } from './sampler/sampler.js';
import type { Sequence } from './sequence.js';

export class Choice {
  readonly adjustments: Adjustments;
  /** What the step brought; `takeOutput` starts over. */
  token: TokenId | undefined;
  logprobs: TokenLogprobs | undefined;
  promptLogprobs: (TokenLogprobs | null)[] | undefined;
  fault: EngineFault | undefined;
  #reported = false;

  constructor(
    readonly sequence: Sequence,
    vocabSize: number,
  ) {
    this.adjustments = new Adjustments(sequence, vocabSize);
  }

  /** Whether the likeliest token of its next row of logits is all that it needs. */
  get greedy(): boolean {
    const { sampling, logprobs } = this.sequence.request;
    const { allowed, needed } = this.adjustments;
    return isGreedy(sampling) && logprobs === undefined && allowed === undefined && !needed;
  }

  /** The message about this step; undefined when there is nothing to tell. */
  takeOutput(now: Seconds): ChoiceOutput | undefined {
    const { sequence, token, logprobs, promptLogprobs, fault } = this;
    const { finish, stopToken, request } = sequence;
    if (token === undefined && promptLogprobs === undefined && finish === undefined) return undefined;
    if (token !== undefined) sequence.firstToken ??= now;
    const output: ChoiceOutput = {
      request: request.id,
      choice: sequence.choice,
      tokens: token === undefined ? [] : [token],
      ...(logprobs !== undefined && { logprobs: [logprobs] }),
      ...(promptLogprobs !== undefined && { promptLogprobs }),
      ...(!this.#reported && { cachedTokens: sequence.cachedTokens }),
      ...(finish !== undefined && { finish, timings: timingsOf(sequence, now) }),
      ...(stopToken !== undefined && { stopToken }),
      ...(fault !== undefined && { error: fault }),
    };
    this.#reported = true;
    this.token = undefined;
    this.logprobs = undefined;
    this.promptLogprobs = undefined;
    return output;
  }
}

/** What a request that cannot be served gets: the end of each of its choices. */
export function refusedOutputs(request: GenerationRequest, fault: EngineFault, now: Seconds): ChoiceOutput[] {
  return Array.from({ length: request.choices }, (_, choice) => ({
    request: request.id,
    choice,
    tokens: [],
    cachedTokens: 0,
    finish: 'error',
    error: fault,
    timings: {
      arrival: request.arrival,
      firstScheduled: undefined,
      firstToken: undefined,
      finished: now,
      preemptions: 0,
    },
  }));
}

function timingsOf(sequence: Sequence, now: Seconds): ChoiceTimings {
  return {
    arrival: sequence.request.arrival,
    firstScheduled: sequence.firstScheduled,
    firstToken: sequence.firstToken,
    finished: now,
    preemptions: sequence.preemptions,
  };
}
