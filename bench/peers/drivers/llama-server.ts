/**
 * llama.cpp behind HTTP: node-llama-cpp with as little around it as OpenAI's completions with SSE need, since it brings
 * no server of its own. Prompts are token ids, answers are greedy and end with `max_tokens` only.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { announce } from './driver.js';
import { type LlamaOptions, type OpenLlama, openLlama } from './llama.js';

interface CompletionBody {
  readonly prompt: readonly number[];
  readonly max_tokens: number;
}

async function complete(llama: OpenLlama, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { prompt, max_tokens: count } = JSON.parse(await text(request)) as CompletionBody;
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  const send = (choices: readonly object[], generated: number): void => {
    const usage = {
      prompt_tokens: prompt.length,
      completion_tokens: generated,
      total_tokens: prompt.length + generated,
    };
    response.write(`data: ${JSON.stringify({ object: 'text_completion', model: 'llama', choices, usage })}\n\n`);
  };
  let generated = 0;
  for await (const token of llama.generate(prompt, count)) {
    if (response.destroyed) return;
    generated++;
    const finish_reason = generated === count ? 'length' : null;
    send([{ index: 0, text: llama.model.detokenize([token], true), finish_reason }], generated);
  }
  send([], generated);
  response.end('data: [DONE]\n\n');
}

export async function serveLlama(options: LlamaOptions): Promise<void> {
  const llama = await openLlama(options);
  const server = createServer((request, response) => {
    if (request.method === 'POST' && request.url === '/v1/completions') {
      complete(llama, request, response).catch((error: unknown) => response.destroy(error as Error));
    } else {
      response.writeHead(404).end();
    }
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  await announce(llama.description, `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  server.closeAllConnections();
  server.close();
  await llama.close();
}
