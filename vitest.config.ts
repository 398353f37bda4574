import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // These need a Vulkan driver, and have a command of their own.
    exclude: ['test/gpu/**'],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // Two cores are the reference machine; end-to-end tests load models, so files run in two processes at most.
    pool: 'forks',
    maxWorkers: 2,
  },
});
