/** Answers what Node cannot read as HTTP, or waited for too long, in the shape of every other error. */
import type { Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ErrorBody } from './errors.js';

interface Refusal {
  readonly status: string;
  readonly message: string;
  readonly code: string;
}

const refusals: Readonly<Record<string, Refusal>> = {
  HPE_HEADER_OVERFLOW: {
    status: '431 Request Header Fields Too Large',
    message: 'The headers of the request are too large.',
    code: 'headers_too_large',
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: '408 Request Timeout',
    message: 'The request took too long to arrive.',
    code: 'request_timeout',
  },
};

const unreadable: Refusal = {
  status: '400 Bad Request',
  message: 'The request cannot be read as HTTP/1.1.',
  code: 'bad_request',
};

/** How long a client that has been answered may take to hang up, in milliseconds. */
const linger = 1000;

/**
 * Nothing is written to a connection on which an answer has begun: it could only break that. Others are read on behind the
 * answer, to no effect: a connection that is destroyed with bytes unread is reset, and the client may lose the answer.
 */
export function answerClientErrors(server: Server): void {
  const answers = new WeakMap<Duplex, ServerResponse>();
  const answered = new WeakSet<Duplex>();
  server.prependListener('request', (request, response) => answers.set(request.socket, response));
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // What comes behind bytes that could not be read is reported, too.
    if (answered.has(socket)) return;
    const answer = answers.get(socket);
    const busy = answer?.headersSent && !answer.writableFinished;
    if (!socket.writable || busy || error.code === 'ECONNRESET') {
      socket.destroy(error);
      return;
    }
    answered.add(socket);
    socket.end(response(refusals[error.code ?? ''] ?? unreadable));
    const timer = setTimeout(() => socket.destroy(), linger);
    socket.once('close', () => clearTimeout(timer));
  });
}

function response({ status, message, code }: Refusal): string {
  const error: ErrorBody = { error: { message, type: 'invalid_request_error', param: null, code } };
  const body = JSON.stringify(error);
  return [
    `HTTP/1.1 ${status}`,
    'Connection: close',
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n');
}
