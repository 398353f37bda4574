import { defineConfig } from 'vitest/config';

/** Tests on the WebGPU device: one process after another, since the software driver takes all cores to compile shaders. */
export default defineConfig({
  test: {
    include: ['test/gpu/**/*.test.ts'],
    setupFiles: ['test/gpu/support/driver.ts'],
    testTimeout: 300_000,
    hookTimeout: 300_000,
    pool: 'forks',
    maxWorkers: 1,
  },
});
