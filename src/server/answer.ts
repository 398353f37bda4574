/** Runs a generation and answers with it, streamed or whole. A client that goes away aborts it either way. */
import type { RequestRecord } from '../telemetry/request-record.js';
import type { TextModel } from '../text/text-model.js';
import type { AppContext, AppDeps, RouteDeps } from './context.js';
import { clientClosed, type Disconnect, watchDisconnect } from './disconnect.js';
import { toApiError } from './errors.js';
import { type AnswerFormat, collect, emptyChoice } from './format.js';
import { Generation, type Job, type StepDelta } from './generation.js';
import { ownerOf } from './keys/authenticate.js';
import { type EventStream, openEventStream } from './sse.js';

export async function answer(
  c: AppContext,
  deps: RouteDeps,
  job: Job,
  format: AnswerFormat,
  stream: boolean,
): Promise<Response> {
  const { record } = c.var;
  const generation = new Generation(deps.engine, deps.text, job, (promptTokens) =>
    deps.metrics?.begin(record.start, promptTokens),
  );
  if (deps.config.logContent) record.content = contentOf(deps.text, generation);
  const watch = watchDisconnect(c);
  const release = deps.live.add(record.id, ownerOf(c), () => generation.cancel());
  if (stream) return new StreamedAnswer(c, deps, generation, format, watch, release).start();
  try {
    return await wholeAnswer(c, generation, format, watch);
  } finally {
    watch.dispose();
    release();
    note(record, generation);
  }
}

async function wholeAnswer(
  c: AppContext,
  generation: Generation,
  format: AnswerFormat,
  watch: Disconnect,
): Promise<Response> {
  const choices = generation.choices.map(emptyChoice);
  const onStep = (deltas: readonly StepDelta[]) => {
    noteTokens(c.var.record, deltas);
    collect(choices, deltas);
    return undefined;
  };
  await generation.run(onStep, watch.signal);
  if (watch.signal.aborted) return new Response(null, { status: clientClosed });
  return c.json(format.whole(choices, generation));
}

class StreamedAnswer {
  private readonly record: RequestRecord;
  private stream: EventStream | undefined;
  private onOpen: () => void = () => {};
  private readonly opened = new Promise<void>((resolve) => {
    this.onOpen = resolve;
  });

  constructor(
    private readonly c: AppContext,
    private readonly deps: RouteDeps,
    private readonly generation: Generation,
    private readonly format: AnswerFormat,
    private readonly watch: Disconnect,
    private readonly release: () => void,
  ) {
    this.record = c.var.record;
  }

  /**
   * Resolves with the response once the stream is open: with the first token, or without one after a while. What fails
   * before that is thrown, and so has a status; what fails after it is an event.
   */
  async start(): Promise<Response> {
    const run = this.generation.run((deltas) => this.send(deltas), this.watch.signal);
    const delay = setTimeout(() => {
      this.open().flush();
    }, this.deps.config.headerDelay * 1000);
    try {
      await Promise.race([run, this.opened]);
    } catch (error) {
      if (this.stream === undefined) {
        this.settle();
        throw error;
      }
    } finally {
      clearTimeout(delay);
    }
    const stream = this.open();
    void this.finish(run, stream);
    return stream.response;
  }

  private open(): EventStream {
    if (this.stream === undefined) {
      this.record.streamed = true;
      this.stream = this.openStream();
      this.onOpen();
    }
    return this.stream;
  }

  /** A stream that can be resumed outlives its connection, and says itself when nobody comes back. */
  private openStream(): EventStream {
    const { c, watch } = this;
    const resumable = this.deps.streams?.open(c, ownerOf(c), watch.abort);
    if (resumable !== undefined) watch.dispose();
    return resumable ?? openEventStream(c, watch.abort);
  }

  private send(deltas: readonly StepDelta[]): Promise<void> | undefined {
    noteTokens(this.record, deltas);
    const events = this.format.chunks(deltas, this.generation);
    if (events === '') return undefined;
    const stream = this.open();
    return stream.write(events) ? undefined : this.waitForReader(stream);
  }

  private async waitForReader(stream: EventStream): Promise<void> {
    const stalled = setTimeout(() => {
      stream.destroy();
      if (stream.closed) this.record.error = 'The reader stalled.';
    }, this.deps.config.stallTimeout * 1000);
    await stream.drained();
    clearTimeout(stalled);
  }

  /** Sees the stream to its end; never rejects. */
  private async finish(run: Promise<void>, stream: EventStream): Promise<void> {
    const { record } = this;
    const { keepAliveInterval } = this.deps.config;
    const keepAlive =
      keepAliveInterval > 0 ? setInterval(() => stream.keepAlive(), keepAliveInterval * 1000) : undefined;
    try {
      await run;
      if (this.watch.signal.aborted) record.status = clientClosed;
      else stream.write(this.format.tail(this.generation));
    } catch (error) {
      const failure = toApiError(error);
      record.error = failure.message;
      record.cause = failure.options.cause;
      stream.write(this.format.failure(failure, this.generation));
    } finally {
      clearInterval(keepAlive);
      stream.end();
      this.settle();
      endRequest(this.c, this.deps);
    }
  }

  private settle(): void {
    this.watch.dispose();
    this.release();
    note(this.record, this.generation);
  }
}

/** Where prompts are told as the model gets them, special tokens included, and answers come together. */
function contentOf(text: TextModel, { job, choices }: Generation): NonNullable<RequestRecord['content']> {
  return {
    prompts: job.requests.map(({ prompt }) => text.decode(prompt, { skipSpecialTokens: false })),
    answers: choices.map(() => ''),
  };
}

function noteTokens(record: RequestRecord, deltas: readonly StepDelta[]): void {
  record.lastToken = performance.now() - record.start;
  record.firstToken ??= record.lastToken;
  const answers = record.content?.answers;
  if (answers !== undefined) for (const { index, delta } of deltas) answers[index] += delta.text;
}

function note(record: RequestRecord, generation: Generation): void {
  record.promptTokens = generation.promptTokens;
  record.completionTokens = generation.completionTokens;
  record.cachedTokens = generation.cachedTokens;
  const reasons = new Set(generation.choices.map((choice) => choice.finish?.reason ?? 'abort'));
  record.finish = [...reasons].join(',');
  const { firstToken, lastToken, completionTokens } = record;
  if (generation.choices.length > 1 || firstToken === undefined || lastToken === undefined) return;
  if (completionTokens > 1) record.timePerToken = (lastToken - firstToken) / (completionTokens - 1);
}

/** Closes a request's record and hands it on, and counts its tokens against its key. */
export function endRequest(c: AppContext, deps: AppDeps): void {
  const { record, keyUse } = c.var;
  keyUse?.end((record.promptTokens ?? 0) + (record.completionTokens ?? 0));
  record.duration = performance.now() - record.start;
  deps.metrics?.http(record);
  deps.onRequestEnd?.(record);
}
