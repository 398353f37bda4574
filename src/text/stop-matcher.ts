/**
 * Finds stop strings in a text that arrives in pieces, and holds back no more of it than the longest end that may still
 * become one. The match that starts first wins; of those that start together, the one that ends first. An Aho-Corasick
 * automaton (Aho and Corasick, 1975) makes it linear in the length of the text, whatever the stops and the pieces.
 */

export interface StopResult {
  /** Text that is settled and can be given out. */
  readonly text: string;
  /** A stop string was found: the text ends here. */
  readonly stopped: boolean;
  /** The stop string that was found. */
  readonly matched?: string;
}

export interface StopMatcherOptions {
  /** Give the stop string itself out, too. */
  readonly includeStop: boolean;
}

interface State {
  readonly next: Map<number, State>;
  /** Length of the prefix of a stop string that the state stands for. */
  readonly depth: number;
  /** The state of its longest proper end that begins a stop string, too. */
  fallback: State | undefined;
  /** The longest stop string that ends here. */
  stop: string | undefined;
}

function newState(depth: number): State {
  return { next: new Map(), depth, fallback: undefined, stop: undefined };
}

export class StopMatcher {
  private readonly root: State = newState(0);
  private state = this.root;
  /** UTF-16 units read so far. */
  private position = 0;
  private readonly held = new HeldText();
  /** A match that a stop string which started earlier may still overtake. */
  private found: { readonly start: number; readonly stop: string } | undefined;
  private result: StopResult | undefined;

  /** Empty stop strings are ignored. */
  constructor(
    stops: readonly string[],
    private readonly options: StopMatcherOptions,
  ) {
    for (const stop of stops) if (stop !== '') this.insert(stop);
    this.linkFallbacks();
  }

  /** Adds a piece of text. After a match all further text is dropped. */
  push(delta: string): StopResult {
    if (this.result !== undefined) return this.result;
    this.held.append(delta);
    for (let i = 0; i < delta.length; i++) {
      this.advance(delta.charCodeAt(i));
      if (this.found !== undefined && this.found.start <= this.position - this.state.depth) return this.finish();
    }
    return { text: this.held.takeUntil(this.position - this.state.depth), stopped: false };
  }

  /** The end of the text: what was held back, up to a match if there is one. */
  flush(): StopResult {
    if (this.result !== undefined) return this.result;
    if (this.found !== undefined) return this.finish();
    return { text: this.held.takeUntil(this.position), stopped: false };
  }

  private advance(unit: number): void {
    let state: State | undefined = this.state;
    while (state !== undefined && !state.next.has(unit)) state = state.fallback;
    this.state = state?.next.get(unit) ?? this.root;
    this.position++;
    const { stop } = this.state;
    if (stop === undefined) return;
    const start = this.position - stop.length;
    if (this.found === undefined || start < this.found.start) this.found = { start, stop };
  }

  private finish(): StopResult {
    const { start, stop } = this.found!;
    this.result = { text: '', stopped: true, matched: stop };
    return { ...this.result, text: this.held.takeUntil(this.options.includeStop ? start + stop.length : start) };
  }

  private insert(stop: string): void {
    let state = this.root;
    for (let i = 0; i < stop.length; i++) {
      const unit = stop.charCodeAt(i);
      let next = state.next.get(unit);
      if (next === undefined) {
        next = newState(i + 1);
        state.next.set(unit, next);
      }
      state = next;
    }
    state.stop = stop;
  }

  private linkFallbacks(): void {
    const queue: State[] = [this.root];
    for (const state of queue) {
      for (const [unit, next] of state.next) {
        let fallback = state.fallback;
        while (fallback !== undefined && !fallback.next.has(unit)) fallback = fallback.fallback;
        next.fallback = fallback?.next.get(unit) ?? this.root;
        next.stop ??= next.fallback.stop;
        queue.push(next);
      }
    }
  }
}

/** The pieces that were read and not yet given out: a queue, constant time for each piece. */
class HeldText {
  private pieces: string[] = [];
  /** Index of the first piece that is still held. */
  private first = 0;
  /** Offset of the first held unit in the whole text. */
  private start = 0;

  append(piece: string): void {
    if (piece !== '') this.pieces.push(piece);
  }

  /** Gives out the text up to an offset in the whole text. */
  takeUntil(end: number): string {
    let taken = '';
    while (this.start < end && this.first < this.pieces.length) {
      const piece = this.pieces[this.first]!;
      const count = Math.min(piece.length, end - this.start);
      taken += piece.slice(0, count);
      this.start += count;
      if (count === piece.length) this.first++;
      else this.pieces[this.first] = piece.slice(count);
    }
    if (this.first > this.pieces.length / 2) {
      this.pieces = this.pieces.slice(this.first);
      this.first = 0;
    }
    return taken;
  }
}
