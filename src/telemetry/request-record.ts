/** One served request, for logs and metrics; its prompt and answer only where they were asked for. Times are milliseconds. */
export interface RequestRecord {
  id: string;
  readonly method: string;
  readonly path: string;
  /** The path where there is something at it, else `other`: for counting, as callers can make up any number of paths. */
  readonly handler: string;
  /** Name of the API key it came with, where keys are asked for. */
  key?: string;
  /** `performance.now()` at arrival. */
  readonly start: number;
  /** 499 when the client went away first. */
  status: number;
  streamed: boolean;
  promptTokens?: number;
  completionTokens?: number;
  cachedTokens?: number;
  /** Milliseconds from arrival to the first token. */
  firstToken?: number;
  /** Milliseconds from arrival to the last token. */
  lastToken?: number;
  /** Mean milliseconds a token after the first; of answers with a single choice and two tokens or more. */
  timePerToken?: number;
  finish?: string;
  /** Each prompt as the model got it and each answer as the client did; only with `ServerConfig.logContent`. */
  content?: { readonly prompts: readonly string[]; readonly answers: string[] };
  /** What failed it: the message for the caller, and the cause where the fault is the server's. */
  error?: string;
  cause?: unknown;
  /** Milliseconds from arrival to the end of the answer. */
  duration?: number;
}
