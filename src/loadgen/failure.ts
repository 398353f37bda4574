/** Why a request failed, as it is counted in the results. */

/**
 * - `http_<status>`: an answer other than 200
 * - `connection`: refused, reset or unresolved before an answer began
 * - `cut`: the stream ended before `[DONE]` or a finish reason
 * - `error_event`: the server reported an error inside the stream
 * - `malformed`: not an event stream, not JSON, no choice in it, or an event beyond the buffer's bound
 * - `timeout`: not complete within the time allowed
 */
export type FailureKind = `http_${number}` | 'connection' | 'cut' | 'error_event' | 'malformed' | 'timeout';

export interface Failure {
  readonly kind: FailureKind;
  readonly message: string;
}
