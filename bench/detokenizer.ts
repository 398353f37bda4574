/**
 * What text costs: `node bench/run.mjs detokenizer`. Tokens to text one by one, as streams do, alone and with stop strings
 * to look for; text to tokens, short and long.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { openCheckpoint } from '../src/model/formats/open.js';
import { loadTextModel } from '../src/text/load.js';
import { StopMatcher } from '../src/text/stop-matcher.js';
import { readDistributions } from './support/golden.js';
import { readOptions } from './support/options.js';
import { bundledModel } from './support/paths.js';
import { formatNumber, formatTable, median } from './support/statistics.js';

const options = readOptions({
  repeat: { type: 'string', default: '7' },
  /** Answers that are decoded in turn, token by token. */
  streams: { type: 'string', default: '32' },
});

const checkpoint = await openCheckpoint(bundledModel);
const text = await loadTextModel(checkpoint.tokenizer, checkpoint.architecture.vocabSize);
await checkpoint.close();
const docs = readDistributions();
const decodeOptions = { skipSpecialTokens: true, continuation: true };
const streams = Array.from({ length: Number(options.streams) }, (_, i) => docs[i % docs.length]!.tokens);
const tokens = streams.reduce((sum, { length }) => sum + length, 0);

/** Nanoseconds a unit, of each round. */
async function time(units: number, round: () => unknown): Promise<number[]> {
  await round();
  const times: number[] = [];
  for (let i = 0; i < Number(options.repeat); i++) {
    // What is encoded in one turn of the event loop is bounded; the rest would go to another thread.
    await sleep(1);
    const start = performance.now();
    await round();
    times.push(((performance.now() - start) * 1e6) / units);
  }
  return times;
}

function detokenize(stops: readonly string[]): number {
  const answers = streams.map((ids) => ({
    ids,
    detokenizer: text.detokenizer(decodeOptions),
    matcher: stops.length === 0 ? undefined : new StopMatcher(stops, { includeStop: false }),
  }));
  let characters = 0;
  for (let position = 0; position < streams[0]!.length; position++) {
    for (const { ids, detokenizer, matcher } of answers) {
      const piece = detokenizer.push(ids[position]!);
      characters += matcher === undefined ? piece.length : matcher.push(piece).text.length;
    }
  }
  return characters;
}

const short = text.decode(docs[2]!.tokens, decodeOptions);
const long = short.repeat(Math.ceil(6_000 / short.length));
const encodeOptions = { addSpecialTokens: false, parseSpecialTokens: false };
const shortTokens = (await text.encode(short, encodeOptions)).length;
const longTokens = (await text.encode(long, encodeOptions)).length;
const stops = ['###', '\n\nUser:', '<|endoftext|>', 'Observation:'];
const results: [string, number[]][] = [
  [`detokenize, ${streams.length} streams`, await time(tokens, () => detokenize([]))],
  [`the same, looking for ${stops.length} stop strings`, await time(tokens, () => detokenize(stops))],
  [`encode ${shortTokens} tokens`, await time(shortTokens, () => text.encode(short, encodeOptions))],
  [`encode ${longTokens} tokens`, await time(longTokens, () => text.encode(long, encodeOptions))],
];
const rows = results.map(([name, times]) => [name, formatNumber(Math.min(...times)), formatNumber(median(times))]);
console.log(formatTable([['nanoseconds a token', 'min', 'median'], ...rows]));
