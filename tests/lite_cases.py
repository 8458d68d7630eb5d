"""Random TFLite layers of every operator family, as graphs, drawn by hypothesis.

One `Case` collects the nodes of one graph. A family draws its parameters, makes its inputs
and appends nodes; several families on one case make a random network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from npuforge.graph import Array, Attrs, Graph, Node, Quantization, Tensor
from npuforge.graph import attrs as at
from npuforge.graph.attrs import NO_ATTRS
from npuforge.graph.ops import SCHEMAS
from npuforge.graph.shapes import same_padding
from npuforge.vocab import Activation, Contract, DType

I8, U8, I16, F32 = DType.INT8, DType.UINT8, DType.INT16, DType.FLOAT32
Quant = Quantization | None
MOVES = frozenset(
    {
        *("reshape", "transpose", "pad", "split", "slice", "gather", "tile", "broadcast_to"),
        *("arg_max", "arg_min", "read_variable", "assign_variable"),
    }
)


class Case:
    """Draws the parameters of layers and collects their nodes."""

    def __init__(self, data: st.DataObject, dtypes: Sequence[DType] = (I8, U8, I16, F32)) -> None:
        self._draw = data.draw
        self.dtypes = tuple(dtypes)
        self.rng = np.random.default_rng(self.integer(0, 1 << 30))
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []
        self.states: dict[str, Array] = {}
        self.shown: list[str] = []
        self.every_value = False

    # --- drawing ---

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def flag(self) -> bool:
        return bool(self._draw(st.booleans()))

    def one_of(self, *values: Any) -> Any:
        return self._draw(st.sampled_from(values))

    def permutation(self, count: int) -> tuple[int, ...]:
        return tuple(self._draw(st.permutations(range(count))))

    def dtype(self, *only: DType) -> DType:
        wanted = [d for d in only or self.dtypes if d in self.dtypes]
        return DType(self.one_of(*wanted))

    def spread(self, low: float, high: float, size: Any = None) -> Any:
        """Numbers spread evenly over powers of two."""
        return np.exp2(self.rng.uniform(low, high, size)).astype(np.float32)

    def zero(self, dtype: DType) -> int:
        """A zero point: the ends of the range as often as its inside."""
        if dtype is I16:
            return 0
        low, high = dtype.limits
        return int(self.one_of(low, high, (low + high + 1) // 2, self.integer(low, high)))

    def quant(self, dtype: DType, scale: float | None = None) -> Quant:
        if dtype.is_float:
            return None
        chosen = float(self.spread(-8, 0)) if scale is None else scale
        return Quantization.per_tensor(chosen, self.zero(dtype))

    def image(self, channels: int | None = None) -> tuple[int, int, int, int]:
        c = self.integer(1, 9) if channels is None else channels
        return self.integer(1, 2), self.integer(1, 9), self.integer(1, 9), c

    def shape(self, low: int = 1, high: int = 4, most: int = 7) -> tuple[int, ...]:
        return tuple(self.integer(1, most) for _ in range(self.integer(low, high)))

    def activation(self) -> Activation:
        return Activation(self.one_of("none", "none", "relu", "relu6", "relu_n1_to_1"))

    # --- building ---

    def _name(self) -> str:
        return f"t{len(self.tensors)}"

    def input(self, shape: Sequence[int], dtype: DType, quant: Quant = None) -> Tensor:
        tensor = Tensor(self._name(), tuple(shape), dtype, quant)
        self.tensors[tensor.name] = tensor
        self.inputs.append(tensor.name)
        return tensor

    def source(self, shape: Sequence[int], dtype: DType) -> Tensor:
        """A quantised (or float) input."""
        return self.input(shape, dtype, self.quant(dtype))

    def values(self, shape: Sequence[int], dtype: DType) -> Array:
        if dtype is DType.BOOL:
            return self.rng.integers(0, 2, shape).astype(np.bool_)
        if dtype.is_float:
            return (self.rng.normal(size=shape) * self.spread(-3, 3)).astype(str(dtype))
        low, high = dtype.limits
        return self.rng.integers(low, high, shape, endpoint=True).astype(
            np.int8 if dtype is DType.INT4 else str(dtype)
        )

    def constant(self, values: Array, dtype: DType, quant: Quant = None) -> Tensor:
        array = np.ascontiguousarray(values)
        tensor = Tensor(self._name(), array.shape, dtype, quant, array)
        self.tensors[tensor.name] = tensor
        return tensor

    def node(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        attrs: Attrs = NO_ATTRS,
        dtype: DType | None = None,
        quant: Quant = None,
        *,
        like: Tensor | None = None,
    ) -> list[Tensor]:
        """Append a node; outputs are of a type and scale, or like another tensor."""
        if like is not None:
            dtype, quant = like.dtype, like.quantization
        assert dtype is not None
        made = []
        for shape in SCHEMAS[op].infer(list(inputs), attrs):
            tensor = Tensor(self._name(), shape, dtype, quant)
            self.tensors[tensor.name] = tensor
            made.append(tensor)
        names = tuple(None if t is None else t.name for t in inputs)
        outputs = tuple(t.name for t in made)
        label = outputs[0] if outputs else f"n{len(self.nodes)}"
        first = [t for t in (*list(inputs)[:1], *made[:1]) if t is not None]
        plain = all(t.dtype.is_float or t.quantization is None for t in first)
        contract = Contract.FLOAT32 if plain else Contract.TFLITE_REFERENCE
        if op in MOVES or (op == "concat" and made[0].dtype is not U8):
            contract = Contract.EXACT
        if isinstance(attrs, at.ResizeAttrs) and attrs.mode is at.ResizeMode.NEAREST:
            contract = Contract.EXACT
        self.nodes.append(Node(label, op, names, outputs, attrs, contract))
        return made

    def graph(self) -> Graph:
        """The graph; its outputs are what no node reads, and what a family shows."""
        read = {name for node in self.nodes for name in node.input_names}
        made = [name for node in self.nodes for name in node.outputs]
        return Graph(
            "case",
            dict(self.tensors),
            tuple(self.nodes),
            tuple(self.inputs),
            tuple(name for name in made if name not in read or name in self.shown),
            states=dict(self.states),
        )

    def feeds(self) -> dict[str, Array]:
        """Inputs with all corners of their range."""
        feeds: dict[str, Array] = {}
        for name in self.inputs:
            tensor = self.tensors[name]
            values = self.values(tensor.shape, tensor.dtype)
            if tensor.dtype in (DType.INT32, DType.INT64):
                values = self.rng.integers(-99, 99, tensor.shape).astype(str(tensor.dtype))
            if self.every_value and tensor.dtype in (I8, U8):
                low, high = tensor.dtype.limits
                values = np.arange(low, high + 1).astype(str(tensor.dtype)).reshape(1, 256)
            feeds[name] = values
        return feeds


# --- layers with weights ---


def _window(case: Case, shape: tuple[int, ...], dilated: bool) -> tuple[Any, Any, Any, Any]:
    """Kernel, stride, dilation and SAME or VALID padding."""
    kernel = (case.integer(1, min(4, shape[1])), case.integer(1, min(4, shape[2])))
    stride = (case.integer(1, 3), case.integer(1, 3))
    dilation = (case.integer(1, 2), case.integer(1, 2)) if dilated else (1, 1)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = (0, 0, 0, 0)
    if case.flag() or spans[0] > shape[1] or spans[1] > shape[2]:
        rows = same_padding(shape[1], kernel[0], stride[0], dilation[0])
        padding = (*rows, *same_padding(shape[2], kernel[1], stride[1], dilation[1]))
    return kernel, stride, dilation, padding


def _weights(
    case: Case, x: Tensor, shape: tuple[int, ...], axis: int, kind: DType, per_channel: bool
) -> tuple[Tensor, Array]:
    """Weights and their scales, one an output channel or one for all.

    One channel is never called "per channel": a file cannot tell the two apart.
    """
    channels = shape[axis]
    scales = case.spread(-10, -4, channels if per_channel else 1)
    quant: Quant = None
    if not kind.is_float:
        zero = case.zero(kind) if kind is U8 else 0
        quant = (
            Quantization.per_channel(scales, axis)
            if per_channel
            else Quantization.per_tensor(float(scales[0]), zero)
        )
    values = case.values(shape, kind)
    if kind is I8:
        values = np.maximum(values, -127).astype(np.int8)
    return case.constant(values, kind, quant), scales


def _bias(
    case: Case, x: Tensor, scales: Array, channels: int, per_channel: bool, *, must: bool = False
) -> Tensor | None:
    if not must and case.flag():
        return None
    if x.dtype.is_float:
        return case.constant(case.values((channels,), F32), F32)
    kind = DType.INT64 if x.dtype is I16 else DType.INT32
    product = (x.quant.s * scales).astype(np.float32)
    quant = (
        Quantization.per_channel(product, 0)
        if per_channel
        else Quantization.per_tensor(float(product[0]), 0)
    )
    values = case.rng.integers(-30000, 30000, channels)
    return case.constant(values.astype(str(kind)), kind, quant)


def _result(case: Case, x: Tensor, scales: Array, depth: int) -> Quant:
    """A scale under which some results saturate and others do not."""
    if x.dtype.is_float:
        return None
    span = 2.0 if x.dtype is I16 else 1.0
    typical = float(x.quant.s) * float(np.mean(scales)) * 75.0 * np.sqrt(depth)
    return case.quant(x.dtype, float(np.float32(typical * case.spread(-3, 4) * span)))


def _kinds(case: Case, allowed: Sequence[tuple[DType, DType]]) -> tuple[DType, DType]:
    pairs = [pair for pair in allowed if pair[0] in case.dtypes]
    first, second = case.one_of(*pairs)
    return first, second


LAYERS = ((I8, I8), (I8, I8), (U8, U8), (I16, I8), (F32, F32), (F32, I8), (I8, DType.INT4))


def conv(case: Case) -> None:
    kind, weights = _kinds(case, LAYERS)
    groups = case.one_of(1, 1, 1, 2) if weights is I8 and kind is I8 else 1
    shape = case.image(groups * case.integer(1, 6))
    x = case.source(shape, kind)
    hybrid = kind is F32 and weights is I8
    kernel, stride, dilation, padding = _window(case, shape, not hybrid)
    outputs = groups * case.integer(1, 6)
    per_channel = outputs > 1 and weights is not U8 and (hybrid or case.flag())
    size = (outputs, *kernel, shape[3] // groups)
    w, scales = _weights(case, x, size, 0, weights, per_channel)
    bias = _bias(case, x, scales, outputs, per_channel, must=True)
    attrs = at.ConvAttrs(stride, dilation, padding, case.activation(), groups)
    quant = _result(case, x, scales, int(np.prod(size[1:])))
    _layer(case, "conv2d", x, w, bias, attrs, kind, quant)


def _layer(
    case: Case,
    op: str,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    attrs: Attrs,
    kind: DType,
    quant: Quant,
) -> None:
    inputs = [x, w] if bias is None else [x, w, bias]
    case.node(op, inputs, attrs, kind, quant)


def depthwise(case: Case) -> None:
    kind, weights = _kinds(case, LAYERS)
    shape = case.image()
    x = case.source(shape, kind)
    hybrid = kind is F32 and weights is I8
    kernel, stride, dilation, padding = _window(case, shape, not hybrid)
    outputs = shape[3] * case.integer(1, 3)
    per_channel = outputs > 1 and weights is not U8 and (hybrid or case.flag())
    w, scales = _weights(case, x, (1, *kernel, outputs), 3, weights, per_channel)
    bias = _bias(case, x, scales, outputs, per_channel)
    attrs = at.ConvAttrs(stride, dilation, padding, case.activation())
    quant = _result(case, x, scales, kernel[0] * kernel[1])
    _layer(case, "depthwise_conv2d", x, w, bias, attrs, kind, quant)


def transpose_conv(case: Case) -> None:
    kind, weights = _kinds(case, ((I8, I8), (U8, U8), (I16, I8), (F32, F32)))
    shape = case.image()
    x = case.source(shape, kind)
    kernel = (case.integer(1, 4), case.integer(1, 4))
    stride = (case.integer(1, 3), case.integer(1, 3))
    outputs = case.integer(1, 6)
    per_channel = outputs > 1 and weights is I8 and case.flag()
    w, scales = _weights(case, x, (outputs, *kernel, shape[3]), 0, weights, per_channel)
    bias = _bias(case, x, scales, outputs, per_channel)
    padding: list[int] = []
    extra: list[int] = []
    same = case.flag()
    for axis in (0, 1):
        size = shape[axis + 1] * stride[axis] if same else 0
        size = size or (shape[axis + 1] - 1) * stride[axis] + kernel[axis]
        before = same_padding(size, kernel[axis], stride[axis], 1)[0] if same else 0
        behind = (shape[axis + 1] - 1) * stride[axis] + kernel[axis] - before - size
        padding += [before, max(behind, 0)]
        extra.append(max(-behind, 0))
    attrs = at.TransposeConvAttrs(
        stride, (padding[0], padding[1], padding[2], padding[3]), (extra[0], extra[1])
    )
    quant = _result(case, x, scales, shape[3] * kernel[0])
    _layer(case, "transpose_conv2d", x, w, bias, attrs, kind, quant)


def fully_connected(case: Case) -> None:
    kind, weights = _kinds(case, LAYERS)
    depth, outputs = case.integer(1, 40), case.integer(1, 10)
    keep = case.flag()
    lead = case.shape(1, 3, 3)
    x = case.source((*lead, depth), kind)
    hybrid = kind is F32 and weights is I8
    per_channel = outputs > 1 and weights is I8 and case.flag()
    w, scales = _weights(case, x, (outputs, depth), 0, weights, per_channel)
    bias = _bias(case, x, scales, outputs, per_channel)
    asymmetric = hybrid and case.flag()
    attrs = at.FullyConnectedAttrs(case.activation(), keep, asymmetric)
    quant = _result(case, x, scales, depth)
    _layer(case, "fully_connected", x, w, bias, attrs, kind, quant)


def batch_matmul(case: Case) -> None:
    kind = case.dtype(I8, I16, F32)
    lead = case.shape(0, 2, 3)
    rows, depth, columns = (case.integer(1, 9) for _ in range(3))
    swap_a, swap_b = case.flag(), case.flag()
    own = tuple(n if case.flag() else 1 for n in lead)
    a = case.source((*lead, *((depth, rows) if swap_a else (rows, depth))), kind)
    b = case.source((*own, *((columns, depth) if swap_b else (depth, columns))), kind)
    quant = None
    if not kind.is_float:
        quant = _result(case, a, np.array([b.quant.s]), depth)
    case.node("matmul", [a, b], at.MatMulAttrs(swap_a, swap_b), kind, quant)


# --- elementwise ---


def _pair(
    case: Case, kind: DType, quant: Quant = None, *, plain: bool = False
) -> tuple[Tensor, Tensor]:
    """Two operands that broadcast; at times one of them is constant."""
    shape = case.shape()
    other = tuple(n if case.flag() else 1 for n in shape)[case.one_of(0, 0, 1) :] or (1,)
    grids = [None if plain else quant or case.quant(kind) for _ in (0, 1)]
    a = case.input(shape, kind, grids[0])
    if case.one_of(False, False, True):
        b = case.constant(case.values(other, kind), kind, grids[1])
    else:
        b = case.input(other, kind, grids[1])
    return (a, b) if case.flag() else (b, a)


def arithmetic(case: Case) -> None:
    op = case.one_of("add", "sub", "mul")
    kind = case.dtype()
    a, b = _pair(case, kind)
    quant = None
    if not kind.is_float:
        wide = float(max(a.quant.s, b.quant.s)) if op != "mul" else float(a.quant.s * b.quant.s)
        gain = 64.0 if op == "mul" else 1.0
        quant = case.quant(kind, float(np.float32(wide * gain * case.spread(-2, 3))))
    case.node(op, [a, b], at.ElementwiseAttrs(case.activation()), kind, quant)


def extremes(case: Case) -> None:
    kind = case.dtype()
    quant = case.quant(kind)
    a, b = _pair(case, kind, quant)
    op = case.one_of("minimum", "maximum")
    case.node(op, [a, b], at.ElementwiseAttrs(), kind, quant)


def squared_difference(case: Case) -> None:
    kind = case.dtype(I8, I16, F32)
    a, b = _pair(case, kind)
    quant = None
    if not kind.is_float:
        wide = float(max(a.quant.s, b.quant.s)) ** 2 * 100
        quant = case.quant(kind, float(np.float32(wide * case.spread(-2, 3))))
    case.node("squared_difference", [a, b], at.ElementwiseAttrs(), kind, quant)


def float_arithmetic(case: Case) -> None:
    op = case.one_of("div", "floor_div", "floor_mod")
    a, b = _pair(case, F32)
    case.node(op, [a, b], at.ElementwiseAttrs(), F32)


def comparison(case: Case) -> None:
    op = case.one_of("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    kind = case.one_of(I8, F32, DType.INT32)
    a, b = _pair(case, kind, case.quant(kind), plain=kind is not I8)
    case.node(op, [a, b], NO_ATTRS, DType.BOOL)


# --- pools and reductions ---


def pool(case: Case) -> None:
    kind = case.dtype()
    shape = case.image()
    x = case.source(shape, kind)
    kernel, stride, _, padding = _window(case, shape, False)
    attrs = at.PoolAttrs(kernel, stride, padding, case.activation())
    case.node(case.one_of("average_pool2d", "max_pool2d"), [x], attrs, like=x)


def reduction(case: Case) -> None:
    op = case.one_of("mean", "mean", "sum", "reduce_max", "reduce_min")
    kind = case.dtype()
    shape = case.shape(1, 4)
    axes = tuple(sorted({case.integer(0, len(shape) - 1) for _ in range(case.integer(1, 3))}))
    x = case.source(shape, kind)
    quant = x.quantization
    if op in ("mean", "sum") and quant is not None:
        gain = 1.0 if op == "mean" else float(np.prod([shape[a] for a in axes])) ** 0.5
        scale = float(np.float32(float(quant.s) * gain * float(case.spread(-2, 2))))
        quant = case.quant(kind, scale)
    case.node(op, [x], at.ReduceAttrs(axes, case.flag()), kind, quant)


def arg_extreme(case: Case) -> None:
    kind = case.dtype(I8, U8, F32)
    shape = case.shape(1, 4)
    x = case.source(shape, kind)
    attrs = at.AxisAttrs(case.integer(0, len(shape) - 1))
    wide = case.one_of(DType.INT32, DType.INT32, DType.INT64)
    case.node(case.one_of("arg_max", "arg_max", "arg_min"), [x], attrs, wide)


# --- unary ---

_FIXED: Mapping[str, Mapping[DType, tuple[float, int]]] = {
    "softmax": {I8: (1 / 256, -128), U8: (1 / 256, 0), I16: (1 / 32768, 0)},
    "logistic": {I8: (1 / 256, -128), U8: (1 / 256, 0), I16: (1 / 32768, 0)},
    "tanh": {I8: (1 / 128, 0), U8: (1 / 128, 128), I16: (1 / 32768, 0)},
    "l2_normalization": {I8: (1 / 128, 0)},
}


def _fixed(op: str, kind: DType) -> Quant:
    return None if kind.is_float else Quantization.per_tensor(*_FIXED[op][kind])


def softmax(case: Case) -> None:
    kind = case.dtype()
    x = case.source(case.shape(1, 4, 12), kind)
    beta = case.one_of(1.0, 1.0, 0.5, 2.0)
    attrs = at.SoftmaxAttrs(len(x.shape) - 1, beta)
    case.node("softmax", [x], attrs, kind, _fixed("softmax", kind))


def sigmoid(case: Case) -> None:
    kind = case.dtype()
    op = case.one_of("logistic", "tanh")
    x = case.source(case.shape(), kind)
    if kind is I16 and case.flag():
        scale = float(case.one_of(2.0**-12, 2.0**-11, 2.0**-10))
        x = case.input(case.shape(), kind, Quantization.per_tensor(scale))
    case.node(op, [x], NO_ATTRS, kind, _fixed(op, kind))


def relu(case: Case) -> None:
    op = case.one_of("relu", "relu6", "relu_n1_to_1", "leaky_relu", "hard_swish")
    kind = case.dtype(I8, U8, F32)
    x = case.source(case.shape(), kind)
    attrs = at.LeakyReluAttrs(float(case.spread(-5, 0.5))) if op == "leaky_relu" else NO_ATTRS
    quant = x.quantization
    if quant is not None and op not in ("relu6", "relu_n1_to_1"):
        quant = case.quant(kind, float(np.float32(float(quant.s) * float(case.spread(-2, 2)))))
    case.node(op, [x], attrs, kind, quant)


def table_unary(case: Case) -> None:
    """Every stored value of an 8-bit type once."""
    op = case.one_of(
        *("logistic", "tanh", "hard_swish", "leaky_relu", "relu", "relu6", "relu_n1_to_1"),
        *("exp", "rsqrt", "abs", "gelu", "log"),
    )
    kind = I8 if op in ("exp", "rsqrt", "abs", "gelu", "log") else case.dtype(I8, U8)
    scale = float(case.spread(-9, 0))
    # negative numbers under a root or a logarithm are refused while the network runs
    zero = kind.limits[0] if op in ("rsqrt", "log") else case.zero(kind)
    x = case.input((1, 256), kind, Quantization.per_tensor(scale, zero))
    attrs: Attrs = NO_ATTRS
    if op == "leaky_relu":
        attrs = at.LeakyReluAttrs(float(case.spread(-5, 0.5)))
    if op == "gelu":
        attrs = at.GeluAttrs(case.flag())
    quant = case.quant(kind, float(np.float32(scale * float(case.spread(-2, 2)))))
    if op in _FIXED:
        quant = _fixed(op, kind)
    if op in ("relu6", "relu_n1_to_1"):
        quant = x.quantization
    case.node(op, [x], attrs, kind, quant)
    case.every_value = True


def prelu(case: Case) -> None:
    kind = case.dtype(I8, F32)
    shape = case.image()
    x = case.source(shape, kind)
    slope = case.one_of((1, 1, shape[3]), (shape[3],), shape[1:])
    alpha = case.constant(
        case.values(slope, kind), kind, case.quant(kind, float(case.spread(-8, -5)))
    )
    quant = None
    if not kind.is_float:
        quant = case.quant(kind, float(np.float32(float(x.quant.s) * float(case.spread(-1, 2)))))
    case.node("prelu", [x, alpha], NO_ATTRS, kind, quant)


def l2_normalization(case: Case) -> None:
    kind = case.dtype(I8, F32)
    x = case.source(case.shape(2, 4), kind)
    case.node("l2_normalization", [x], NO_ATTRS, kind, _fixed("l2_normalization", kind))


_FLOAT_UNARY = (
    *("exp", "abs", "neg", "floor", "ceil", "square", "sin", "cos", "elu", "sign"),
    *("round", "gelu", "sqrt", "rsqrt", "log"),
)


def float_unary(case: Case) -> None:
    op = case.one_of(*_FLOAT_UNARY)
    x = case.source(case.shape(), F32)
    if op in ("sqrt", "rsqrt", "log"):
        x = case.node("abs", [x], NO_ATTRS, F32)[0]
    attrs: Attrs = at.GeluAttrs(case.flag()) if op == "gelu" else NO_ATTRS
    case.node(op, [x], attrs, F32)


def change_type(case: Case) -> None:
    """quantize, dequantize, requantize."""
    kinds = [d for d in (I8, U8, I16, F32) if d in case.dtypes]
    a, b = case.one_of(*[(m, n) for m in kinds for n in kinds if not m is n is F32])
    x = case.source(case.shape(), a)
    if b is F32:
        case.node("dequantize", [x], NO_ATTRS, F32)
        return
    scale = float(case.spread(-6, 1))
    if a is not F32:
        scale = float(np.float32(float(x.quant.s) * float(case.spread(-3, 3))))
    case.node("quantize", [x], NO_ATTRS, b, case.quant(b, scale))


def cast(case: Case) -> None:
    kinds = (F32, DType.INT32, I8, U8, DType.BOOL, DType.INT64, I16)
    a, b = case.one_of(*[(m, n) for m in kinds for n in kinds if m is not n])
    x = case.input(case.shape(), a)
    if a is F32 and b is U8:
        # a negative number has no defined result
        x = case.node("abs", [x], NO_ATTRS, F32)[0]
    case.node("cast", [x], NO_ATTRS, b)


# --- resampling and movement ---


def resize(case: Case) -> None:
    x = case.source(case.image(), case.dtype(I8, U8, F32))
    size = (case.integer(1, 14), case.integer(1, 14))
    mode = at.ResizeMode(case.one_of("nearest", "bilinear"))
    coordinates, nearest = case.one_of(
        (at.CoordinateMode.ASYMMETRIC, at.NearestMode.FLOOR),
        (at.CoordinateMode.ALIGN_CORNERS, at.NearestMode.ROUND_PREFER_CEIL),
        (at.CoordinateMode.HALF_PIXEL, at.NearestMode.FLOOR),
    )
    if mode is at.ResizeMode.NEAREST and coordinates is at.CoordinateMode.HALF_PIXEL:
        coordinates = at.CoordinateMode.HALF_PIXEL_NEAREST
    case.node("resize", [x], at.ResizeAttrs(size, mode, coordinates, nearest), like=x)


def pad(case: Case) -> None:
    x = case.source(case.image(), case.dtype())
    before, after = ([case.integer(0, 3) for _ in range(4)] for _ in (0, 1))
    usual = float(x.quant.z) if x.quantization is not None else 0.0
    value = usual if case.flag() else float(case.integer(-100, 100) % 101)
    attrs = at.PadAttrs(tuple(before), tuple(after), value=value)
    if case.one_of(False, False, True):
        mode = at.PadMode(case.one_of("reflect", "symmetric"))
        slack = 1 if mode is at.PadMode.REFLECT else 0
        for amounts in (before, after):
            amounts[0] = amounts[3] = 0
            for axis in (1, 2):
                amounts[axis] = min(amounts[axis], x.shape[axis] - slack)
        attrs = at.PadAttrs(tuple(before), tuple(after), mode)
    case.node("pad", [x], attrs, like=x)


def concat(case: Case) -> None:
    kind = case.dtype()
    shape = case.shape()
    axis = case.integer(0, len(shape) - 1)
    quant = case.quant(kind)
    parts = []
    for _ in range(case.integer(1, 4)):
        own = tuple(case.integer(1, 4) if i == axis else n for i, n in enumerate(shape))
        # uint8 parts have scales of their own, all others share one
        parts.append(case.input(own, kind, case.quant(kind) if kind is U8 else quant))
    case.node("concat", parts, at.ConcatAttrs(axis), kind, quant)


def split(case: Case) -> None:
    kind = case.dtype()
    shape = list(case.shape())
    axis = case.integer(0, len(shape) - 1)
    sizes = tuple(case.integer(1, 3) for _ in range(case.integer(1, 4)))
    shape[axis] = sum(sizes)
    x = case.source(shape, kind)
    case.node("split", [x], at.SplitAttrs(axis, sizes), like=x)


def sliced(case: Case) -> None:
    x = case.source(case.shape(), case.dtype())
    begin, step, count = [], [], []
    strided = case.flag()
    for n in x.shape:
        first = case.integer(0, n - 1)
        stride = case.one_of(1, 2, -1, -2) if strided else 1
        room = (n - first - 1) // stride if stride > 0 else first // -stride
        begin.append(first)
        step.append(stride)
        count.append(case.integer(1, room + 1))
    case.node("slice", [x], at.SliceAttrs(tuple(begin), tuple(step), tuple(count)), like=x)


def gather(case: Case) -> None:
    x = case.source(case.shape(), case.dtype())
    axis = case.integer(0, len(x.shape) - 1)
    index = case.rng.integers(0, x.shape[axis], case.shape(1, 2, 4)).astype(np.int32)
    operand = case.constant(index, DType.INT32)
    case.node("gather", [x, operand], at.AxisAttrs(axis), like=x)


def tile(case: Case) -> None:
    x = case.source(case.shape(), case.dtype())
    repeats = tuple(case.integer(1, 3) for _ in x.shape)
    case.node("tile", [x], at.TileAttrs(repeats), like=x)


def broadcast_to(case: Case) -> None:
    shape = case.shape()
    x = case.source(tuple(n if case.flag() else 1 for n in shape), case.dtype())
    case.node("broadcast_to", [x], at.ReshapeAttrs(shape), like=x)


def transpose(case: Case) -> None:
    x = case.source(case.shape(1, 5, 5), case.dtype())
    case.node("transpose", [x], at.TransposeAttrs(case.permutation(len(x.shape))), like=x)


def reshape(case: Case) -> None:
    shape = case.shape()
    x = case.source(shape, case.dtype())
    count = int(np.prod(shape))
    wanted = case.one_of((count,), (1, count), (*reversed(shape),), (*shape, 1))
    case.node("reshape", [x], at.ReshapeAttrs(tuple(wanted)), like=x)


def blocks(case: Case) -> None:
    """SPACE_TO_DEPTH and DEPTH_TO_SPACE, as the graph knows them."""
    b = case.integer(2, 3)
    n, h, w, c = 1, case.integer(1, 4), case.integer(1, 4), case.integer(1, 4)
    split, packed = (n, h, b, w, b, c), (n, h, w, b, b, c)
    deep, wide = (n, h, w, b * b * c), (n, h * b, w * b, c)
    to_depth = case.flag()
    source, first, last = (wide, split, deep) if to_depth else (deep, packed, wide)
    x = case.source(source, case.dtype(I8, U8, F32))
    apart = case.node("reshape", [x], at.ReshapeAttrs(first), like=x)[0]
    perm = at.TransposeAttrs((0, 1, 3, 2, 4, 5))
    moved = case.node("transpose", [apart], perm, like=x)[0]
    case.node("reshape", [moved], at.ReshapeAttrs(last), like=x)


def select(case: Case) -> None:
    kind = case.dtype(I8, F32, I16)
    shape = case.shape()
    condition = case.input(tuple(n if case.flag() else 1 for n in shape), DType.BOOL)
    quant = case.quant(kind)
    a, b = (case.input(shape, kind, quant) for _ in (0, 1))
    case.node("select", [condition, a, b], NO_ATTRS, kind, quant)


def state(case: Case) -> None:
    """A delay line: the new frame behind what is left of the old ones."""
    kind = case.dtype(I8, F32)
    frames, width = case.integer(1, 5), case.integer(1, 6)
    x = case.source((1, frames, width), kind)
    kept = case.integer(1, 5)
    name = f"state:s{len(case.states)}"
    case.tensors[name] = Tensor(name, (1, kept, width), kind, x.quantization)
    case.states[name] = case.values((1, kept, width), kind)
    attrs = at.StateAttrs(name, (1, kept, width))
    old = case.node("read_variable", [], attrs, like=x)[0]
    whole = case.node("concat", [old, x], at.ConcatAttrs(1), like=x)[0]
    case.shown.append(whole.name)
    cut = at.SliceAttrs((0, frames, 0), (1, 1, 1), (1, kept, width))
    new = case.node("slice", [whole], cut, like=x)[0]
    case.node("assign_variable", [new], attrs, like=x)


def detection(case: Case) -> None:
    boxes, classes = case.integer(12, 30), case.integer(1, 5)
    background = case.integer(0, 1)
    x = case.input((1, boxes, 4), F32)
    scores = case.input((1, boxes, classes + background), F32)
    corners = case.rng.uniform(0, 1, (boxes, 4)).astype(np.float32)
    anchors = case.constant(corners, F32)
    attrs = at.DetectionAttrs(
        max_detections=case.integer(1, 12),
        max_classes_per_detection=case.integer(1, min(2, classes)),
        classes=classes,
        score_threshold=case.one_of(0.0, 0.25, 0.5),
        iou_threshold=case.one_of(0.25, 0.5, 0.75),
        scales=(10.0, 10.0, 5.0, 5.0),
        regular=case.flag(),
        detections_per_class=case.one_of(1, 4, 100),
    )
    case.node("detection_postprocess", [x, scores, anchors], attrs, F32)


Family = Callable[[Case], None]
FAMILIES: Mapping[str, Family] = {
    family.__name__: family
    for family in (
        *(conv, depthwise, transpose_conv, fully_connected, batch_matmul, arithmetic, extremes),
        *(squared_difference, float_arithmetic, comparison, pool, reduction, arg_extreme, softmax),
        *(
            table_unary,
            sigmoid,
            relu,
            prelu,
            l2_normalization,
            float_unary,
            change_type,
            cast,
            resize,
            pad,
        ),
        *(concat, split, sliced, gather, tile, broadcast_to, transpose, reshape, blocks, select),
        *(state, detection),
    )
}
"""Every operator family by name."""
