/**
 * The arrows of docs/architecture.md: which part of the source may import which. A new arrow is a decision: it is drawn
 * there and listed here, or it does not exist.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const SOURCE = fileURLToPath(new URL('../src', import.meta.url));

/** Of each part, what it may import besides itself and the leaves. The first prefix that fits a file names its part. */
const PARTS: readonly (readonly [part: string, prefixes: readonly string[], mayImport: readonly string[]])[] = [
  ['leaf', ['errors.ts', 'version.ts', 'compiled.ts'], []],
  ['protocol', ['engine/protocol.ts', 'engine/clock.ts'], []],
  [
    'client',
    ['engine/client.ts', 'engine/worker-client.ts', 'engine/request-stream.ts', 'engine/flush-queue.ts'],
    ['protocol'],
  ],
  ['kv', ['engine/kv/'], ['protocol']],
  ['scheduler', ['engine/scheduler/', 'engine/sequence.ts'], ['kv', 'protocol']],
  ['sampler', ['engine/sampler/'], ['scheduler', 'protocol', 'runner']],
  ['engine', ['engine/'], ['scheduler', 'sampler', 'kv', 'protocol', 'runner', 'model']],
  ['runner', ['model/runner.ts'], []],
  ['formats', ['model/formats/', 'model/architecture.ts', 'model/rope.ts', 'model/float16.ts'], []],
  ['graph', ['model/graph/'], ['formats']],
  ['model', ['model/'], ['graph', 'formats', 'runner', 'protocol']],
  ['text', ['text/'], ['formats']],
  ['telemetry', ['telemetry/'], ['protocol']],
  ['server', ['server/'], ['text', 'client', 'protocol', 'formats', 'telemetry']],
  ['loadgen', ['loadgen/'], []],
  ['simulator', ['simulator/'], ['scheduler', 'kv', 'protocol', 'loadgen']],
  ['cli', ['cli/'], ['server', 'text', 'client', 'protocol', 'formats', 'telemetry', 'loadgen', 'simulator']],
];

function partOf(file: string): string {
  const found = PARTS.find(([, prefixes]) =>
    prefixes.some((prefix) => file === prefix || (prefix.endsWith('/') && file.startsWith(prefix))),
  );
  if (found === undefined) throw new Error(`src/${file} belongs to no part`);
  return found[0];
}

const files = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));

function importsOf(file: string): string[] {
  const text = readFileSync(join(SOURCE, file), 'utf8');
  const relativeImports = text.matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g);
  return [...relativeImports].map(([, path]) => normalize(join(dirname(file), path as string)).replace(/\.js$/, '.ts'));
}

describe('imports between parts', () => {
  it.each(files)('%s', (file) => {
    const part = partOf(file);
    const allowed = [part, 'leaf', ...(PARTS.find(([name]) => name === part)?.[2] ?? [])];
    const wrong = importsOf(file).filter((target) => !allowed.includes(partOf(target)));
    expect(wrong, `${part} may import ${allowed.join(', ')}`).toEqual([]);
  });

  it('sees imports at all', () => {
    expect(importsOf('model/load.ts')).toContain('model/runner.ts');
  });

  it('has no way back: the parts can be ordered', () => {
    const order = new Map<string, number>();
    const depth = (part: string, path: readonly string[] = []): number => {
      if (path.includes(part)) throw new Error(`circle: ${[...path, part].join(' → ')}`);
      const known = order.get(part);
      if (known !== undefined) return known;
      const targets = PARTS.find(([name]) => name === part)?.[2] ?? [];
      const value = 1 + Math.max(0, ...targets.map((target) => depth(target, [...path, part])));
      order.set(part, value);
      return value;
    };
    for (const [part] of PARTS) depth(part);
    expect(order.size).toBe(PARTS.length);
  });
});
