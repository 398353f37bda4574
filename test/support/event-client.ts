/** A reader of event streams over a socket of its own, which it can cut after any event. */
import { once } from 'node:events';
import http from 'node:http';
import { createParser, type EventSourceMessage } from 'eventsource-parser';

export interface Opened {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  /** Reads events until there are `count`, or to the end; what the connection brings beyond is lost with it. */
  read(count?: number): Promise<EventSourceMessage[]>;
  /** Cuts the connection. */
  cut(): void;
}

/** Sends a request and resolves with its answer's head. */
export async function openEvents(
  url: string,
  options: { readonly body?: object; readonly headers?: Record<string, string> } = {},
): Promise<Opened> {
  const method = options.body === undefined ? 'GET' : 'POST';
  const request = http.request(url, { method, headers: options.headers ?? {}, agent: false });
  request.on('error', () => {});
  request.end(options.body === undefined ? undefined : JSON.stringify(options.body));
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  response.setEncoding('utf8').on('error', () => {});
  const events: EventSourceMessage[] = [];
  let wake = () => {};
  let ended = false;
  const parser = createParser({ onEvent: (event) => events.push(event) });
  response.on('data', (text: string) => {
    parser.feed(text);
    wake();
  });
  response.on('close', () => {
    ended = true;
    wake();
  });
  return {
    status: response.statusCode!,
    headers: response.headers,
    read: async (count = Number.POSITIVE_INFINITY) => {
      while (events.length < count && !ended) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return events.slice(0, count);
    },
    cut: () => response.destroy(),
  };
}
