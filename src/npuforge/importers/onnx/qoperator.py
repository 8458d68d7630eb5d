"""QOperator nodes (QLinearConv, …) as the quantise/dequantise pairs they stand for.

ONNX Runtime writes either form and runs both with the same integer kernels, so one importer reads
them: each such node becomes dequantised inputs, the plain operator, and a quantised result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from npuforge.graph import Array, Names
from npuforge.importers.onnx.records import AttrValue, RawNode, RawOnnx

MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class _Form:
    """Where a QOperator node keeps its operands.

    Attributes:
        op: the plain ONNX operator.
        inputs: positions of (value, scale, zero point) of each quantised operand.
        output: positions of scale and zero point of the result.
        bias: position of an int32 bias with the product of the first two scales, if any.
    """

    op: str
    inputs: tuple[tuple[int, int, int], ...]
    output: tuple[int, int]
    bias: int | None = None


_UNARY = ((0, 1, 2),)
_BINARY = ((0, 1, 2), (3, 4, 5))
FORMS: dict[str, _Form] = {
    "QLinearConv": _Form("Conv", _BINARY, (6, 7), bias=8),
    "QLinearMatMul": _Form("MatMul", _BINARY, (6, 7)),
    "QGemm": _Form("Gemm", _BINARY, (7, 8), bias=6),
    "QLinearAdd": _Form("Add", _BINARY, (6, 7)),
    "QLinearMul": _Form("Mul", _BINARY, (6, 7)),
    "QLinearAveragePool": _Form("AveragePool", _UNARY, (3, 4)),
    "QLinearGlobalAveragePool": _Form("GlobalAveragePool", _UNARY, (3, 4)),
    "QLinearLeakyRelu": _Form("LeakyRelu", _UNARY, (3, 4)),
    "QLinearReduceMean": _Form("ReduceMean", _UNARY, (3, 4)),
    "QLinearSigmoid": _Form("Sigmoid", _UNARY, (3, 4)),
    "QLinearSoftmax": _Form("Softmax", _UNARY, (3, 4)),
    "QLinearConcat": _Form("Concat", (), (0, 1)),
}
"""QOperator nodes that are read, by name."""

_DOMAINS = {"QLinearConv": "", "QLinearMatMul": ""}


def expand(model: RawOnnx) -> RawOnnx:
    """The model with every QOperator node taken apart; others stay as they are."""
    if not any(_is_qoperator(node) for node in model.nodes):
        return model
    expansion = _Expansion(model)
    for node in model.nodes:
        if _is_qoperator(node):
            expansion.take_apart(node)
        else:
            expansion.keep(node)
    return replace(model, nodes=tuple(expansion.nodes), constants=expansion.constants)


def _is_qoperator(node: RawNode) -> bool:
    return node.op in FORMS and node.domain == _DOMAINS.get(node.op, MICROSOFT)


class _Expansion:
    def __init__(self, model: RawOnnx) -> None:
        self.constants: dict[str, Array] = dict(model.constants)
        self.nodes: list[RawNode] = []
        used = {name for node in model.nodes for name in (*node.inputs, *node.outputs)}
        self._names = Names(used | set(self.constants))
        # dequantised operands, by their three inputs: one node for all readers
        self._real: dict[tuple[str, ...], str] = {}

    def keep(self, node: RawNode) -> None:
        self.nodes.append(replace(node, index=len(self.nodes)))

    def take_apart(self, node: RawNode) -> None:
        form = FORMS[node.op]
        positions = form.inputs
        if node.op == "QLinearConcat":
            positions = tuple((i, i + 1, i + 2) for i in range(2, len(node.inputs) - 2, 3))
        operands = [tuple(self._input(node, i) for i in triple) for triple in positions]
        # weights of a convolution are quantised by rows, those of a product by columns
        axes = (1, 0 if form.op == "Conv" else 1)
        reals = [
            self._dequantized(node, operand, axes[min(i, 1)]) for i, operand in enumerate(operands)
        ]
        if form.bias is not None and (bias := self._input(node, form.bias)):
            scale = self._bias_scale(node, operands)
            reals.append(self._dequantized(node, (bias, scale, ""), 0))
        result = self._names.fresh(f"{node.outputs[0]}/real")
        attrs = {key: value for key, value in node.attrs.items() if key != "channels_last"}
        if node.attrs.get("channels_last"):
            raise ValueError(f"{node.name} is channels last")
        self._add(node, form.op, reals, result, attrs)
        scale, zero = (self._input(node, i) for i in form.output)
        if not scale:
            # a QGemm without output scale stays real
            self._add(node, "Identity", [result], node.outputs[0], {})
            return
        self._add(node, "QuantizeLinear", [result, scale, zero], node.outputs[0], {})

    @staticmethod
    def _input(node: RawNode, index: int) -> str:
        return node.inputs[index] if index < len(node.inputs) else ""

    def _bias_scale(self, node: RawNode, operands: Sequence[tuple[str, ...]]) -> str:
        """The scale of an int32 bias: input scale times weight scale."""
        scales = [self.constants[operand[1]].astype(np.float32).reshape(-1) for operand in operands]
        name = self._names.fresh(f"{node.name}/bias_scale")
        product = scales[0] * scales[1]
        self.constants[name] = product.reshape(()) if product.size == 1 else product
        return name

    def _dequantized(self, node: RawNode, operand: tuple[str, ...], axis: int) -> str:
        known = self._real.get(operand)
        if known is not None:
            return known
        name = self._names.fresh(f"{operand[0]}/real")
        inputs = [item for item in operand if item]
        self._add(node, "DequantizeLinear", inputs, name, {"axis": axis})
        self._real[operand] = name
        return name

    def _add(
        self,
        node: RawNode,
        op: str,
        inputs: Sequence[str],
        output: str,
        attrs: dict[str, AttrValue],
    ) -> None:
        name = f"{node.name}/{op}" if op != FORMS[node.op].op else node.name
        index = len(self.nodes)
        self.nodes.append(RawNode(index, name, op, "", tuple(inputs), (output,), attrs))
