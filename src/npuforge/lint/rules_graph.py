"""Rules on the graph: shapes, quantisation, forms that hang."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npuforge.graph import ConvAttrs, Graph, Node, Tensor, is_view
from npuforge.lint.findings import Hit, LintRule
from npuforge.lint.subject import Range, Subject
from npuforge.passes import CHANNEL_AXIS, is_activation_link, is_strided_line
from npuforge.vocab import Contract, DType, Severity

MAX_RANK = 4
REFUSED_RANK = 6
MAX_DIM = 65_535
FEW_LEVELS = 16
"""Steps either side of zero below which a weight channel is called starved."""
STARVED_SHARE = 0.1
"""Share of starved channels from which a layer is named."""
SCORE_LEVELS = 64
"""Steps that scores of 0..1 should have at least."""
BOUNDED = frozenset({"logistic", "softmax", "hard_sigmoid"})
"""Operators whose results lie in 0..1."""
MOVEMENT = frozenset({"reshape", "transpose", "slice", "split", "concat", "quantize", "dequantize"})


def _computed(graph: Graph) -> Iterator[tuple[Node, Tensor]]:
    for node in graph.nodes:
        for tensor in graph.output_tensors(node):
            yield node, tensor


def each_node(subject: Subject) -> Iterator[tuple[Graph, Node]]:
    """All nodes of a graph that can be read."""
    if subject.graph is not None:
        for node in subject.graph.nodes:
            yield subject.graph, node


def _layers(subject: Subject) -> Iterator[tuple[Graph, Node]]:
    """Nodes with weights."""
    return ((graph, node) for graph, node in each_node(subject) if node.op in CHANNEL_AXIS)


def _inputs(subject: Subject) -> Iterator[tuple[Graph, str]]:
    if subject.graph is not None:
        for name in subject.graph.inputs:
            yield subject.graph, name


def _high_rank(subject: Subject) -> Iterator[Hit]:
    for node, tensor in _computed(subject.graph) if subject.graph else ():
        rank = len(tensor.shape)
        if MAX_RANK < rank < REFUSED_RANK and not is_view(node):
            yield tensor.name, {"rank": rank, "limit": MAX_RANK}


def _refused_rank(subject: Subject) -> Iterator[Hit]:
    for _, tensor in _computed(subject.graph) if subject.graph else ():
        if len(tensor.shape) >= REFUSED_RANK:
            yield tensor.name, {"rank": len(tensor.shape), "limit": REFUSED_RANK - 1}


def _dim(subject: Subject) -> Iterator[Hit]:
    graph = subject.graph
    if graph is None:
        return
    tensors = [graph.tensors[n] for n in graph.inputs] + [t for _, t in _computed(graph)]
    for tensor in tensors:
        if tensor.shape and max(tensor.shape) > MAX_DIM:
            yield tensor.name, {"dim": max(tensor.shape), "limit": MAX_DIM}


def _batch(subject: Subject) -> Iterator[Hit]:
    for graph, name in _inputs(subject):
        shape = graph.tensors[name].shape
        if len(shape) >= 3 and shape[0] > 1:
            yield name, {"batch": shape[0]}


def _int16(subject: Subject) -> Iterator[Hit]:
    for _, tensor in _computed(subject.graph) if subject.graph else ():
        if tensor.dtype is DType.INT16 and tensor.quantization is not None:
            yield tensor.name, {}


def _float_model(subject: Subject) -> Iterator[Hit]:
    weighted = list(_layers(subject))
    if weighted and all(g.tensors[n.outputs[0]].dtype.is_float for g, n in weighted):
        yield subject.file.name, {"count": len(weighted)}


def _island(subject: Subject) -> Iterator[Hit]:
    """Float nodes that depend on integer ones and on which integer ones depend."""
    graph = subject.graph
    if graph is None:
        return
    fed: set[str] = set()
    for node in graph.nodes:
        reached = node.op == "dequantize" or any(name in fed for name in node.input_names)
        if reached and all(t.dtype.is_float for t in graph.output_tensors(node)):
            fed.update(node.outputs)
    feeding: set[str] = set()
    for node in reversed(graph.nodes):
        if node.op == "quantize" or any(name in feeding for name in node.outputs):
            feeding.update(n for n in node.input_names if graph.tensors[n].dtype.is_float)
    for node in graph.nodes:
        inside = node.outputs and node.outputs[0] in fed and node.outputs[0] in feeding
        if inside and node.op != "dequantize" and not is_view(node):
            yield node.name, {"op": node.op}


def _missing_scale(subject: Subject) -> Iterator[Hit]:
    for graph, node in _layers(subject):
        tensors = (graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]])
        for tensor in tensors:
            if tensor.dtype in (DType.INT8, DType.UINT8) and tensor.quantization is None:
                yield node.name, {"tensor": tensor.name}


def _hybrid(subject: Subject) -> Iterator[Hit]:
    for graph, node in _layers(subject):
        x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
        if x.dtype.is_float and w.dtype is DType.INT8:
            yield node.name, {"op": node.op}


def _per_tensor_weights(subject: Subject) -> Iterator[Hit]:
    for graph, node in _layers(subject):
        w = graph.tensor(node.inputs[1])
        if w.data is None or w.dtype is not DType.INT8 or w.quantization is None:
            continue
        axis = CHANNEL_AXIS[node.op]
        if w.quantization.is_per_channel or w.shape[axis] < 4:
            continue
        others = tuple(i for i in range(len(w.shape)) if i != axis)
        peaks = np.abs(w.array.astype(np.int64) - w.quant.z).max(axis=others)
        living = peaks[peaks > 0]
        if not living.size:
            continue
        starved = float((living < FEW_LEVELS).mean())
        if starved >= STARVED_SHARE:
            ratio = float(living.max() / living.min())
            yield node.name, {"ratio": f"{ratio:.0f}", "share": f"{starved:.0%}"}


def _asymmetric_weights(subject: Subject) -> Iterator[Hit]:
    for graph, node in _layers(subject):
        w = graph.tensor(node.inputs[1])
        if not w.is_constant or w.dtype is not DType.INT8 or w.quantization is None:
            continue
        if w.quantization.zero_point.any():
            yield node.name, {"zero": int(np.abs(w.quantization.zero_point).max())}


def _bounded(graph: Graph, name: str, depth: int = 12) -> bool:
    """Whether a tensor holds nothing but results between 0 and 1, moved about."""
    node = graph.producers.get(name)
    if node is None or depth == 0:
        return False
    if node.op in BOUNDED:
        return True
    moved = node.op in MOVEMENT
    return moved and all(_bounded(graph, str(n), depth - 1) for n in node.input_names)


def _shared_scale(subject: Subject) -> Iterator[Hit]:
    for graph, node in each_node(subject):
        if node.op != "concat":
            continue
        y = graph.tensors[node.outputs[0]]
        if y.dtype is not DType.INT8 or y.quantization is None:
            continue
        scores = [bool(_bounded(graph, str(name))) for name in node.input_names]
        levels = 1.0 / float(y.quant.s)
        if any(scores) and not all(scores) and levels < SCORE_LEVELS:
            yield node.name, {"scale": f"{float(y.quant.s):.4g}", "levels": f"{levels:.0f}"}


def _concat_scales(subject: Subject) -> Iterator[Hit]:
    for graph, node in each_node(subject):
        if node.op != "concat" or node.contract is Contract.EXACT:
            continue
        y = graph.tensors[node.outputs[0]]
        pieces = [graph.tensors[name] for name in node.input_names]
        other = [
            t
            for t in pieces
            if t.quantization is not None and not t.quantization.same_as(y.quantization)
        ]
        if other and y.quantization is not None:
            ratio = max(float(t.quant.s) for t in pieces) / min(float(t.quant.s) for t in pieces)
            yield node.name, {"count": len(other), "of": len(pieces), "ratio": f"{ratio:.2g}"}


def _hangs_line(subject: Subject) -> Iterator[Hit]:
    for graph, node in each_node(subject):
        if is_strided_line(graph, node):
            assert isinstance(node.attrs, ConvAttrs)
            kernel = graph.tensor(node.inputs[1]).shape[1:3]
            stride = "x".join(map(str, node.attrs.stride))
            yield node.name, {"kernel": f"{kernel[0]}x{kernel[1]}", "stride": stride}


def _hangs_link(subject: Subject) -> Iterator[Hit]:
    for graph, node in each_node(subject):
        if is_activation_link(graph, node):
            yield node.name, {"op": node.op}


def _hangs_seven(subject: Subject) -> Iterator[Hit]:
    for graph, node in each_node(subject):
        if node.op in ("conv2d", "depthwise_conv2d"):
            kernel = graph.tensor(node.inputs[1]).shape[1:3]
            if kernel == (7, 7):
                yield node.name, {}


def _input_layout(subject: Subject) -> Iterator[Hit]:
    for graph, name in _inputs(subject):
        shape = graph.tensors[name].shape
        if len(shape) != 4:
            continue
        first, last = shape[1] in (1, 3), shape[3] in (1, 3)
        first_wanted = subject.file.format == "onnx"
        if first is not last and first is not first_wanted:
            has = "NHWC" if last else "NCHW"
            yield name, {"shape": "x".join(map(str, shape)), "layout": has}


def quantised_range(graph: Graph, name: str) -> Range | None:
    """The real range an input is quantised over: its own, or that of the quantise behind it."""
    tensor = graph.tensors[name]
    if tensor.dtype.is_float:
        readers = graph.consumers.get(name, ())
        found = [n for n in readers if n.op == "quantize"]
        if not found:
            return None
        tensor = graph.tensors[found[0].outputs[0]]
    if tensor.quantization is None or tensor.quantization.axis is not None:
        return None
    return tensor.quant.range_of(tensor.dtype)


def _declared_range(subject: Subject) -> Iterator[Hit]:
    for graph, name in _inputs(subject):
        stated = subject.file.declared.get(name)
        range_ = quantised_range(graph, name)
        if stated is None or range_ is None:
            continue
        overlap = min(stated[1], range_[1]) - max(stated[0], range_[0])
        widest = max(stated[1] - stated[0], range_[1] - range_[0])
        if overlap < 0.6 * widest:
            yield (
                name,
                {
                    "stated": f"{stated[0]:.3g} to {stated[1]:.3g}",
                    "quantised": f"{range_[0]:.3g} to {range_[1]:.3g}",
                },
            )


_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
LIMITS = "ST Edge AI: quantised model support, operator limits"
BOARDS = "third-party board reports, compiler 1.1.3 (ST Edge AI 3.x, 4.0)"
PRACTICE = "integer quantisation practice (Jacob et al., 2018)"

RULES: tuple[LintRule, ...] = (
    LintRule("LINT-rank-refused", _ERROR, "published case E02; " + LIMITS, _refused_rank),
    LintRule("LINT-rank", _WARNING, LIMITS, _high_rank),
    LintRule("LINT-dim", _ERROR, "published case E17; " + LIMITS, _dim),
    LintRule("LINT-batch", _ERROR, LIMITS, _batch),
    LintRule("LINT-int16", _WARNING, LIMITS, _int16),
    LintRule("LINT-float-model", _WARNING, "published cases F01, F04", _float_model),
    LintRule("LINT-float-island", _WARNING, "published cases F02, D18", _island),
    LintRule("LINT-missing-scale", _ERROR, LIMITS, _missing_scale),
    LintRule("LINT-hybrid", _WARNING, LIMITS, _hybrid),
    LintRule("LINT-weights-per-tensor", _WARNING, PRACTICE, _per_tensor_weights),
    LintRule("LINT-weights-zero-point", _WARNING, LIMITS, _asymmetric_weights),
    LintRule("LINT-shared-scale", _WARNING, PRACTICE, _shared_scale),
    LintRule("LINT-concat-scales", _INFO, PRACTICE, _concat_scales),
    LintRule("LINT-hang-strided-depthwise", _ERROR, BOARDS, _hangs_line),
    LintRule("LINT-hang-activation-link", _ERROR, BOARDS, _hangs_link),
    LintRule("LINT-hang-7x7", _WARNING, "benchmark on two boards, ST Edge AI 4.0.0", _hangs_seven),
    LintRule("LINT-input-layout", _INFO, "ONNX and TFLite image conventions", _input_layout),
    LintRule("LINT-input-metadata", _WARNING, "TFLite and ONNX metadata", _declared_range),
)
