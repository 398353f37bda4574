/** A step that failed: whether the device can go on. */
import { RunnerLostError } from '../../runner.js';

/** Messages after which no further step can succeed: the device is gone, or has no memory left to run in. */
const FATAL = /device (was |is )?lost|lost device|out of memory|out_of_memory|OOM|DEVICE_LOST|failed to (map|wait)/i;

/** The error to report for a step that failed: RunnerLostError when the device cannot go on. */
export function stepError(error: unknown, device: string): unknown {
  const message = error instanceof Error ? error.message : String(error);
  if (!FATAL.test(message)) return error;
  return new RunnerLostError(
    `The GPU cannot go on (${device}): ${message.split('\n')[0]}. ` +
      'Restart the server; if it ran out of memory, with a smaller --kv-cache-memory.',
    { cause: error },
  );
}
