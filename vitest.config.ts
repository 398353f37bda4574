import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // These need a Vulkan driver, or clients in Python, and have commands of their own.
    exclude: ['test/gpu/**', 'test/clients/**'],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // Two cores are the reference machine; end-to-end tests load models, so files run in two processes at most.
    pool: 'forks',
    maxWorkers: 2,
  },
});
