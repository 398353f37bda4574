/**
 * What every checkpoint format is read into: one `Architecture`, named parameters, and the material for the tokenizer.
 * Opening reads headers only; parameters are read one at a time, so that memory stays near one tensor's size.
 */
import type { Architecture, ParameterName } from '../architecture.js';

export type ElementType = 'F32' | 'F16' | 'BF16' | 'Q8_0' | 'Q4_0' | 'Q4_1';

export interface ParameterInfo {
  /** [outputs, inputs] of a matrix, [length] of a vector. */
  readonly shape: readonly number[];
  readonly type: ElementType;
}

/** Where tokenizer and chat template come from; `text/` builds them. */
export type TokenizerSource =
  | { readonly kind: 'gguf'; readonly metadata: Readonly<Record<string, unknown>> }
  | {
      readonly kind: 'huggingface';
      /** Parsed tokenizer.json and tokenizer_config.json. */
      readonly tokenizer: unknown;
      readonly config: Readonly<Record<string, unknown>>;
      /** Contents of chat_template.jinja, where there is one. */
      readonly chatTemplate: string | undefined;
    };

/** Generation defaults that a checkpoint brings along (generation_config.json). */
export interface GenerationDefaults {
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly repetitionPenalty?: number;
}

export interface Checkpoint {
  /** The path it was opened from. */
  readonly path: string;
  /** `onnx`: a graph exported by other software, see `graphFile`. */
  readonly format: 'gguf' | 'safetensors' | 'onnx';
  /** The model's name for people, from metadata or the path. */
  readonly name: string;
  readonly architecture: Architecture;
  readonly tokenizer: TokenizerSource;
  /** Union of every source of end-of-sequence ids in the checkpoint. */
  readonly endTokens: readonly number[];
  readonly generation: GenerationDefaults;
  /** Identifies the contents (path-independent): changes when any tensor, name or setting does. For cache keys. */
  readonly fingerprint: string;
  /** Path of the graph of an `onnx` checkpoint, which is run as it is: its parameters cannot be read. */
  readonly graphFile?: string;

  /** Undefined where the architecture has no such parameter. */
  info(name: ParameterName): ParameterInfo | undefined;
  /** Reads and dequantizes a parameter: row-major f32. Throws LoadError when it is missing or unreadable. */
  readFloat32(name: ParameterName): Promise<Float32Array>;
  /**
   * The stored bytes of a parameter in its own type, rows in the order `Architecture` asks for: row r starts at
   * r * bytes.length / shape[0]. For lowerings that can keep a quantized type.
   */
  readRaw(name: ParameterName): Promise<Uint8Array>;
  close(): Promise<void>;
}
