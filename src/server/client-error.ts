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

/** Nothing is written to a connection on which an answer has begun: it could only break that. */
export function answerClientErrors(server: Server): void {
  const answers = new WeakMap<Duplex, ServerResponse>();
  server.prependListener('request', (request, response) => answers.set(request.socket, response));
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const answer = answers.get(socket);
    const busy = answer?.headersSent && !answer.writableFinished;
    if (socket.writable && !busy && error.code !== 'ECONNRESET')
      socket.write(response(refusals[error.code ?? ''] ?? unreadable));
    socket.destroy(error);
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
