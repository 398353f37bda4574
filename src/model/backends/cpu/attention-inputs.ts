/** Graph inputs that steer attention; `step-inputs.ts` fills them. */
import type { Architecture } from '../../architecture.js';
import type { GraphBuilder } from '../../graph/builder.js';

/** Their names. D decodes, V segments, n pages of each. */
export const ATTENTION_INPUTS = {
  /** bool [] each: whether the step has rows of this kind. */
  hasDecodes: 'has_decodes',
  hasPrefills: 'has_prefills',
  /** bool [] whether the step's rows are all decodes and each sees a single segment: segment v is that of row v. */
  hasOnlyShortDecodes: 'has_only_short_decodes',
  /** i32 [V] decode row that a segment belongs to. */
  segmentRows: 'segment_rows',
  /** i32 [V, n] pages of each segment. */
  segmentPages: 'segment_pages',
  /** i64 [2] 1 and the slots of a segment, n * page size. */
  ownAndPast: 'own_and_past',
  /**
   * i32 [D, heads, M] where the partial results of a row's head lie, in logical order: segment * heads + head. Rows of
   * fewer than M segments are padded with one that is masked as a whole.
   */
  mergeTable: 'merge_table',
  /** i64 [] number of tiles. */
  tileCount: 'tile_count',
} as const;

/** Inputs that depend on a layer's window: one set for each distinct window of the model. */
export function windowInputs(window: number | undefined) {
  const suffix = window === undefined ? '' : `_window_${window}`;
  return {
    /** f32 [V, 1, 1, 1 + n * page size] 0 where the new token, or a slot, may be seen, else very negative. */
    segmentMask: `segment_mask${suffix}`,
    /** i64 [N, 7] what a tile computes and sees: `TILE_FIELDS`. */
    tiles: `tiles${suffix}`,
    /** i32 [any] pages of the tiles' pasts, one tile after another. */
    tilePages: `tile_pages${suffix}`,
  };
}

/**
 * Of each tile: its first and end row and the first row of its chunk that it sees, among the step's rows; the number of
 * past tokens that it sees; where its past pages begin and end in `tilePages`; how many slots of the first page to skip.
 */
export const TILE_FIELDS = ['begin', 'end', 'chunk', 'past', 'pagesBegin', 'pagesEnd', 'skip'] as const;

export function declareAttentionInputs(g: GraphBuilder, architecture: Architecture): void {
  const I = ATTENTION_INPUTS;
  const heads = architecture.numHeads;
  g.input(I.hasDecodes, 'bool', []);
  g.input(I.hasPrefills, 'bool', []);
  g.input(I.hasOnlyShortDecodes, 'bool', []);
  g.input(I.segmentRows, 'int32', ['V']);
  g.input(I.segmentPages, 'int32', ['V', 'n']);
  g.input(I.ownAndPast, 'int64', [2]);
  g.input(I.mergeTable, 'int32', ['D', heads, 'M']);
  g.input(I.tileCount, 'int64', []);
  for (const window of distinctWindows(architecture)) {
    const W = windowInputs(window);
    g.input(W.segmentMask, 'float32', ['V', 1, 1, 'slots']);
    g.input(W.tiles, 'int64', ['N', TILE_FIELDS.length]);
    g.input(W.tilePages, 'int32', ['Q']);
  }
}

export function distinctWindows(architecture: Architecture): (number | undefined)[] {
  return [...new Set(architecture.layers.map((layer) => layer.slidingWindow))];
}
