/** docs/api.md says all that the source does: every code of an error, every path, every field of a body. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { createApp } from '../../src/server/app.js';
import { chatBody } from '../../src/server/schemas/chat.js';
import { completionBody } from '../../src/server/schemas/completions.js';
import { responsesBody } from '../../src/server/schemas/responses.js';
import { testParts } from '../support/server.js';

const root = fileURLToPath(new URL('../../', import.meta.url));
const document = readFileSync(`${root}docs/api.md`, 'utf8');
const [, errorTable] = document.split('## Errors');

function sources(): string {
  const files = readdirSync(`${root}src/server`, { recursive: true, encoding: 'utf8' });
  return files
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(`${root}src/server/${file}`, 'utf8'))
    .join('\n');
}

describe('docs/api.md', () => {
  it('has every code of an error, and no other', () => {
    const listed = [...errorTable!.matchAll(/^\| \d+ \| `\w+` \| `(\w+)`/gm)].map(([, code]) => code!);
    expect(new Set(listed).size).toBe(listed.length);
    for (const code of listed) expect(sources()).toContain(`'${code}'`);
    const inSource = [...sources().matchAll(/code: '(\w+)'/g)].map(([, code]) => code!);
    // The engine's own name for what is engine_closed to clients.
    expect(inSource.filter((code) => code !== 'closed' && !listed.includes(code))).toEqual([]);
    expect(inSource.length).toBeGreaterThan(10);
  });

  it('has every path', () => {
    const { deps } = testParts({ config: { resumeWindow: 1 } });
    for (const { path, method } of createApp(deps).routes) {
      if (method === 'ALL' || path === '/') continue;
      const written = path.replace(/:(\w+)(\{.+?\})?/g, '{$1}').replace(/^.*\/render$/, '.../render');
      expect(document).toContain(written);
    }
  });

  it('has every field of a body', () => {
    const [, parameters] = document.split('## Parameters');
    const ignored = new Set([
      // Standard ones that everybody knows, or that say only what is not supported.
      ...['model', 'suffix', 'response_format', 'text', 'reasoning', 'metadata', 'store', 'background', 'conversation'],
      ...['previous_response_id', 'parallel_tool_calls'],
    ]);
    for (const body of [completionBody, chatBody, responsesBody]) {
      for (const field of Object.keys(body.shape)) {
        if (!ignored.has(field)) expect(parameters).toContain(`\`${field}\``);
      }
    }
  });
});
