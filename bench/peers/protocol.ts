/**
 * How the comparison talks to an engine. Each engine is loaded in a process of its own by a small driver, stays loaded,
 * and answers one request at a time: a line of JSON on its standard input, a line of JSON back on file descriptor 3
 * (libraries print to the other two as they like). The first line it sends says that it is ready. It ends with its input.
 */

export interface RunRequest {
  /** Token ids of each sequence's prompt. All start at once, but for `concurrency`. */
  readonly prompts: readonly (readonly number[])[];
  /** Tokens to generate for each, greedily, whatever they are: no token ends a sequence. */
  readonly newTokens: number;
  /** Closed loop: the next prompt starts when one ends, so that so many are under way. Not every driver knows it. */
  readonly concurrency?: number;
}

export interface RunResult {
  /** Generated ids of each sequence. */
  readonly tokens: readonly (readonly number[])[];
  /** Seconds from the run's start at which each of them was there. */
  readonly times: readonly (readonly number[])[];
}

export type DriverMessage =
  /** `url`: the engine is behind HTTP there, and takes no requests from here. */
  | { readonly kind: 'ready'; readonly description: string; readonly url?: string }
  | ({ readonly kind: 'result' } & RunResult)
  | { readonly kind: 'error'; readonly message: string };
