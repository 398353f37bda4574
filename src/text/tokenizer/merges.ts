/** Reads the merges of a BPE model: from its list, or from the scores of its tokens. */
import { UserError } from '../../errors.js';
import { buildMergeTable, type Merge, type MergeTable } from './merge-table.js';
import type { TokenizerJson } from './tokenizer-json.js';

/** `vocabulary` has the ids of all tokens that merges may reach. */
export function readMerges({ model }: TokenizerJson, vocabulary: ReadonlyMap<string, number>): MergeTable {
  return model.scores === undefined ? mergesInOrder(model.merges, vocabulary) : mergesByScore(model.scores, vocabulary);
}

function mergesInOrder(merges: TokenizerJson['model']['merges'], vocabulary: ReadonlyMap<string, number>): MergeTable {
  function* resolve(): Generator<Merge> {
    for (const [rank, merge] of merges.entries()) {
      const space = typeof merge === 'string' ? merge.indexOf(' ', 1) : -1;
      const [a, b] = typeof merge === 'string' ? [merge.slice(0, space), merge.slice(space + 1)] : merge;
      const left = vocabulary.get(a);
      const right = vocabulary.get(b);
      const merged = vocabulary.get(a + b);
      if (left !== undefined && right !== undefined && merged !== undefined) yield { left, right, rank, merged };
    }
  }
  return buildMergeTable(resolve(), merges.length);
}

/**
 * All pairs of tokens that make a token, the token's score deciding: SentencePiece's BPE (bpe_model.cc). Tokens of one
 * score share a rank, so that the leftmost is merged first.
 */
function mergesByScore(scores: readonly number[], vocabulary: ReadonlyMap<string, number>): MergeTable {
  const sorted = [...new Set(scores)].sort((a, b) => b - a);
  const rankOfScore = new Map(sorted.map((score, rank) => [score, rank]));
  const merges: Merge[] = [];
  for (const [text, merged] of vocabulary) {
    const rank = rankOfScore.get(scores[merged] ?? Number.NaN);
    if (rank === undefined) throw new UserError(`tokenizer: token ${merged} has no score`);
    for (let at = 1; at < text.length; at++) {
      const left = vocabulary.get(text.slice(0, at));
      const right = left === undefined ? undefined : vocabulary.get(text.slice(at));
      if (left !== undefined && right !== undefined) merges.push({ left, right, rank, merged });
    }
  }
  return buildMergeTable(merges, merges.length);
}
