/** docs/cases.md tells of every reported fault which tests hold it against this server, and no others. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const tests = fileURLToPath(new URL('.', import.meta.url));
const page = readFileSync(new URL('../docs/cases.md', import.meta.url), 'utf8');

interface Row {
  readonly number: number;
  readonly told: string;
}

const rows = [...page.matchAll(/^\| (\d+) \|.*\| (.+) \|$/gm)].map(
  ([, number, told]): Row => ({ number: Number(number), told: told! }),
);

/** The files whose tests name a case in their titles: "(case 3, mlx-knife#68)" or "(cases 7 and 10)". */
const named = new Map<number, string[]>();
for (const file of readdirSync(tests, { recursive: true, encoding: 'utf8' }).sort()) {
  if (!file.endsWith('.test.ts') || file === 'cases.test.ts') continue;
  const titles = readFileSync(tests + file, 'utf8').matchAll(/['"`].*\(cases? (\d+(?:(?:, | and )\d+)*)/g);
  const numbers = [...titles].flatMap(([, list]) => list!.match(/\d+/g)!.map(Number));
  for (const number of new Set(numbers)) named.set(number, [...(named.get(number) ?? []), file]);
}

describe('the table of cases', () => {
  it.each(rows)('case $number', ({ number, told }) => {
    const files = named.get(number) ?? [];
    if (files.length === 0) expect(told).toMatch(/^not applicable: /);
    else expect(told).toBe(files.map((file) => `\`${file}\``).join(', '));
  });

  it('has every case once, and says how many are replayed', () => {
    expect(new Set(rows.map(({ number }) => number)).size).toBe(rows.length);
    expect(rows.map(({ number }) => number)).toEqual(expect.arrayContaining([...named.keys()]));
    expect(page).toContain(`Of ${rows.length} cases, ${named.size} have such a test`);
  });
});
