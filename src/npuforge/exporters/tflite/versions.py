"""Versions of TFLite operators.

An operator's version says which of its features a reader must know. The rules are facts of the
TensorFlow Lite repository (tflite/tools/versioning/op_version.cc). Where the reference resolver
of LiteRT registers an operator under lower versions only (register_ref.cc), that limit holds:
kernels do not look at the number, and the file must open there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npuforge.exporters.tflite.records import Options, OutTensor
from npuforge.vocab import DType

Tensors = Sequence[OutTensor | None]

TYPE_NUMBERS: Mapping[DType, int] = {
    DType.FLOAT32: 0,
    DType.FLOAT16: 1,
    DType.INT32: 2,
    DType.UINT8: 3,
    DType.INT64: 4,
    DType.BOOL: 6,
    DType.INT16: 7,
    DType.INT8: 9,
    DType.INT4: 17,
}
"""TensorType of the TFLite schema."""
RESOURCE = 13
"""TensorType of a handle to a state variable."""

_F32, _F16, _I32, _U8, _I64 = (
    TYPE_NUMBERS[kind]
    for kind in (DType.FLOAT32, DType.FLOAT16, DType.INT32, DType.UINT8, DType.INT64)
)
_BOOL, _I16, _I8, _I4 = (
    TYPE_NUMBERS[kind] for kind in (DType.BOOL, DType.INT16, DType.INT8, DType.INT4)
)

_WIDTHS = {_I8: 2, _I16: 3}
_EIGHT = {_I8: 2}
# version by the element type of the first data input; 1 for the types that are not listed
_BY_TYPE: Mapping[str, Mapping[int, int]] = {
    **dict.fromkeys(
        (
            *("MAX_POOL_2D", "AVERAGE_POOL_2D", "TANH", "LOGISTIC", "CONCATENATION", "SOFTMAX"),
            *("MEAN", "MIRROR_PAD", "REDUCE_MAX", "REDUCE_MIN", "RELU6", "BATCH_MATMUL"),
        ),
        _WIDTHS,
    ),
    **dict.fromkeys(
        (
            *("SPACE_TO_DEPTH", "ARG_MAX", "ARG_MIN", "LOG_SOFTMAX", "RSQRT", "LESS", "LESS_EQUAL"),
            *("GREATER", "GREATER_EQUAL", "NOT_EQUAL", "SQUARED_DIFFERENCE"),
        ),
        _EIGHT,
    ),
    "EQUAL": {_I8: 2, _I16: 4},
    "SUM": {_I8: 2, _I16: 2, _U8: 2},
    "ADD": {_I8: 2, _I16: 3, _I64: 4},
    "SUB": {_I8: 2, _I16: 5, _I64: 4},
    "MUL": {_I8: 2, _I16: 4, _I64: 5},
    "MAXIMUM": {_I8: 2, _I16: 4},
    "MINIMUM": {_I8: 2, _I16: 4},
    "ABS": {_I8: 2, _U8: 2, _I16: 3, _I32: 5},
    "RELU": {_I8: 2, _U8: 2, _I16: 3},
    "LEAKY_RELU": {_I16: 2},
    "FLOOR_DIV": {_F32: 2, _I8: 3, _I16: 3},
    "FLOOR_MOD": {_I8: 2, _I16: 2},
    "GATHER": {_I8: 2, _BOOL: 3, _I16: 4},
    "TRANSPOSE": {_I8: 2, _BOOL: 3, _I16: 5},
    "SLICE": {_I8: 2, _I16: 4},
    "STRIDED_SLICE": {_I8: 2, _BOOL: 3},
    "SPLIT": {_I8: 2, _I32: 3, _I16: 4},
    "SPLIT_V": {_I8: 2, _I16: 2},
    "PAD": {_I8: 2, _I16: 3},
    "PADV2": {_I8: 2, _I16: 3},
    "DEQUANTIZE": {_I8: 2, _I16: 3, _F16: 3},
    "RESIZE_BILINEAR": {_I8: 2, _I16: 4},
    "RESIZE_NEAREST_NEIGHBOR": {_I8: 2, _I16: 4},
    "SIGN": {_I32: 2},
    "EXP": {_I8: 2, _I16: 2},
    "BROADCAST_TO": dict.fromkeys(TYPE_NUMBERS.values(), 2) | {_I8: 3, _I16: 3},
}

# version of operators from rank five on, where that is higher
_FIVE_AXES = {"TRANSPOSE": 4, "SLICE": 5, "STRIDED_SLICE": 4, "PAD": 4, "PADV2": 4}
_SIX_AXES = {"TRANSPOSE": 6}
# with broadcasting and more than four axes
_BROADCAST = {"SUB": 3, "DIV": 2, "MAXIMUM": 3, "MINIMUM": 3}

_REFERENCE_LIMITS = {
    "DEPTHWISE_CONV_2D": 6,
    "TRANSPOSE": 5,
    "TRANSPOSE_CONV": 3,
    "TILE": 1,
    "ABS": 4,
    "SIGN": 1,
}


def operator_version(
    kind: str, inputs: Tensors, outputs: Tensors, options: Options | None = None
) -> int:
    """The version of an operator for what it is used with.

    Args:
        kind: name of the builtin operator.
        inputs: tensors in the operator's order, None where an optional one is absent.
        outputs: tensors it writes.
        options: its options table.
    """
    fields = dict(options.fields) if options is not None else {}
    layer = {
        "CONV_2D": _convolution,
        "DEPTHWISE_CONV_2D": _depthwise,
        "FULLY_CONNECTED": _fully_connected,
        "TRANSPOSE_CONV": _transpose_conv,
    }.get(kind)
    if layer is not None:
        version = layer(inputs, outputs, fields)
    elif kind == "QUANTIZE":
        version = 2 if _type(outputs, 0) == _I16 else 1
    elif kind == "L2_NORMALIZATION":
        version = 2 if _type(outputs, 0) == _I8 else 1
    else:
        version = _general(kind, inputs, outputs, fields)
    return min(version, _REFERENCE_LIMITS.get(kind, version))


def _type(tensors: Tensors, index: int) -> int | None:
    tensor = tensors[index] if index < len(tensors) else None
    return None if tensor is None else tensor.type


def _general(kind: str, inputs: Tensors, outputs: Tensors, fields: Mapping[str, object]) -> int:
    first = 1 if kind == "SPLIT" else 0
    source = inputs[first] if first < len(inputs) else None
    if source is None:
        return 1
    version = _BY_TYPE.get(kind, {}).get(source.type, 1)
    rank = len(source.shape)
    if rank > 4:
        version = max(version, _FIVE_AXES.get(kind, 1))
    if rank > 5:
        version = max(version, _SIX_AXES.get(kind, 1))
    present = [tensor for tensor in inputs if tensor is not None]
    if kind in _BROADCAST and len({t.shape for t in present}) > 1 and rank > 4:
        version = max(version, _BROADCAST[kind])
    if kind == "MUL" and source.type == _I8 and _product_scale(present, outputs) >= 1:
        version = max(version, 3)
    if kind.startswith("RESIZE") and fields.get("HalfPixelCenters"):
        version = max(version, 3)
    if kind == "RESIZE_NEAREST_NEIGHBOR" and fields.get("AlignCorners"):
        version = max(version, 3)
    return version


def _product_scale(inputs: Sequence[OutTensor], outputs: Tensors) -> float:
    quants = [t.quantization for t in (*inputs[:2], outputs[0]) if t is not None]
    if len(quants) != 3 or any(quant is None for quant in quants):
        return 0.0
    a, b, y = (float(quant.s) for quant in quants if quant is not None)
    return a * b / y


def _per_channel(tensor: OutTensor | None) -> bool:
    return (
        tensor is not None
        and tensor.quantization is not None
        and tensor.quantization.is_per_channel
    )


def _is_hybrid(inputs: Tensors) -> bool:
    return _type(inputs, 0) == _F32 and _type(inputs, 1) == _I8


def _convolution(inputs: Tensors, outputs: Tensors, fields: Mapping[str, object]) -> int:
    x, w = inputs[0], inputs[1]
    assert x is not None
    assert w is not None
    if x.shape[3] != w.shape[3]:
        return 6  # grouped
    if _is_hybrid(inputs):
        return 5 if _per_channel(w) else 2
    if w.type == _I4:
        return 7
    return {_I8: 3, _I16: 4}.get(x.type, 1)


def _depthwise(inputs: Tensors, outputs: Tensors, fields: Mapping[str, object]) -> int:
    if _is_hybrid(inputs):
        return 6 if _per_channel(inputs[1]) else 4
    if _type(inputs, 1) == _I4:
        return 7
    dilated = (fields.get("DilationHFactor", 1), fields.get("DilationWFactor", 1)) != (1, 1)
    return {_I8: 3, _I16: 5}.get(_type(inputs, 0) or 0, 2 if dilated else 1)


def _fully_connected(inputs: Tensors, outputs: Tensors, fields: Mapping[str, object]) -> int:
    x, w = _type(inputs, 0), _type(inputs, 1)
    if _is_hybrid(inputs) and _per_channel(inputs[1]):
        return 12
    if x == _I16:
        return 7
    if w == _I4:
        return 10
    if _is_hybrid(inputs) and fields.get("AsymmetricQuantizeInputs"):
        return 9
    if len(inputs) < 3 or inputs[2] is None:
        return 6
    if fields.get("KeepNumDims"):
        return 5
    if x == _I8:
        return 4
    return 3 if _is_hybrid(inputs) else 1


def _transpose_conv(inputs: Tensors, outputs: Tensors, fields: Mapping[str, object]) -> int:
    if fields.get("FusedActivationFunction"):
        return 4
    if len(inputs) > 3 and inputs[3] is not None:
        return 3
    return 2 if _type(inputs, 1) == _I8 else 1
