/** A progress bar on the terminal while a load runs; silent where standard error is no terminal. */
import { Presets, SingleBar } from 'cli-progress';
import type { RequestRecord } from './record.js';
import { statistics } from './stats.js';
import { formatNumber } from './table.js';
import type { Milliseconds } from './units.js';

export interface Progress {
  onRecord(record: RequestRecord): void;
  stop(): void;
}

/** @param limit as in RunOptions: the bar counts requests, or seconds when the load is limited by time */
export function startProgress(
  label: string,
  limit: { readonly requests: number } | { readonly duration: Milliseconds },
): Progress {
  const bySeconds = 'duration' in limit;
  const total = bySeconds ? Math.ceil(limit.duration / 1000) : limit.requests;
  const unit = bySeconds ? 's' : 'requests';
  const bar = new SingleBar(
    {
      format: `${label} [{bar}] {value}/{total} ${unit} | {speed} tok/s | TTFT p50 {ttft} ms | {failed} failed`,
      stream: process.stderr,
      clearOnComplete: true,
      hideCursor: true,
      fps: 4,
    },
    Presets.legacy,
  );
  const ttfts: number[] = [];
  let tokens = 0;
  let failed = 0;
  let done = 0;
  const start = performance.now();
  bar.start(total, 0, { speed: '-', ttft: '-', failed });

  const draw = (): void => {
    const elapsed = (performance.now() - start) / 1000;
    const p50 = statistics(ttfts.slice(-200))?.p50;
    bar.update(bySeconds ? Math.min(total, Math.floor(elapsed)) : done, {
      speed: formatNumber(tokens / elapsed),
      ttft: p50 === undefined ? '-' : formatNumber(p50),
      failed,
    });
  };
  const timer = process.stderr.isTTY ? setInterval(draw, 500) : undefined;
  return {
    onRecord(record) {
      done += 1;
      if (record.outcome === 'failed') failed += 1;
      if (record.answer === undefined) return;
      ttfts.push(record.answer.ttft);
      tokens += record.answer.outputTokens;
    },
    stop() {
      clearInterval(timer);
      bar.stop();
    },
  };
}
