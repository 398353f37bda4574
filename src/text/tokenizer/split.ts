/** Splitting text around the matches of a pattern, as huggingface/tokenizers does (normalizer.rs, split). */

export type SplitBehavior = 'Removed' | 'Isolated' | 'MergedWithPrevious' | 'MergedWithNext' | 'Contiguous';

interface Span {
  readonly start: number;
  end: number;
  readonly match: boolean;
}

/** Pieces of the text, none empty. `invert` takes what lies between the matches for the matches. */
export function splitByPattern(text: string, pattern: RegExp, behavior: SplitBehavior, invert: boolean): string[] {
  if (behavior === 'Isolated') return isolate(text, pattern);
  const spans = merge(findSpans(text, pattern, invert), behavior);
  return spans.map(({ start, end }) => text.slice(start, end));
}

/** The common case. The pattern is global; exec() on it spares the copy that matchAll() makes. */
function isolate(text: string, pattern: RegExp): string[] {
  const pieces: string[] = [];
  let done = 0;
  pattern.lastIndex = 0;
  while (done < text.length) {
    const match = pattern.exec(text);
    if (match === null) break;
    if (match[0].length === 0) {
      pattern.lastIndex++;
      continue;
    }
    if (match.index > done) pieces.push(text.slice(done, match.index));
    pieces.push(match[0]);
    done = pattern.lastIndex;
  }
  if (done < text.length) pieces.push(text.slice(done));
  return pieces;
}

function findSpans(text: string, pattern: RegExp, invert: boolean): Span[] {
  const spans: Span[] = [];
  let done = 0;
  for (const { 0: match, index } of text.matchAll(pattern)) {
    if (match.length === 0) continue;
    if (index > done) spans.push({ start: done, end: index, match: invert });
    done = index + match.length;
    spans.push({ start: index, end: done, match: !invert });
  }
  if (done < text.length) spans.push({ start: done, end: text.length, match: invert });
  return spans;
}

function merge(spans: Span[], behavior: Exclude<SplitBehavior, 'Isolated'>): Span[] {
  switch (behavior) {
    case 'Removed':
      return spans.filter((span) => !span.match);
    case 'MergedWithPrevious':
      return join(spans, (before, span) => span.match && !before.match);
    case 'MergedWithNext':
      return join(spans, (before, span) => before.match && !span.match);
    case 'Contiguous':
      return join(spans, (before, span) => before.match === span.match);
  }
}

/** Joins a span to the one before it where the rule, asked about the spans as they were found, says so. */
function join(spans: readonly Span[], joins: (before: Span, span: Span) => boolean): Span[] {
  const joined: Span[] = [];
  spans.forEach((span, i) => {
    const before = spans[i - 1];
    if (before !== undefined && joins(before, span)) joined.at(-1)!.end = span.end;
    else joined.push({ ...span });
  });
  return joined;
}
