/** The id of a request: the caller's X-Request-Id, else the body's request_id, else one of our own. */
import { randomUUID } from 'node:crypto';
import type { AppContext } from './context.js';

const header = 'X-Request-Id';

export function newRequestId(): string {
  return randomUUID().replaceAll('-', '');
}

/** Ids go into headers and logs, so only short visible ones are taken. */
export function isRequestId(id: string | undefined): id is string {
  return id !== undefined && /^[\x21-\x7e]{1,128}$/.test(id);
}

/** Takes the body's request_id unless the header already named the request. */
export function adoptRequestId(c: AppContext, id: string | null | undefined): void {
  if (!id || !isRequestId(id) || isRequestId(c.req.header(header))) return;
  setRequestId(c, id);
}

export function setRequestId(c: AppContext, id: string): void {
  c.set('requestId', id);
  c.header(header, id);
  if (c.var.record) c.var.record.id = id;
}
