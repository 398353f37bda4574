/** What one step computes: for each of its sequences, which tokens, and which of their logits are wanted. */
import type { BlockCopies } from '../kv/paged-cache.js';
import type { Sequence } from '../sequence.js';

/** Tokens `start` to `start + count - 1` of one sequence. */
export interface PlannedChunk {
  sequence: Sequence;
  start: number;
  count: number;
  /**
   * The first position whose logits are wanted to score the prompt token after it, and how many in a row. Those of the
   * chunk's last position are wanted on top when `samples`.
   */
  scoreStart: number;
  scoreCount: number;
  /** Whether the chunk reaches the sequence's last known token, so that the next one is sampled. */
  samples: boolean;
  /**
   * The sequence whose copy this one starts as when the step is done. Its chunk stands before this one, which has no
   * tokens of its own and samples from the same row.
   */
  forkOf: Sequence | undefined;
}

/** Reused from step to step: valid until the scheduler makes the next. */
export class Plan {
  readonly #pool: PlannedChunk[] = [];
  readonly chunks: PlannedChunk[] = [];
  /** To be made before the step, whether it succeeds or not. */
  readonly copies: BlockCopies = { sources: [], targets: [] };
  /** Rows of the step, T. */
  tokens = 0;
  prefillTokens = 0;
  decodeTokens = 0;
  /** Pairs of a row and a token before it, which attention looks at: of sequences with a single row, and with more. */
  decodePairs = 0;
  prefillPairs = 0;
  /** Sequences that start as copies of others. */
  forks = 0;

  clear(): void {
    this.chunks.length = 0;
    this.copies.sources.length = 0;
    this.copies.targets.length = 0;
    this.tokens = 0;
    this.prefillTokens = 0;
    this.decodeTokens = 0;
    this.decodePairs = 0;
    this.prefillPairs = 0;
    this.forks = 0;
  }

  /** Adds the tokens that `sequence.planned` asks for. */
  add(sequence: Sequence): void {
    const chunk = this.#chunk(sequence, undefined);
    const end = sequence.computed + sequence.planned;
    chunk.start = sequence.computed;
    chunk.count = sequence.planned;
    chunk.samples = end === sequence.length && sequence.wantsToken;
    chunk.scoreStart = chunk.start;
    chunk.scoreCount = 0;
    if (scoresPrompt(sequence)) {
      // The row at position p scores the token at p + 1; what was scored before a preemption is not scored again.
      chunk.scoreStart = Math.max(chunk.start, sequence.promptScored - 1);
      chunk.scoreCount = Math.max(0, Math.min(end, sequence.promptLength - 1) - chunk.scoreStart);
    }
    this.tokens += chunk.count;
    if (chunk.count === 1) this.decodePairs += chunk.start;
    else this.prefillPairs += chunk.count * (chunk.start + (chunk.count - 1) / 2);
    if (sequence.decoding) this.decodeTokens += chunk.count;
    else this.prefillTokens += chunk.count;
  }

  /** Adds a copy of the sequence that was added last, or whose copy was, and whose chunk completes its prompt. */
  addFork(sequence: Sequence, of: Sequence): void {
    const chunk = this.#chunk(sequence, of);
    chunk.start = of.length;
    chunk.count = 0;
    chunk.scoreCount = 0;
    chunk.samples = sequence.wantsToken;
    this.forks++;
  }

  #chunk(sequence: Sequence, forkOf: Sequence | undefined): PlannedChunk {
    const index = this.chunks.length;
    const chunk = this.#pool[index] ?? {
      sequence,
      start: 0,
      count: 0,
      scoreStart: 0,
      scoreCount: 0,
      samples: false,
      forkOf,
    };
    chunk.sequence = sequence;
    chunk.forkOf = forkOf;
    this.#pool[index] = chunk;
    this.chunks.push(chunk);
    return chunk;
  }
}

/** Whether log probabilities of the prompt are wanted; one choice reports them for all. */
export function scoresPrompt(sequence: Sequence): boolean {
  return sequence.request.promptLogprobs !== undefined && sequence.choice === 0;
}
