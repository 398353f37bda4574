/**
 * The messages between the HTTP thread and the engine worker. Only token ids, sampling parameters and numbers cross;
 * text never does. Each side sends at most one message a step: commands are batched on the way in, outputs on the way
 * out. Everything here survives structured cloning.
 */

/** Index into the model's vocabulary. */
export type TokenId = number;
/** Names a request on the wire between client and worker; unique for the life of the worker. */
export type RequestId = number;
/** Seconds on the worker's monotonic clock (`performance.timeOrigin` based, comparable across threads). */
export type Seconds = number;

/** Why a choice ended. `abort`: the client went away. `error`: the engine failed it; see `ChoiceOutput.error`. */
export type FinishReason = 'stop' | 'length' | 'abort' | 'error';

/** How the next token is drawn from a row of logits; see `engine/sampler`. Neutral values switch a filter off. */
export interface SamplingParams {
  /** 0 is greedy; otherwise logits are divided by it. */
  readonly temperature: number;
  /** Keep the k likeliest tokens; 0 keeps all. */
  readonly topK: number;
  /** Keep the smallest set whose probability reaches p; 1 keeps all. */
  readonly topP: number;
  /** Keep tokens at least this fraction as likely as the likeliest; 0 keeps all. */
  readonly minP: number;
  /** Any safe integer. The client draws one where the caller gave none, so the engine itself is deterministic. */
  readonly seed: number;
  /** Subtracted once from tokens already generated; 0 is off. */
  readonly presencePenalty: number;
  /** Subtracted per occurrence among generated tokens; 0 is off. */
  readonly frequencyPenalty: number;
  /** Divides positive and multiplies negative logits of tokens in prompt and output; 1 is off. */
  readonly repetitionPenalty: number;
  /** Added to the logits of single tokens. */
  readonly logitBias: readonly (readonly [TokenId, number])[];
  /** When not empty, every other token is impossible. */
  readonly allowedTokenIds: readonly TokenId[];
  /** Token sequences whose last token is made impossible right after the others. */
  readonly badWords: readonly (readonly TokenId[])[];
}

/** The likeliest token, with every filter and penalty off. */
export const GREEDY: SamplingParams = {
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  seed: 0,
  presencePenalty: 0,
  frequencyPenalty: 0,
  repetitionPenalty: 1,
  logitBias: [],
  allowedTokenIds: [],
  badWords: [],
};

/** One prompt to continue, in `choices` independent ways. */
export interface GenerationRequest {
  readonly id: RequestId;
  /** At least one token. */
  readonly prompt: Int32Array;
  /** Number of completions of this prompt (OpenAI's n); choice i samples with (seed, i, position). */
  readonly choices: number;
  readonly sampling: SamplingParams;
  /** Tokens to generate at most, at least 0. With 0 the prompt is only evaluated, for its log probabilities. */
  readonly maxTokens: number;
  /** End tokens are impossible before this many tokens. */
  readonly minTokens: number;
  /** Tokens that end a choice with `stop`: the model's end-of-sequence ids (none with ignore_eos) and stop_token_ids. */
  readonly endTokens: readonly TokenId[];
  /** Alternatives to report for each generated token; 0 reports the token's own log probability, undefined nothing. */
  readonly logprobs: number | undefined;
  /** The same for the tokens of the prompt. */
  readonly promptLogprobs: number | undefined;
  /** Lower is served first, as in vLLM; 0 is the default. */
  readonly priority: number;
  /** Whom the tokens are accounted to in fair sharing; '' shares one account. */
  readonly user: string;
  /** Requests with different salts never share cached blocks. */
  readonly cacheSalt: string;
  /** When the server accepted the request. */
  readonly arrival: Seconds;
  /** How long after its arrival it may be started at the latest; the engine's own limit holds as well. */
  readonly queueTimeout?: Seconds | undefined;
}

/** What is to be said of a request of which nothing special is asked: one greedy choice that no token ends. */
export const PLAIN_REQUEST = {
  choices: 1,
  sampling: GREEDY,
  minTokens: 0,
  endTokens: [],
  logprobs: undefined,
  promptLogprobs: undefined,
  priority: 0,
  user: '',
  cacheSalt: '',
} as const satisfies Partial<GenerationRequest>;

/** Log probability of one token, from the distribution before temperature, penalties and filters. */
export interface TokenLogprobs {
  readonly token: TokenId;
  readonly logprob: number;
  /** Its place among all tokens by probability: 1 is the likeliest; equals share the better one. */
  readonly rank: number;
  /** The likeliest alternatives, best first; may or may not contain the token itself. */
  readonly top: readonly { readonly token: TokenId; readonly logprob: number }[];
}

/** Where a finished choice spent its time; seconds on the shared clock. */
export interface ChoiceTimings {
  readonly arrival: Seconds;
  /** First time any of its tokens was in a step. */
  readonly firstScheduled: Seconds | undefined;
  readonly firstToken: Seconds | undefined;
  readonly finished: Seconds;
  /** How often it lost its blocks and was recomputed. */
  readonly preemptions: number;
}

/** What one step did for one choice of one request. */
export interface ChoiceOutput {
  readonly request: RequestId;
  /** 0 to choices - 1. */
  readonly choice: number;
  /** Tokens generated in this step, usually one; an end token is included. */
  readonly tokens: readonly TokenId[];
  /** One for each of `tokens`, when asked for. */
  readonly logprobs?: readonly TokenLogprobs[];
  /** The next pieces of the prompt's log probabilities (choice 0 only); the first token of a prompt has none: null. */
  readonly promptLogprobs?: readonly (TokenLogprobs | null)[];
  /** Prompt tokens taken from the prefix cache; sent with the first output of each choice. */
  readonly cachedTokens?: number;
  /** Set exactly once per choice, on its last output. */
  readonly finish?: FinishReason;
  /** The end token that caused `finish: 'stop'`. */
  readonly stopToken?: TokenId;
  readonly error?: EngineFault;
  readonly timings?: ChoiceTimings;
}

/** Why the engine could not serve a request. */
export interface EngineFault {
  readonly code: EngineFaultCode;
  readonly message: string;
  /** When another try may succeed, as far as it can be told. */
  readonly retryAfter?: Seconds;
}
/**
 * `too_long`: can never fit the context or the pool. `queue_full`: the waiting queue is at its bound. `timeout`: its
 * deadline passed. `step_failed`: the model failed on a step it took part in. `closed`: the engine is going or has gone.
 */
export type EngineFaultCode = 'too_long' | 'queue_full' | 'timeout' | 'step_failed' | 'closed';

/** The engine's state after a step, for metrics and health. */
export interface EngineStats {
  /** When the step ended. */
  readonly time: Seconds;
  readonly running: number;
  readonly waiting: number;
  /** Blocks that sequences hold; those that only the prefix cache keeps are as good as free. */
  readonly blocksUsed: number;
  readonly blocksTotal: number;
  /** Slots of the blocks in use that hold no token: what whole blocks cost. */
  readonly emptySlots: number;
  /** Sequences that took part in the step. */
  readonly sequences: number;
  /** Rows of the step: prompt tokens and decode tokens. */
  readonly prefillTokens: number;
  readonly decodeTokens: number;
  /** Pairs of a row and a token before it, which attention looked at: of sequences with a single row, and with more. */
  readonly decodePairs: number;
  readonly prefillPairs: number;
  /** Seconds spent in the parts of the step. */
  readonly scheduleTime: Seconds;
  readonly modelTime: Seconds;
  readonly sampleTime: Seconds;
  /** Counters since start. */
  readonly steps: number;
  readonly preemptions: number;
  /** Prompt tokens looked for in the prefix cache, and those found there. */
  readonly prefixQueries: number;
  readonly prefixHits: number;
}

export type Command =
  | { readonly kind: 'generate'; readonly request: GenerationRequest }
  /** Ends all choices of a request; they finish with `abort` in the same step. Unknown or ended requests are ignored. */
  | { readonly kind: 'abort'; readonly request: RequestId }
  /** Forgets the prefixes of earlier prompts; later commands find nothing of them. What runs goes on. */
  | { readonly kind: 'reset_prefix_cache' }
  /** Finish nothing more: abort all, release the model, close the port. */
  | { readonly kind: 'shutdown' };

/** Client to worker. */
export interface CommandBatch {
  readonly commands: readonly Command[];
}

/** Worker to client. */
export type WorkerMessage =
  | { readonly kind: 'progress'; readonly phase: string; readonly fraction: number }
  | { readonly kind: 'ready'; readonly info: EngineInfo }
  | { readonly kind: 'step'; readonly outputs: readonly ChoiceOutput[]; readonly stats: EngineStats }
  /** The engine cannot start or cannot go on; the worker ends after it. `user`: the message is for the person who started it. */
  | { readonly kind: 'failed'; readonly message: string; readonly user: boolean };

/** How the engine is set up; the worker's start data. */
export interface EngineConfig {
  /** GGUF file or Hugging Face directory. */
  readonly model: string;
  readonly device: 'auto' | 'cpu' | 'webgpu';
  readonly precision: Precision | 'auto';
  /** Threads of the CPU backend; 0 lets the backend choose. */
  readonly threads: number;
  /** Replicas of the model that steps may be divided between on the CPU; 1 is for never, 0 or undefined lets the backend choose. */
  readonly dataParallelSize?: number | undefined;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  /** Longest sequence, prompt and output; undefined takes the model's own limit, as far as the pool can hold it. */
  readonly maxModelLen: number | undefined;
  /** Bytes of the paged cache. */
  readonly kvCacheMemory: number;
  /** Element type of the paged cache; auto if not given. */
  readonly kvCacheDtype?: KvCacheDtype | 'auto' | undefined;
  /** Share of the free GPU memory for weights and cache together, 0 to 1; takes the place of `kvCacheMemory` there. */
  readonly gpuMemoryUtilization?: number | undefined;
  /** Tokens a block holds; undefined lets the backend choose. */
  readonly blockSize?: number | undefined;
  /** Whether prompts share what they begin with; true if not given. */
  readonly enablePrefixCaching?: boolean | undefined;
  /** Whether users of a priority get equal shares; true if not given. */
  readonly fairShare?: boolean | undefined;
  /** Prompts under way that take more than a step each, at most; 2 if not given. */
  readonly maxNumPartialPrefills?: number | undefined;
  /** Whether prompts and decodes share steps; what suits the device if not given. */
  readonly mixedSteps?: boolean | undefined;
  /** Continuous if not given. */
  readonly batching?: Batching | undefined;
  /** How long a dynamic or static batch that is not full waits for more; each has its own default. */
  readonly batchWindow?: Seconds | undefined;
  /** Requests that wait at the same time, at most; any number if not given. */
  readonly maxWaiting?: number | undefined;
  /** Tokens of the prompts that wait, at most; any number if not given. */
  readonly maxWaitingTokens?: number | undefined;
  /** How long a request may wait to be started; any time if not given. */
  readonly queueTimeout?: Seconds | undefined;
}

/**
 * When requests join those that run: at every step; in batches of whatever came within moments; in full batches; or one
 * at a time. All but the first run a batch to its end before the next.
 */
export type Batching = 'continuous' | 'dynamic' | 'static' | 'none';

export type Precision = 'fp32' | 'fp16' | 'int8' | 'int4';

/** How keys and values are kept; int8 with a scale for each head of each token. */
export type KvCacheDtype = 'float32' | 'float16' | 'int8';

/** What the engine turned out to be once loaded. */
export interface EngineInfo {
  readonly device: 'cpu' | 'webgpu';
  /** One line for people: provider, adapter, threads. */
  readonly deviceDescription: string;
  readonly precision: Precision;
  readonly vocabSize: number;
  /** Longest sequence it serves, in tokens. */
  readonly maxModelLen: number;
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly kvCacheBytes: number;
  readonly kvCacheDtype: KvCacheDtype;
  /** Whether prompts and decodes share steps. */
  readonly mixedSteps: boolean;
}
