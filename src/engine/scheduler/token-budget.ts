/**
 * Divides a step's token budget among the running sequences: one token for each decode, the rest to prefills. Neither can
 * starve the other: prefills are sure of a quarter of the budget, and decodes that find no room in the rest take turns.
 *
 * Prompts too long for one step must not keep short ones waiting, nor the reverse. While others wait that could start, each
 * prompt under way takes half of what those before it have left, so the first is sure of half of the prefill tokens, and
 * a prompt that fits into what is left starts at once. One that does not fit starts only when it is shorter than what
 * the others under way still have to do, and only while they are fewer than `maxNumPartialPrefills`.
 */
import type { Sequence } from '../sequence.js';
import { scoresPrompt } from './plan.js';
import type { RunningList } from './running-list.js';
import type { StepKind } from './step-kind.js';

/** Of the budget, what prefills are sure of while there are any. */
const PREFILL_SHARE = 1 / 4;

export interface BudgetLimits {
  /** Tokens of a step at most, over all sequences. */
  readonly maxNumBatchedTokens: number;
  /** Prompt tokens whose logits one step may ask for, over all sequences; they take a row of the vocabulary each. */
  readonly maxScoredTokens: number;
  /** Prompts that may be under way at the same time when each takes more than a step. */
  readonly maxNumPartialPrefills: number;
  readonly blockSize: number;
}

export class TokenBudget {
  readonly #limits: BudgetLimits;
  readonly #decodes: Sequence[] = [];
  #left = 0;
  #scoresLeft = 0;
  #prefills = 0;
  /** Prompts that this step leaves unfinished, and the least that one of them has to do after it. */
  #partial = 0;
  #shortestRest = 0;
  /** What prefills are owed of a token; a small budget's share comes to a whole one only after some steps. */
  #credit = 0;
  #turn = 0;

  constructor(limits: BudgetLimits) {
    this.#limits = limits;
  }

  get left(): number {
    return this.#left;
  }

  /** Whether the step has anything to compute. */
  get used(): boolean {
    return this.#left < this.#limits.maxNumBatchedTokens;
  }

  /**
   * Sets `planned` of every running sequence.
   * @param kind which of them take part
   * @param admissionPossible whether a sequence that waits could start in this step
   */
  share(running: RunningList, kind: StepKind, admissionPossible: boolean): void {
    const decodes = this.#decodes;
    decodes.length = 0;
    for (const sequence of running) {
      sequence.planned = 0;
      if (kind !== 'prompts' && sequence.pending === 1) decodes.push(sequence);
    }
    this.#left = this.#limits.maxNumBatchedTokens;
    this.#scoresLeft = this.#limits.maxScoredTokens;
    this.#prefills = 0;
    this.#partial = 0;
    this.#shortestRest = Number.POSITIVE_INFINITY;

    const prefills = kind !== 'decodes' && (admissionPossible || decodes.length < running.size);
    const forDecodes = this.#left - this.#reserve(prefills);
    if (decodes.length > forDecodes) {
      decodes.sort((a, b) => a.lastTurn - b.lastTurn);
      decodes.length = forDecodes;
    }
    for (const sequence of decodes) this.#give(sequence, 1);
    if (!prefills) return;
    for (const sequence of running) {
      if (this.#left === 0) break;
      if (sequence.pending > 1) this.#prefill(sequence, admissionPossible ? this.#half() : this.#left);
    }
  }

  /** Whether a sequence could start in this step; else it has to wait for others, or nothing of it fits. */
  admits(sequence: Sequence): boolean {
    const { pending } = sequence;
    const count = this.#chunk(sequence, this.#left);
    if (count === pending) return true;
    return count > 0 && this.#partial < this.#limits.maxNumPartialPrefills && pending < this.#shortestRest;
  }

  /** Plans the first chunk of a sequence that starts and was found admissible. */
  admit(sequence: Sequence): void {
    this.#prefill(sequence, this.#left);
  }

  /**
   * Gives what nobody else took to the prompts under way.
   * @param secure takes the blocks for what a sequence has planned now; false when they are not there
   */
  topUp(running: RunningList, secure: (sequence: Sequence) => boolean): void {
    for (const sequence of running) {
      if (this.#left === 0) return;
      const { planned } = sequence;
      if (sequence.pending === planned || sequence.pending === 1) continue;
      this.withdraw(sequence);
      const more = this.#prefill(sequence, this.#left) && sequence.planned > planned && secure(sequence);
      if (!more) this.#restore(sequence, planned);
    }
  }

  /** Takes back what a sequence was given. */
  withdraw(sequence: Sequence): void {
    this.#left += sequence.planned;
    if (scoresPrompt(sequence) && sequence.pending > 1) this.#scoresLeft += sequence.planned;
    sequence.planned = 0;
  }

  #restore(sequence: Sequence, planned: number): void {
    this.withdraw(sequence);
    if (scoresPrompt(sequence)) this.#scoresLeft -= planned;
    if (planned > 0) this.#give(sequence, planned);
  }

  /** What a prompt may take so that as much is left for others; whole blocks, and at least one. */
  #half(): number {
    const half = Math.floor(this.#left / 2);
    return Math.max(half, Math.min(this.#left, this.#limits.blockSize));
  }

  /** Plans the next chunk of a prompt; false when nothing of it fits in this step. */
  #prefill(sequence: Sequence, room: number): boolean {
    const count = this.#chunk(sequence, room);
    if (count < sequence.pending) {
      this.#partial++;
      this.#shortestRest = Math.min(this.#shortestRest, sequence.pending - count);
    }
    if (count === 0) return false;
    if (scoresPrompt(sequence)) this.#scoresLeft -= count;
    this.#prefills++;
    this.#give(sequence, count);
    return true;
  }

  #chunk(sequence: Sequence, room: number): number {
    const { computed, pending } = sequence;
    const most = scoresPrompt(sequence) ? Math.min(room, this.#scoresLeft) : room;
    return chunkLength(computed, pending, most, this.#limits.blockSize, this.#prefills === 0);
  }

  #give(sequence: Sequence, count: number): void {
    sequence.planned = count;
    sequence.lastTurn = ++this.#turn;
    this.#left -= count;
  }

  #reserve(wanted: boolean): number {
    this.#credit = wanted ? this.#credit + this.#limits.maxNumBatchedTokens * PREFILL_SHARE : 0;
    const reserve = Math.floor(this.#credit);
    this.#credit -= reserve;
    return reserve;
  }
}

/**
 * Tokens of a prompt to take into a step. A chunk that does not finish the prompt ends on a block's border, and leaves more
 * than one token, which would go through the kernels of decodes: so what is computed does not depend on how the prompt
 * was cut.
 * @param mayBreakBlock whether to end inside a block rather than to take nothing
 */
export function chunkLength(
  computed: number,
  pending: number,
  room: number,
  blockSize: number,
  mayBreakBlock: boolean,
): number {
  if (pending <= room) return pending;
  const most = Math.min(room, pending - 2);
  const end = computed + most;
  const border = end - (end % blockSize);
  if (border > computed) return border - computed;
  if (!mayBreakBlock) return 0;
  return most > 0 ? most : room;
}
