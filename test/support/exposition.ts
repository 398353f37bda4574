/**
 * A strict reader of Prometheus' text format 0.0.4: it refuses whatever the format does not allow, and what a scraper may
 * take but no exporter should send (samples without HELP and TYPE, series twice, histograms that do not add up).
 */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly samples: Sample[];
}

const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const sampleLine = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const labelPair = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)/y;
const number = /^(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]Inf|NaN)$/;

/** Families by name. Throws what is wrong, with its line. */
export function parseExposition(text: string): Map<string, Family> {
  if (!text.endsWith('\n') || text.includes('\r')) throw new Error('lines must end with a line feed, the last one too');
  const families = new Map<string, Family>();
  const series = new Set<string>();
  let help: { readonly name: string; readonly text: string } | undefined;
  let family: Family | undefined;
  for (const [index, line] of text.slice(0, -1).split('\n').entries()) {
    const fail = (why: string): never => {
      throw new Error(`line ${index + 1}: ${why}: ${line}`);
    };
    if (line === '') continue;
    if (line.startsWith('#')) {
      const [, keyword, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? fail('unknown comment');
      if (!metricName.test(name)) fail('no name of a metric');
      if (keyword === 'HELP') {
        if (families.has(name)) fail('the family came before');
        help = { name, text: rest };
        family = undefined;
        continue;
      }
      if (help?.name !== name) fail('TYPE must follow the HELP of its family');
      if (rest !== 'counter' && rest !== 'gauge' && rest !== 'histogram') return fail('unknown type');
      family = { name, help: help!.text, type: rest, samples: [] };
      families.set(name, family);
      continue;
    }
    const [, name = '', labelText, value = ''] = sampleLine.exec(line) ?? fail('no sample');
    if (family === undefined || !belongs(name, family)) return fail('sample outside of its family');
    if (!number.test(value)) fail('no number');
    const labels = parseLabels(labelText ?? '', fail);
    const key = `${name}${JSON.stringify(Object.entries(labels).sort())}`;
    if (series.has(key)) fail('series twice');
    series.add(key);
    family.samples.push({ name, labels, value: parseValue(value) });
  }
  for (const item of families.values()) check(item);
  return families;
}

function belongs(name: string, family: Family): boolean {
  if (family.type !== 'histogram') return name === family.name;
  return ['_bucket', '_sum', '_count'].some((suffix) => name === family.name + suffix);
}

function parseLabels(text: string, fail: (why: string) => never): Record<string, string> {
  const labels: Record<string, string> = {};
  labelPair.lastIndex = 0;
  while (labelPair.lastIndex < text.length) {
    const [, name = '', value = ''] = labelPair.exec(text) ?? fail('malformed labels');
    if (name in labels) fail(`label ${name} twice`);
    labels[name] = value.replaceAll(/\\(.)/g, (_, character) => (character === 'n' ? '\n' : character));
  }
  return labels;
}

function parseValue(text: string): number {
  return Number(text.replace('Inf', 'Infinity'));
}

function check(family: Family): void {
  const { name, type, samples } = family;
  if (type === 'counter' && !name.endsWith('_total')) throw new Error(`counter ${name} does not end with _total`);
  if (type === 'gauge') return;
  for (const sample of samples) {
    if (!(sample.value >= 0)) throw new Error(`${sample.name} is ${sample.value}`);
  }
  if (type === 'histogram') checkHistogram(family);
}

function checkHistogram({ name, samples }: Family): void {
  const groups = new Map<string, Sample[]>();
  for (const sample of samples) {
    const { le: _, ...labels } = sample.labels;
    const key = JSON.stringify(Object.entries(labels).sort());
    groups.set(key, [...(groups.get(key) ?? []), sample]);
  }
  for (const group of groups.values()) {
    const buckets = group.filter((sample) => sample.name === `${name}_bucket`);
    let bound = Number.NEGATIVE_INFINITY;
    let count = 0;
    for (const { labels, value } of buckets) {
      const le = parseValue(labels['le'] ?? 'NaN');
      if (!(le > bound)) throw new Error(`bounds of ${name} do not rise: ${bound}, ${le}`);
      if (value < count) throw new Error(`buckets of ${name} are not cumulative`);
      bound = le;
      count = value;
    }
    if (bound !== Number.POSITIVE_INFINITY) throw new Error(`${name} has no bucket +Inf`);
    const total = group.filter((sample) => sample.name === `${name}_count`);
    const sum = group.filter((sample) => sample.name === `${name}_sum`);
    if (total.length !== 1 || sum.length !== 1) throw new Error(`${name} has no _count or no _sum`);
    if (total[0]!.value !== count) throw new Error(`${name}_count differs from bucket +Inf`);
  }
}

/** The metrics of one scrape, looked up by name and labels. */
export class Scrape {
  readonly families: Map<string, Family>;

  constructor(readonly text: string) {
    this.families = parseExposition(text);
  }

  /** The value of the one series with this name and at least these labels. */
  value(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const found = this.find(name, labels);
    if (found.length !== 1) throw new Error(`${found.length} series ${name} ${JSON.stringify(labels)}`);
    return found[0]!.value;
  }

  /** The sum of all such series, of which there may be none yet. */
  sum(name: string, labels: Readonly<Record<string, string>> = {}): number {
    return this.find(name, labels).reduce((sum, { value }) => sum + value, 0);
  }

  private find(name: string, labels: Readonly<Record<string, string>>): Sample[] {
    return [...this.families.values()]
      .flatMap((family) => family.samples)
      .filter((sample) => sample.name === name)
      .filter((sample) => Object.entries(labels).every(([label, value]) => sample.labels[label] === value));
  }

  /** Upper bounds of a histogram with a single label set, without +Inf. */
  bounds(name: string): number[] {
    const { samples } = this.families.get(name)!;
    return samples
      .filter((sample) => sample.name === `${name}_bucket`)
      .map((s) => parseValue(s.labels['le']!))
      .slice(0, -1);
  }

  /** Every name with its labels: what must not change with what clients send. */
  series(): string[] {
    return [...this.families.values()].flatMap((family) =>
      family.samples.map(({ name, labels }) => `${name}${JSON.stringify(labels)}`),
    );
  }
}

export async function scrape(url: string): Promise<Scrape> {
  const response = await fetch(`${url}/metrics`);
  if (response.status !== 200) throw new Error(`/metrics answers ${response.status}`);
  return new Scrape(await response.text());
}
