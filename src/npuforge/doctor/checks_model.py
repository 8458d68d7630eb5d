"""K20: model files as they are, before any compilation."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any

from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import line_of
from npuforge.doctor.findings import Check, Confidence, Finding, Rule
from npuforge.doctor.project import Artefact, Project
from npuforge.doctor.sources import VENDOR
from npuforge.vocab import Severity

MAX_MODEL = 256 << 20
DEPTHWISE = Rule("K20-depthwise-1d-stride", Severity.ERROR, cases=("A02",), rank=5)
UNSIGNED = Rule("K20-unsigned", Severity.WARNING, cases=("D03",), rank=5)
NARROW = Rule("K20-narrow-range", Severity.WARNING, Confidence.MEDIUM, cases=("D04",), rank=10)
DYNAMIC = Rule("K20-dynamic-shape", Severity.WARNING, cases=("E01",), rank=5)
RANK = Rule("K20-rank", Severity.WARNING, cases=("E02",), rank=5)
IR = Rule("K20-ir-version", Severity.WARNING, cases=("E03",), rank=5)
BIAS = Rule("K20-gemm-bias", Severity.WARNING, cases=("E04",), rank=5)
SHAPES = Rule("K20-shape-inference", Severity.WARNING, cases=("E09",), rank=6)
ALLOW_ZERO = Rule("K20-allowzero", Severity.WARNING, cases=("E15",), rank=5)
OPSET = Rule("K20-opset", Severity.WARNING, cases=("E16",), rank=5)
DIMENSION = Rule("K20-dimension", Severity.WARNING, cases=("E17",), rank=5)
OPTIMISED = Rule("K20-own-export", Severity.WARNING, cases=("E19",), rank=5)
PRODUCT = Rule("K20-product", Severity.WARNING, cases=("F11",), rank=8)
EXCLUDED = Rule("K20-excluded-name", Severity.WARNING, cases=("D08",), rank=8)
RANDOM = Rule("K20-random-calibration", Severity.WARNING, Confidence.MEDIUM, cases=("D04",), rank=9)
TWO_MODELS = Rule("K14-two-models", Severity.INFO, Confidence.LOW, cases=("G09",), rank=50)
SENTINEL = 1 << 31


def _onnx(project: Project) -> Iterator[tuple[Artefact, Any]]:
    def load() -> list[tuple[Artefact, Any]]:
        items = [item for item in project.of(Kind.ONNX) if item.size <= MAX_MODEL]
        if not items:
            return []
        from npuforge.importers.onnx.proto import messages

        found = []
        for item in items:
            model = messages().ModelProto()
            try:
                model.ParseFromString(project.data(item))
            except Exception as error:
                project.note(item, "DOC-004", error)
                continue
            found.append((item, model))
        return found

    yield from project.once("onnx", load)


def _attributes(node: Any) -> Mapping[str, Any]:
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        values[attribute.name] = (
            tuple(attribute.ints) if attribute.type == 7 else
            attribute.i if attribute.type == 2 else None
        )  # fmt: skip
    return values


def _models(project: Project) -> Iterator[Finding]:
    for item, model in _onnx(project):
        if re.search(r"_OE_\d+_\d+_\d+", item.path.name):
            yield OPTIMISED.at(item.at(None, item.path.name))
            continue
        if model.ir_version > 9:
            yield IR.at(item.at(None, f"ir_version {model.ir_version}"), version=model.ir_version)
        for opset in model.opset_import:
            if opset.domain in ("", "ai.onnx") and opset.version > 20:
                yield OPSET.at(item.at(None, f"opset {opset.version}"), version=opset.version)
        yield from _shapes(item, model)
        yield from _nodes(item, model)
    yield from _excluded(project)
    yield from _tflite(project)
    yield from _random(project)
    yield from _twice(project)


def _shapes(item: Artefact, model: Any) -> Iterator[Finding]:
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    for value in graph.input:
        if value.name in constants:
            continue
        dims = value.type.tensor_type.shape.dim
        free = [d.dim_param or "?" for d in dims if not d.HasField("dim_value")]
        if free and dims:
            yield DYNAMIC.at(item.at(None, f"{value.name}: {', '.join(free)}"), tensor=value.name)
    ranks: dict[str, int] = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        ranks[value.name] = len(dims)
        large = next((d.dim_value for d in dims if d.dim_value >= 65536), None)
        if large is not None:
            yield DIMENSION.at(item.at(None, value.name), tensor=value.name, size=large)
    deep = next((name for name, rank in ranks.items() if rank >= 6), None)
    for node in _whole(graph):
        if node.op_type == "Reshape" and deep is None and len(node.input) > 1:
            shape = _values(graph, node.input[1])
            if shape is not None and len(shape) >= 6:
                deep = node.output[0]
    if deep is not None:
        yield RANK.at(item.at(None, deep), tensor=deep)


def _whole(graph: Any) -> Iterator[Any]:
    """Nodes with an output; damaged files have others, which do nothing."""
    return (node for node in graph.node if node.output)


def _values(graph: Any, name: str) -> tuple[int, ...] | None:
    """Values of a small integer constant."""
    for tensor in graph.initializer:
        if tensor.name == name:
            return _integers(tensor)
    for node in _whole(graph):
        if node.op_type == "Constant" and node.output[0] == name and node.attribute:
            return _integers(node.attribute[0].t)
    return None


def _integers(tensor: Any) -> tuple[int, ...] | None:
    import numpy as np

    if tensor.data_type not in (6, 7):
        return None
    if tensor.int64_data:
        return tuple(tensor.int64_data)
    if tensor.int32_data:
        return tuple(tensor.int32_data)
    kind = "<i8" if tensor.data_type == 7 else "<i4"
    raw = tensor.raw_data
    if len(raw) > 4096 or len(raw) % np.dtype(kind).itemsize:
        return None
    return tuple(int(v) for v in np.frombuffer(raw, kind))


_FOLDED = ("Constant", "DequantizeLinear", "QuantizeLinear", "Cast", "Identity", "Transpose")


def _nodes(item: Artefact, model: Any) -> Iterator[Finding]:
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    for node in _whole(graph):
        folded = node.op_type in _FOLDED
        if folded and all(name in constants or not name for name in node.input):
            constants.update(node.output)
    for node in _whole(graph):
        name = node.name or node.output[0]
        attributes = _attributes(node)
        at = item.at(None, f"{node.op_type} {name}")
        if node.op_type == "Conv" and (attributes.get("group") or 1) > 1:
            kernel = attributes.get("kernel_shape") or ()
            strides = attributes.get("strides") or ()
            flat = len(kernel) == 1 or 1 in kernel
            if flat and any(k > 1 for k in kernel) and any(s > 1 for s in strides):
                yield DEPTHWISE.at(at, node=name)
        elif node.op_type == "Gemm" and len(node.input) > 2 and node.input[2]:
            if node.input[2] not in constants:
                yield BIAS.at(at, node=name)
        elif node.op_type == "MatMul" and not set(node.input) & constants:
            yield PRODUCT.at(at, node=name)
        elif node.op_type == "Reshape" and attributes.get("allowzero"):
            yield ALLOW_ZERO.at(at, node=name)
        elif node.op_type == "Einsum":
            yield SHAPES.at(at, node=name)
        elif node.op_type == "Slice" and len(node.input) > 2:
            ends = _values(graph, node.input[2])
            if ends is not None and any(end < 0 or end >= SENTINEL - 1 for end in ends):
                yield SHAPES.at(at, node=name)
        elif node.op_type == "QuantizeLinear":
            yield from _quantised(item, graph, node, name)


def _quantised(item: Artefact, graph: Any, node: Any, name: str) -> Iterator[Finding]:
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    boundary = {value.name for value in (*graph.input, *graph.output)}
    zero = tensors.get(node.input[2]) if len(node.input) > 2 else None
    outer = bool(boundary & {*node.input, *node.output})
    if zero is not None and zero.data_type == 2 and not outer:
        yield UNSIGNED.at(item.at(None, f"QuantizeLinear {name}"), tensor=node.output[0])
    scale = tensors.get(node.input[1]) if len(node.input) > 1 else None
    if scale is not None and scale.data_type == 1 and node.input[0] not in tensors:
        value = _float(scale)
        if value is not None and 0 <= value < 1e-5:
            yield NARROW.at(
                item.at(None, f"QuantizeLinear {name}"), tensor=node.input[0], scale=value
            )


def _float(tensor: Any) -> float | None:
    import numpy as np

    if tensor.float_data:
        return float(tensor.float_data[0])
    if len(tensor.raw_data) == 4:
        return float(np.frombuffer(tensor.raw_data, "<f4")[0])
    return None


_EXCLUDE = re.compile(
    r"(?:nodes_to_exclude|exclude_nodes|excluded_nodes)[\"']?\s*[=:]\s*\[(.*?)\]", re.S
)


def _excluded(project: Project) -> Iterator[Finding]:
    names = {node.name for _, model in _onnx(project) for node in model.graph.node}
    if not names:
        return
    for item in project.of(Kind.SCRIPT, Kind.JSON, Kind.TEXT):
        text = project.text(item) if item.size < 1 << 20 else ""
        for match in _EXCLUDE.finditer(text):
            for name in re.findall(r"[\"']([^\"']+)[\"']", match[1]):
                if name not in names:
                    at = line_of(text, match.start(1) + match[1].find(name))
                    yield EXCLUDED.at(item.at(at, name), name=name)


_NOISE = re.compile(
    r"\b(?:np|numpy)\.random\.\w+\(|\btorch\.rand\w*\(|\btf\.random\.\w+\(|\brng\.(?:normal|random|"
    r"uniform|integers)\("
)
_HEADER = re.compile(r"^[ \t]*(?:def|class)[ \t]+(\w+)[^\n]*", re.MULTILINE)
_FEEDS = re.compile(r"represent|calib|data_?reader|get_next", re.IGNORECASE)


def _random(project: Project) -> Iterator[Finding]:
    """A function that feeds a calibration and makes its data up."""
    for item in project.of(Kind.SCRIPT):
        if item.path.suffix != ".py" or item.size > 1 << 20 or VENDOR.search(item.name):
            continue
        text = project.text(item)
        named, fed = [], []
        for header in _HEADER.finditer(text):
            word = _FEEDS.search(text, header.start(), header.end())
            named.append(header.end(1))
            fed.append(word.end() if word else len(text))
        for match in _NOISE.finditer(text):
            at = match.start()
            before = bisect_right(named, at)
            if any(end <= at for end in fed[max(before - 2, 0) : before]):
                line = line_of(text, at)
                yield RANDOM.at(item.at(line, text.split("\n")[line - 1].strip()))
                break


NEAR = 0.02
"""Share of its size by which a model that was converted again differs from the first at most."""


def _twice(project: Project) -> Iterator[Finding]:
    """Two files of one name and nearly one size: the same model converted twice."""
    seen: dict[str, Artefact] = {}
    for item in project.of(Kind.TFLITE, Kind.ONNX):
        other = seen.setdefault(item.path.name, item)
        if 0 < abs(other.size - item.size) <= NEAR * item.size:
            yield TWO_MODELS.at(
                item.at(None, item.name), other.at(None, other.name),
                name=item.path.name, first=other.size, second=item.size,
            )  # fmt: skip


def _tflite(project: Project) -> Iterator[Finding]:
    for item in project.of(Kind.TFLITE):
        if item.size > MAX_MODEL:
            continue
        try:
            yield from _tflite_file(item, project.data(item))
        except Exception as error:
            project.note(item, "DOC-004", error)


def _tflite_file(item: Artefact, data: bytes) -> Iterator[Finding]:
    import tflite

    from npuforge.importers.tflite.file import read_tflite

    model = read_tflite(data, item.name)
    graph = model.subgraphs[0]
    boundary = {*graph.inputs, *graph.outputs}
    for tensor in graph.tensors[:20_000]:
        if len(tensor.shape) >= 6:
            yield RANK.at(item.at(None, tensor.name), tensor=tensor.name)
        if any(size >= 65536 for size in tensor.shape) and tensor.index in boundary:
            yield DIMENSION.at(
                item.at(None, tensor.name), tensor=tensor.name, size=max(tensor.shape)
            )
        inner = tensor.type == tflite.TensorType.UINT8 and tensor.index not in boundary
        if inner and tensor.quantization is not None and len(tensor.quantization.scale):
            yield UNSIGNED.at(item.at(None, tensor.name), tensor=tensor.name)
            break


CHECKS = (
    Check(
        "model files",
        (
            DEPTHWISE, UNSIGNED, NARROW, DYNAMIC, RANK, IR, BIAS, SHAPES, ALLOW_ZERO, OPSET,
            DIMENSION, OPTIMISED, PRODUCT, EXCLUDED, RANDOM, TWO_MODELS,
        ),
        _models,
    ),
)  # fmt: skip
