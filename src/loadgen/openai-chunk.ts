/**
 * Reads what the load generator needs out of one chunk of an OpenAI-compatible stream, completions or chat, tolerating
 * everything that servers add to it.
 */

/** Tokens from the start of the answer up to and with the chunk. */
export interface TokenUsage {
  readonly promptTokens: number | undefined;
  readonly completionTokens: number;
  readonly cachedTokens: number | undefined;
}

export interface ParsedChunk {
  /** Message of an error reported in the stream. */
  readonly error: string | undefined;
  readonly hasChoice: boolean;
  /** Any kind of output: text, content, reasoning, refusal or tool calls. */
  readonly hasText: boolean;
  readonly finishReason: string | undefined;
  readonly usage: TokenUsage | undefined;
  /** Tokens that the chunk itself lists, by their ids or logprobs. */
  readonly listedTokens: number | undefined;
}

/** Keys of a delta (or, `text`, of a completion's choice) that hold generated output. */
const OUTPUT_KEYS = ['text', 'content', 'reasoning_content', 'reasoning', 'refusal', 'tool_calls', 'function_call'];

type JsonObject = Readonly<Record<string, unknown>>;

/** @returns undefined when the data is not a JSON object */
export function parseChunk(data: string): ParsedChunk | undefined {
  let body: unknown;
  try {
    body = JSON.parse(data);
  } catch {
    return undefined;
  }
  if (!isObject(body)) return undefined;
  const choices = Array.isArray(body['choices']) ? body['choices'].filter(isObject) : [];
  return {
    error: errorMessage(body),
    hasChoice: choices.length > 0,
    hasText: choices.some(hasText),
    finishReason: choices.map((choice) => choice['finish_reason']).find((reason) => typeof reason === 'string'),
    usage: readUsage(body['usage']),
    listedTokens: choices.map(listedTokens).find((count) => count !== undefined),
  };
}

/** OpenAI's shape is `{error: {message}}`; some servers send `{error: "..."}` or `{object: "error", message}`. */
export function errorMessage(body: JsonObject): string | undefined {
  const error = body['error'];
  if (typeof error === 'string') return error;
  if (isObject(error)) return typeof error['message'] === 'string' ? error['message'] : JSON.stringify(error);
  return body['object'] === 'error' ? String(body['message'] ?? 'unknown error') : undefined;
}

function hasText(choice: JsonObject): boolean {
  const delta = isObject(choice['delta']) ? choice['delta'] : choice;
  return OUTPUT_KEYS.some((key) => {
    const value = delta[key];
    return Array.isArray(value) ? value.length > 0 : typeof value === 'string' ? value !== '' : isObject(value);
  });
}

function listedTokens(choice: JsonObject): number | undefined {
  const delta = isObject(choice['delta']) ? choice['delta'] : choice;
  const logprobs = isObject(choice['logprobs']) ? choice['logprobs'] : {};
  const lists = [choice['token_ids'], delta['token_ids'], logprobs['tokens'], logprobs['content']];
  return lists.find((list) => Array.isArray(list))?.length;
}

function readUsage(usage: unknown): TokenUsage | undefined {
  if (!isObject(usage) || !isCount(usage['completion_tokens'])) return undefined;
  const prompt = usage['prompt_tokens'];
  const details = usage['prompt_tokens_details'];
  const cached = isObject(details) ? details['cached_tokens'] : undefined;
  return {
    completionTokens: usage['completion_tokens'],
    promptTokens: isCount(prompt) ? prompt : undefined,
    cachedTokens: isCount(cached) ? cached : undefined,
  };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
