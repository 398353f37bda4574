import { defineConfig } from 'vitest/config';

/**
 * Real clients of every kind, against `sluice serve` in a process of its own. Those in Python are installed by
 * .ci/install-clients.
 */
export default defineConfig({
  test: {
    include: ['test/clients/**/*.test.ts'],
    testTimeout: 300_000,
    hookTimeout: 300_000,
    pool: 'forks',
    maxWorkers: 1,
  },
});
