"""Reading an ONNX file into plain records."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from npuforge.errors import ModelError, NpuforgeError, UnsupportedError
from npuforge.graph import Array
from npuforge.importers.onnx.external import external_array
from npuforge.importers.onnx.qoperator import expand
from npuforge.importers.onnx.records import AttrValue, RawNode, RawOnnx, RawValue
from npuforge.importers.onnx.sequences import as_images

OPSETS = (11, 23)
"""First and last version of the standard operators that are read."""
MAX_NODES = 65_000


def read_onnx(content: bytes, path: str) -> RawOnnx:
    """Read a whole ONNX file.

    Raises:
        ModelError: not an ONNX file, or a damaged one.
        UnsupportedError: data outside of the file, an unknown opset, or subgraphs.
    """
    try:
        return _read(content, path)
    except NpuforgeError:
        raise
    except Exception as error:  # protobuf and onnx raise many types on damaged files
        reason = f"{type(error).__name__}: {error}"
        raise ModelError("IMP-008", path=path, reason=reason) from None


def _read(content: bytes, path: str) -> RawOnnx:
    import onnx
    from google.protobuf.message import DecodeError

    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        model.Clear()
    if not model.HasField("graph") or not model.opset_import:
        raise ModelError("IMP-007", path=path, start=repr(content[:8]))
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    opset = max(versions, default=0)
    if not OPSETS[0] <= opset <= OPSETS[1]:
        raise UnsupportedError("IMP-034", path=path, version=opset, low=OPSETS[0], high=OPSETS[1])
    graph = model.graph
    if len(graph.node) > MAX_NODES or graph.sparse_initializer:
        raise ModelError("IMP-008", path=path, reason=f"{len(graph.node)} nodes")
    constants = {item.name: _array(item, path) for item in graph.initializer}
    nodes = []
    for index, node in enumerate(graph.node):
        attrs = {item.name: _attribute(item, node, path) for item in node.attribute}
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            constants[node.output[0]] = _constant(attrs)
            continue
        name = node.name or f"{node.op_type}_{index}"
        nodes.append(
            RawNode(
                index,
                name,
                node.op_type,
                "" if node.domain == "ai.onnx" else node.domain,
                tuple(node.input),
                tuple(node.output),
                attrs,
            )
        )
    inputs = tuple(_value(item) for item in graph.input if item.name not in constants)
    outputs = tuple(_value(item) for item in graph.output)
    raw = RawOnnx(graph.name, opset, tuple(nodes), constants, inputs, outputs)
    return as_images(expand(raw))


# Numbers of onnx.proto3, because a name of the library costs an import in every call.
_EXTERNAL = 1
_FLOAT, _INT, _STRING, _TENSOR, _FLOATS, _INTS, _STRINGS = 1, 2, 3, 4, 6, 7, 8
# Element types that need no conversion, with the field that holds them when it is not raw_data.
_PLAIN_TYPES: dict[int, tuple[type[np.generic], str]] = {
    1: (np.float32, "float_data"),
    2: (np.uint8, "int32_data"),
    3: (np.int8, "int32_data"),
    5: (np.int16, "int32_data"),
    6: (np.int32, "int32_data"),
    7: (np.int64, "int64_data"),
}


def _array(tensor: Any, path: str) -> Array:
    dims = tuple(tensor.dims)
    if min(dims, default=0) < 0 or math.prod(dims) > 1 << 31:
        raise ModelError("IMP-008", path=path, reason=f"{tensor.name} has shape {tensor.dims}")
    if tensor.data_location == _EXTERNAL or tensor.external_data:
        return external_array(tensor, path)
    plain = _PLAIN_TYPES.get(tensor.data_type)
    if plain is not None:
        dtype, field = plain
        if not tensor.HasField("raw_data"):
            return np.array(getattr(tensor, field)).astype(dtype).reshape(dims)
        if sys.byteorder == "little":
            return np.frombuffer(tensor.raw_data, dtype).reshape(dims).copy()
    from onnx import numpy_helper

    array: Array = np.array(numpy_helper.to_array(tensor))
    return array


def _constant(attrs: Mapping[str, AttrValue]) -> Array:
    for key, dtype in (
        ("value", None),
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if key in attrs:
            return np.asarray(attrs[key], dtype)
    raise ValueError("Constant without a numeric value")


def _attribute(item: Any, node: Any, path: str) -> AttrValue:
    if item.type == _INT:
        return int(item.i)
    if item.type == _FLOAT:
        return float(item.f)
    if item.type == _STRING:
        return str(item.s.decode("utf-8", "replace"))
    if item.type == _INTS:
        return tuple(int(v) for v in item.ints)
    if item.type == _FLOATS:
        return tuple(float(v) for v in item.floats)
    if item.type == _STRINGS:
        return tuple(v.decode("utf-8", "replace") for v in item.strings)
    if item.type == _TENSOR:
        return _array(item.t, path)
    place = node.name or (node.output[0] if node.output else "?")
    raise UnsupportedError("IMP-030", path=path, node=place, op=node.op_type)


def _value(item: Any) -> RawValue:
    import onnx

    tensor = item.type.tensor_type
    dtype = "?"
    if tensor.elem_type:
        dtype = str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)))
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(
            d.dim_value if d.HasField("dim_value") else d.dim_param or None
            for d in tensor.shape.dim
        )
    return RawValue(item.name, dtype, shape)
