/** Directories that vanish after the tests of a file. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

/** A fresh directory, removed after all tests of the calling file. */
export function temporaryDirectory(): string {
  const path = mkdtempSync(join(tmpdir(), 'sluice-test-'));
  afterAll(() => rmSync(path, { recursive: true, force: true }));
  return path;
}
