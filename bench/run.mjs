/**
 * Runs a benchmark written in TypeScript: `node bench/run.mjs scheduler`. It is bundled first, since Node does not run
 * TypeScript and a loader would slow down what is measured; threads of the server run what is built, so that comes first.
 */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const [name] = process.argv.splice(2, 1);
if (name === undefined) {
  console.error('usage: node bench/run.mjs NAME [options], for bench/NAME.ts');
  process.exit(2);
}
const root = fileURLToPath(new URL('..', import.meta.url));
execFileSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: 'inherit', shell: process.platform === 'win32' });
await build({
  root,
  configFile: false,
  logLevel: 'error',
  build: { ssr: `bench/${name}.ts`, target: 'node20', minify: false, outDir: `node_modules/.cache/bench/${name}` },
});
await import(`../node_modules/.cache/bench/${name}/${name}.js`);
