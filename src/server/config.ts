/** What the HTTP side needs to know beside the engine and the text model: limits, and the model under its public name. */

/** Sampling that a checkpoint recommends. */
export interface SamplingDefaults {
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly repetitionPenalty?: number;
}

export interface ServedModel {
  /** The name clients ask for. */
  readonly id: string;
  /** Unix seconds, for /v1/models. */
  readonly created: number;
  /** Every end-of-sequence id of the checkpoint. */
  readonly endTokens: readonly number[];
  /** Sampling where the caller says nothing. */
  readonly defaults: SamplingDefaults;
}

export interface ServerConfig {
  /** Largest request body, in bytes. */
  readonly maxBodyBytes: number;
  /**
   * Seconds that a stream's headers wait for its first token, so that a refusal still has a status of its own. After it
   * the stream opens without one, and what fails then is an event.
   */
  readonly headerDelay: number;
  /** Seconds between keep-alive comments while a stream waits; 0 sends none, since some clients break on them. */
  readonly keepAliveInterval: number;
  /** Seconds that a stream may wait for its reader before it is aborted. */
  readonly stallTimeout: number;
  /** Origins of pages that may call the server; undefined lets those of every origin. */
  readonly allowedOrigins?: readonly string[];
  /** Seconds that a stream without a reader is kept, so that the reader can resume it; 0 keeps none and numbers no events. */
  readonly resumeWindow: number;
  /** Seconds that the engine may owe a step before the server calls itself stalled; above the longest step there is. */
  readonly progressTimeout: number;
  /** Prompts and answers go into the records of requests, and so into the log. */
  readonly logContent: boolean;
}

export const defaultServerConfig: ServerConfig = {
  maxBodyBytes: 10 * 1024 * 1024,
  headerDelay: 5,
  keepAliveInterval: 0,
  stallTimeout: 300,
  resumeWindow: 0,
  progressTimeout: 60,
  logContent: false,
};

/** Characters of events that are kept for readers to come back: 4 Mi of a stream, 256 Mi of all. */
export const resumeMemory = { perStream: 1 << 22, total: 1 << 28 } as const;

/** Bounds on what one request may ask for, so that no body of a few bytes costs without limit. */
export const requestLimits = {
  choices: 128,
  prompts: 2048,
  /** Prompts times choices. */
  sequences: 2048,
  stopStrings: 16,
  /** Characters of a stop string. */
  stopLength: 10_000,
  /** Messages of a chat: rendering many thousands of them keeps the thread from all others. */
  messages: 10_000,
  logprobs: 20,
  /** Nesting of objects and arrays in a body. */
  depth: 100,
} as const;
