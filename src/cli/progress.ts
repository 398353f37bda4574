/** Shows in a terminal how far loading is; says nothing elsewhere. */
import cliProgress from 'cli-progress';

export interface LoadingProgress {
  update(phase: string, fraction: number): void;
  stop(): void;
}

export function loadingProgress(stream: NodeJS.WriteStream): LoadingProgress {
  if (!stream.isTTY) return { update: () => {}, stop: () => {} };
  const bar = new cliProgress.SingleBar({
    stream,
    format: 'Loading {bar} {percentage} % {phase}',
    barsize: 30,
    barCompleteChar: '█',
    barIncompleteChar: '░',
    clearOnComplete: true,
    hideCursor: true,
  });
  let running = false;
  return {
    update: (phase, fraction) => {
      const percent = Math.round(fraction * 100);
      if (!running) bar.start(100, percent, { phase });
      else bar.update(percent, { phase });
      running = true;
    },
    stop: () => {
      if (running) bar.stop();
      running = false;
    },
  };
}
