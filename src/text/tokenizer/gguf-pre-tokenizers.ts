/**
 * The pre-tokenizers that GGUF names in tokenizer.ggml.pre. A name stands for the patterns of the tokenizer.json that
 * the file was made from; names and patterns as in llama.cpp, src/llama-vocab.cpp.
 */
import { GPT2_PATTERN } from './pre-tokenizer.js';

export interface GgufPreTokenizer {
  /** Applied one after the other, each match a piece of its own. */
  readonly patterns: readonly string[];
  readonly normalizer?: 'NFC';
  /** A piece that is a token is taken whole. */
  readonly ignoreMerges?: boolean;
  /** Whether BOS is added where the file does not say. */
  readonly addBos?: boolean;
}

const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const REST = ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const LLAMA3 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|${REST}`;
const QWEN2 = `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|${REST}`;

const UPPER = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]';
const LOWER = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]';
const REST_WITH_SLASH = ' ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const cased = (after: string): string =>
  `[^\\r\\n\\p{L}\\p{N}]?${UPPER}*${LOWER}+${after}|[^\\r\\n\\p{L}\\p{N}]?${UPPER}+${LOWER}*${after}`;
const GPT4O = `${cased(`${CONTRACTIONS}?`)}|\\p{N}{1,3}|${REST_WITH_SLASH}`;
const TEKKEN = `${cased('')}|\\p{N}|${REST_WITH_SLASH}`;

const gpt2: GgufPreTokenizer = { patterns: [GPT2_PATTERN] };
const digits: GgufPreTokenizer = { patterns: ['\\p{N}', GPT2_PATTERN] };
const llama3: GgufPreTokenizer = { patterns: [LLAMA3], ignoreMerges: true, addBos: true };
const llama3Merged: GgufPreTokenizer = { patterns: [LLAMA3] };
const qwen2: GgufPreTokenizer = { patterns: [QWEN2], normalizer: 'NFC' };
const gpt4o: GgufPreTokenizer = { patterns: [GPT4O] };

export const GGUF_PRE_TOKENIZERS: ReadonlyMap<string, GgufPreTokenizer> = new Map([
  ['gpt-2', gpt2],
  ['phi-2', gpt2],
  ['olmo', gpt2],
  ['exaone4', gpt2],
  ['smollm', digits],
  ['starcoder', digits],
  ['refact', digits],
  ['command-r', digits],
  ['codeshell', digits],
  ['llama-bpe', llama3],
  ['llama3', llama3],
  ['llama-v3', llama3],
  ['falcon3', llama3],
  ['pixtral', llama3],
  ['dbrx', llama3Merged],
  ['smaug-bpe', llama3Merged],
  ['qwen2', qwen2],
  ['deepseek-r1-qwen', { patterns: [QWEN2] }],
  ['gpt-4o', gpt4o],
  ['llama4', gpt4o],
  ['tekken', { patterns: [TEKKEN], ignoreMerges: true, addBos: true }],
]);
