/**
 * Writes ONNX graphs. A value is the name of a node's output; nodes get readable names from the scope they are added in,
 * so that profiles can be read. Shapes may hold names for dimensions that are known only when a step runs.
 */
import { create, toBinary } from '@bufbuild/protobuf';
import { toFloat16 } from '../float16.js';
import { type DataType, dataTypeCode } from './data-type.js';
import {
  type AttributeProto,
  AttributeProto_AttributeType,
  AttributeProtoSchema,
  type GraphProto,
  GraphProtoSchema,
  ModelProtoSchema,
  NodeProtoSchema,
  OperatorSetIdProtoSchema,
  StringStringEntryProtoSchema,
  TensorProto_DataLocation,
  TensorProtoSchema,
  TensorShapeProto_DimensionSchema,
  TensorShapeProtoSchema,
  TypeProto_TensorSchema,
  TypeProtoSchema,
  type ValueInfoProto,
  ValueInfoProtoSchema,
} from './onnx_pb.js';
import type { StoredWeight } from './weight-store.js';

/** Name of a tensor in the graph; '' leaves an optional input or output out. */
export type Value = string;
/** A number, or the name of a dimension that is known only at run time. */
export type Dimension = number | string;
export type AttributeValue = number | bigint | string | readonly number[] | readonly bigint[] | Subgraph | Float;

/** A float attribute; plain numbers become integers, since most attributes are. */
export class Float {
  constructor(readonly value: number) {}
}

/** A finished body for If and Loop. */
export class Subgraph {
  constructor(readonly proto: GraphProto) {}
}

const OPSET = 21n;
const IR_VERSION = 10n;

export class GraphBuilder {
  readonly #graph: GraphProto;
  readonly #scope: string[] = [];
  readonly #names: Map<string, number>;
  readonly #constants: Map<string, Value>;
  readonly #root: GraphBuilder;

  constructor(name: string, parent?: GraphBuilder) {
    this.#graph = create(GraphProtoSchema, { name });
    this.#root = parent ? parent.#root : this;
    this.#names = parent ? parent.#names : new Map();
    this.#constants = parent ? parent.#constants : new Map();
    if (parent) this.#scope.push(...parent.#scope);
  }

  /** Adds everything that `build` adds under a common prefix, such as `layers.3`. */
  scope<T>(name: string, build: () => T): T {
    this.#scope.push(name);
    try {
      return build();
    } finally {
      this.#scope.pop();
    }
  }

  input(name: string, type: DataType, shape: readonly Dimension[]): Value {
    this.#graph.input.push(valueInfo(name, type, shape));
    return name;
  }

  output(name: string, type: DataType, shape: readonly Dimension[]): void {
    this.#graph.output.push(valueInfo(name, type, shape));
  }

  /** Adds a node with one output and returns it. */
  node(op: string, inputs: readonly Value[], attributes: Attributes = {}): Value {
    return this.nodes(op, inputs, 1, attributes)[0] as Value;
  }

  /** Adds a node with several outputs; `outputs` gives their number, or their names ('' for one that is left out). */
  nodes(
    op: string,
    inputs: readonly Value[],
    outputs: number | readonly Value[],
    attributes: Attributes = {},
  ): Value[] {
    const { domain = '', name: wanted, ...rest } = attributes;
    const name = this.#unique(wanted ?? op);
    const outputNames =
      typeof outputs === 'number'
        ? Array.from({ length: outputs }, (_, i) => (outputs === 1 ? name : `${name}:${i}`))
        : [...outputs];
    this.#graph.node.push(
      create(NodeProtoSchema, {
        name,
        opType: op,
        domain,
        input: [...inputs],
        output: outputNames,
        attribute: Object.entries(rest).flatMap(([key, value]) =>
          value === undefined ? [] : [attribute(key, value as AttributeValue)],
        ),
      }),
    );
    return outputNames;
  }

  /** Gives a value the fixed name that a graph output needs. */
  alias(value: Value, name: string): Value {
    this.nodes('Identity', [value], [name]);
    return name;
  }

  /** A small constant that is kept in the model itself; equal ones are shared. */
  constant(type: DataType, shape: readonly number[], data: ArrayBufferView): Value {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const key = `${type}|${shape.join(',')}|${Buffer.from(bytes).toString('base64')}`;
    const known = this.#constants.get(key);
    if (known !== undefined) return known;
    const name = this.#unique('constant', true);
    this.#root.#graph.initializer.push(
      create(TensorProtoSchema, {
        name,
        dataType: dataTypeCode(type),
        dims: shape.map(BigInt),
        rawData: new Uint8Array(bytes),
      }),
    );
    this.#constants.set(key, name);
    return name;
  }

  int64(values: readonly number[]): Value {
    return this.constant('int64', [values.length], BigInt64Array.from(values, BigInt));
  }

  /** An i64 without dimensions. */
  int64Scalar(value: number): Value {
    return this.constant('int64', [], BigInt64Array.of(BigInt(value)));
  }

  /** An f32 without dimensions. */
  float32Scalar(value: number): Value {
    return this.constant('float32', [], Float32Array.of(value));
  }

  /** An fp16 without dimensions. */
  float16Scalar(value: number): Value {
    return this.constant('float16', [], toFloat16(Float32Array.of(value)));
  }

  /** A large constant whose bytes lie in an external file. */
  weight(name: string, type: DataType, shape: readonly number[], stored: StoredWeight): Value {
    const entry = (key: string, value: string) => create(StringStringEntryProtoSchema, { key, value });
    this.#root.#graph.initializer.push(
      create(TensorProtoSchema, {
        name,
        dataType: dataTypeCode(type),
        dims: shape.map(BigInt),
        dataLocation: TensorProto_DataLocation.EXTERNAL,
        externalData: [
          entry('location', stored.location),
          entry('offset', String(stored.offset)),
          entry('length', String(stored.length)),
        ],
      }),
    );
    return name;
  }

  /** Builds the body of an If or Loop. It sees all values of this graph; `build` declares its inputs and outputs. */
  subgraph(name: string, build: (body: GraphBuilder) => void): Subgraph {
    const body = new GraphBuilder(name, this);
    build(body);
    return new Subgraph(body.#graph);
  }

  /** The model as an ONNX file. */
  toBytes(): Uint8Array {
    const opset = (domain: string, version: bigint) => create(OperatorSetIdProtoSchema, { domain, version });
    return toBinary(
      ModelProtoSchema,
      create(ModelProtoSchema, {
        irVersion: IR_VERSION,
        producerName: 'sluice',
        opsetImport: [opset('', OPSET), opset('com.microsoft', 1n)],
        graph: this.#graph,
      }),
    );
  }

  #unique(name: string, global = false): string {
    const path = global ? name : [...this.#scope, name].join('.');
    const count = this.#names.get(path) ?? 0;
    this.#names.set(path, count + 1);
    return count === 0 && !global ? path : `${path}_${count}`;
  }
}

export interface Attributes {
  /** Operator domain, such as com.microsoft; ONNX's own by default. */
  readonly domain?: string;
  /** Node name within the scope; the operator's by default. */
  readonly name?: string;
  readonly [key: string]: AttributeValue | undefined;
}

function attribute(name: string, value: AttributeValue): AttributeProto {
  const type = AttributeProto_AttributeType;
  if (value instanceof Float) return create(AttributeProtoSchema, { name, type: type.FLOAT, f: value.value });
  if (value instanceof Subgraph) return create(AttributeProtoSchema, { name, type: type.GRAPH, g: value.proto });
  if (typeof value === 'string') {
    return create(AttributeProtoSchema, { name, type: type.STRING, s: new TextEncoder().encode(value) });
  }
  if (typeof value === 'number' || typeof value === 'bigint') {
    return create(AttributeProtoSchema, { name, type: type.INT, i: BigInt(value) });
  }
  return create(AttributeProtoSchema, { name, type: type.INTS, ints: Array.from(value, BigInt) });
}

function valueInfo(name: string, type: DataType, shape: readonly Dimension[]): ValueInfoProto {
  const dim = shape.map((size) =>
    create(TensorShapeProto_DimensionSchema, {
      value: typeof size === 'number' ? { case: 'dimValue', value: BigInt(size) } : { case: 'dimParam', value: size },
    }),
  );
  const tensor = create(TypeProto_TensorSchema, {
    elemType: dataTypeCode(type),
    shape: create(TensorShapeProtoSchema, { dim }),
  });
  return create(ValueInfoProtoSchema, {
    name,
    type: create(TypeProtoSchema, { value: { case: 'tensorType', value: tensor } }),
  });
}
