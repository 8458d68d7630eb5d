"""Handlers of TFLite's state variables: streaming networks keep them between inferences."""

from __future__ import annotations

import numpy as np

from npuforge.graph import NUMPY_TYPES, Node, StateAttrs, Tensor
from npuforge.importers.tflite.context import Context, Handler
from npuforge.importers.tflite.file import RawOperator, RawSubgraph, read_options
from npuforge.importers.tflite.types import TENSOR_TYPES, operator_name


def _variable_name(op: RawOperator) -> str:
    import tflite

    options = read_options(tflite.VarHandleOptions, op)
    parts = (options.Container(), options.SharedName())
    return "/".join(part.decode("utf-8", "replace") for part in parts if part) or "variable"


def _var_handle(ctx: Context, op: RawOperator) -> None:
    if not op.outputs:
        raise ctx.damaged(op, "no output")
    ctx.resources[op.outputs[0]] = f"state:{_variable_name(op)}"


def _resource(ctx: Context, op: RawOperator) -> str:
    name = ctx.resources.get(op.inputs[0]) if op.inputs else None
    if name is None:
        raise ctx.refuse(op, "the handle of a variable is computed")
    return name


def _declare(ctx: Context, op: RawOperator, name: str, like: Tensor) -> Tensor:
    known = ctx.tensors.get(name)
    if known is None:
        known = Tensor(name, like.shape, like.dtype, like.quantization)
        ctx.tensors[name] = known
        # what is never assigned before it is read starts as zero bytes
        ctx.states[name] = np.zeros(like.shape, NUMPY_TYPES[like.dtype])
    if known.shape != like.shape or known.dtype is not like.dtype:
        raise ctx.damaged(op, f"variable {name} of {known.shape} used as {like.shape}")
    return known


def _read_variable(ctx: Context, op: RawOperator) -> None:
    name, y = _resource(ctx, op), ctx.output(op)
    known = ctx.tensors.get(name)
    if known is not None:
        y = ctx.settle(y, known.shape)
    _declare(ctx, op, name, y)
    ctx.nodes.append(Node(y.name, "read_variable", (), (y.name,), StateAttrs(name, y.shape)))


def _assign_variable(ctx: Context, op: RawOperator) -> None:
    name = _resource(ctx, op)
    value = ctx.inputs(RawOperator(op.index, op.code, "", 1, op.inputs[1:], (), None), 1)[0]
    assert value is not None
    _declare(ctx, op, name, value)
    attrs = StateAttrs(name, value.shape)
    node = f"assign {name} #{op.index}"
    ctx.nodes.append(Node(node, "assign_variable", (value.name,), (), attrs))


def _call_once(ctx: Context, op: RawOperator) -> None:
    """The initialisation of variables: constants assigned in a subgraph of its own."""
    import tflite

    number = read_options(tflite.CallOnceOptions, op).InitSubgraphIndex()
    graph = ctx.subgraph(number)
    if graph is None or number == 0:
        raise ctx.damaged(op, f"subgraph {number}")
    handles: dict[int, str] = {}
    for inner in graph.operators:
        kind = operator_name(inner.code)
        if kind == "VAR_HANDLE" and inner.outputs:
            handles[inner.outputs[0]] = f"state:{_variable_name(inner)}"
        elif kind == "ASSIGN_VARIABLE" and len(inner.inputs) == 2:
            _initial_value(ctx, op, graph, handles.get(inner.inputs[0]), inner.inputs[1])
        else:
            raise ctx.refuse(op, f"{kind} in an initialisation")


def _initial_value(
    ctx: Context, op: RawOperator, graph: RawSubgraph, name: str | None, index: int
) -> None:
    raw = graph.tensors[index] if 0 <= index < len(graph.tensors) else None
    dtype = TENSOR_TYPES.get(raw.type) if raw is not None else None
    if name is None or raw is None or dtype is None or raw.data is None:
        raise ctx.refuse(op, "a variable whose first value is computed")
    value = np.frombuffer(raw.data, NUMPY_TYPES[dtype])
    if value.size != int(np.prod(raw.shape)):
        raise ctx.damaged(op, f"first value of {name}")
    quant = None if raw.quantization is None else ctx.quantization(raw)
    _declare(ctx, op, name, Tensor(name, raw.shape, dtype, quant))
    ctx.states[name] = value.reshape(raw.shape).copy()


STATE: dict[str, Handler] = {
    "ASSIGN_VARIABLE": _assign_variable,
    "CALL_ONCE": _call_once,
    "READ_VARIABLE": _read_variable,
    "VAR_HANDLE": _var_handle,
}
