"""What a node becomes on Neural-ART: operations of units, with the layout they stream in.

Read off four networks compiled by version 1.1.0 and 1.1.1 of ST's compiler and their programs
(mobilenet_v1_025_96, movenet_lightning_192, yolox_nano_480, deeplab_v3_mnv2_320 of ST's
getting-started projects). A convolution is a chain CONVACC, ARITH (channel scale), ARITH (gain and
offset); version 1.1.3 merges the two ARITH stages. A tensor with zero point -128 that feeds a
convolution is shifted to unsigned by one more ARITH operation for each convolution that reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from npuforge.accelerators.neural_art.lowering import (
    BATCH,
    BATCH_WIDE,
    MAX_CHAIN,
    few_slices,
    slices,
)
from npuforge.accelerators.neural_art.placement import NpuPlacement, kernel_parts
from npuforge.accelerators.protocol import PlacementKind
from npuforge.graph import Graph, Node, Tensor
from npuforge.graph import attrs as at
from npuforge.vocab import Activation

DEEP_CHANNELS = 25
"""Fewest input channels for which deep 1x1 mode was seen (32); 24 and below ran in normal mode."""
NORMAL_PIXELS = 3600
"""Pixels of a map from which four units in normal mode replaced one in deep mode (60 x 60)."""
KERNELS_1X1 = 24
LINE = 2048
"""Elements of a line buffer: width times input channels."""
POOL_WINDOW = 3
TINY_MAP = 3
"""Depthwise convolutions on maps of this width got a copy into batches of 8 first."""


class Part(StrEnum):
    """The part of a node an operation is."""

    SHIFT = "shift"
    """Input to unsigned: zero point -128 to 0."""
    COPY = "copy"
    """Memory to memory in another layout, or several pieces into one tensor."""
    PAD = "pad"
    CROP = "crop"
    CONV = "conv"
    SUM = "sum"
    """Adds the parts of a split kernel."""
    SCALE = "scale"
    OFFSET = "offset"
    ACTIVATION = "activation"
    POOL = "pool"
    ARITH = "arith"
    SOFTWARE = "software"
    HELPER = "helper"
    """C helper that drives the NPU's DMA."""


@dataclass(frozen=True)
class Operation:
    """One use of a unit.

    Attributes:
        node: graph node it belongs to.
        part: what it does.
        reads: values it reads.
        writes: the value it makes.
        convacc: CONVACC units.
        arith: ARITH units.
        activ: ACTIV units.
        pool: POOL units.
        engines: stream engines of its own: weights, and partial sums that go through memory.
        batch: channels of a pixel it wants in its input stream; 0 takes any.
        once: each frame of the input is read once, so that another unit may feed it.
        gives: channels of a pixel in its output stream; 0 passes the input's on.
    """

    node: str
    part: Part
    reads: tuple[str, ...]
    writes: str
    convacc: int = 0
    arith: int = 0
    activ: int = 0
    pool: int = 0
    engines: int = 0
    batch: int = 0
    once: bool = True
    gives: int = 0


def divisor(count: int, limit: int) -> int:
    """The largest divisor of `count` up to `limit`."""
    return next(n for n in range(min(count, limit), 0, -1) if count % n == 0)


@dataclass(frozen=True)
class Convolution:
    """How one convolution is spread over CONVACC units.

    Attributes:
        chain: units that add into one sum.
        passes: turns over the input channels with partial sums kept in between.
        batch: input channels of a pixel for one unit and pass.
        kernels: output channels computed at once.
        deep: 1x1 mode with three channels an element; cannot be fed by another unit.
        parts: pieces of a split kernel.
    """

    chain: int
    passes: int
    batch: int
    kernels: int
    deep: bool
    parts: int


def zero_point(tensor: Tensor) -> int:
    """The zero point of an activation; 0 where it has no quantisation."""
    return 0 if tensor.quantization is None else tensor.quantization.z


def convolution(graph: Graph, node: Node) -> Convolution:
    """The units of a convolution or fully connected node with constant weights."""
    source, weights = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    wide = zero_point(source) not in (-128, 0)
    outputs = graph.output_tensors(node)[0].shape[-1]
    if node.op in ("fully_connected", "matmul"):
        inputs = weights.shape[-1] if node.op == "fully_connected" else weights.shape[0]
        passes, _ = few_slices(inputs, BATCH, 1)
        kernels = divisor(outputs, KERNELS_1X1)
        return Convolution(1, passes, -(-inputs // passes), kernels, True, 1)
    height, width = source.shape[1:3]
    kernel = (weights.shape[1], weights.shape[2])
    stride = node.attrs.stride[1] if isinstance(node.attrs, at.ConvAttrs) else 1
    parts = len(kernel_parts(kernel, stride))
    if node.op == "depthwise_conv2d":
        batch = divisor(source.shape[-1], 8)
        return Convolution(1, 1, batch, min(batch, 4) if wide else batch, False, parts)
    channels = source.shape[-1]
    if kernel == (1, 1):
        kernels = divisor(outputs, KERNELS_1X1)
        deep = not wide and channels >= DEEP_CHANNELS
        slow = -(-channels // 3) > kernels and height * width >= NORMAL_PIXELS
        if deep and not slow:
            passes, chain = slices(channels, BATCH)
        else:
            deep = False
            batch = min(BATCH_WIDE, max(LINE // width, 1))
            passes, chain = slices(channels, batch if channels <= batch else 16)
            if channels > batch and channels % (MAX_CHAIN * BATCH_WIDE) == 0:
                passes, chain = slices(channels, BATCH_WIDE)
        return Convolution(chain, passes, channels // (passes * chain), kernels, deep, 1)
    passes, chain = slices(channels, min(max(LINE // width, 1), BATCH_WIDE))
    kernels = divisor(outputs, 4 if wide else 8)
    return Convolution(chain, passes, channels // (passes * chain), kernels, False, parts)


class _Builder:
    """Collects the operations of a graph."""

    def __init__(self, graph: Graph, merged: bool) -> None:
        self.graph, self.merged = graph, merged
        self.alias: dict[str, str] = {}
        self.found: list[Operation] = []

    def value(self, name: str) -> str:
        """The value that holds a tensor: views and folded nodes pass their input on."""
        while name in self.alias:
            name = self.alias[name]
        return name

    def inputs(self, node: Node) -> list[str]:
        return [n for n in node.input_names if not self.graph.tensors[n].is_constant]

    def add(self, node: Node, part: Part, reads: Sequence[str], writes: str, **units: int) -> str:
        once = bool(units.pop("once", 1))
        self.found.append(
            Operation(node.name, part, tuple(map(self.value, reads)), writes, once=once, **units)
        )
        return writes

    def chain(self, node: Node, source: str, parts: Sequence[tuple[Part, dict[str, int]]]) -> None:
        """Operations one behind the other; the last one writes the node's output."""
        out = node.outputs[0]
        for number, (part, units) in enumerate(parts):
            last = number == len(parts) - 1
            source = self.add(
                node, part, [source], out if last else f"{out}.{part}{number}", **units
            )

    def convolve(self, node: Node, source: str | None = None) -> None:
        """The operations of a convolution that reads `source`, by default the node's input."""
        graph = self.graph
        source = source or self.inputs(node)[0]
        unit = convolution(graph, node)
        if zero_point(graph.tensor(node.inputs[0])) == -128:
            source = self.add(
                node, Part.SHIFT, [source], f"{node.outputs[0]}.{Part.SHIFT}", arith=1
            )
        shape = graph.tensor(node.inputs[0]).shape
        depthwise = node.op == "depthwise_conv2d"
        if depthwise and len(shape) == 4 and shape[2] <= TINY_MAP and shape[-1] > unit.batch:
            source = self.add(node, Part.COPY, [source], f"{node.outputs[0]}.{Part.COPY}")
        outputs = graph.output_tensors(node)[0].shape[-1]
        single = unit.chain == 1 and unit.passes == 1 and not unit.deep and unit.parts == 1
        once = single and ((depthwise and unit.kernels == unit.batch) or outputs == unit.kernels)
        loop = 2 if unit.passes > 1 and len(shape) == 4 and shape[1] * shape[2] > 1 else 0
        steps: list[tuple[Part, dict[str, int]]] = [
            (Part.CONV, {"convacc": min(MAX_CHAIN, unit.chain * unit.parts), "engines": 1 + loop,
                         "batch": unit.batch if single else -1, "once": int(once),
                         "gives": unit.kernels})
        ]  # fmt: skip
        if unit.parts > 1:
            steps.append((Part.SUM, {"arith": unit.parts - 1}))
        if not self.merged:
            steps.append((Part.SCALE, {"arith": 1}))
        steps.append((Part.OFFSET, {"arith": 1}))
        activation = getattr(node.attrs, "activation", Activation.NONE)
        if activation is Activation.RELU:
            steps.append((Part.ACTIVATION, {"activ": 1}))
        self.chain(node, source, steps)

    def pool(self, node: Node) -> None:
        source = self.inputs(node)[0]
        channels = self.graph.tensors[source].shape[-1]
        batch = divisor(channels, 8)
        if not isinstance(node.attrs, at.PoolAttrs):
            self.chain(node, source, [(Part.POOL, {"pool": 1, "batch": batch}),
                                      (Part.ARITH, {"arith": 1})])  # fmt: skip
            return
        large = max(node.attrs.kernel) > POOL_WINDOW
        padded = max(node.attrs.padding) > 0
        steps: list[tuple[Part, dict[str, int]]] = []
        if padded:
            steps += [(Part.COPY, {})] if large and self._smaller_pool(node) else []
            steps.append((Part.PAD, {"convacc": 1, "engines": 1, "batch": 1}))
        turns = max(1, (max(node.attrs.kernel) - 1) // 2) if large else 1
        steps += [(Part.POOL, {"pool": 1})] * turns
        if node.op == "average_pool2d":
            steps.append((Part.ARITH, {"arith": 1}))
        self.chain(node, source, steps)

    def _smaller_pool(self, node: Node) -> bool:
        """Whether a smaller large pool reads the same tensor: it alone reads it directly."""
        own = node.attrs.kernel if isinstance(node.attrs, at.PoolAttrs) else (0, 0)
        return any(
            POOL_WINDOW < max(other.attrs.kernel) < max(own)
            for other in self.graph.consumers[self.inputs(node)[0]]
            if isinstance(other.attrs, at.PoolAttrs)
        )

    def concat(self, node: Node) -> None:
        out = self.graph.output_tensors(node)[0]
        pieces = []
        for number, name in enumerate(self.inputs(node)):
            quant = self.graph.tensors[name].quantization
            if quant is not None and not quant.same_as(out.quantization):
                name = self.add(
                    node, Part.ARITH, [name], f"{out.name}.{Part.ARITH}{number}", arith=1
                )
            pieces.append(name)
        self.add(node, Part.COPY, pieces, out.name, batch=-1)


_ARITH_UNITS = {"mul": 3, "sub": 1, "add": 1, "div": 3, "square": 1, "power": 2}
_ACTIV_OPS = frozenset(
    ("relu", "relu6", "relu_n1_to_1", "leaky_relu", "hard_swish", "hard_sigmoid", "logistic")
)


def operations(
    graph: Graph, placements: Sequence[NpuPlacement], *, merged: bool = False
) -> tuple[Operation, ...]:
    """The operations of every node, in the graph's order.

    Args:
        graph: the network.
        placements: one a node, as `map_to_npu` gives them.
        merged: channel scale and offset are one ARITH operation (compiler version 1.1.3).
    """
    build = _Builder(graph, merged)
    gates = swish_gates(graph) if merged else {}
    for node, placement in zip(graph.nodes, placements, strict=True):
        if placement.kind is PlacementKind.VIEW:
            _pass_on(build, node)
        elif node.name in gates:
            build.alias[node.outputs[0]] = next(node.input_names)
        elif node.name in gates.values():
            source = next(n for n in node.input_names if graph.producers[n].name not in gates)
            build.chain(node, source, [(Part.ACTIVATION, {"activ": 1})])
        elif placement.kind is PlacementKind.HARDWARE:
            _hardware(build, node)
        elif placement.kind is PlacementKind.HYBRID:
            _hybrid(build, node, placement)
        else:
            _on_cpu(build, node, placement)
            for extra in node.outputs[1:]:
                build.alias[extra] = node.outputs[0]
    return tuple(build.found)


def swish_gates(graph: Graph) -> dict[str, str]:
    """Sigmoids that only gate their own input, and the product behind each: x * sigmoid(x).

    Newer compilers make them one activation function.
    """
    found = {}
    for node in graph.nodes:
        readers = graph.consumers.get(node.outputs[0], ()) if node.op == "logistic" else ()
        if len(readers) == 1 and readers[0].op == "mul":
            product = readers[0]
            own = set(product.input_names) == {node.inputs[0], node.outputs[0]}
            if own and node.inputs[0] in graph.producers and node.outputs[0] not in graph.outputs:
                found[node.name] = product.name
    return found


def _pass_on(build: _Builder, node: Node) -> None:
    source = next(iter(build.inputs(node)), None)
    quantize = node.op == "quantize" and source in build.graph.inputs
    if source is None:
        return
    if quantize or (node.op == "dequantize" and node.outputs[0] in build.graph.outputs):
        # Integer inputs and outputs are unsigned at the border: a change of the zero point.
        build.chain(node, source, [(Part.ARITH, {"arith": 1})])
    else:
        build.alias[node.outputs[0]] = source


def _hardware(build: _Builder, node: Node) -> None:
    source = build.inputs(node)[0]
    if node.op in ("conv2d", "depthwise_conv2d", "fully_connected", "matmul"):
        build.convolve(node)
    elif node.op in ("quantize", "dequantize") and _reads_float(build.graph, node):
        build.alias[node.outputs[0]] = source
    elif node.op in ("mean", "average_pool2d", "max_pool2d", "reduce_max"):
        build.pool(node)
    elif node.op == "concat":
        build.concat(node)
    elif node.op == "prelu":
        _prelu(build, node, source)
    elif _costs_nothing(build.graph, node):
        build.alias[node.outputs[0]] = source
    elif node.op in ("pad", "transpose", "slice", "split"):
        build.chain(node, source, [(Part.COPY, {"batch": -1})])
        for extra in node.outputs[1:]:
            build.alias[extra] = node.outputs[0]
    elif node.op in _ACTIV_OPS or (len(build.inputs(node)) == 1 and node.op not in _ARITH_UNITS):
        unit = {"arith": 1} if node.op in ("quantize", "abs", "neg") else {"activ": 1}
        build.chain(node, source, [(Part.ACTIVATION if "activ" in unit else Part.ARITH, unit)])
    else:
        out, units = node.outputs[0], _ARITH_UNITS.get(node.op, 1)
        relu = getattr(node.attrs, "activation", Activation.NONE) is Activation.RELU
        last = f"{out}.{Part.ARITH}" if relu else out
        build.add(node, Part.ARITH, build.inputs(node), last, arith=units)
        if relu:
            build.add(node, Part.ACTIVATION, [last], out, activ=1)


def _prelu(build: _Builder, node: Node, source: str) -> None:
    """Slope times the clipped negative part, added to the positive part.

    Evidence: two compiled networks with 54 of them (a palm detector, a face mesh).
    """
    out = node.outputs[0]
    value = source
    for step in ("clip", "scale", "offset"):
        value = build.add(node, Part.ARITH, [value], f"{out}.{step}", arith=1)
    positive = build.add(node, Part.ACTIVATION, [source], f"{out}.{Part.ACTIVATION}", activ=1)
    build.add(node, Part.ARITH, [value, positive], out, arith=1)


def _reads_float(graph: Graph, node: Node) -> bool:
    """Whether a conversion borders on float: inside the network those that stay are folded."""
    tensors = (*graph.input_tensors(node)[:1], *graph.output_tensors(node))
    return any(t is not None and t.dtype.is_float for t in tensors)


def _costs_nothing(graph: Graph, node: Node) -> bool:
    """Whether the convolutions behind do a pad, or the network's border a transpose."""
    if node.op == "pad":
        readers = graph.consumers.get(node.outputs[0], ())
        return all(reader.op in ("conv2d", "depthwise_conv2d") for reader in readers)
    return node.op == "transpose" and _at_border(graph, node)


def _at_border(graph: Graph, node: Node) -> bool:
    """Whether a transpose only changes the layout of a network input or output."""
    if node.outputs[0] in graph.outputs or node.inputs[0] in graph.inputs:
        return True
    before = graph.producers.get(node.inputs[0] or "")
    after = graph.consumers.get(node.outputs[0], ())
    return (before is not None and before.op == "quantize") or any(
        reader.op == "dequantize" for reader in after
    )


def _on_cpu(build: _Builder, node: Node, placement: NpuPlacement) -> None:
    reads, out = build.inputs(node), node.outputs[0]
    for number in range(placement.hybrid_epochs):
        made = f"{out}.{Part.HELPER}{number}"
        reads = [build.add(node, Part.HELPER, reads, made, batch=-1)]
    for number in range(1, placement.software_epochs):
        made = f"{out}.{Part.SOFTWARE}{number}"
        reads = [build.add(node, Part.SOFTWARE, reads, made, batch=-1)]
    build.add(node, Part.SOFTWARE, reads, out, batch=-1)


def _hybrid(build: _Builder, node: Node, placement: NpuPlacement) -> None:
    source, out = build.inputs(node)[0], node.outputs[0]
    if placement.rule == "MAP-npu-nearest":
        spread = build.add(node, Part.COPY, [source], f"{out}.{Part.COPY}", batch=-1)
        build.add(node, Part.HELPER, [spread], out, batch=-1)
    elif placement.rule == "MAP-npu-dilation":
        _dilated(build, node, source)
    elif placement.rule == "MAP-npu-transpose-conv":
        # Nearest resize by copies and depth to space, then an ordinary convolution.
        spread = build.add(node, Part.HELPER, [source], f"{out}.{Part.HELPER}0", batch=-1)
        build.convolve(node, build.add(node, Part.HELPER, [spread], f"{out}.{Part.HELPER}1"))
    elif placement.rule == "MAP-npu-stride":
        build.convolve(node, build.add(node, Part.HELPER, [source], f"{out}.{Part.HELPER}"))
    elif placement.rule in ("MAP-npu-channel-pad", "MAP-npu-scaled-channel-pad"):
        pad = (Part.PAD, {"convacc": 1, "engines": 1, "batch": 1})
        helper: tuple[Part, dict[str, int]] = (Part.HELPER, {"batch": -1})
        build.chain(node, source, [helper, pad, helper][: 1 + placement.hybrid_epochs])
    elif placement.rule == "MAP-npu-depthwise-split":
        for number in range(placement.software_epochs):
            made = f"{out}.{Part.SOFTWARE}{number}"
            source = build.add(node, Part.SOFTWARE, [source], made, batch=-1)
        build.convolve(node, source)
    else:
        build.add(node, Part.HELPER, build.inputs(node), out, batch=-1)


def _dilated(build: _Builder, node: Node, source: str) -> None:
    """Space to depth, an ordinary convolution, depth to space; padded to whole blocks around them.

    Evidence: one network with three depthwise convolutions (dilation 4, 8 and 12 on 20 x 20).
    """
    graph = build.graph
    shape = graph.tensor(node.inputs[0]).shape
    dilation = node.attrs.dilation if isinstance(node.attrs, at.ConvAttrs) else (1, 1)
    uneven = shape[1] % dilation[0] or shape[2] % dilation[1]
    steps: list[tuple[Part, dict[str, int]]] = []
    if zero_point(graph.tensors[build.value(source)]) == -128:
        steps.append((Part.SHIFT, {"arith": 1}))
    crop: list[tuple[Part, dict[str, int]]] = []
    if uneven:
        steps += [(Part.COPY, {}), (Part.PAD, {"convacc": 1, "engines": 1, "batch": 1})]
        crop = [(Part.COPY, {}), (Part.CROP, {"convacc": 1, "engines": 1, "batch": 1})]
    unit = {"convacc": 1, "engines": 1, "batch": 1, "gives": 1}
    steps += [(Part.HELPER, {}), (Part.COPY, {}), (Part.CONV, unit), (Part.HELPER, {})]
    steps += [*crop, (Part.SCALE, {"arith": 1}), (Part.OFFSET, {"arith": 1})]
    build.chain(node, source, steps)
