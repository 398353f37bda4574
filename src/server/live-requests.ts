/** The requests being served, by id, so that anybody who may can cancel one: a page's stop button, an operator. */

interface LiveRequest {
  readonly owner: string;
  readonly cancel: () => void;
}

/** Prefixes that answers put before the id of a request. */
const prefixes = /^(?:cmpl-|chatcmpl-|resp_)/;

export class LiveRequests {
  /** Ids may be the callers' own, so several requests can share one. */
  private readonly requests = new Map<string, Set<LiveRequest>>();

  /** `owner` is the key that a request came with. Call what is returned once the request has ended. */
  add(id: string, owner: string, cancel: () => void): () => void {
    const request = { owner, cancel };
    const same = this.requests.get(id) ?? new Set();
    this.requests.set(id, same.add(request));
    return () => {
      same.delete(request);
      if (same.size === 0 && this.requests.get(id) === same) this.requests.delete(id);
    };
  }

  /** Cancels what runs under an id, with or without its answer's prefix; how many requests that were. */
  cancel(id: string, owner: string): number {
    const found = this.requests.get(id) ?? this.requests.get(id.replace(prefixes, ''));
    const own = [...(found ?? [])].filter((request) => request.owner === owner);
    for (const request of own) request.cancel();
    return own.length;
  }
}
