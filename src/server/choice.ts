/**
 * One choice of an answer, from the engine's tokens to what is shown: detokenized, cut at stop strings, with log
 * probabilities aligned to the text. Streamed and whole answers both read these deltas, so they are equal by
 * construction.
 */
import type { ChoiceOutput, TokenId, TokenLogprobs } from '../engine/protocol.js';
import { StopMatcher, type StopResult } from '../text/stop-matcher.js';
import type { Detokenizer, TextModel } from '../text/text-model.js';
import { finite, TokenEntries, type TokenEntry } from './token-entries.js';

export interface ChoiceOptions {
  readonly skipSpecialTokens: boolean;
  readonly stop: readonly string[];
  /** The stop string or end token that ended the answer is part of it. */
  readonly includeStop: boolean;
  /** Stop strings are not looked for in the first tokens. */
  readonly minTokens: number;
  /** Make `TokenEntry`s; the engine must have been asked for log probabilities. */
  readonly logprobs: boolean;
}

/**
 * Why a choice ended: `reason` is for every client (`abort`, as vLLM has it, where somebody cancelled the request),
 * `stop` (vLLM's stop_reason) the string or token that did it.
 */
export interface ChoiceFinish {
  readonly reason: 'stop' | 'length' | 'abort';
  readonly stop: string | TokenId | null;
}

/** What one step added to a choice. */
export interface ChoiceDelta {
  /** Ends on a whole character; never holds anything of a stop string that is left out. */
  readonly text: string;
  /** Tokens whose text has been shown completely; joined, their texts are the answer. Empty without `logprobs`. */
  readonly entries: readonly TokenEntry[];
  /** Every token generated, shown or not. */
  readonly tokenIds: readonly TokenId[];
  readonly finish: ChoiceFinish | undefined;
}

/** Bytes of a UTF-8 character, hence tokens that may share one. */
const longestCharacter = 4;

export class Choice {
  /** Tokens generated so far, end tokens and those of stop strings included. */
  completionTokens = 0;
  /** Sum of log probabilities of all generated tokens, when asked for. */
  logprobSum = 0;
  finish: ChoiceFinish | undefined;

  private readonly detokenizer: Detokenizer;
  private readonly matcher: StopMatcher | undefined;
  private readonly entries: TokenEntries | undefined;

  /** `prompt` is what the choice continues: a space or a character that it left open belongs to the answer. */
  constructor(
    text: TextModel,
    private readonly options: ChoiceOptions,
    prompt: Int32Array,
  ) {
    this.detokenizer = text.detokenizer({ skipSpecialTokens: options.skipSpecialTokens, continuation: true });
    for (const token of prompt.subarray(-longestCharacter)) this.detokenizer.push(token);
    const stops = options.stop.filter((stop) => stop !== '');
    this.matcher = stops.length > 0 ? new StopMatcher(stops, { includeStop: options.includeStop }) : undefined;
    this.entries = options.logprobs ? new TokenEntries(text, options.skipSpecialTokens) : undefined;
  }

  /** What an output adds; undefined once the choice has ended. `output.finish` must be stop or length, if set. */
  push(output: ChoiceOutput): ChoiceDelta | undefined {
    if (this.finish !== undefined) return undefined;
    let text = '';
    let tokens = output.tokens;
    for (let i = 0; i < tokens.length && this.finish === undefined; i++) {
      const token = tokens[i]!;
      const logprobs = output.logprobs?.[i];
      this.completionTokens++;
      if (logprobs) this.logprobSum += finite(logprobs.logprob);
      const ends = output.finish === 'stop' && i === tokens.length - 1 && token === output.stopToken;
      if (ends && !this.options.includeStop) continue;
      text += this.show(token, logprobs);
      if (this.finish !== undefined) tokens = tokens.slice(0, i + 1);
    }
    if (output.finish !== undefined && this.finish === undefined) {
      text += this.flush();
      this.finish ??= { reason: output.finish === 'length' ? 'length' : 'stop', stop: output.stopToken ?? null };
    }
    return this.delta(text, tokens);
  }

  /** Ends a choice before the engine does, with what was still held back. */
  abort(): ChoiceDelta {
    const text = this.flush();
    this.finish ??= { reason: 'abort', stop: null };
    return this.delta(text, []);
  }

  private delta(text: string, tokenIds: readonly TokenId[]): ChoiceDelta {
    const entries = this.entries?.take(text.length, this.finish !== undefined) ?? [];
    return { text, entries, tokenIds, finish: this.finish };
  }

  private show(token: TokenId, logprobs: TokenLogprobs | undefined): string {
    const piece = this.detokenizer.push(token);
    if (logprobs) this.entries?.add(logprobs, piece);
    if (this.matcher === undefined || this.completionTokens <= this.options.minTokens) return piece;
    return this.settle(this.matcher.push(piece));
  }

  /** The text that a matcher gave out; a match ends the choice. */
  private settle({ text, stopped, matched }: StopResult): string {
    if (stopped) this.finish = { reason: 'stop', stop: matched ?? null };
    return text;
  }

  /** What detokenizer and matcher still hold back. */
  private flush(): string {
    const piece = this.detokenizer.flush();
    if (piece !== '') this.entries?.extendLast(piece);
    if (this.matcher === undefined) return piece;
    const text = this.settle(this.matcher.push(piece));
    return this.finish === undefined ? text + this.settle(this.matcher.flush()) : text;
  }
}
