"""Small graphs and model files made by hand, for tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuforge.graph import Attrs, Graph, Node, Quantization, Tensor
from npuforge.graph.attrs import NO_ATTRS
from npuforge.vocab import Contract, DType


def tensor(
    name: str,
    shape: Sequence[int],
    dtype: DType = DType.INT8,
    quant: tuple[float, int] | Quantization | None = (0.1, 0),
    data: object = None,
) -> Tensor:
    """A tensor; `quant` is (scale, zero point) or a Quantization."""
    if isinstance(quant, tuple):
        quant = Quantization.per_tensor(*quant)
    if dtype.is_float:
        quant = None
    array = None
    if data is not None:
        array = np.ascontiguousarray(np.asarray(data, str(dtype)).reshape(tuple(shape)))
    return Tensor(name, tuple(shape), dtype, quant, array)


def single(
    op: str,
    inputs: Sequence[Tensor | None],
    outputs: Sequence[Tensor],
    attrs: Attrs = NO_ATTRS,
    contract: Contract = Contract.TFLITE_REFERENCE,
) -> Graph:
    """A graph of one node."""
    tensors = {t.name: t for t in (*inputs, *outputs) if t is not None}
    names = tuple(None if t is None else t.name for t in inputs)
    node = Node(outputs[0].name, op, names, tuple(t.name for t in outputs), attrs, contract)
    return Graph(
        "single",
        tensors,
        (node,),
        tuple(t.name for t in inputs if t is not None and t.data is None),
        tuple(t.name for t in outputs),
    )
