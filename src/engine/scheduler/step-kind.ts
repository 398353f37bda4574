/**
 * What takes part in a step. Where it pays, prompts and decodes share steps. Where rows cost the same in whichever step they
 * are, they have steps of their own in turn: a prompt has its first token by the time its rows take, and streams wait as long
 * as they would for a step of both.
 */

/** `prompts`: sequences with more than one token to compute, and those that start; `decodes`: the others. */
export type StepKind = 'mixed' | 'prompts' | 'decodes';

export class StepKinds {
  readonly #mixed: boolean;
  #afterPrompts = false;

  constructor(mixed: boolean) {
    this.#mixed = mixed;
  }

  /**
   * @param decodes whether any sequence has just one token to compute
   * @param prompts whether any has more, or could start
   */
  next(decodes: boolean, prompts: boolean): StepKind {
    if (this.#mixed || !decodes || !prompts) return 'mixed';
    return this.#afterPrompts ? 'decodes' : 'prompts';
  }

  /** What the step came to be. */
  note(kind: StepKind): void {
    this.#afterPrompts = kind === 'prompts';
  }
}
