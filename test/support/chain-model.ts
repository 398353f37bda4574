/**
 * A model that says given texts, whatever the sampling: every token has one successor. Its attention and feed-forward
 * weights are zero, so that what leaves the last norm is the current token's embedding, a vector of signs, and the head's
 * row of a token is the embedding of its predecessor. Texts are cut into tokens at any byte, also within a character.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { charOfByte } from '../../src/text/tokenizer/byte-alphabet.js';
import { copyModel, TINY_MODELS } from './model-directory.js';
import type { SafetensorsTensor, SafetensorsTensors } from './safetensors-file.js';

/** Signs of two tokens agree by chance only; a successor's logit is WIDTH, any other's some times its root. */
const WIDTH = 128;
const ONE = 0x3c00;
const MINUS_ONE = 0xbc00;

export interface ChainedText {
  readonly text: string;
  /** The prompt that the text answers; a chat whose first message is `chat` renders to it. */
  readonly start: number;
  readonly chat: string;
  /** The text's tokens. After the last one anything may follow. */
  readonly tokens: readonly number[];
  /** How many of its tokens end within a character. */
  readonly splits: number;
}

/** Writes the model into the empty directory `target`. Throws where no distinct tokens can be found. */
export function writeChainModel(target: string, texts: readonly string[], random: () => number): ChainedText[] {
  const vocabulary = new Vocabulary();
  const starts = texts.map((_, index) => vocabulary.add(`<start ${index}>`));
  const used = new Set<number>();
  const chains = texts.map((text, index) => {
    const pieces = cut(Buffer.from(text), vocabulary, used, random);
    const splits = pieces.filter(({ within }) => within).length;
    return { text, start: starts[index]!, chat: `start ${index}`, tokens: pieces.map(({ id }) => id), splits };
  });

  const size = vocabulary.size;
  const signs = Uint16Array.from({ length: size * WIDTH }, () => (random() < 0.5 ? ONE : MINUS_ONE));
  const head = new Uint16Array(size * WIDTH);
  for (const { start, tokens } of chains) {
    [start, ...tokens].slice(0, -1).forEach((token, i) => {
      head.set(signs.subarray(token * WIDTH, (token + 1) * WIDTH), tokens[i]! * WIDTH);
    });
  }

  const tokenizer = JSON.parse(readFileSync(join(TINY_MODELS, 'tiny-llama', 'tokenizer.json'), 'utf8')) as {
    model: object;
    added_tokens: object[];
  };
  const special = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  copyModel('tiny-llama', target, {
    config: {
      vocab_size: size,
      hidden_size: WIDTH,
      head_dim: 32,
      num_hidden_layers: 1,
      tie_word_embeddings: false,
      max_position_embeddings: 2048,
    },
    tensors: () => tensors(size, signs, head),
    files: {
      'tokenizer.json': JSON.stringify({
        ...tokenizer,
        added_tokens: [
          ...tokenizer.added_tokens,
          ...starts.map((id, index) => ({ id, content: `<start ${index}>`, ...special })),
        ],
        model: { ...tokenizer.model, vocab: vocabulary.json(), merges: [] },
      }),
      'chat_template.jinja': chains
        .map(({ chat }) => `{% if messages[0]['content'] == '${chat}' %}{{ '<${chat}>' }}{% endif %}`)
        .join(''),
    },
  });
  return chains;
}

/** Ids of entries: three special tokens, every byte, then what is added. */
class Vocabulary {
  readonly #ids = new Map<string, number>();

  constructor() {
    for (const special of ['<|endoftext|>', '<|im_start|>', '<|im_end|>']) this.add(special);
    for (let byte = 0; byte < 256; byte++) this.add(charOfByte(byte));
  }

  get size(): number {
    return this.#ids.size;
  }

  add(entry: string): number {
    const id = this.#ids.get(entry) ?? this.#ids.size;
    this.#ids.set(entry, id);
    return id;
  }

  json(): Record<string, number> {
    return Object.fromEntries(this.#ids);
  }
}

interface Piece {
  readonly start: number;
  readonly id: number;
  /** Ends within a character. */
  readonly within: boolean;
}

/**
 * Cuts bytes into pieces that no text has had yet; short ones where there still are some. A last piece that is taken
 * grows to the front.
 */
function cut(bytes: Uint8Array, vocabulary: Vocabulary, used: Set<number>, random: () => number): Piece[] {
  const pieces: Piece[] = [];
  for (let start = 0, end = 0; start < bytes.length; start = end) {
    end = Math.min(bytes.length, start + 1 + Math.floor(random() * 4));
    let id = vocabulary.add(entryOf(bytes.subarray(start, end)));
    while (used.has(id)) {
      if (end < bytes.length) {
        end++;
      } else {
        const previous = pieces.pop();
        if (previous === undefined) throw new Error('a text is the end of another one');
        used.delete(previous.id);
        start = previous.start;
      }
      id = vocabulary.add(entryOf(bytes.subarray(start, end)));
    }
    used.add(id);
    pieces.push({ start, id, within: (bytes[end]! & 0xc0) === 0x80 });
  }
  return pieces;
}

function entryOf(bytes: Uint8Array): string {
  return Array.from(bytes, charOfByte).join('');
}

function tensors(size: number, embedding: Uint16Array, head: Uint16Array): SafetensorsTensors {
  const tensor = (shape: number[], values: Uint16Array): SafetensorsTensor => ({
    dtype: 'F16',
    shape,
    data: new Uint8Array(values.buffer),
  });
  const zeros = (rows: number, columns: number) => tensor([rows, columns], new Uint16Array(rows * columns));
  const ones = () => tensor([WIDTH], new Uint16Array(WIDTH).fill(ONE));
  return {
    'model.embed_tokens.weight': tensor([size, WIDTH], embedding),
    'model.layers.0.input_layernorm.weight': ones(),
    'model.layers.0.self_attn.q_proj.weight': zeros(WIDTH, WIDTH),
    'model.layers.0.self_attn.k_proj.weight': zeros(WIDTH / 2, WIDTH),
    'model.layers.0.self_attn.v_proj.weight': zeros(WIDTH / 2, WIDTH),
    'model.layers.0.self_attn.o_proj.weight': zeros(WIDTH, WIDTH),
    'model.layers.0.post_attention_layernorm.weight': ones(),
    'model.layers.0.mlp.gate_proj.weight': zeros(96, WIDTH),
    'model.layers.0.mlp.up_proj.weight': zeros(96, WIDTH),
    'model.layers.0.mlp.down_proj.weight': zeros(WIDTH, 96),
    'model.norm.weight': ones(),
    'lm_head.weight': tensor([size, WIDTH], head),
  };
}
