/**
 * From a step's ragged batch to the index arrays that steer the CPU graph. Rows are reordered: sequences with one generated
 * token first (decodes), then the chunks of prefills.
 */
import { Tensor } from 'onnxruntime-node';
import type { Architecture } from '../../architecture.js';
import type { StepBatch } from '../../runner.js';
import { ATTENTION_INPUTS, distinctWindows, TILE_FIELDS, windowInputs } from './attention-inputs.js';
import { LOGIT_INPUTS } from './logits.js';
import { ROW_INPUTS } from './rows.js';

/** Query rows of a prefill tile. Larger ones waste work beyond the causal edge, smaller ones cost more nodes. */
export const TILE_ROWS = 128;

/**
 * Slots of a decode's past that one segment holds at most. Longer segments cost short sequences more padding beside a long
 * one; shorter ones make more parts to merge.
 */
const SEGMENT_SLOTS = 320;

/** In the page that belongs to nobody. */
const SPARE_SLOT = 0;

/** What a masked slot adds to its score: finite, so that a fully masked segment still gives numbers. */
const MASKED = -1e30;

export interface StepInputs {
  readonly feeds: Record<string, Tensor>;
  /** i32 [T] slot of each row that is computed, counted through all pages. */
  readonly slots: Int32Array;
  /** How many rows of logits are wanted whole. */
  readonly wholeRows: number;
}

interface SequenceRows {
  /** Index in the batch. */
  readonly sequence: number;
  readonly begin: number;
  readonly count: number;
  readonly past: number;
  readonly decodes: boolean;
}

export class StepInputBuilder {
  readonly #windows: readonly (number | undefined)[];

  constructor(
    private readonly blockSize: number,
    private readonly architecture: Architecture,
  ) {
    this.#windows = distinctWindows(architecture);
  }

  build(batch: StepBatch): StepInputs {
    const sequences = describe(batch);
    const decodes = sequences.filter((s) => s.decodes);
    const prefills = sequences.filter((s) => !s.decodes);
    const rows = prefills.reduce((sum, s) => sum + computedRows(s), decodes.length);

    const tokens = new BigInt64Array(rows);
    const positions = new BigInt64Array(rows);
    const slots = new Int32Array(rows);
    const newRow = new Int32Array(rows);
    let row = 0;
    for (const s of [...decodes, ...prefills]) {
      for (let i = 0; i < s.count; i++, row++) {
        const position = s.past + i;
        newRow[s.begin + i] = row;
        tokens[row] = BigInt(batch.tokens[s.begin + i] as number);
        positions[row] = BigInt(position);
        slots[row] = this.#page(batch, s.sequence, position) * this.blockSize + (position % this.blockSize);
      }
      if (!s.decodes && s.count < computedRows(s)) {
        tokens[row] = tokens[row - 1] as bigint;
        positions[row] = positions[row - 1] as bigint;
        slots[row++] = SPARE_SLOT;
      }
    }
    // A graph without any row to project would have empty products; one unused row is cheaper than a second graph.
    const logitRows =
      batch.logitRows.length === 0 ? [0n] : Array.from(batch.logitRows, (r) => BigInt(newRow[r] as number));

    const feeds: Record<string, Tensor> = {
      [ROW_INPUTS.tokens]: int64(tokens, [1, rows]),
      [ROW_INPUTS.positions]: int64(positions, [1, rows]),
      [ROW_INPUTS.logitRows]: int64(logitRows, [logitRows.length]),
    };
    const whole: number[] = [];
    batch.logitRows.forEach((_, i) => {
      if (batch.greedyRows?.[i] !== 1) whole.push(i);
    });
    // Reductions over no rows at all are not to be relied on: one row is summed up in vain.
    const summed = whole.length === 0 ? [0] : whole;
    const inverse = Float32Array.from(summed, (i) => 1 / (batch.temperatures?.[i] ?? 1));
    feeds[LOGIT_INPUTS.wholeRows] = int32(Int32Array.from(summed), [summed.length]);
    feeds[LOGIT_INPUTS.inverseTemperatures] = new Tensor('float32', inverse, [summed.length, 1]);
    this.#decodeFeeds(feeds, batch, decodes);
    this.#prefillFeeds(feeds, batch, prefills, decodes.length);
    return { feeds, slots, wholeRows: whole.length };
  }

  /** Pool page of a position: block b is page b + 1. */
  #page(batch: StepBatch, sequence: number, position: number): number {
    return (batch.blockTables[sequence * batch.maxBlocks + Math.floor(position / this.blockSize)] as number) + 1;
  }

  #pastPages(past: number): number {
    return Math.ceil(past / this.blockSize);
  }

  #decodeFeeds(feeds: Record<string, Tensor>, batch: StepBatch, decodes: readonly SequenceRows[]): void {
    const { blockSize } = this;
    const { numHeads } = this.architecture;
    const longest = Math.max(1, Math.floor(SEGMENT_SLOTS / blockSize));
    const cuts = decodes.map((rows) => {
      const pages = this.#pastPages(rows.past);
      const segments = Math.max(1, Math.ceil(pages / longest));
      return { rows, pages, segments, each: Math.ceil(pages / segments) };
    });
    const parts = summedAlike(cuts.reduce((most, { segments }) => Math.max(most, segments), 1));
    const pagesEach = summedAlike(cuts.reduce((most, { each }) => Math.max(most, each), 1));
    // Rows of fewer parts than others are padded with a segment of nobody's; a step without decodes still has one.
    const padded = decodes.length === 0 || cuts.some(({ segments }) => segments < parts);
    const size = cuts.reduce((sum, { segments }) => sum + segments, padded ? 1 : 0);

    const rows = Math.max(1, decodes.length);
    const segmentRows = new Int32Array(size);
    const segmentPages = new Int32Array(size * pagesEach);
    const mergeTable = new Int32Array(rows * numHeads * parts).fill((size - 1) * numHeads);
    const masks = this.#windows.map(() => new Float32Array(size * (1 + pagesEach * blockSize)).fill(MASKED));
    let segment = 0;
    cuts.forEach(({ rows: s, pages, segments, each }, d) => {
      for (let part = 0; part < segments; part++, segment++) {
        const firstPage = part * each;
        const count = Math.min(each, pages - firstPage);
        segmentRows[segment] = d;
        for (let i = 0; i < count; i++) {
          segmentPages[segment * pagesEach + i] = this.#page(batch, s.sequence, (firstPage + i) * blockSize);
        }
        for (let head = 0; head < numHeads; head++) {
          mergeTable[(d * numHeads + head) * parts + part] = segment * numHeads + head;
        }
        const firstSlot = firstPage * blockSize;
        const mask = segment * (1 + pagesEach * blockSize);
        this.#windows.forEach((window, w) => {
          if (part === segments - 1) (masks[w] as Float32Array)[mask] = 0;
          // The query stands at position `past` and sees the positions above past - window.
          const first = window === undefined ? 0 : Math.max(0, s.past - window + 1 - firstSlot);
          const end = Math.min(count * blockSize, s.past - firstSlot);
          if (first < end) masks[w]?.fill(0, mask + 1 + first, mask + 1 + end);
        });
      }
    });
    feeds[ATTENTION_INPUTS.hasDecodes] = bool(decodes.length > 0);
    feeds[ATTENTION_INPUTS.hasOnlyShortDecodes] = bool(parts === 1 && decodes.length === batch.pastLengths.length);
    feeds[ATTENTION_INPUTS.segmentRows] = int32(segmentRows, [size]);
    feeds[ATTENTION_INPUTS.segmentPages] = int32(segmentPages, [size, pagesEach]);
    feeds[ATTENTION_INPUTS.ownAndPast] = int64([1n, BigInt(pagesEach * blockSize)], [2]);
    feeds[ATTENTION_INPUTS.mergeTable] = int32(mergeTable, [rows, numHeads, parts]);
    this.#windows.forEach((window, w) => {
      const shape = [size, 1, 1, 1 + pagesEach * blockSize];
      feeds[windowInputs(window).segmentMask] = new Tensor('float32', masks[w] as Float32Array, shape);
    });
  }

  #prefillFeeds(
    feeds: Record<string, Tensor>,
    batch: StepBatch,
    prefills: readonly SequenceRows[],
    firstRow: number,
  ): void {
    const { blockSize } = this;
    let tileCount = 0;
    for (const window of this.#windows) {
      const tiles: number[] = [];
      const tilePages: number[] = [];
      let chunk = firstRow;
      for (const s of prefills) {
        const count = computedRows(s);
        for (let begin = 0; begin < count; ) {
          const position = s.past + begin;
          const end = tileEnd(begin, count, s.past);
          const firstSeen = window === undefined ? 0 : Math.max(0, position - window + 1);
          const past = Math.max(0, s.past - firstSeen);
          const firstPage = Math.floor(firstSeen / blockSize);
          const pagesBegin = tilePages.length;
          if (past > 0) {
            for (let i = firstPage; i < this.#pastPages(s.past); i++) {
              tilePages.push(this.#page(batch, s.sequence, i * blockSize));
            }
          }
          const seenRow = chunk + Math.max(0, firstSeen - s.past);
          const skip = past > 0 ? firstSeen - firstPage * blockSize : 0;
          tiles.push(chunk + begin, chunk + end, seenRow, past, pagesBegin, tilePages.length, skip);
          begin = end;
        }
        chunk += count;
      }
      tileCount = tiles.length / TILE_FIELDS.length;
      const W = windowInputs(window);
      feeds[W.tiles] = int64(BigInt64Array.from(tiles, BigInt), [tileCount, TILE_FIELDS.length]);
      feeds[W.tilePages] = int32(Int32Array.from(tilePages), [tilePages.length]);
    }
    feeds[ATTENTION_INPUTS.hasPrefills] = bool(prefills.length > 0);
    feeds[ATTENTION_INPUTS.tileCount] = int64([BigInt(tileCount)], []);
  }
}

/**
 * How many terms to sum for `count` of them and zeros behind: of more than four, ReduceSum and MatMul add three that are
 * left over in another order than they would with a zero among them.
 */
function summedAlike(count: number): number {
  return count > 4 && count % 4 === 3 ? count + 1 : count;
}

/**
 * Rows that are computed of a prompt's chunk. Of one row alone attention rounds otherwise than of several, so that it would
 * depend on how a prompt was cut: one that nobody reads keeps it company.
 */
function computedRows({ count }: SequenceRows): number {
  return Math.max(2, count);
}

/**
 * Where the tile of a chunk of `count` rows ends that begins at row `begin`: at a multiple of TILE_ROWS of the sequence,
 * wherever its chunks begin, or a row beside it, so that neither this tile nor the next has one row.
 */
function tileEnd(begin: number, count: number, past: number): number {
  const edge = begin + TILE_ROWS - ((past + begin) % TILE_ROWS);
  const end = Math.max(begin + 2, edge);
  if (end >= count) return count;
  if (end < count - 1) return end;
  return end - begin > 2 ? end - 1 : count;
}

function describe(batch: StepBatch): SequenceRows[] {
  return Array.from(batch.pastLengths, (past, sequence) => {
    const begin = batch.cumulativeLengths[sequence] as number;
    const count = (batch.cumulativeLengths[sequence + 1] as number) - begin;
    return { sequence, begin, count, past, decodes: count === 1 && batch.generated?.[sequence] !== 0 };
  });
}

function int64(values: BigInt64Array | bigint[], shape: readonly number[]): Tensor {
  return new Tensor('int64', values instanceof BigInt64Array ? values : BigInt64Array.from(values), shape);
}

function int32(values: Int32Array, shape: readonly number[]): Tensor {
  return new Tensor('int32', values, shape);
}

function bool(value: boolean): Tensor {
  return new Tensor('bool', Uint8Array.of(value ? 1 : 0), []);
}
