"""Constant folding: what depends on constants only is computed while reading.

Exporters leave chains such as Shape, Gather, Concat, Reshape behind; once the shape of the input is
fixed they are numbers. Nodes are evaluated by the reference implementation of the onnx package.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from npuforge.graph import Array
from npuforge.importers.onnx.records import RawNode

MAX_ELEMENTS = 1 << 24
"""Largest constant that folding makes."""

_ELEMENTWISE = frozenset(
    {
        *("Abs", "Add", "And", "Cast", "Ceil", "Div", "Equal", "Exp", "Floor", "Greater"),
        *("GreaterOrEqual", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg"),
        *("Not", "Or", "Pow", "Reciprocal", "Round", "Sign", "Sqrt", "Sub", "Where"),
    }
)
_SELECTING = frozenset(
    {
        *("Concat", "Gather", "Identity", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"),
        *("Reshape", "Shape", "Size", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"),
    }
)
_GROWING = frozenset({"ConstantOfShape", "Expand", "Range", "Tile"})
FOLDED = _ELEMENTWISE | _SELECTING | _GROWING
"""Operators that are folded when all inputs are constant."""


def fold(node: RawNode, constants: Mapping[str, Array], opset: int) -> tuple[Array, ...] | None:
    """Results of a node whose inputs are all constant; None when it is not one to fold.

    Raises:
        ValueError: the node contradicts itself or its result would be unreasonably large.
    """
    if node.op not in FOLDED or node.domain != "":
        return None
    if any(name and name not in constants for name in node.inputs):
        return None
    values = [constants[name] for name in node.inputs if name]
    if _bound(node.op, values) > MAX_ELEMENTS:
        raise ValueError(f"a constant of more than {MAX_ELEMENTS} elements")
    return _evaluate(node, constants, opset)


def _bound(op: str, values: list[Array]) -> float:
    """An upper bound of the elements of the result."""
    if op in _ELEMENTWISE:
        return math.prod(np.broadcast_shapes(*(value.shape for value in values)))
    if op == "ConstantOfShape":
        return math.prod(int(n) for n in values[0].reshape(-1))
    if op in ("Expand", "Tile"):
        growth = math.prod(int(n) for n in values[1].reshape(-1))
        return max(values[0].size, 1) * abs(growth)
    if op == "Range":
        start, limit, step = (float(value.reshape(-1)[0]) for value in values)
        return abs((limit - start) / step)
    indices = values[1].size if op == "Gather" else 1
    return sum(value.size for value in values) * max(indices, 1)


def _evaluate(node: RawNode, constants: Mapping[str, Array], opset: int) -> tuple[Array, ...]:
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    attrs = {
        key: numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
        for key, value in node.attrs.items()
    }
    made = helper.make_node(node.op, list(node.inputs), list(node.outputs), node.name, **attrs)
    feeds = {name: np.asarray(constants[name]) for name in node.inputs if name}
    graph = helper.make_graph(
        [made],
        "fold",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
            )
            for name, value in feeds.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in node.outputs if name],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(model).run(None, feeds)
    return tuple(np.asarray(value) for value in results)
