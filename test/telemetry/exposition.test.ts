/** The tests' own reader of /metrics is strict: what is malformed does not pass. */
import { describe, expect, it } from 'vitest';
import { parseExposition } from '../support/exposition.js';

const head = '# HELP a_total A.\n# TYPE a_total counter\n';
const histogram = (lines: string) => `# HELP h H.\n# TYPE h histogram\n${lines}`;

describe('the reader of expositions', () => {
  it('reads families, labels and their escapes', () => {
    const text = `${head}a_total{x="q\\"b\\\\n\\nl",y="2"} 3\na_total 1e+3\n\n# HELP g G.\n# TYPE g gauge\ng NaN\n`;
    const families = parseExposition(text);
    expect(families.get('a_total')!.samples).toEqual([
      { name: 'a_total', labels: { x: 'q"b\\n\nl', y: '2' }, value: 3 },
      { name: 'a_total', labels: {}, value: 1000 },
    ]);
    expect(families.get('g')!.samples[0]!.value).toBeNaN();
  });

  it.each([
    ['no line feed at the end', `${head}a_total 1`],
    ['carriage returns', `${head}a_total 1\r\n`],
    ['a sample without a family', 'a_total 1\n'],
    ['a sample of another family', `${head}b_total 1\n`],
    ['TYPE without HELP', '# TYPE a_total counter\na_total 1\n'],
    ['a family twice', `${head}a_total 1\n${head}a_total{x="1"} 1\n`],
    ['a series twice', `${head}a_total{x="1"} 1\na_total{x="1"} 2\n`],
    ['a label twice', `${head}a_total{x="1",x="2"} 1\n`],
    ['a quote that is not escaped', `${head}a_total{x="a"b"} 1\n`],
    ['a backslash that escapes nothing', `${head}a_total{x="a\\b"} 1\n`],
    ['a line feed in a label', `${head}a_total{x="a\nb"} 1\n`],
    ['no number', `${head}a_total one\n`],
    ['hexadecimal', `${head}a_total 0x10\n`],
    ['a counter without _total', '# HELP a A.\n# TYPE a counter\na 1\n'],
    ['a counter below 0', `${head}a_total -1\n`],
    ['an unknown type', '# HELP a A.\n# TYPE a number\na 1\n'],
    ['no bucket +Inf', histogram('h_bucket{le="1"} 1\nh_sum 1\nh_count 1\n')],
    ['falling buckets', histogram('h_bucket{le="1"} 2\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n')],
    [
      'falling bounds',
      histogram('h_bucket{le="2"} 0\nh_bucket{le="1"} 0\nh_bucket{le="+Inf"} 1\nh_sum 1\nh_count 1\n'),
    ],
    ['another count than +Inf', histogram('h_bucket{le="+Inf"} 1\nh_sum 1\nh_count 2\n')],
    ['no sum', histogram('h_bucket{le="+Inf"} 1\nh_count 1\n')],
  ])('refuses %s', (_, text) => {
    expect(() => parseExposition(text)).toThrow();
  });
});
