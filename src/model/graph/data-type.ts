/** Element types of ONNX tensors, by the names and numbers of ONNX's own schema. */
import { TensorProto_DataType } from './onnx_pb.js';

const CODES = {
  float32: TensorProto_DataType.FLOAT,
  float64: TensorProto_DataType.DOUBLE,
  float16: TensorProto_DataType.FLOAT16,
  uint8: TensorProto_DataType.UINT8,
  int8: TensorProto_DataType.INT8,
  int32: TensorProto_DataType.INT32,
  int64: TensorProto_DataType.INT64,
  bool: TensorProto_DataType.BOOL,
} as const;

export type DataType = keyof typeof CODES;

export function dataTypeCode(type: DataType): number {
  return CODES[type];
}
