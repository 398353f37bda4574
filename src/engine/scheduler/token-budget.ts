/**
 * Divides a step's token budget among the running sequences: one token for each decode, the rest to prefills. Neither can
 * starve the other: prefills are sure of a quarter of the budget, and decodes that find no room in the rest take turns.
 */
import type { Sequence } from '../sequence.js';
import { scoresPrompt } from './plan.js';
import type { RunningList } from './running-list.js';

/** Of the budget, what prefills are sure of while there are any. */
const PREFILL_SHARE = 1 / 4;

export interface BudgetLimits {
  /** Tokens of a step at most, over all sequences. */
  readonly maxNumBatchedTokens: number;
  /** Prompt tokens whose logits one step may ask for, over all sequences; they take a row of the vocabulary each. */
  readonly maxScoredTokens: number;
  readonly blockSize: number;
}

export class TokenBudget {
  readonly #limits: BudgetLimits;
  readonly #decodes: Sequence[] = [];
  #left = 0;
  #scoresLeft = 0;
  #prefills = 0;
  /** What prefills are owed of a token; a small budget's share comes to a whole one only after some steps. */
  #credit = 0;
  #turn = 0;

  constructor(limits: BudgetLimits) {
    this.#limits = limits;
  }

  get left(): number {
    return this.#left;
  }

  /**
   * Sets `planned` of every running sequence.
   * @param admissionPossible whether a sequence that waits could start in this step
   */
  share(running: RunningList, admissionPossible: boolean): void {
    const decodes = this.#decodes;
    decodes.length = 0;
    for (const sequence of running) {
      sequence.planned = 0;
      if (sequence.pending === 1) decodes.push(sequence);
    }
    this.#left = this.#limits.maxNumBatchedTokens;
    this.#scoresLeft = this.#limits.maxScoredTokens;
    this.#prefills = 0;

    const forDecodes = this.#left - this.#reserve(admissionPossible || decodes.length < running.size);
    if (decodes.length > forDecodes) {
      decodes.sort((a, b) => a.lastTurn - b.lastTurn);
      decodes.length = forDecodes;
    }
    for (const sequence of decodes) this.#give(sequence, 1);
    for (const sequence of running) {
      if (this.#left === 0) break;
      if (sequence.planned === 0 && sequence.pending > 1) this.prefill(sequence);
    }
  }

  /** Plans the next chunk of a prompt; false when nothing of it fits in this step. */
  prefill(sequence: Sequence): boolean {
    let room = this.#left;
    if (scoresPrompt(sequence)) room = Math.min(room, this.#scoresLeft);
    const count = chunkLength(sequence.computed, sequence.pending, room, this.#limits.blockSize, this.#prefills === 0);
    if (count === 0) return false;
    if (scoresPrompt(sequence)) this.#scoresLeft -= count;
    this.#prefills++;
    this.#give(sequence, count);
    return true;
  }

  /** Takes back what a sequence was given. */
  withdraw(sequence: Sequence): void {
    this.#left += sequence.planned;
    sequence.planned = 0;
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
 * Tokens of a prompt to take into a step. A chunk that does not finish the prompt ends on a block's border, so that what
 * is computed does not depend on how the prompt was cut.
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
  const end = computed + room;
  const border = end - (end % blockSize);
  if (border > computed) return border - computed;
  return mayBreakBlock ? room : 0;
}
