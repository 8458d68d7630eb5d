"""Handlers that turn nodes which move data, or keep state, into TFLite operators."""

from __future__ import annotations

from collections.abc import Sequence

from npuforge.exporters.tflite.emitter import Emitter, Handler
from npuforge.exporters.tflite.records import Options
from npuforge.graph import (
    AxisAttrs,
    ConcatAttrs,
    Graph,
    Node,
    PadAttrs,
    PadMode,
    ReshapeAttrs,
    SliceAttrs,
    SplitAttrs,
    StateAttrs,
    Tensor,
    TileAttrs,
    TransposeAttrs,
)
from npuforge.vocab import Activation, DType


def pad_into(
    emitter: Emitter,
    node: Node,
    x: Tensor,
    source: int,
    target: int,
    before: Sequence[int],
    after: Sequence[int],
    value: float,
) -> None:
    """Constant padding: PAD where the format's own value is meant, PADV2 for any other."""
    pads = emitter.constant(node, "pads", list(zip(before, after, strict=True)))
    usual = float(x.quant.z) if x.quantization is not None else 0.0
    if value == usual:
        emitter.operator("PAD", [source, pads], [target], Options("PadOptions"))
        return
    fill = emitter.stored(node, "value", [value], x)
    emitter.operator("PADV2", [source, pads, fill], [target], Options("PadV2Options"))


def _pad(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, PadAttrs)
    x = emitter.graph.tensor(node.inputs[0])
    source, target = emitter.number(x.name), emitter.number(node.outputs[0])
    if attrs.mode is PadMode.CONSTANT:
        pad_into(emitter, node, x, source, target, attrs.before, attrs.after, attrs.value)
        return
    pads = emitter.constant(node, "pads", list(zip(attrs.before, attrs.after, strict=True)))
    mode = int(attrs.mode is PadMode.SYMMETRIC)
    options = Options("MirrorPadOptions", (("Mode", mode),))
    emitter.operator("MIRROR_PAD", [source, pads], [target], options)


def _reshape(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, ReshapeAttrs)
    shape = node.attrs.shape
    x = emitter.graph.tensor(node.inputs[0])
    source, target = emitter.number(x.name), emitter.number(node.outputs[0])
    if not shape:
        # a shape tensor without elements reads as an unknown one
        options = Options("SqueezeOptions", (("SqueezeDims", tuple(range(len(x.shape)))),))
        emitter.operator("SQUEEZE", [source], [target], options)
        return
    options = Options("ReshapeOptions", (("NewShape", shape),))
    emitter.operator("RESHAPE", [source, emitter.constant(node, "shape", shape)], [target], options)


def _transpose(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, TransposeAttrs)
    inputs = [emitter.number(node.inputs[0]), emitter.constant(node, "perm", node.attrs.perm)]
    outputs = [emitter.number(node.outputs[0])]
    emitter.operator("TRANSPOSE", inputs, outputs, Options("TransposeOptions"))


def _concat(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, ConcatAttrs)
    if attrs.activation is not Activation.NONE:
        raise emitter.refuse(node, f"fused activation {attrs.activation}", "EXP-006")
    inputs = [emitter.number(name) for name in node.inputs]
    outputs = [emitter.number(node.outputs[0])]
    options = Options("ConcatenationOptions", (("Axis", attrs.axis),))
    emitter.operator("CONCATENATION", inputs, outputs, options)


def _split(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, SplitAttrs)
    source = emitter.number(node.inputs[0])
    axis = emitter.constant(node, "axis", attrs.axis)
    outputs = [emitter.number(name) for name in node.outputs]
    if len(set(attrs.sizes)) == 1:
        options = Options("SplitOptions", (("NumSplits", len(outputs)),))
        emitter.operator("SPLIT", [axis, source], outputs, options)
        return
    sizes = emitter.constant(node, "sizes", attrs.sizes)
    options = Options("SplitVOptions", (("NumSplits", len(outputs)),))
    emitter.operator("SPLIT_V", [source, sizes, axis], outputs, options)


def _slice(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, SliceAttrs)
    x = emitter.graph.tensor(node.inputs[0])
    source, target = emitter.number(x.name), emitter.number(node.outputs[0])
    begin = emitter.constant(node, "begin", attrs.begin)
    if all(step == 1 for step in attrs.step):
        size = emitter.constant(node, "size", attrs.count)
        emitter.operator("SLICE", [source, begin, size], [target], Options("SliceOptions"))
        return
    ends, open_ends = [], 0
    for axis, (first, step, count) in enumerate(
        zip(attrs.begin, attrs.step, attrs.count, strict=True)
    ):
        end = first + count * step
        if end < 0:
            # a negative end counts from behind; an open one runs to the front
            open_ends |= 1 << axis
            end = 0
        ends.append(min(end, x.shape[axis]))
    end_of = emitter.constant(node, "end", ends)
    steps = emitter.constant(node, "strides", attrs.step)
    options = Options("StridedSliceOptions", (("EndMask", open_ends),))
    emitter.operator("STRIDED_SLICE", [source, begin, end_of, steps], [target], options)


def _gather(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, AxisAttrs)
    inputs = [emitter.number(name) for name in node.inputs]
    outputs = [emitter.number(node.outputs[0])]
    options = Options("GatherOptions", (("Axis", node.attrs.axis),))
    emitter.operator("GATHER", inputs, outputs, options)


def _tile(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, TileAttrs)
    repeats = emitter.constant(node, "repeats", node.attrs.repeats)
    inputs = [emitter.number(node.inputs[0]), repeats]
    emitter.operator("TILE", inputs, [emitter.number(node.outputs[0])], Options("TileOptions"))


def _broadcast_to(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, ReshapeAttrs)
    shape = emitter.constant(node, "shape", node.attrs.shape)
    inputs = [emitter.number(node.inputs[0]), shape]
    outputs = [emitter.number(node.outputs[0])]
    emitter.operator("BROADCAST_TO", inputs, outputs, Options("BroadcastToOptions"))


def shared_name(variable: str) -> str:
    """The name under which a file knows one of the graph's state variables."""
    return variable.removeprefix("state:")


def handle_options(variable: str) -> Options:
    """The options of a VAR_HANDLE."""
    fields = (("Container", ""), ("SharedName", shared_name(variable)))
    return Options("VarHandleOptions", fields)


def _handle(emitter: Emitter, variable: str) -> int:
    number = emitter.handle(variable)
    emitter.operator("VAR_HANDLE", [], [number], handle_options(variable))
    return number


def _read_variable(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, StateAttrs)
    handle = _handle(emitter, node.attrs.variable)
    outputs = [emitter.number(node.outputs[0])]
    emitter.operator("READ_VARIABLE", [handle], outputs, Options("ReadVariableOptions"))


def _assign_variable(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, StateAttrs)
    handle = _handle(emitter, node.attrs.variable)
    inputs = [handle, emitter.number(node.inputs[0])]
    emitter.operator("ASSIGN_VARIABLE", inputs, [], Options("AssignVariableOptions"))


_SWAP_BLOCKS = (0, 1, 3, 2, 4, 5)


def blocks_of(graph: Graph, nodes: Sequence[Node]) -> tuple[str, int] | None:
    """SPACE_TO_DEPTH or DEPTH_TO_SPACE with its block size, when three nodes in a row are one.

    The graph knows these operators as reshape, transpose, reshape.
    """
    if [node.op for node in nodes] != ["reshape", "transpose", "reshape"]:
        return None
    first, second, third = nodes
    for node, reader in ((first, second), (second, third)):
        name = node.outputs[0]
        if graph.consumers.get(name) != (reader,) or name in graph.outputs:
            return None
    assert isinstance(second.attrs, TransposeAttrs)
    x, y = graph.tensor(first.inputs[0]).shape, graph.tensor(third.outputs[0]).shape
    inner = graph.tensor(first.outputs[0]).shape
    if second.attrs.perm != _SWAP_BLOCKS or len(x) != 4 or len(y) != 4:
        return None
    n, h, w, c = x
    b = inner[2]
    if b == inner[4] and inner == (n, h // b, b, w // b, b, c) and y == (
        n, h // b, w // b, b * b * c
    ):  # fmt: skip
        return "SPACE_TO_DEPTH", b
    b = inner[3]
    if b == inner[4] and inner == (n, h, w, b, b, c // (b * b)) and y == (
        n, h * b, w * b, c // (b * b)
    ):  # fmt: skip
        return "DEPTH_TO_SPACE", b
    return None


def emit_blocks(emitter: Emitter, nodes: Sequence[Node], kind: str, block: int) -> None:
    """The operator that `blocks_of` found."""
    tables = {"SPACE_TO_DEPTH": "SpaceToDepthOptions", "DEPTH_TO_SPACE": "DepthToSpaceOptions"}
    inputs = [emitter.number(nodes[0].inputs[0])]
    outputs = [emitter.number(nodes[2].outputs[0])]
    emitter.operator(kind, inputs, outputs, Options(tables[kind], (("BlockSize", block),)))


def uses_uint8_rescaling(graph: Graph, node: Node) -> bool:
    """Whether a concatenation copies bytes where TFLite would rescale them."""
    if node.op != "concat":
        return False
    y = graph.tensor(node.outputs[0])
    return (
        y.dtype is DType.UINT8
        and y.quantization is not None
        and any(not y.quantization.same_as(graph.tensor(n).quantization) for n in node.inputs)
    )


MOVEMENT: dict[str, Handler] = {
    "assign_variable": _assign_variable,
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "gather": _gather,
    "pad": _pad,
    "read_variable": _read_variable,
    "reshape": _reshape,
    "slice": _slice,
    "split": _split,
    "tile": _tile,
    "transpose": _transpose,
}
"""Handlers of this module, by our operator."""
