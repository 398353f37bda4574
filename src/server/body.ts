/** Reads a request's JSON within a bound, whatever its Content-Type says. */
import type { Context } from 'hono';
import { requestLimits } from './config.js';
import { ApiError, invalid } from './errors.js';

/**
 * The parsed body. Throws ApiError: 413 beyond `limit` bytes, without reading the rest, and 400 when it is no JSON.
 */
export async function readJson(c: Context, limit: number): Promise<unknown> {
  const bytes = await readBody(c, limit);
  if (bytes.byteLength === 0) throw invalid(undefined, 'The body is empty: send a JSON object.');
  if (isDeep(bytes)) throw invalid(undefined, `The body is nested deeper than ${requestLimits.depth} levels.`);
  try {
    return JSON.parse(new TextDecoder().decode(bytes)) as unknown;
  } catch (error) {
    const reason = error instanceof SyntaxError ? error.message : 'it cannot be read';
    throw invalid(undefined, `The body is not valid JSON: ${reason}`);
  }
}

/** The body as it came. Throws ApiError (413) beyond `limit` bytes, without reading the rest. */
export async function readBody(c: Context, limit: number): Promise<Uint8Array> {
  const declared = c.req.header('content-length');
  if (declared !== undefined) {
    if (Number(declared) > limit) throw tooLarge(limit);
    return new Uint8Array(await c.req.arrayBuffer());
  }
  const body = c.req.raw.body;
  if (body === null) return new Uint8Array(0);
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return Buffer.concat(chunks, length);
    length += value.byteLength;
    if (length > limit) {
      reader.cancel().catch(() => {});
      throw tooLarge(limit);
    }
    chunks.push(value);
  }
}

/**
 * The connection stays open for now: a client that still sends would else lose the answer to a reset. What it sends is
 * dropped, by the adapter to Node's server, which closes the connection when that takes long.
 */
function tooLarge(limit: number): ApiError {
  return new ApiError(413, `The body is larger than the limit of ${limit} bytes.`, { code: 'request_too_large' });
}

const quote = 0x22;
const backslash = 0x5c;

/**
 * Whether objects and arrays are nested beyond the limit. Looked for before parsing, which takes seconds for megabytes
 * of brackets, and long before something recursive meets them.
 */
function isDeep(bytes: Uint8Array): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (inString) {
      if (byte === backslash) i++;
      else if (byte === quote) inString = false;
    } else if (byte === quote) {
      inString = true;
    } else if (byte === 0x5b || byte === 0x7b) {
      if (++depth > requestLimits.depth) return true;
    } else if (byte === 0x5d || byte === 0x7d) {
      depth--;
    }
  }
  return false;
}
