"""The graph verifier: every rule a graph must keep, checked before and after each pass."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np

from npuforge.errors import GraphError
from npuforge.graph.attrs import Attrs, StateAttrs
from npuforge.graph.ops import SCHEMAS, ShapeMismatch
from npuforge.graph.types import NUMPY_TYPES, Graph, Node, Quantization, Tensor
from npuforge.vocab import DType

MAX_ELEMENTS = (1 << 31) - 1
"""Largest tensor npuforge takes, in elements: kernels index with signed 32-bit numbers."""
MAX_RANK = 8
_NUMPY_DTYPES = {dtype: np.dtype(kind) for dtype, kind in NUMPY_TYPES.items()}
_LIMITS: dict[DType, tuple[int, int]] = {
    d: d.limits for d in DType if not d.is_float and d is not DType.BOOL
}


def verify(graph: Graph) -> None:
    """Check a graph.

    Raises:
        GraphError: a rule is broken; the message names the tensor or node and the rule.
    """
    for name, tensor in graph.tensors.items():
        _check_tensor(name, tensor)
    _check_interface(graph)
    _check_states(graph)
    made = {
        *graph.inputs,
        *graph.states,
        *(n for n, t in graph.tensors.items() if t.data is not None),
    }
    names: set[str] = set()
    for node in graph.nodes:
        if node.name in names:
            raise GraphError("GRF-001", node=node.name)
        names.add(node.name)
        _check_node(graph, node)
        for source in node.inputs:
            if source is not None and source not in made:
                code = "GRF-003" if source in graph.producers else "GRF-002"
                raise GraphError(code, node=node.name, tensor=source)
        for name in node.outputs:
            if name in made:
                raise GraphError("GRF-004", node=node.name, tensor=name)
            made.add(name)
    for name in graph.outputs:
        if name not in made:
            raise GraphError("GRF-005", tensor=name)


def _check_interface(graph: Graph) -> None:
    for name in (*graph.inputs, *graph.outputs):
        if name not in graph.tensors:
            raise GraphError("GRF-006", tensor=name)
    for name in graph.inputs:
        if graph.tensors[name].is_constant:
            raise GraphError("GRF-007", tensor=name)
    if len(set(graph.inputs)) != len(graph.inputs):
        raise GraphError("GRF-008", tensors=", ".join(graph.inputs))
    if not graph.outputs:
        raise GraphError("GRF-009", graph=graph.name)


def _check_states(graph: Graph) -> None:
    for name, initial in graph.states.items():
        tensor = graph.tensors.get(name)
        if tensor is None:
            raise GraphError("GRF-006", tensor=name)
        dtype = np.dtype(NUMPY_TYPES[tensor.dtype])
        if tensor.is_constant or initial.shape != tensor.shape or initial.dtype != dtype:
            raise GraphError(
                "GRF-013",
                tensor=name,
                shape=tensor.shape,
                dtype=tensor.dtype,
                data=f"{initial.dtype}{list(initial.shape)}",
            )
    for node in graph.nodes:
        if isinstance(node.attrs, StateAttrs) and node.attrs.variable not in graph.states:
            raise GraphError("GRF-026", node=node.name, tensor=node.attrs.variable)


def _check_tensor(name: str, tensor: Tensor) -> None:
    if name != tensor.name:
        raise GraphError("GRF-010", tensor=name, other=tensor.name)
    if len(tensor.shape) > MAX_RANK:
        raise GraphError("GRF-011", tensor=name, rank=len(tensor.shape), limit=MAX_RANK)
    if (tensor.shape and min(tensor.shape) < 0) or math.prod(tensor.shape) > MAX_ELEMENTS:
        raise GraphError("GRF-012", tensor=name, shape=tensor.shape, limit=MAX_ELEMENTS)
    data = tensor.data
    if data is not None and (
        data.shape != tensor.shape or data.dtype != _NUMPY_DTYPES[tensor.dtype]
    ):
        raise GraphError(
            "GRF-013",
            tensor=name,
            shape=tensor.shape,
            dtype=tensor.dtype,
            data=f"{data.dtype}{list(data.shape)}",
        )
    if tensor.quantization is not None:
        _check_quantization(tensor, tensor.quantization)


def _check_quantization(tensor: Tensor, quant: Quantization) -> None:
    scale, zero = quant.scale, quant.zero_point
    if scale.size == 1 and zero.size == 1:
        low, high = _LIMITS.get(tensor.dtype, (1, 0))
        sound = 0 < scale.item() < math.inf and low <= zero.item() <= high
        if sound and (quant.axis is None or _fits_axis(tensor, quant)):
            return
    if scale.size == 0 or scale.size != zero.size:
        raise GraphError("GRF-014", tensor=tensor.name, scales=scale.size, zeros=zero.size)
    if not (scale.min() > 0 and scale.max() < math.inf):  # false for what is not a number, too
        worst = scale[~(np.isfinite(scale) & (scale > 0))][0]
        raise GraphError("GRF-015", tensor=tensor.name, scale=worst)
    if quant.axis is None:
        if scale.size != 1:
            raise GraphError("GRF-016", tensor=tensor.name, scales=scale.size)
    elif not _fits_axis(tensor, quant):
        raise GraphError(
            "GRF-017",
            tensor=tensor.name,
            axis=quant.axis,
            scales=scale.size,
            shape=tensor.shape,
        )
    if tensor.dtype not in _LIMITS:
        raise GraphError("GRF-018", tensor=tensor.name, dtype=tensor.dtype)
    low, high = _LIMITS[tensor.dtype]
    if zero.min() < low or zero.max() > high:
        raise GraphError("GRF-019", tensor=tensor.name, zero=int(zero[0]), dtype=tensor.dtype)


def _fits_axis(tensor: Tensor, quant: Quantization) -> bool:
    axis = quant.axis
    return (
        axis is not None
        and 0 <= axis < len(tensor.shape)
        and quant.scale.size == tensor.shape[axis]
    )


_ATTRIBUTES: dict[type, tuple[str, ...]] = {}


def _attributes(attrs: Attrs) -> tuple[str, ...]:
    """The field names of an attribute record, looked up once a type."""
    kind = type(attrs)
    if kind not in _ATTRIBUTES:
        _ATTRIBUTES[kind] = tuple(field.name for field in fields(attrs))
    return _ATTRIBUTES[kind]


def _check_node(graph: Graph, node: Node) -> None:
    entry = SCHEMAS.get(node.op)
    if entry is None:
        raise GraphError("GRF-020", node=node.name, op=node.op)
    if not isinstance(node.attrs, entry.attrs):
        raise GraphError("GRF-021", node=node.name, op=node.op, attrs=type(node.attrs).__name__)
    for attribute in _attributes(node.attrs):
        value = getattr(node.attrs, attribute)
        if value != value:
            raise GraphError("GRF-029", node=node.name, op=node.op, attribute=attribute)
    tensors = graph.tensors
    for name in node.inputs:
        if name is not None and name not in tensors:
            raise GraphError("GRF-022", node=node.name, tensor=name)
    for name in node.outputs:
        if name not in tensors:
            raise GraphError("GRF-022", node=node.name, tensor=name)
    most = math.inf if entry.variadic else entry.required + entry.optional
    required = node.inputs[: entry.required]
    if len(required) < entry.required or None in required or len(node.inputs) > most:
        raise GraphError("GRF-023", node=node.name, op=node.op, count=len(node.inputs))
    try:
        shapes = entry.infer(graph.input_tensors(node), node.attrs)
    except ShapeMismatch as error:
        raise GraphError("GRF-024", node=node.name, op=node.op, reason=str(error)) from None
    actual = [tensors[name].shape for name in node.outputs]
    if shapes != actual:
        raise GraphError("GRF-025", node=node.name, op=node.op, inferred=shapes, stated=actual)
