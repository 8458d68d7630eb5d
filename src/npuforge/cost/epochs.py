"""Which nodes share a Neural-ART epoch as far as time depends on it, and what they have to move.

Coarser than `accelerators/neural_art/epochs.py`, which predicts the compiler's epochs operation by
operation: here a node stays whole, in the epoch of its convolution, because the measured times it
is calibrated on are whole nodes'. Units and their limits are that module's.

Counts only (elements, bytes, passes); `neural_art.py` turns them into time. The rules for passes,
blocks and chains were read out of compiled networks and board logs of published networks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from npuforge.accelerators import PlacementKind
from npuforge.accelerators.neural_art.epochs import ACTIV, ARITH, POOL
from npuforge.accelerators.neural_art.lowering import MAX_CHAIN
from npuforge.accelerators.neural_art.operations import KERNELS_1X1, divisor, zero_point
from npuforge.accelerators.neural_art.placement import NpuPlacement, kernel_parts
from npuforge.cost.compiler import Compiler
from npuforge.graph import Graph, Node, macs
from npuforge.graph import attrs as at

DENSE_BLOCK = 8
"""Channels a depthwise convolution is expanded to."""
COEFFICIENTS = 512
"""Channels whose multipliers and biases fit into an ARITH unit's coefficient memory."""
UNITS = {"arith": ARITH, "activ": ACTIV, "pool": POOL}
"""Units of one epoch beside the convolution accelerators."""
MAX_BORDER = 4
"""Rows or columns of padding, both sides together, that a CONVACC unit adds itself."""
STREAMED_BYTES = 17
"""Bytes of streamed multipliers and biases a channel, above `COEFFICIENTS` channels: board log of
MobileNetV2 (43 NPU clocks a channel at 2.5 clocks a byte)."""

CONVOLUTIONS = frozenset(("conv2d", "depthwise_conv2d", "fully_connected", "transpose_conv2d"))
_ACTIVATIONS = frozenset(
    ("logistic", "tanh", "hard_swish", "hard_sigmoid", "leaky_relu", "exp", "erf", "sqrt")
)
_CLAMPS = frozenset(("relu", "relu6", "relu_n1_to_1"))
_AFFINE = frozenset(("add", "sub", "minimum", "maximum", "abs", "neg", "quantize"))


@dataclass(frozen=True)
class EpochWork:
    """What one epoch moves and computes.

    Attributes:
        nodes: graph nodes that share it, the first one leads.
        op: operator of the leading node.
        kind: hardware, hybrid or on the CPU.
        input: elements of the input stream, re-reads counted, over the units that share them.
        output: elements of the longest output or second-operand stream.
        kernel: elements of the kernel stream.
        passes: kernel groups that are loaded one after another.
        flash_bytes: constants read, once.
        channels: output channels whose coefficients the epoch's program carries.
        streamed: outputs whose coefficients are streamed because there are over 512 channels.
        drain: elements that wait in the line buffer at the end of each depthwise frame.
        elements: the largest activation.
        moved_bytes: activation bytes read and written.
        macs: multiply-accumulates.
        wide: the input's zero point forces 16x8-bit mode.
        tensors: activations read from or written to memory, views resolved to what they show.
        is_float: a CPU kernel on floating-point numbers, not counting conversions.
        copied: elements that the NPU's DMA writes in a hybrid epoch; 0 where the CPU moves them.
    """

    nodes: tuple[str, ...]
    op: str
    kind: PlacementKind
    input: float = 0.0
    output: float = 0.0
    kernel: float = 0.0
    passes: int = 1
    flash_bytes: int = 0
    channels: int = 0
    streamed: int = 0
    drain: float = 0.0
    elements: int = 0
    moved_bytes: int = 0
    macs: int = 0
    wide: bool = False
    tensors: tuple[str, ...] = ()
    is_float: bool = False
    copied: int = 0

    @property
    def cpu_op(self) -> str:
        """Name of its CPU kernel in the calibration file."""
        if self.op == "fully_connected" and not self.flash_bytes:
            return "matmul"
        return f"{self.op}_float" if self.is_float else self.op


@dataclass
class _Group:
    """Nodes of one epoch while it grows; `free` counts the units left."""

    nodes: list[Node]
    kind: PlacementKind
    tail: str
    sources: list[str]
    free: dict[str, int] = field(default_factory=lambda: dict(UNITS))


def epoch_works(
    graph: Graph,
    placements: Sequence[NpuPlacement],
    compiler: Compiler,
    *,
    aligned: bool = False,
) -> tuple[EpochWork, ...]:
    """The epochs of a network in execution order of their leading nodes.

    Args:
        graph: the network.
        placements: one a node, as `map_to_npu` gives them.
        compiler: rules of the release that compiles it.
        aligned: take every zero point as one that 8x8-bit mode handles.
    """
    return tuple(
        _work(graph, group, compiler, aligned) for group in _groups(graph, placements, compiler)
    )


def _groups(graph: Graph, placements: Sequence[NpuPlacement], compiler: Compiler) -> list[_Group]:
    alias: dict[str, str] = {}
    readers: dict[str, list[Node]] = {}
    views = _views(graph, placements)
    for node in graph.nodes:
        sources = [alias.get(name, name) for name in node.inputs if name]
        if node.name in views:
            alias[node.outputs[0]] = sources[0]
            continue
        for name in dict.fromkeys(sources):
            readers.setdefault(name, []).append(node)
    kept = {alias.get(name, name) for name in graph.outputs}
    groups: list[_Group] = []
    made: dict[str, _Group] = {}
    for node, placement in zip(graph.nodes, placements, strict=True):
        if node.name in views:
            continue
        sources = [alias.get(name, name) for name in node.inputs if name]
        host = None
        if placement.kind is PlacementKind.HARDWARE:
            host = _host(graph, node, sources, made, readers, kept, compiler)
        if host is None:
            host = _Group([node], placement.kind, node.outputs[0], [])
            groups.append(host)
        else:
            host.nodes.append(node)
            host.tail = node.outputs[0]
        _take(host, _needs(graph, node, compiler))
        host.sources.extend(sources)
        for name in node.outputs:
            made[name] = host
    return groups


def _views(graph: Graph, placements: Sequence[NpuPlacement]) -> set[str]:
    """Nodes that cost nothing: views, and borders that the convolution behind them adds itself."""
    found = {p.node for p in placements if p.kind is PlacementKind.VIEW}
    for node in graph.nodes:
        if node.op != "pad":
            continue
        behind = graph.consumers.get(node.outputs[0], ())
        before, after = graph.tensor(node.inputs[0]).shape, graph.output_tensors(node)[0].shape
        small = len(before) == 4 and all(
            b - a <= MAX_BORDER for a, b in zip(before, after, strict=True)
        )
        if behind and small and all(reader.op in CONVOLUTIONS for reader in behind):
            found.add(node.name)
    return found


def _take(group: _Group, needs: dict[str, int]) -> None:
    for unit, count in needs.items():
        group.free[unit] -= count


def _host(
    graph: Graph,
    node: Node,
    sources: list[str],
    made: dict[str, _Group],
    readers: dict[str, list[Node]],
    kept: set[str],
    compiler: Compiler,
) -> _Group | None:
    """The open epoch that can take a node: it makes the node's input and nobody else reads it."""
    needs = _needs(graph, node, compiler)
    if node.op in CONVOLUTIONS or not needs:
        return None
    for name in reversed(sources):
        group = made.get(name)
        if group is None or group.kind is not PlacementKind.HARDWARE or name in kept:
            continue
        others = [reader for reader in readers[name] if reader is not node]
        swish = node.op == "mul" and all(reader in group.nodes for reader in others)
        opens_swish = (
            node.op in _ACTIVATIONS and len(others) == 1 and _is_swish(node, others[0], readers)
        )
        if group.tail != name and not swish:
            continue
        if others and not swish and not opens_swish:
            continue
        if opens_swish:
            pair = dict(needs)
            for unit, count in _needs(graph, others[0], compiler).items():
                pair[unit] = pair.get(unit, 0) + count
            if any(group.free[unit] < count for unit, count in pair.items()):
                continue
        if any(group.free[unit] < count for unit, count in needs.items()):
            continue
        lead = group.nodes[0]
        if lead.op not in CONVOLUTIONS or lead.op == "fully_connected":
            continue
        if node.op == "mean" and compiler.split_pointwise_mean and _pointwise(graph, lead):
            continue
        return group
    return None


def _is_swish(gate: Node, product: Node, readers: dict[str, list[Node]]) -> bool:
    return product.op == "mul" and readers.get(gate.outputs[0], []) == [product]


def _pointwise(graph: Graph, node: Node) -> bool:
    return node.op == "conv2d" and graph.tensor(node.inputs[1]).shape[1:3] == (1, 1)


def _needs(graph: Graph, node: Node, compiler: Compiler) -> dict[str, int]:
    """Units a node takes beside the convolution accelerators; empty when it cannot share."""
    if node.op in CONVOLUTIONS:
        output = graph.output_tensors(node)[0]
        if compiler.merged_requantisation and output.shape[-1] <= COEFFICIENTS:
            return {"arith": 1}
        quant = output.quantization
        # Two stages of rescaling, and the step from signed to unsigned behind a rectifier.
        return {"arith": 3 if quant is not None and quant.z == -128 else 2}
    if node.op in _ACTIVATIONS:
        return {"activ": 1}
    if node.op in _CLAMPS:
        return {"activ": 0}
    if node.op == "mul":
        moving = [t for t in graph.input_tensors(node) if t is not None and not t.is_constant]
        # The product and two affine stages for the zero points.
        return {"arith": 3 if len(moving) > 1 else 1}
    if node.op in _AFFINE:
        return {"arith": 1}
    if node.op == "mean":
        return {"pool": 1, "arith": 1}
    if isinstance(node.attrs, at.PoolAttrs):
        # Windows that overlap are read from memory: only disjoint ones were seen in one epoch.
        return {"pool": 1} if tuple(node.attrs.kernel) == tuple(node.attrs.stride) else {}
    return {}


def is_wide(graph: Graph, node: Node) -> bool:
    """Zero points other than -128 and 0 need 16x8-bit mode."""
    if node.op not in ("conv2d", "depthwise_conv2d", "fully_connected"):
        return False
    return zero_point(graph.tensor(node.inputs[0])) not in (-128, 0)


def _work(graph: Graph, group: _Group, compiler: Compiler, aligned: bool) -> EpochWork:
    lead = group.nodes[0]
    inside = {name for node in group.nodes for name in node.outputs}
    read, written, flash = 0, 0, 0
    largest, side = 0, 0
    for node in group.nodes:
        for tensor in graph.input_tensors(node):
            if tensor is None:
                continue
            if tensor.is_constant:
                if node.op not in CONVOLUTIONS:
                    flash += tensor.nbytes
                continue
            largest = max(largest, tensor.size)
            if tensor.name not in inside:
                read += tensor.nbytes
                side = max(side, tensor.size if node is not lead else 0)
        for tensor in graph.output_tensors(node):
            largest = max(largest, tensor.size)
            side = max(side, tensor.size)
            written += tensor.nbytes if tensor.name == group.tail or node is group.nodes[-1] else 0
    wide = is_wide(graph, lead) and not aligned
    shape = _convolution(graph, lead, compiler, wide)
    return EpochWork(
        nodes=tuple(node.name for node in group.nodes),
        op=lead.op,
        kind=group.kind,
        input=shape.input if shape else float(max(largest, 1)),
        output=max(shape.output if shape else 0.0, float(side)),
        kernel=shape.kernel if shape else 0.0,
        passes=shape.passes if shape else 1,
        flash_bytes=flash + (shape.flash_bytes if shape else 0),
        channels=shape.channels if shape else 0,
        streamed=shape.streamed if shape else 0,
        drain=shape.drain if shape else 0.0,
        elements=largest,
        moved_bytes=read + written,
        macs=sum(macs(graph, node) for node in group.nodes),
        wide=wide,
        tensors=_tensors(graph, group, inside),
        is_float=_is_float(graph, lead),
        copied=_copied(graph, lead) if group.kind is PlacementKind.HYBRID else 0,
    )


def _copied(graph: Graph, node: Node) -> int:
    """Elements a hybrid epoch leaves to the NPU's DMA: all but a transpose's, which the CPU moves.

    Board logs of YOLOv8n and YOLO11n at 224 x 224: copies, concats and resizes have epochs of their
    own inside a hybrid one, two long hybrid epochs (the transposes of the heads) have none.
    """
    return 0 if node.op == "transpose" else sum(t.size for t in graph.output_tensors(node))


def _is_float(graph: Graph, node: Node) -> bool:
    if node.op in ("quantize", "dequantize"):
        return False
    return any(t.dtype.is_float for t in graph.output_tensors(node))


def _tensors(graph: Graph, group: _Group, inside: set[str]) -> tuple[str, ...]:
    """Memory operands of an epoch."""
    names = dict.fromkeys(name for name in group.sources if name not in inside)
    names.update(dict.fromkeys((group.tail, *group.nodes[-1].outputs)))
    return tuple(name for name in names if not graph.tensor(name).is_constant)


@dataclass(frozen=True)
class _Convolution:
    """Streams of one convolution; names as in `EpochWork`."""

    input: float
    output: float
    kernel: float
    passes: int
    flash_bytes: int
    channels: int
    streamed: int
    drain: float = 0.0


def _convolution(graph: Graph, node: Node, compiler: Compiler, wide: bool) -> _Convolution | None:
    """Streams of a convolution; None for other operators.

    max(input re-reads / (units * depth), outputs, kernel bytes / depth): the formula that
    reproduces 177 of 198 convolution epochs in the compiler's reports.
    """
    if node.op not in CONVOLUTIONS:
        return None
    weights = graph.tensor(node.inputs[1])
    if not weights.is_constant:
        return None
    out = graph.output_tensors(node)[0]
    count = out.shape[-1]
    channels = min(count, COEFFICIENTS) if count <= COEFFICIENTS else 0
    streamed = 0 if channels else out.size
    flash = weights.nbytes + (0 if channels else count * STREAMED_BYTES)
    if node.op == "fully_connected":
        inputs = weights.shape[1]
        rows = max(1, graph.tensor(node.inputs[0]).size // max(inputs, 1))
        return _Convolution(
            rows * inputs * count / KERNELS_1X1,
            float(out.size),
            inputs * count / (1 if wide else 3),
            math.ceil(count / KERNELS_1X1),
            flash,
            channels,
            0,
        )
    if node.op == "transpose_conv2d" or not isinstance(node.attrs, at.ConvAttrs):
        source = graph.tensor(node.inputs[0])
        taps = math.prod(weights.shape[1:3])
        reads = source.size * math.ceil(count / DENSE_BLOCK) / MAX_CHAIN
        return _Convolution(
            max(reads, float(source.size)),
            float(out.size),
            float(count * source.shape[-1] * taps),
            math.ceil(count / DENSE_BLOCK),
            flash,
            channels,
            streamed,
        )
    _, height, width, depth = graph.tensor(node.inputs[0]).shape
    kernel = (weights.shape[1], weights.shape[2])
    parts = len(kernel_parts(kernel, node.attrs.stride[1]))
    if node.op == "depthwise_conv2d":
        dense = DENSE_BLOCK if not compiler.plain_depthwise or not channels else 1
        frames = math.ceil(count / DENSE_BLOCK)
        padded = node.attrs.stride[0] == 1 and kernel[0] > 1
        return _Convolution(
            float(height * width * depth * parts),
            float(out.size * parts),
            float(count * DENSE_BLOCK * math.prod(kernel)),
            frames,
            flash + (dense - 1) * weights.nbytes,
            channels,
            streamed,
            float(frames * width * DENSE_BLOCK) if padded else 0.0,
        )
    grouped = depth // node.attrs.groups
    deep = 1
    if kernel == (1, 1):
        kernels = divisor(count, KERNELS_1X1)
        deep = 1 if wide or grouped < 3 else 3
        units = 1 if grouped < 64 else 2 if grouped <= 256 else MAX_CHAIN
        if wide:
            units = min(MAX_CHAIN, max(1, grouped // DENSE_BLOCK))
    else:
        kernels = 4 if wide else 8
        # The parts of a split kernel run on units of their own.
        units = min(MAX_CHAIN, parts * max(1, grouped // DENSE_BLOCK))
    passes = math.ceil(count / kernels)
    return _Convolution(
        height * width * passes * grouped * parts / (units * deep),
        # One output a clock: the parts of a split kernel are added on their way out.
        float(out.size),
        count * grouped * math.prod(kernel) / deep,
        passes,
        flash,
        channels,
        streamed,
    )
