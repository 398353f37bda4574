/**
 * Connects the architecture's parameters to a file's tensors: names, shapes, parts of packed tensors. All checks are
 * made here, at open, so that reading can only fail with the disk.
 */
import { LoadError } from '../../errors.js';
import type { Architecture, GlobalParameter, LayerParameter, ParameterName } from '../architecture.js';
import { byteLength, ELEMENT_LAYOUTS } from './elements.js';
import { isNorm, parameterShapes } from './parameters.js';
import { type StoredTensor, shapeText } from './tensor.js';

/** How a format calls and stores the parameters. */
export interface Naming {
  readonly globals: Readonly<Record<GlobalParameter, string>>;
  /** Everything in a layer's tensor name before the part in `layer`. */
  layerPrefix(layer: number): string;
  readonly layer: Readonly<Partial<Record<LayerParameter, string>>>;
  /** Tensors that hold q, k, v and gate, up one below the other, where the family packs them. */
  readonly packed: { readonly qkv: string; readonly gateUp: string } | undefined;
  /** Start of the names of all tensors that belong to layers. */
  readonly layersPrefix: string;
  /** Tensors in layers that say nothing new, such as precomputed frequencies. */
  readonly redundant: RegExp;
  /** Rows of q and k of each head are in interleaved RoPE order. */
  readonly interleavedRope: boolean;
  /** Norms store w for a factor of 1 + w. */
  readonly normsWithoutOne: boolean;
}

/** Where a parameter's bytes are, and what turns them into the parameter. */
export interface StoredParameter {
  readonly tensor: StoredTensor;
  readonly shape: readonly number[];
  /** First byte, from the file's start. */
  readonly offset: number;
  readonly bytes: number;
  /** Set where each head's first `rotary` rows are interleaved pairs. */
  readonly interleaved: { readonly headSize: number; readonly rotary: number } | undefined;
  readonly addOne: boolean;
}

/**
 * Throws LoadError, naming the tensor, when one is missing, has another shape than the architecture asks for, or lies in
 * a layer without being part of the architecture (a bias, say, that would be left out of every answer).
 */
export function bindParameters(
  file: string,
  architecture: Architecture,
  tensors: ReadonlyMap<string, StoredTensor>,
  naming: Naming,
): Map<ParameterName, StoredParameter> {
  const bound = new Map<ParameterName, StoredParameter>();
  const used = new Set<string>();
  for (const [name, shape] of parameterShapes(architecture)) {
    const place = locate(name, shape, architecture, naming);
    const tensor = tensors.get(place.tensor);
    if (tensor === undefined) throw new LoadError(file, `tensor ${place.tensor} is missing`);
    used.add(place.tensor);
    const wanted = [place.totalRows, ...shape.slice(1)];
    if (tensor.shape.length !== wanted.length || tensor.shape.some((size, i) => size !== wanted[i])) {
      throw new LoadError(
        tensor.file.path,
        `tensor ${tensor.name} has shape ${shapeText(tensor.shape)}, but the settings ask for ${shapeText(wanted)}`,
      );
    }
    const interleaved = interleaving(name, architecture, naming);
    if ((interleaved || isNorm(name)) && shape.length === 1 && ELEMENT_LAYOUTS[tensor.type].blockLength > 1) {
      throw new LoadError(
        tensor.file.path,
        `tensor ${tensor.name} is a vector of type ${tensor.type}, which is not supported`,
      );
    }
    const rowBytes = tensor.bytes / place.totalRows;
    bound.set(name, {
      tensor,
      shape,
      offset: tensor.offset + place.firstRow * rowBytes,
      bytes: byteLength(
        tensor.type,
        shape.reduce((a, b) => a * b, 1),
      ),
      interleaved,
      addOne: naming.normsWithoutOne && isNorm(name),
    });
  }
  refuseUnknown(file, architecture, tensors, used, naming);
  return bound;
}

interface Place {
  readonly tensor: string;
  readonly firstRow: number;
  readonly totalRows: number;
}

function locate(name: ParameterName, shape: readonly number[], architecture: Architecture, naming: Naming): Place {
  const rows = shape[0]!;
  const parts = /^layers\.(\d+)\.(\w+)$/.exec(name);
  if (parts === null) return { tensor: naming.globals[name as GlobalParameter], firstRow: 0, totalRows: rows };
  const prefix = naming.layerPrefix(Number(parts[1]));
  const parameter = parts[2] as LayerParameter;
  if (naming.packed !== undefined) {
    const queryRows = architecture.numHeads * architecture.headSize;
    const keyRows = architecture.numKvHeads * architecture.headSize;
    const qkv = { tensor: prefix + naming.packed.qkv, totalRows: queryRows + 2 * keyRows };
    const gateUp = { tensor: prefix + naming.packed.gateUp, totalRows: 2 * architecture.intermediateSize };
    if (parameter === 'q') return { ...qkv, firstRow: 0 };
    if (parameter === 'k') return { ...qkv, firstRow: queryRows };
    if (parameter === 'v') return { ...qkv, firstRow: queryRows + keyRows };
    if (parameter === 'gate') return { ...gateUp, firstRow: 0 };
    if (parameter === 'up') return { ...gateUp, firstRow: architecture.intermediateSize };
  }
  return { tensor: prefix + naming.layer[parameter], firstRow: 0, totalRows: rows };
}

function interleaving(name: ParameterName, architecture: Architecture, naming: Naming): StoredParameter['interleaved'] {
  const parts = /^layers\.(\d+)\.[qk](Bias)?$/.exec(name);
  if (!naming.interleavedRope || parts === null) return undefined;
  const rope = architecture.ropes[architecture.layers[Number(parts[1])]!.rope]!;
  return { headSize: architecture.headSize, rotary: rope.dimensions };
}

function refuseUnknown(
  file: string,
  architecture: Architecture,
  tensors: ReadonlyMap<string, StoredTensor>,
  used: ReadonlySet<string>,
  naming: Naming,
): void {
  for (const name of tensors.keys()) {
    if (used.has(name) || !name.startsWith(naming.layersPrefix) || naming.redundant.test(name)) continue;
    throw new LoadError(
      file,
      `tensor ${name} is not part of a ${architecture.family} model of ${architecture.layers.length} layers as it is supported`,
    );
  }
}
