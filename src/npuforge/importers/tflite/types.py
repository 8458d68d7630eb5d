"""Numbers of the TFLite schema: tensor types and operator names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from npuforge.vocab import DType

# TensorType of the TFLite schema
TENSOR_TYPES: Mapping[int, DType] = {
    0: DType.FLOAT32,
    1: DType.FLOAT16,
    2: DType.INT32,
    3: DType.UINT8,
    4: DType.INT64,
    6: DType.BOOL,
    7: DType.INT16,
    9: DType.INT8,
    17: DType.INT4,
}


RESOURCE = 13
"""TensorType of a handle to a state variable."""


@cache
def _operator_names() -> Mapping[int, str]:
    import tflite

    codes = vars(tflite.BuiltinOperator)
    return {number: name for name, number in codes.items() if isinstance(number, int)}


def operator_name(code: int) -> str:
    """Name of a builtin operator code, as the schema spells it."""
    return _operator_names().get(code, f"BUILTIN_{code}")
