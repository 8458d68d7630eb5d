"""Facts of a model file, read without judging whether npuforge can compute it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from npuforge.errors import ModelError
from npuforge.importers import read_model_bytes
from npuforge.importers.onnx.proto import messages
from npuforge.importers.tflite.file import RawModel, names_of, read_tflite
from npuforge.importers.tflite.flat import Buffer
from npuforge.importers.tflite.types import operator_name
from npuforge.lint.subject import FileFacts, FileNode, Range

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def read_facts(path: Path) -> FileFacts:
    """Facts of a TFLite or ONNX file.

    Raises:
        UsageError: there is no such file.
        ModelError: it is no model, or damaged.
    """
    content = read_model_bytes(path)
    if content[4:8] == b"TFL3":
        return _tflite(path, read_tflite(content, str(path)), content)
    try:
        return _onnx(path, content)
    except ModelError:
        raise
    except Exception as error:  # protobuf and onnx raise many types on damaged files
        reason = f"{type(error).__name__}: {error}"
        raise ModelError("IMP-008", path=path, reason=reason) from None


# --- TFLite ---


def _tflite(path: Path, model: RawModel, content: bytes) -> FileFacts:
    import tflite

    graph = model.subgraphs[0]
    names = names_of(graph.tensors)
    ends = {*graph.inputs, *graph.outputs}
    free = [
        (names[i], axis, "-1")
        for i in graph.inputs
        if i >= 0
        for axis, n in enumerate(graph.tensors[i].signature)
        if n < 0
    ]
    unsigned = [
        names[t.index]
        for t in graph.tensors
        if t.type == tflite.TensorType.UINT8 and t.data is None and t.index not in ends
    ]
    nodes = [
        FileNode(names[op.outputs[0]] if op.outputs else str(op.index), operator_name(op.code))
        for op in graph.operators
    ]
    ranges = _tflite_ranges(content, len(graph.inputs))
    declared = {names[i]: r for i, r in zip(graph.inputs, ranges, strict=False) if r is not None}
    return FileFacts(
        *(path.name, "tflite", 0, 0, tuple(free), tuple(nodes), tuple(unsigned), declared)
    )


def _tflite_ranges(content: bytes, count: int) -> list[Range | None]:
    """Input ranges by the normalisation that the file's metadata states.

    The metadata is a flatbuffer of its own (TensorFlow Lite metadata schema): ModelMetadata field 3
    subgraph_metadata, SubGraphMetadata 2 input_tensor_metadata, TensorMetadata 4 process_units,
    ProcessUnit 0 options_type and 1 options, NormalizationOptions 0 mean and 1 std. It lies in the
    buffer (Model 4, Buffer 0 data) that an entry of the model's metadata (Model 6, Metadata 0 name
    and 1 buffer) names.
    """
    root = Buffer(content).root()
    for entry in root.tables(6)[:64]:
        if entry.text(0) == "TFLITE_METADATA":
            try:
                data = bytes(root.tables(4)[entry.uint32(1)].bytes(0))
                return _normalisations(data, count)
            except Exception:  # damaged metadata says nothing; the network itself may be sound
                return []
    return []


def _normalisations(data: bytes, count: int) -> list[Range | None]:
    graphs = Buffer(data).root().tables(3)
    tensors = graphs[0].tables(2) if graphs else []
    ranges: list[Range | None] = []
    for number in range(count):
        found: Range | None = None
        for unit in tensors[number].tables(4)[:8] if number < len(tensors) else ():
            options = unit.table(1)
            if unit.uint8(0) == 1 and options is not None:
                mean, std = (options.float32_array(field)[:16].tolist() for field in (0, 1))
                found = normalised(mean, std)
        ranges.append(found)
    return ranges


def normalised(mean: list[float], std: list[float]) -> Range | None:
    """What pixels become by (pixel - mean) / std; pixels are 0..1 when both are small."""
    if not mean or not std or any(s <= 0 for s in std):
        return None
    top = 1.0 if max(*map(abs, mean), *std) <= 1.0 else 255.0
    low = min(-m / s for m, s in zip(mean, std, strict=False))
    high = max((top - m) / s for m, s in zip(mean, std, strict=False))
    return (low, high)


# --- ONNX ---


def _onnx(path: Path, content: bytes) -> FileFacts:
    from google.protobuf.message import DecodeError

    model = messages().ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        model.Clear()
    if not model.HasField("graph"):
        raise ModelError("IMP-007", path=path, start=repr(content[:8]))
    graph = model.graph
    constants = {item.name: item for item in graph.initializer}
    constants |= {n.output[0]: None for n in graph.node if n.op_type == "Constant" and n.output}
    inputs = [item for item in graph.input if item.name not in constants]
    free = [
        (item.name, axis, dim.dim_param or "?")
        for item in inputs
        for axis, dim in enumerate(item.type.tensor_type.shape.dim)
        if not dim.dim_value
    ]
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    metadata = {item.key.lower(): item.value for item in model.metadata_props}
    stated = _stated_range(metadata)
    declared = {} if stated is None else {item.name: stated for item in inputs[:1]}
    return FileFacts(
        *(path.name, "onnx", opset, model.ir_version, tuple(free)),
        *(tuple(_nodes(graph, constants)), tuple(_unsigned(graph, constants)), declared),
    )


def _nodes(graph: Any, constants: Mapping[str, Any]) -> list[FileNode]:
    from onnx import numpy_helper

    dequantized = {name for n in graph.node if n.op_type == "DequantizeLinear" for name in n.output}
    made = []
    for index, node in enumerate(graph.node):
        ends: tuple[int, ...] = ()
        if node.op_type == "Slice" and len(node.input) > 2 and constants.get(node.input[2]):
            array = numpy_helper.to_array(constants[node.input[2]])
            ends = tuple(int(v) for v in array.reshape(-1))
        made.append(
            FileNode(
                node.name or f"{node.op_type}_{index}",
                node.op_type,
                tuple(node.input),
                tuple(bool(name) and name not in constants for name in node.input),
                tuple(name in dequantized for name in node.input),
                {a.name: int(a.i) for a in node.attribute if a.type == 2},
                ends,
            )
        )
    return made


def _unsigned(graph: Any, constants: Mapping[str, Any]) -> list[str]:
    """uint8 tensors that are neither made of an input nor become an output at once."""
    inputs = {item.name for item in graph.input}
    outputs = {item.name for item in graph.output}
    real_outputs = {
        node.input[0]
        for node in graph.node
        if node.op_type == "DequantizeLinear" and outputs & set(node.output)
    }
    found = []
    for node in graph.node:
        if node.op_type != "QuantizeLinear":
            continue
        zero = constants.get(node.input[2]) if len(node.input) > 2 else None
        is_unsigned = zero.data_type == 2 if zero is not None else len(node.input) < 3
        name = node.output[0]
        if is_unsigned and node.input[0] not in inputs and name not in real_outputs | outputs:
            found.append(name)
    return found


def _stated_range(metadata: Mapping[str, str]) -> Range | None:
    """The input range that metadata state: a range, or mean and standard deviation of pixels."""
    for key in ("input_range", "image_range", "range"):
        numbers = [float(n) for n in _NUMBER.findall(metadata.get(key, "").replace("..", " "))]
        if len(numbers) == 2 and numbers[0] < numbers[1]:
            return numbers[0], numbers[1]
    values = []
    for keys in (("mean", "norm_mean", "image_mean"), ("std", "norm_std", "image_std")):
        text = next((metadata[key] for key in keys if key in metadata), "")
        values.append([float(n) for n in _NUMBER.findall(text)])
    found = normalised(values[0], values[1])
    return found if found is not None and np.isfinite(found).all() else None
