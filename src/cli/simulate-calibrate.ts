/** `sluice simulate calibrate`: runs the engine under loads of all kinds and writes how long its steps take. */
import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import type { EngineStats } from '../engine/protocol.js';
import { startEngine } from '../engine/worker-client.js';
import { calibrate } from '../simulator/calibration.js';
import { TERMS } from '../simulator/step-time.js';
import { CalibrationLoad } from './calibration-load.js';
import { engineConfig, modelName } from './model-options.js';
import { loadingProgress } from './progress.js';
import type { CalibrateOptions } from './simulate.js';

/** Resolves with the exit code. */
export async function calibrateSteps(options: CalibrateOptions): Promise<number> {
  // Prompts are random, but a prefix found by chance would make a step look faster than it is.
  const config = { ...engineConfig(options), enablePrefixCaching: false };
  const steps: EngineStats[] = [];
  const progress = loadingProgress(process.stderr);
  const engine = startEngine(config, { onProgress: progress.update, onStep: (stats) => steps.push(stats) });
  try {
    const info = await engine.ready();
    progress.stop();
    const load = new CalibrationLoad(engine, config.maxNumSeqs);
    await load.warmUp();
    steps.length = 0;
    await load.run();
    // What follows the first part says why the device was chosen.
    const [device] = info.deviceDescription.split(';');
    const where = `${device}; ${cpus()[0]?.model.trim() ?? 'an unknown processor'}`;
    const {
      times,
      steps: count,
      error,
    } = calibrate(steps, {
      description: `${modelName(options.model)} (${info.precision}) on ${where}`,
      mixedSteps: info.mixedSteps,
    });
    await writeFile(options.output, `${JSON.stringify(times, undefined, 2)}\n`);
    process.stdout.write(`${times.description}\n${count} steps, mean error of the fit ${(error * 100).toFixed(1)} %\n`);
    for (const [i, time] of times.microseconds.entries()) {
      process.stdout.write(`  ${TERMS[i]!.padEnd(14)} ${time} µs\n`);
    }
  } finally {
    progress.stop();
    await engine.close();
  }
  return 0;
}
