/** Puts what a benchmark found into the documents: text between a pair of markers that carry its name. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './paths.js';

/**
 * Replaces what is between `<!-- name -->` and `<!-- /name -->`.
 * @param file below docs/
 */
export function writeBlock(file: string, name: string, text: string): void {
  const path = join(root, 'docs', file);
  const [begin, end] = [`<!-- ${name} -->\n`, `<!-- /${name} -->`];
  const document = readFileSync(path, 'utf8');
  const start = document.indexOf(begin);
  const stop = document.indexOf(end);
  if (start < 0 || stop < start) throw new Error(`docs/${file} has no markers ${begin.trim()} and ${end}`);
  writeFileSync(path, `${document.slice(0, start + begin.length)}\n${text.trim()}\n\n${document.slice(stop)}`);
}

/** A table in Markdown; the first row is the header, and all columns but the first are numbers. */
export function markdownTable(rows: readonly (readonly string[])[]): string {
  const [header = [], ...body] = rows;
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  const rule = `|${header.map((_, column) => (column === 0 ? '---' : '--:')).join('|')}|`;
  return [line(header), rule, ...body.map(line)].join('\n');
}
