/**
 * What takes part in a step. Where it pays, prompts and decodes share steps. Where rows cost the same in whichever step they
 * are, they have steps of their own in turn: a prompt has its first token by the time its rows take, and streams wait as long
 * as they would for a step of both.
 */

import type { Sequence } from '../sequence.js';

/** `prompts`: sequences with more than one token to compute, and those that start; `decodes`: the others. */
export type StepKind = 'mixed' | 'prompts' | 'decodes';

export class StepKinds {
  readonly #mixed: boolean;
  #afterPrompts = false;

  constructor(mixed: boolean) {
    this.#mixed = mixed;
  }

  /** @param admissionPossible whether a sequence that waits could start */
  next(running: Iterable<Sequence>, admissionPossible: boolean): StepKind {
    if (this.#mixed) return 'mixed';
    let [decodes, prompts] = [false, admissionPossible];
    for (const { pending } of running) {
      if (pending === 1) decodes = true;
      else prompts = true;
    }
    if (!decodes || !prompts) return 'mixed';
    return this.#afterPrompts ? 'decodes' : 'prompts';
  }

  /** What the step came to be. */
  note(kind: StepKind): void {
    this.#afterPrompts = kind === 'prompts';
  }
}
