import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { rootKey, sha256Blocks } from '../../../src/engine/kv/block-keys.js';
import { BlockTable } from '../../../src/engine/kv/block-table.js';
import { PagedCache } from '../../../src/engine/kv/paged-cache.js';
import type { PrefixCacheOptions } from '../../../src/engine/kv/prefix-cache.js';

const BLOCK = 4;

/** A cache, and sequences in it that are filled at once as far as they are given. */
function setUp(numBlocks: number, options: PrefixCacheOptions = { model: 'm' }) {
  const cache = new PagedCache(numBlocks, BLOCK, options);
  const find = (tokens: readonly number[], salt = '', limit = tokens.length) => [
    ...cache.find(new BlockTable(), Int32Array.from(tokens), limit, salt).blocks,
  ];
  /** Starts a sequence; undefined when its blocks are not there. */
  const start = (tokens: readonly number[], salt = '') => {
    const table = new BlockTable();
    const held = Int32Array.from(tokens);
    const copies = { sources: [] as number[], targets: [] as number[] };
    const computed = cache.find(table, held, held.length - 1, salt).tokens;
    cache.start(table);
    if (!cache.grow(table, held.length, computed, copies)) {
      cache.shrink(table, 0);
      return undefined;
    }
    return { table, held, salt, computed, copies };
  };
  type Started = NonNullable<ReturnType<typeof start>>;
  const publish = ({ table, held, salt }: Started) => cache.publish(table, held, held.length, salt);
  const end = ({ table }: Started) => cache.shrink(table, 0);
  /** Computes a sequence and ends it. */
  const run = (tokens: readonly number[], salt = '') => {
    const started = start(tokens, salt)!;
    publish(started);
    end(started);
    return started;
  };
  return { cache, find, start, publish, end, run };
}

const range = (length: number, from = 0) => Array.from({ length }, (_, i) => from + i);

describe('keys', () => {
  test('are SHA-256 of parent and tokens, different for every model, salt and place', () => {
    const hash = sha256Blocks(BLOCK);
    const root = rootKey('model', '');
    expect(root).toMatch(/^[\w+/]{43}=$/);
    const tokens = Int32Array.from([1, 2, 3, 4]);
    const first = hash(root, tokens);
    expect(first).toMatch(/^[\w+/]{43}=$/);
    expect(hash(root, tokens)).toBe(first);
    const others = [
      hash(first, tokens),
      hash(root, Int32Array.from([1, 2, 4, 3])),
      hash(rootKey('model', 's'), tokens),
      hash(rootKey('models', ''), tokens),
    ];
    expect(new Set([first, ...others]).size).toBe(5);
    expect(rootKey('ab', 'c')).not.toBe(rootKey('a', 'bc'));
  });
});

describe('a prefix', () => {
  test('is found block by block, up to the first that differs and within the limit', () => {
    const { find, run } = setUp(16);
    run(range(14));
    expect(find(range(14))).toEqual([0, 1, 2]);
    expect(find(range(14), '', 11)).toEqual([0, 1]);
    expect(find(range(12))).toEqual([0, 1, 2]);
    expect(find([...range(8), 99, 9, 10, 11])).toEqual([0, 1]);
    expect(find([99, ...range(11, 1)])).toEqual([]);
    expect(find(range(3))).toEqual([]);
  });

  test('is found while its owner still runs, but not before it is published', () => {
    const { cache, find, start, publish, end } = setUp(16);
    const first = start(range(10))!;
    expect(find(range(10))).toEqual([]);
    cache.publish(first.table, first.held, 7, '');
    expect(find(range(10))).toEqual([0]);
    publish(first);
    const second = start(range(10))!;
    expect([second.computed, [...second.table.blocks]]).toEqual([8, [0, 1, 3]]);
    expect(cache.distinctBlocks([first.table, second.table])).toBe(4);
    cache.check([first.table, second.table]);
    end(first);
    end(second);
    expect([cache.availableBlocks, cache.cachedBlocks]).toEqual([16, 2]);
    cache.check([]);
  });

  test('of another salt is not found, and a salt without blocks is forgotten', () => {
    const { find, run, cache } = setUp(4);
    run(range(8), 'a');
    expect(find(range(8), '')).toEqual([]);
    expect(find(range(8), 'b')).toEqual([]);
    expect(find(range(8), 'a')).toHaveLength(2);
    run(range(16, 50), 'b');
    expect(find(range(8), 'a')).toEqual([]);
    expect(find(range(16, 50), 'b')).toHaveLength(4);
    cache.check([]);
  });

  test('computed twice at the same time is kept once', () => {
    const { cache, find, start, publish } = setUp(16);
    const [a, b] = [start(range(9))!, start(range(9))!];
    expect(cache.distinctBlocks([a.table, b.table])).toBe(6);
    publish(a);
    publish(b);
    expect([...b.table.blocks]).toEqual([0, 1, 5]);
    expect(cache.pool.usedBlocks).toBe(4);
    expect(find(range(9))).toEqual([0, 1]);
    cache.check([a.table, b.table]);
  });

  test('whose keys collide is not taken for another (case 25, vllm#44701)', () => {
    // Every block has the same key, so only tokens and place tell blocks apart.
    const { find, run, cache } = setUp(16, { model: 'm', hash: () => 'same' });
    run(range(12));
    expect(cache.cachedBlocks).toBe(1);
    expect(find(range(12))).toEqual([0]);
    expect(find(range(12, 1))).toEqual([]);
    expect(find(range(12), 'salt')).toEqual([]);
    run(range(12, 1));
    run(range(12), 'salt');
    expect(find(range(12, 1))).toEqual([]);
    expect(find(range(12), 'salt')).toEqual([]);
    cache.check([]);
  });

  test('whose keys collide only in the middle ends there', () => {
    const hash = (parent: string, tokens: Int32Array) =>
      tokens[0] === 4 || tokens[0] === 40 ? 'x' : `${parent},${tokens}`;
    const { find, run } = setUp(16, { model: 'm', hash });
    const a = range(12);
    const b = [...range(4), ...range(4, 40), ...range(4, 8)];
    run(a);
    run(b);
    expect(find(a)).toHaveLength(3);
    expect(find(b)).toHaveLength(1);
  });
});

describe('a block that begins as a sequence goes on', () => {
  test('is copied, and what is equal of it is not computed again', () => {
    const { cache, find, run, start, publish, end } = setUp(16);
    run(range(12));
    const parted = [...range(6), 90, 91, 92];
    expect(find(parted)).toEqual([0]);
    const { table, held, ...second } = start(parted)!;
    expect(second).toMatchObject({ computed: 6, copies: { sources: [1], targets: [3] } });
    expect([...table.blocks]).toEqual([0, 3, 4]);
    cache.check([table]);
    publish({ table, held, ...second });
    end({ table, held, ...second });
    expect([find(parted), find(range(12))]).toEqual([
      [0, 3],
      [0, 1, 2],
    ]);
    // Of blocks behind the same one, the latest is looked at.
    expect(start([...range(4), 4, 5, 90, 0, 0])!.copies.sources).toEqual([3]);
  });

  test('is the first of its sequence, or one that only the limit cuts', () => {
    const { run, start } = setUp(16);
    run(range(8));
    expect(start([0, 1, 2, 90, 91])).toMatchObject({ computed: 3, copies: { sources: [0] } });
    expect(start(range(8))).toMatchObject({ computed: 7, copies: { sources: [1] } });
    expect(start([0, 90])).toMatchObject({ computed: 1 });
    expect(start([90, 1, 2, 3])).toMatchObject({ computed: 0, copies: { sources: [] } });
  });

  test('is not copied for less than a quarter of it', () => {
    const cache = new PagedCache(8, 16, { model: 'm' });
    const tokens = (equal: number) => Int32Array.from({ length: 17 }, (_, i) => (i < equal ? i : 90));
    const table = new BlockTable();
    cache.start(table);
    cache.grow(table, 16, 0, { sources: [], targets: [] });
    cache.publish(table, tokens(16), 16, '');
    const found = (equal: number) => cache.find(new BlockTable(), tokens(equal), 17, '').tokens;
    expect([3, 4, 15].map(found)).toEqual([0, 4, 15]);
  });

  test('of another salt, or evicted, or before a reset, is not looked at', () => {
    const { cache, run, start, end } = setUp(3);
    run(range(8), 'a');
    const other = start(range(6), 'b')!;
    expect(other).toMatchObject({ computed: 0, copies: { sources: [] } });
    end(other);
    // Takes the block that follows the first.
    end(start(range(8, 50))!);
    const first = start(range(7), 'a')!;
    expect(first).toMatchObject({ computed: 4, copies: { sources: [] } });
    end(first);
    cache.resetPrefixes();
    expect(start(range(4), 'a')).toMatchObject({ computed: 0, copies: { sources: [] } });
  });

  test('takes a block for the copy, and its own from those that can be had', () => {
    const { cache, run, start, end } = setUp(3);
    run(range(8));
    // Blocks 0 and 1 are idle, 2 is free: 0 is shared, 1 copied to 2, and 1 is idle again.
    const second = start([...range(6), 90])!;
    expect([second.computed, cache.availableBlocks]).toEqual([6, 1]);
    end(second);
    // There is nowhere to copy to beside a sequence that holds the third.
    const holder = start([70])!;
    expect(start([...range(6), 90])).toBeUndefined();
    cache.check([holder.table]);
  });
});

describe('room', () => {
  test('is made by the blocks unused for longest, the last of a chain before the first (case 68, kvcached#362)', () => {
    const { cache, find, run, start, end } = setUp(8);
    run(range(12));
    run(range(12, 100));
    // Used again, the first chain is the younger one.
    run(range(12));
    expect(cache.availableBlocks).toBe(8);
    const filler = start(range(12, 200))!;
    expect([find(range(12)).length, find(range(12, 100)).length]).toEqual([3, 2]);
    cache.check([filler.table]);
    const more = start(range(12, 300))!;
    expect([find(range(12)).length, find(range(12, 100)).length]).toEqual([2, 0]);
    cache.check([filler.table, more.table]);
    end(filler);
    end(more);
    cache.check([]);
  });

  test('is not made by blocks that a sequence holds', () => {
    const { cache, find, start, publish } = setUp(4);
    const holder = start(range(12))!;
    publish(holder);
    expect(cache.availableBlocks).toBe(1);
    expect(start(range(8, 100))).toBeUndefined();
    expect(find(range(12))).toHaveLength(3);
    cache.check([holder.table]);
  });
});

test('a reset forgets all; those that run keep their blocks and publish no more', () => {
  const { cache, find, run, start, publish, end } = setUp(16);
  run(range(8, 100));
  const running = start(range(12))!;
  cache.publish(running.table, running.held, 8, '');
  cache.resetPrefixes();
  cache.check([running.table]);
  expect([cache.cachedBlocks, cache.pool.usedBlocks, cache.availableBlocks]).toEqual([0, 3, 13]);
  publish(running);
  expect([find(range(12)), find(range(8, 100)), cache.cachedBlocks]).toEqual([[], [], 0]);
  end(running);
  run(range(12));
  expect(find(range(12))).toHaveLength(3);
  cache.check([]);
});

test('under any history, what is found holds the tokens asked for, from the start and without a hole', () => {
  // Few different blocks, so that prefixes are shared and forked all the time.
  const prompt = fc
    .tuple(fc.array(fc.nat(1), { maxLength: 5 }), fc.nat(BLOCK), fc.nat(BLOCK - 1))
    // Behind whole blocks the beginning of one, and then other tokens.
    .map(([blocks, begun, rest]) => [
      ...blocks.flatMap((token) => range(BLOCK, token)),
      ...range(begun, blocks.length % 2),
      ...range(rest + 1, 9),
    ]);
  const salt = fc.constantFrom('', '', 'a');
  const operation = fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant('start' as const), prompt, salt }) },
    {
      weight: 6,
      arbitrary: fc.record({ kind: fc.constant('publish' as const), which: fc.nat(), to: fc.constantFrom(24, 24, 9) }),
    },
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('end' as const), which: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('reset' as const) }) },
  );
  const weak = (parent: string, tokens: Int32Array) => `${(parent.length * 7 + tokens.reduce((a, b) => a + b, 0)) % 5}`;
  const seen = { hits: 0, refused: 0, copies: 0 };
  fc.assert(
    fc.property(
      fc.array(operation, { maxLength: 60, size: 'max' }),
      fc.integer({ min: 6, max: 20 }),
      fc.boolean(),
      (steps, blocks, collide) => {
        const { cache, start, end } = setUp(blocks, { model: 'm', hash: collide ? weak : undefined });
        /** What has been written into each block: salt and all tokens up to the last in it. */
        const contents = new Map<number, { salt: string; tokens: number[] }>();
        const running: (NonNullable<ReturnType<typeof start>> & { done: number })[] = [];
        for (const step of steps) {
          const chosen = 'which' in step ? running[step.which % Math.max(1, running.length)] : undefined;
          if (step.kind === 'start') {
            const started = start(step.prompt, step.salt);
            if (started === undefined) {
              seen.refused++;
              continue;
            }
            seen.hits += started.computed;
            expect(started.computed).toBeLessThan(step.prompt.length);
            started.copies.sources.forEach((source, i) => {
              contents.set(started.copies.targets[i]!, contents.get(source)!);
              seen.copies++;
            });
            for (let i = 0; i * BLOCK < started.computed; i++) {
              const end = Math.min((i + 1) * BLOCK, started.computed);
              const { salt, tokens } = contents.get(started.table.at(i))!;
              expect([salt, tokens.slice(0, end)]).toEqual([step.salt, step.prompt.slice(0, end)]);
            }
            running.push({ ...started, done: started.computed });
          } else if (step.kind === 'publish' && chosen !== undefined) {
            chosen.done = Math.max(chosen.done, Math.min(step.to, chosen.held.length));
            for (let i = 0; i * BLOCK < chosen.done; i++) {
              const tokens = [...chosen.held.slice(0, Math.min((i + 1) * BLOCK, chosen.done))];
              contents.set(chosen.table.at(i), { salt: chosen.salt, tokens });
            }
            cache.publish(chosen.table, chosen.held, chosen.done, chosen.salt);
          } else if (step.kind === 'end' && chosen !== undefined) {
            running.splice(running.indexOf(chosen), 1);
            end(chosen);
          } else if (step.kind === 'reset') {
            cache.resetPrefixes();
          }
          cache.check(running.map(({ table }) => table));
        }
        for (const sequence of running) end(sequence);
        expect(cache.availableBlocks).toBe(blocks);
        cache.check([]);
      },
    ),
    { numRuns: 500, seed: 7 },
  );
  expect(seen.hits).toBeGreaterThan(1000);
  expect(seen.refused).toBeGreaterThan(100);
  expect(seen.copies).toBeGreaterThan(100);
});
