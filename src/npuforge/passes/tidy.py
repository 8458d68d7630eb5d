"""Passes that only take nodes away: what computes nothing, or the same twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from npuforge.errors import UnsupportedError
from npuforge.graph import (
    ConcatAttrs,
    Graph,
    Names,
    Node,
    PadAttrs,
    ReshapeAttrs,
    ResizeAttrs,
    SliceAttrs,
    SplitAttrs,
    StateAttrs,
    Tensor,
    TileAttrs,
    TransposeAttrs,
)
from npuforge.numerics import run_graph
from npuforge.numerics.types import is_int8
from npuforge.passes.framework import (
    Builder,
    Edit,
    Pass,
    maker,
    same_quant,
    sole_reader,
    subgraph,
)

UNARY = frozenset(
    (
        *("relu", "relu6", "relu_n1_to_1", "leaky_relu", "logistic", "tanh", "hard_swish"),
        *("hard_sigmoid", "elu", "gelu", "exp", "log", "sqrt", "rsqrt", "square", "abs", "neg"),
        *("round", "floor", "ceil", "sign", "sin", "cos", "erf", "softplus", "reciprocal"),
        *("quantize", "dequantize"),
    )
)
"""Operators of one tensor that treat each element alike."""


@dataclass(frozen=True)
class DropIdentity(Pass):
    """Nodes that give back what they read: reshapes, slices, pads, concats of one piece."""

    code: ClassVar[str] = "drop-identity"
    tidy: ClassVar[bool] = True

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        if len(node.outputs) != 1 or not node.inputs or node.outputs[0] in graph.outputs:
            return None
        x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
        if x.shape != y.shape or not same_quant(x, y) or not _is_identity(node, x):
            return None
        return Edit((node.name,), instead={y.name: x.name})


def _is_identity(node: Node, x: Tensor) -> bool:
    attrs = node.attrs
    if isinstance(attrs, TransposeAttrs):
        return attrs.perm == tuple(range(len(x.shape)))
    if isinstance(attrs, SliceAttrs):
        return not any(attrs.begin) and set(attrs.step) <= {1}
    if isinstance(attrs, PadAttrs):
        return not any((*attrs.before, *attrs.after))
    if isinstance(attrs, ConcatAttrs | SplitAttrs):
        return len(node.inputs) == 1
    if isinstance(attrs, ResizeAttrs | TileAttrs):
        # the shape is the same and the axes are aligned at any coordinate rule
        return True
    return node.op in ("reshape", "broadcast_to") or (
        node.op in ("quantize", "cast") and not x.dtype.is_float
    )


@dataclass(frozen=True)
class FoldConstants(Pass):
    """Nodes that read constants only are computed once, now.

    Attributes:
        growth: largest ratio of the result's bytes to those of the constants read.
        small: results of up to this many bytes are always stored.
    """

    code: ClassVar[str] = "fold-constants"
    tidy: ClassVar[bool] = True
    growth: float = 2.0
    small: int = 1024

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        if not node.inputs or isinstance(node.attrs, StateAttrs) or len(node.outputs) != 1:
            return None
        y = graph.tensors[node.outputs[0]]
        read = [graph.tensors[name] for name in node.input_names]
        if y.name in graph.outputs or any(not tensor.is_constant for tensor in read):
            return None
        if y.nbytes > max(self.small, self.growth * sum(t.nbytes for t in read)):
            return None
        try:
            data = run_graph(subgraph(graph, [node], (), [y.name]), {})[y.name]
        except UnsupportedError:
            return None
        made = Builder(graph, node, names, self.code)
        name = made.constant("folded", Tensor(y.name, y.shape, y.dtype, y.quantization, data))
        return made.edit(node, instead={y.name: name})


@dataclass(frozen=True)
class DropDeadCode(Pass):
    """Nodes whose results nobody reads."""

    code: ClassVar[str] = "drop-dead-code"
    tidy: ClassVar[bool] = True

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        if not node.outputs or any(
            name in graph.outputs or graph.consumers.get(name) for name in node.outputs
        ):
            return None
        return Edit((node.name,))


@dataclass(frozen=True)
class MergeEqual(Pass):
    """Nodes that compute the same from the same tensors: the first one serves all."""

    code: ClassVar[str] = "merge-equal"
    tidy: ClassVar[bool] = True

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        if isinstance(node.attrs, StateAttrs) or not node.inputs or not node.outputs:
            return None
        if any(name in graph.outputs for name in node.outputs):
            return None
        key = next(node.input_names)
        for other in graph.consumers.get(key, ()):
            if other.name == node.name:
                return None
            same = (other.op, other.inputs, other.attrs, other.contract) == (
                *(node.op, node.inputs, node.attrs, node.contract),
            )
            pairs = zip(graph.output_tensors(node), graph.output_tensors(other), strict=False)
            if same and all(same_quant(mine, theirs) for mine, theirs in pairs):
                swap = dict(zip(node.outputs, other.outputs, strict=True))
                return Edit((node.name,), instead=swap)
        return None


@dataclass(frozen=True)
class MergeReshapes(Pass):
    """A reshape of a reshape is one reshape."""

    code: ClassVar[str] = "merge-reshapes"
    ops: ClassVar[frozenset[str]] = frozenset({"reshape"})
    tidy: ClassVar[bool] = True

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        first = maker(graph, node.inputs[0], "reshape")
        if first is None:
            return None
        x, y = graph.tensor(first.inputs[0]), graph.tensors[node.outputs[0]]
        made = Builder(graph, node, names, self.code)
        made.like("reshape", x.name, ReshapeAttrs(y.shape), out=y.name)
        return made.edit(node)


@dataclass(frozen=True)
class MergeTransposes(Pass):
    """A transpose of a transpose is one transpose, or none; also with elementwise nodes between."""

    code: ClassVar[str] = "merge-transposes"
    ops: ClassVar[frozenset[str]] = frozenset({"transpose"})
    tidy: ClassVar[bool] = True

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        assert isinstance(node.attrs, TransposeAttrs)
        between: list[Node] = []
        name = node.inputs[0]
        while True:
            step = graph.producers.get(name or "")
            if step is None or (step.op not in UNARY and step.op != "transpose"):
                return None
            if sole_reader(graph, step.outputs[0]) is None and between:
                return None
            if step.op == "transpose":
                break
            if sole_reader(graph, step.outputs[0]) is None:
                return None
            between.append(step)
            name = step.inputs[0]
        first = step
        assert isinstance(first.attrs, TransposeAttrs)
        perm = tuple(first.attrs.perm[axis] for axis in node.attrs.perm)
        identity = perm == tuple(range(len(perm)))
        y = node.outputs[0]
        if identity and not between:
            if y in graph.outputs:
                return None
            return Edit((node.name,), instead={y: str(first.inputs[0])})
        made = Builder(graph, node, names, self.code)
        source = str(first.inputs[0])
        if not identity:
            source = made.like(
                "transpose", source, TransposeAttrs(perm), out=None if between else y
            )
        for step in reversed(between):
            old = graph.tensors[step.outputs[0]]
            last = step is between[0]
            source = made.add(
                step.op, [source, *step.inputs[1:]], step.attrs, quant=old.quantization,
                dtype=old.dtype, out=y if last else None,
            )  # fmt: skip
        removed = [*reversed(between), node]
        return made.edit(*removed)


@dataclass(frozen=True)
class FreeTransposes(Pass):
    """A transpose that only moves axes of size one is a reshape, and free."""

    code: ClassVar[str] = "free-transposes"
    ops: ClassVar[frozenset[str]] = frozenset({"transpose"})
    tidy: ClassVar[bool] = True

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        assert isinstance(node.attrs, TransposeAttrs)
        x, y = graph.tensor(node.inputs[0]), graph.tensors[node.outputs[0]]
        moved = [axis for axis in node.attrs.perm if x.shape[axis] != 1]
        if moved != sorted(moved):
            return None
        made = Builder(graph, node, names, self.code)
        made.like("reshape", x.name, ReshapeAttrs(y.shape), out=y.name)
        return made.edit(node)


@dataclass(frozen=True)
class MergeRequantize(Pass):
    """A change of scale behind another one, or behind a dequantise: one change, one rounding."""

    code: ClassVar[str] = "merge-requantize"
    bound: ClassVar[float] = 1.0
    ops: ClassVar[frozenset[str]] = frozenset({"quantize"})
    tidy: ClassVar[bool] = True

    def find(self, graph: Graph, node: Node, names: Names) -> Edit | None:
        """See the base class."""
        first = maker(graph, node.inputs[0], "quantize", "dequantize")
        if first is None:
            return None
        x, y = graph.tensor(first.inputs[0]), graph.tensors[node.outputs[0]]
        if not is_int8(x, y):
            return None
        if same_quant(x, y) and y.name not in graph.outputs:
            return Edit((node.name,), instead={y.name: x.name})
        made = Builder(graph, node, names, self.code)
        made.add("quantize", [x.name], out=y.name)
        return made.edit(node)
