"""The readable text form of a graph: one line a tensor or node, stable, made to be diffed."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum

from npuforge.graph.types import Graph, Node, Quantization, Tensor


def format_graph(graph: Graph) -> str:
    """The whole graph as text.

    Constants show their type and quantisation, not their data; attributes at their default are
    left out.
    """
    lines = [f'graph "{graph.name}" {{']
    lines += [f"  input  {_tensor(graph.tensors[name])}" for name in graph.inputs]
    constants = (t for t in graph.tensors.values() if t.is_constant)
    lines += [f"  const  {_tensor(tensor)}" for tensor in constants]
    lines += [f"  {_node(graph, node)}" for node in graph.nodes]
    lines += [f"  output %{name}" for name in graph.outputs]
    lines.append("}")
    return "\n".join(lines) + "\n"


def format_quantization(quant: Quantization | None) -> str:
    """`q(scale, zero point)`, or the channel axis and the range of the scales."""
    if quant is None:
        return ""
    if quant.axis is None:
        return f" q({quant.s:.9g}, {quant.z})"
    low, high = float(quant.scale.min()), float(quant.scale.max())
    zeros = "" if not quant.zero_point.any() else ", zero points"
    return f" q(axis {quant.axis}, {low:.4g}..{high:.4g}{zeros})"


def short_name(name: str, limit: int = 48) -> str:
    """A name that fits a table: the first of the names a converter joined, its end kept."""
    first = name.split(";", 1)[0] or name
    return first if len(first) <= limit else "…" + first[-(limit - 1) :]


def _tensor(tensor: Tensor) -> str:
    dims = "x".join(str(n) for n in tensor.shape)
    return f"%{tensor.name}: {tensor.dtype}[{dims}]{format_quantization(tensor.quantization)}"


def _value(value: object) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "(" + ",".join(_value(item) for item in value) + ")"
    return str(value)


def _attributes(node: Node) -> str:
    shown = [
        f"{field.name}={_value(getattr(node.attrs, field.name))}"
        for field in fields(node.attrs)
        if getattr(node.attrs, field.name) != field.default
    ]
    return " " + " ".join(shown) if shown else ""


def _node(graph: Graph, node: Node) -> str:
    outputs = ", ".join(_tensor(graph.tensors[name]) for name in node.outputs)
    inputs = ", ".join("_" if name is None else f"%{name}" for name in node.inputs)
    return f"{outputs} = {node.op}({inputs}){_attributes(node)} [{node.contract}]"
