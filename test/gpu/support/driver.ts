/**
 * Selects Mesa's software driver for the tests, so that they run the same everywhere; SLUICE_TEST_ADAPTER=system leaves
 * the choice to the system. Tests never skip: without the driver they fail.
 */
import { mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const DRIVERS = '/usr/share/vulkan/icd.d';

function softwareDriver(): string {
  let files: string[] = [];
  try {
    files = readdirSync(DRIVERS).filter((name) => /^lvp_icd.*\.json$/.test(name));
  } catch {
    // said below
  }
  const [file] = files;
  if (file === undefined) throw new Error(`no software Vulkan driver in ${DRIVERS}; run .ci/install-gpu-driver`);
  return join(DRIVERS, file);
}

if (process.env['SLUICE_TEST_ADAPTER'] !== 'system') {
  process.env['VK_ICD_FILENAMES'] = softwareDriver();
  process.env['XDG_RUNTIME_DIR'] ??= mkdtempSync(join(tmpdir(), 'sluice-runtime-'));
}
