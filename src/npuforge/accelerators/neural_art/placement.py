"""What ST's compiler does with a node on Neural-ART: one rule an object, first match wins.

The words of a rule (message with the offending numbers, remedy) are in `messages/*/placement.toml`
under its id. Evidence is named per rule: `compiled` was seen in compiled networks
(mobilenet_v1_025, movenet, yolox_nano, deeplab_v3 of ST's getting-started projects) or in published
compile reports (`benchmarks/public_epochs.csv` lists them), `documented` is ST's operator table
only, `conflict` means that sources differ and the more pessimistic one is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from npuforge.accelerators.protocol import PlacementKind
from npuforge.graph import Graph, Node, Tensor, is_view
from npuforge.graph import attrs as at
from npuforge.vocab import DType

Params = Mapping[str, object]
Check = Callable[[Graph, Node], "Params | None"]


class Confidence(StrEnum):
    """How well a rule is founded."""

    COMPILED = "compiled"
    DOCUMENTED = "documented"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class Rule:
    """One placement rule.

    Attributes:
        code: id, and key of its message and remedy.
        kind: where a node runs that matches.
        check: the numbers of its message when a node matches, else None.
        confidence: how well it is founded.
        hybrid_epochs: C-helper epochs that one match adds.
        software_epochs: CPU epochs that one match adds.
        each: whether the CPU epochs count for each of the message's `count`.
    """

    code: str
    kind: PlacementKind
    check: Check
    confidence: Confidence = Confidence.DOCUMENTED
    hybrid_epochs: int = 0
    software_epochs: int = 0
    each: bool = False


@dataclass(frozen=True)
class NpuPlacement:
    """Where Neural-ART's compiler puts one node, and why.

    Attributes:
        node: name of the graph node.
        kind: where it runs.
        rule: id of the rule, key of message and remedy.
        params: numbers of the message.
        confidence: how well the rule is founded.
        hybrid_epochs: C-helper epochs.
        software_epochs: CPU epochs.
    """

    node: str
    kind: PlacementKind
    rule: str
    params: Params = field(default_factory=dict)
    confidence: Confidence = Confidence.DOCUMENTED
    hybrid_epochs: int = 0
    software_epochs: int = 0

    @property
    def is_fallback(self) -> bool:
        """Whether the node leaves the NPU's own program."""
        return self.kind not in (PlacementKind.HARDWARE, PlacementKind.VIEW)


HARDWARE_OPS = frozenset(
    (
        *("conv2d", "depthwise_conv2d", "fully_connected", "matmul"),
        *("add", "sub", "mul", "div", "minimum", "maximum", "power", "abs", "neg", "square"),
        *("relu", "relu6", "relu_n1_to_1", "leaky_relu", "hard_swish", "hard_sigmoid"),
        *("logistic", "tanh", "exp", "erf", "sqrt", "average_pool2d", "max_pool2d", "mean"),
        *("reduce_max", "transpose", "concat", "split", "slice", "pad", "quantize", "resize"),
        "prelu",
    )
)
"""Operators that Neural-ART's units take (ST's operator table, STEdgeAI documentation)."""

_INTEGER_KERNELS = frozenset(("gather", "arg_max", "arg_min", "l2_normalization", "log_softmax"))
_WEIGHTED = frozenset(("conv2d", "depthwise_conv2d", "transpose_conv2d", "fully_connected"))
MAX_RANK = 4
MAX_DIM = 65_535
CONV_ROWS = 3
CONV_COLUMNS = {1: 6, 2: 12}
"""Largest kernel one CONVACC pass takes: rows, and columns by stride (1, or 2 and more)."""
PASS_CHANNELS = 128
"""Most input channels of a 1x1 convolution that one unit takes in one pass."""
_SPREAD_STRIDES = frozenset((3,))
"""Strides that were seen to become space to depth; 1 and 2 are the units' own, 4 is documented."""


def split(size: int, limit: int) -> tuple[int, ...]:
    """Parts of at most `limit`, full parts first.

    >>> split(7, 3), split(5, 3), split(7, 6)
    ((3, 3, 1), (3, 2), (6, 1))
    """
    return tuple(min(limit, size - at) for at in range(0, size, limit))


def kernel_parts(kernel: tuple[int, int], stride: int) -> tuple[tuple[int, int], ...]:
    """The passes of a kernel (rows, columns): greedy, so 5 x 5 is 3 x 5 then 2 x 5."""
    width = CONV_COLUMNS[1 if stride == 1 else 2]
    columns = split(kernel[1], width)
    return tuple((rows, cols) for rows in split(kernel[0], CONV_ROWS) for cols in columns)


def _activations(graph: Graph, node: Node) -> list[Tensor]:
    inputs = [t for t in graph.input_tensors(node) if t is not None and not t.is_constant]
    return [*inputs, *graph.output_tensors(node)]


def _view(graph: Graph, node: Node) -> Params | None:
    return {} if is_view(node) else None


def _boundary(graph: Graph, node: Node) -> Params | None:
    if node.op not in ("quantize", "dequantize"):
        return None
    if not any(t.dtype.is_float for t in _activations(graph, node)):
        return None
    source, out = node.inputs[0], node.outputs[0]
    if source not in graph.inputs and out not in graph.outputs:
        return None
    return {"tensor": source if node.op == "quantize" else out}


def _float(graph: Graph, node: Node) -> Params | None:
    for tensor in _activations(graph, node):
        if tensor.dtype.is_float:
            return {"op": node.op, "tensor": tensor.name, "dtype": str(tensor.dtype)}
    return None


def _dtype(graph: Graph, node: Node) -> Params | None:
    allowed = {DType.INT8, DType.UINT8} if node.op == "quantize" else {DType.INT8}
    for tensor in _activations(graph, node):
        if tensor.dtype not in allowed:
            return {"op": node.op, "tensor": tensor.name, "dtype": str(tensor.dtype)}
    return None


def _rank(graph: Graph, node: Node) -> Params | None:
    for tensor in _activations(graph, node):
        if len(tensor.shape) > MAX_RANK:
            return {"tensor": tensor.name, "rank": len(tensor.shape), "limit": MAX_RANK}
    return None


def _dim(graph: Graph, node: Node) -> Params | None:
    for tensor in _activations(graph, node):
        if tensor.shape and max(tensor.shape) > MAX_DIM:
            return {"tensor": tensor.name, "dim": max(tensor.shape), "limit": MAX_DIM}
    return None


def _dynamic_operand(graph: Graph, node: Node) -> Params | None:
    if node.op not in _WEIGHTED and node.op != "matmul":
        return None
    operands = graph.input_tensors(node)
    moving = [t for t in operands[1:2] if t is not None and not t.is_constant]
    if node.op == "matmul" and operands[0] is not None and operands[0].is_constant:
        moving = []
    return {"op": node.op, "tensor": moving[0].name} if moving else None


def _op(*ops: str) -> Check:
    def check(graph: Graph, node: Node) -> Params | None:
        return {"op": node.op} if node.op in ops else None

    return check


def _resize(mode: at.ResizeMode) -> Check:
    def check(graph: Graph, node: Node) -> Params | None:
        if not isinstance(node.attrs, at.ResizeAttrs) or node.attrs.mode is not mode:
            return None
        source = graph.tensor(node.inputs[0]).shape
        return {"source": f"{source[1]}x{source[2]}", "size": "x".join(map(str, node.attrs.size))}

    return check


def _other_resize(graph: Graph, node: Node) -> Params | None:
    if not isinstance(node.attrs, at.ResizeAttrs):
        return None
    known = (at.ResizeMode.NEAREST, at.ResizeMode.BILINEAR)
    return None if node.attrs.mode in known else {"mode": str(node.attrs.mode)}


def _concat(graph: Graph, node: Node) -> Params | None:
    """A concat of pieces with different numbers of channels.

    With three axes the second one is the compiler's channel axis: the joined boxes and scores of
    detection heads (nine concats of five compiled networks; one with a last axis of 1 stayed in
    hardware).
    """
    if not isinstance(node.attrs, at.ConcatAttrs):
        return None
    shape = graph.output_tensors(node)[0].shape
    rank = len(shape)
    axis = node.attrs.axis % rank
    if (rank, axis) != (MAX_RANK, 3) and not ((rank, axis) == (3, 1) and shape[2] > 1):
        return None
    channels = [t.shape[axis] for t in graph.input_tensors(node) if t is not None]
    if len(set(channels)) == 1:
        return None
    return {"channels": " + ".join(map(str, channels))}


def _dilated(graph: Graph, node: Node) -> Params | None:
    if not isinstance(node.attrs, at.ConvAttrs) or max(node.attrs.dilation) == 1:
        return None
    return {"dilation": "x".join(map(str, node.attrs.dilation))}


_LAYOUTS = ((0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 2), (0, 2, 1))
"""Orders of axes that only change between channels first and channels last."""


def _border_transpose(graph: Graph, node: Node) -> Params | None:
    """A change of layout of the network's own input or output.

    Evidence: a float network output in channels first has no epoch for it (an audio network).
    """
    if not isinstance(node.attrs, at.TransposeAttrs) or node.attrs.perm not in _LAYOUTS:
        return None
    source, out = node.inputs[0], node.outputs[0]
    if source in graph.inputs and len(graph.consumers[source]) == 1:
        return {"tensor": source}
    if out in graph.outputs and not graph.consumers.get(out):
        return {"tensor": out}
    return None


def _channel_pad(graph: Graph, node: Node) -> Params | None:
    if not isinstance(node.attrs, at.PadAttrs):
        return None
    rank = len(graph.tensor(node.inputs[0]).shape)
    added = node.attrs.before[-1] + node.attrs.after[-1]
    return {"count": added} if rank == MAX_RANK and added else None


def _scaled_channel_pad(graph: Graph, node: Node) -> Params | None:
    """A pad of channels whose result is only requantised: that unit writes it transposed back.

    Evidence: three pads of a face mesh; of 17 pads that an addition reads none.
    """
    params, out = _channel_pad(graph, node), node.outputs[0]
    readers = graph.consumers.get(out, ())
    scaled = bool(readers) and all(r.op == "quantize" and not _float(graph, r) for r in readers)
    return params if params is not None and scaled and out not in graph.outputs else None


def _wide_stride(graph: Graph, node: Node) -> Params | None:
    """A stride above the units': space to depth comes first."""
    if node.op != "conv2d" or not isinstance(node.attrs, at.ConvAttrs):
        return None
    stride = node.attrs.stride
    return {"stride": f"{stride[0]}x{stride[1]}"} if max(stride) in _SPREAD_STRIDES else None


def _one_value(graph: Graph, node: Node) -> Params | None:
    """A convolution that reads one number: the outer half of a gate squeezed to one channel."""
    source = graph.tensor(node.inputs[0]) if node.op == "conv2d" else None
    return {"tensor": source.name} if source is not None and source.size == 1 else None


def _prime_channels(graph: Graph, node: Node) -> Params | None:
    """A 1x1 convolution over more channels than one pass takes that divide into no equal parts."""
    if node.op != "conv2d" or graph.tensor(node.inputs[1]).shape[1:3] != (1, 1):
        return None
    channels = graph.tensor(node.inputs[0]).shape[-1]
    if channels <= PASS_CHANNELS or any(channels % n == 0 for n in range(2, PASS_CHANNELS + 1)):
        return None
    return {"channels": channels, "limit": PASS_CHANNELS}


def _moving_slope(graph: Graph, node: Node) -> Params | None:
    slope = graph.tensor(node.inputs[1]) if node.op == "prelu" else None
    return {"tensor": slope.name} if slope is not None and not slope.is_constant else None


def _transpose(graph: Graph, node: Node) -> Params | None:
    if not isinstance(node.attrs, at.TransposeAttrs):
        return None
    perm, shape = node.attrs.perm, graph.tensor(node.inputs[0]).shape
    moved = [axis for axis in perm if shape[axis] != 1]
    if moved == sorted(moved) or perm in _LAYOUTS:
        return None
    return {"perm": " ".join(map(str, perm))}


def _transpose_conv(graph: Graph, node: Node) -> Params | None:
    if not isinstance(node.attrs, at.TransposeConvAttrs) or _float_outside_island(graph, node):
        return None
    return {"stride": "x".join(map(str, node.attrs.stride))}


def _flat_slice(graph: Graph, node: Node) -> Params | None:
    rank = len(graph.tensor(node.inputs[0]).shape)
    if node.op not in ("slice", "split") or rank == MAX_RANK:
        return None
    return {"op": node.op, "rank": rank}


def _heads(graph: Graph, node: Node) -> int:
    """Matrix products that a product of two activations consists of."""
    return math.prod(graph.output_tensors(node)[0].shape[:-2])


def _many_heads(graph: Graph, node: Node) -> Params | None:
    params = _dynamic_operand(graph, node)
    count = _heads(graph, node) if params is not None and node.op == "matmul" else 1
    return None if params is None or count == 1 else {**params, "count": count}


def _wide_depthwise(graph: Graph, node: Node) -> Params | None:
    if node.op != "depthwise_conv2d" or not isinstance(node.attrs, at.ConvAttrs):
        return None
    height, width = graph.tensor(node.inputs[1]).shape[1:3]
    parts = kernel_parts((height, width), node.attrs.stride[1])
    narrow = [cols for _, cols in parts if cols < CONV_COLUMNS[1]]
    if width <= CONV_COLUMNS[1 if node.attrs.stride[1] == 1 else 2] or not narrow:
        return None
    return {"kernel": f"{height}x{width}", "count": len(narrow)}


def _foldable(graph: Graph, node: Node) -> bool:
    """Whether float arithmetic with constants can be folded between two quantised tensors."""
    if node.op not in ("mul", "add", "div", "transpose_conv2d"):
        return False
    first, second = graph.input_tensors(node)[:2]
    if first is None or second is None or first.is_constant:
        return False
    return second.is_constant


def _before(graph: Graph, node: Node) -> bool:
    """Whether a chain of foldable nodes leads back to a dequantize."""
    while node.op != "dequantize":
        producer = graph.producers.get(node.inputs[0] or "")
        if producer is None or not (producer.op == "dequantize" or _foldable(graph, producer)):
            return False
        node = producer
    return True


def _after(graph: Graph, node: Node) -> bool:
    """Whether all readers are foldable up to a quantize."""
    if node.op == "quantize":
        return True
    readers = graph.consumers.get(node.outputs[0], ())
    kept = node.outputs[0] not in graph.outputs and bool(readers)
    return kept and all(
        reader.op == "quantize" or (_foldable(graph, reader) and _after(graph, reader))
        for reader in readers
    )


def _island(graph: Graph, node: Node) -> Params | None:
    """Float arithmetic with constants between a dequantize and a quantize."""
    if node.op in ("quantize", "dequantize"):
        inside = graph.producers.get(node.inputs[0] or "") if node.op == "quantize" else node
        if inside is None or not (inside.op == "dequantize" or _foldable(graph, inside)):
            return None
    elif not _foldable(graph, node) or not _float(graph, node):
        return None
    return {"op": node.op} if _before(graph, node) and _after(graph, node) else None


def _float_outside_island(graph: Graph, node: Node) -> bool:
    return _float(graph, node) is not None and _island(graph, node) is None


def _not_constant(op: str) -> Check:
    def check(graph: Graph, node: Node) -> Params | None:
        if node.op != op:
            return None
        operand = graph.tensor(node.inputs[1])
        return None if operand.is_constant else {"tensor": operand.name}

    return check


def _reduction(graph: Graph, node: Node) -> Params | None:
    if node.op not in ("mean", "reduce_max") or not isinstance(node.attrs, at.ReduceAttrs):
        return None
    rank = len(graph.tensor(node.inputs[0]).shape)
    axes = tuple(sorted(axis % rank for axis in node.attrs.axes))
    if rank == MAX_RANK and axes == (1, 2):
        return None
    return {"op": node.op, "axes": " ".join(map(str, axes)), "rank": rank}


def _unlisted(graph: Graph, node: Node) -> Params | None:
    return None if node.op in HARDWARE_OPS else {"op": node.op}


def _split_kernel(graph: Graph, node: Node) -> Params | None:
    if node.op not in ("conv2d", "depthwise_conv2d") or not isinstance(node.attrs, at.ConvAttrs):
        return None
    height, width = graph.tensor(node.inputs[1]).shape[1:3]
    parts = kernel_parts((height, width), node.attrs.stride[1])
    if len(parts) == 1:
        return None
    listed = ", ".join(f"{rows}x{columns}" for rows, columns in parts)
    return {"kernel": f"{height}x{width}", "count": len(parts), "parts": listed}


def _any(graph: Graph, node: Node) -> Params | None:
    return {}


_INT, _FLT = PlacementKind.CPU_INTEGER, PlacementKind.CPU_FLOAT
_HW, _HYB = PlacementKind.HARDWARE, PlacementKind.HYBRID
_SEEN, _CONFLICT = Confidence.COMPILED, Confidence.CONFLICT

RULES: tuple[Rule, ...] = (
    Rule("MAP-npu-view", PlacementKind.VIEW, _view, _SEEN),
    Rule("MAP-npu-transpose-conv", _HYB, _transpose_conv, _SEEN, hybrid_epochs=2),
    Rule("MAP-npu-border-transpose", PlacementKind.VIEW, _border_transpose, _SEEN),
    Rule("MAP-npu-island", _HW, _island, _SEEN),
    Rule("MAP-npu-float-io", _FLT, _boundary, _SEEN, software_epochs=1),
    Rule("MAP-npu-float", _FLT, _float, software_epochs=1),
    Rule("MAP-npu-cpu-kernel", _INT, _op(*sorted(_INTEGER_KERNELS)), software_epochs=1),
    Rule("MAP-npu-unlisted", _FLT, _op("detection_postprocess"), software_epochs=1),
    Rule("MAP-npu-dtype", _INT, _dtype, software_epochs=1),
    Rule("MAP-npu-rank", _INT, _rank, software_epochs=1),
    Rule("MAP-npu-dim", _INT, _dim, software_epochs=1),
    Rule("MAP-npu-heads", _INT, _many_heads, _SEEN, 3, 1, each=True),
    Rule("MAP-npu-operand", _INT, _dynamic_operand, software_epochs=1),
    Rule("MAP-npu-softmax", _INT, _op("softmax"), _SEEN, software_epochs=1),
    Rule("MAP-npu-bilinear", _INT, _resize(at.ResizeMode.BILINEAR), _CONFLICT, software_epochs=1),
    Rule("MAP-npu-nearest", _HYB, _resize(at.ResizeMode.NEAREST), _CONFLICT, hybrid_epochs=1),
    Rule("MAP-npu-resize-mode", _FLT, _other_resize, software_epochs=1),
    Rule("MAP-npu-concat", _HYB, _concat, _SEEN, hybrid_epochs=1),
    Rule("MAP-npu-dilation", _HYB, _dilated, _SEEN, hybrid_epochs=2),
    Rule("MAP-npu-one-value", _INT, _one_value, _SEEN, software_epochs=1),
    Rule("MAP-npu-prime-channels", _INT, _prime_channels, _SEEN, software_epochs=1),
    Rule("MAP-npu-stride", _HYB, _wide_stride, _SEEN, hybrid_epochs=1),
    Rule("MAP-npu-scaled-channel-pad", _HYB, _scaled_channel_pad, _CONFLICT, hybrid_epochs=1),
    Rule("MAP-npu-channel-pad", _HYB, _channel_pad, _CONFLICT, hybrid_epochs=2),
    Rule("MAP-npu-transpose", _HYB, _transpose, _SEEN, hybrid_epochs=1),
    Rule("MAP-npu-slice", _HYB, _flat_slice, _CONFLICT, hybrid_epochs=1),
    Rule("MAP-npu-depthwise-split", _HYB, _wide_depthwise, _SEEN, 0, 3, each=True),
    Rule("MAP-npu-div", _INT, _not_constant("div"), software_epochs=1),
    Rule("MAP-npu-power", _FLT, _not_constant("power"), software_epochs=1),
    Rule("MAP-npu-prelu", _INT, _moving_slope, software_epochs=1),
    Rule("MAP-npu-reduce", _FLT, _reduction, software_epochs=1),
    Rule("MAP-npu-unlisted", _FLT, _unlisted, software_epochs=1),
    Rule("MAP-npu-split", _HW, _split_kernel, _SEEN),
    Rule("MAP-npu-hardware", _HW, _any),
)
"""In the order they are tried; the last one takes every node."""
USER_RULE = Rule("MAP-npu-user", _INT, _any, software_epochs=1)
"""What the user puts on the CPU; never tried by itself."""


def place_node(graph: Graph, node: Node) -> NpuPlacement:
    """The placement of one node by the first rule that matches it."""
    for rule in RULES:
        params = rule.check(graph, node)
        if params is not None:
            times = int(str(params["count"])) if rule.each else 1
            epochs = (rule.hybrid_epochs, rule.software_epochs * times)
            return NpuPlacement(node.name, rule.kind, rule.code, params, rule.confidence, *epochs)
    raise AssertionError("the last rule takes every node")
