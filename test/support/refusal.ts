/** What a refused checkpoint must look like. */
import { expect } from 'vitest';
import { LoadError } from '../../src/errors.js';
import { openCheckpoint } from '../../src/model/formats/open.js';

/** The fault that opening `path` is refused with: a LoadError of one line that starts with a file, in under 2 s. */
export async function refusal(path: string): Promise<string> {
  const start = performance.now();
  const error = await openCheckpoint(path).then(
    async (checkpoint) => {
      await checkpoint.close();
      return undefined;
    },
    (reason: unknown) => reason,
  );
  expect(error, `${path} should be refused`).toBeInstanceOf(LoadError);
  const { message, file } = error as LoadError;
  expect(performance.now() - start).toBeLessThan(2000);
  expect(file.startsWith(path)).toBe(true);
  expect(message.startsWith(`${file}: `)).toBe(true);
  expect(message).not.toContain('\n');
  return message.slice(path.length);
}
