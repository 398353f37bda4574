/**
 * What the prefix cache costs at 100,000 blocks: `node bench/run.mjs prefixes`. Looks up prompts of 4,000 tokens that are
 * cached whole or not at all, keys included and token by token compared, and fills a full cache further, so that each
 * block evicts one. Times are of the processor.
 */
import { BlockTable } from '../src/engine/kv/block-table.js';
import { PagedCache } from '../src/engine/kv/paged-cache.js';

const BLOCKS = 100_000;
const PROMPT = 4000;
const NO_COPIES = { sources: [], targets: [] };

let state = 1;
function random(): number {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state >>> 8;
}

/** Microseconds of processor time. */
function time(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

function measure(blockSize: number): void {
  const cache = new PagedCache(BLOCKS, blockSize, { model: 'bench' });
  const prompt = () => Int32Array.from({ length: PROMPT }, random);
  const blocks = Math.floor(PROMPT / blockSize);
  const fill = (tokens: Int32Array) => {
    const table = new BlockTable();
    cache.find(table, tokens, 0, '');
    cache.start(table);
    cache.grow(table, PROMPT, 0, NO_COPIES);
    cache.publish(table, tokens, PROMPT, '');
    cache.shrink(table, 0);
  };
  const look = (tokens: Int32Array) => cache.find(new BlockTable(), tokens, PROMPT, '').blocks.length;

  const known = Array.from({ length: 200 }, prompt);
  while (cache.availableBlocks - cache.pool.freeBlocks < BLOCKS - blocks) fill(prompt());
  for (const tokens of known) fill(tokens);
  for (const tokens of known.slice(0, 100))
    if (look(tokens) !== blocks) throw new Error('a cached prompt is not found');
  const hit = time(() => known.slice(100).forEach(look)) / 100;
  const others = Array.from({ length: 1000 }, prompt);
  const miss = time(() => others.forEach(look)) / others.length;
  const evict = time(() => others.forEach(fill)) / (others.length * blocks);
  console.log(
    `blocks of ${blockSize}, ${cache.cachedBlocks} cached: ${PROMPT} tokens found in ${(hit / 1000).toFixed(3)} ms, ` +
      `missed in ${(miss / 1000).toFixed(3)} ms; a block published where one is evicted: ${evict.toFixed(2)} µs`,
  );
}

for (const blockSize of [16, 32, 64]) measure(blockSize);
