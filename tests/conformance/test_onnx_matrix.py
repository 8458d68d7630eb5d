"""Operator matrix: random layers of every family, layer by layer against ONNX Runtime.

Integer kernels of ONNX Runtime must be met exactly; where it computes in floats between a
dequantise and a quantise, one step of the result is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper
from tests.onnx_models import Layers

from npuforge.importers.onnx.importer import import_onnx
from npuforge.numerics import Executor
from npuforge.validate.onnx_layers import OnnxRuntimeLayers, cpu_features

CASES = 200
# Without VNNI, ONNX Runtime adds two products of a byte pair in 16 bits and saturates there (its
# quantisation guide says so and advises reduced range): weights of 7 bits cannot.
VNNI = any(flag in cpu_features() for flag in ("vnni", "amx_int8", "asimddp"))
WEIGHT = 127 if VNNI else 63
matrix = settings(
    max_examples=CASES,
    derandomize=True,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
Draw = Callable[[Any], Any]


class Case:
    """Draws the parameters of one layer."""

    def __init__(self, data: st.DataObject, *, unsigned: bool | None = None) -> None:
        self.draw: Draw = data.draw
        flag = self.flag() if unsigned is None else unsigned
        self.layers = Layers(unsigned=flag, opset=self.one_of(13, 17, 19))
        self.rng = np.random.default_rng(self.integer(0, 1 << 30))

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def flag(self) -> bool:
        return bool(self.draw(st.booleans()))

    def one_of(self, *values: Any) -> Any:
        return self.draw(st.sampled_from(values))

    def scale(self) -> float:
        return float(np.float32(2.0 ** self.draw(st.floats(-9, 1))))

    def zero(self) -> int:
        return int(self.one_of(-128, 127, 0, self.integer(-128, 127)))

    def grid(self) -> tuple[float, int]:
        return self.scale(), self.zero()

    def image(self, channels: int | None = None) -> tuple[int, int, int, int]:
        c = self.integer(1, 9) if channels is None else channels
        return self.integer(1, 2), c, self.integer(1, 9), self.integer(1, 9)

    def result(self, name: str) -> None:
        """Quantise the layer's result, at times after an activation."""
        activation = self.one_of("", "", "Relu", "Clip")
        if activation == "Relu":
            name = self.layers.node("Relu", [name])
        elif activation == "Clip":
            limits = [self.layers.const(v, "float32") for v in (0.0, 6.0)]
            name = self.layers.node("Clip", [name, *limits])
        self.layers.output(self.layers.quantized(name, *self.grid()))

    def outputs(self, name: str) -> None:
        self.layers.output(self.layers.quantized(name, *self.grid()))

    def feeds(self, content: bytes) -> dict[str, Any]:
        feeds = {}
        for value in self.layers.inputs:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            wide = self.rng.uniform(-1, 1, shape) * 2.0 ** self.rng.uniform(-3, 8)
            feeds[value.name] = wide.astype(np.float32)
        return feeds

    def check(self) -> None:
        """Every quantised tensor equals ONNX Runtime's, fed with the same layer inputs."""
        content = self.layers.bytes()
        graph = import_onnx(content, "case", "case.onnx")
        executor = Executor(graph, capture=True)
        oracle = OnnxRuntimeLayers(graph, content)
        feeds = self.feeds(content)
        executor.run(feeds)
        ours = executor.read(executor.activations())
        truth = oracle.tensors(feeds, ours)
        assert truth
        contracts = {name: node.contract for node in graph.nodes for name in node.outputs}
        for name, value in truth.items():
            have = ours[name]
            if graph.tensors[name].dtype.is_float:
                np.testing.assert_allclose(have, value, rtol=1e-4, atol=1e-5 * np.abs(value).max())
                continue
            steps = np.abs(have.astype(np.int32) - value.astype(np.int32))
            piece = oracle.pieces[name]
            allowed = 0 if piece.is_qlinear else 1
            if "QLinearAveragePool" in piece.kernels and self.layers.activation == "uint8":
                # a float zero point is added before rounding; ours lies 128 lower
                allowed = 1
            assert steps.max(initial=0) <= allowed, (name, contracts.get(name), piece.kernels)


def window(case: Case, shape: tuple[int, ...]) -> dict[str, Any]:
    """Kernel, stride, dilation and padding that leave at least one output."""
    kernel = [case.integer(1, 4), case.integer(1, 4)]
    dilations = [case.integer(1, 2), case.integer(1, 2)]
    attrs: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": [case.integer(1, 3), case.integer(1, 3)],
    }
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [case.integer(0, s - 1) for s in (*spans, *spans)]
    for axis in (0, 1):
        short = spans[axis] - shape[axis + 2] - pads[axis] - pads[axis + 2]
        if short > 0:
            pads[axis + 2] += short
    attrs["pads"] = pads
    attrs["dilations"] = dilations
    return attrs


@matrix
@given(st.data())
def test_convolution(data: st.DataObject) -> None:
    case = Case(data)
    groups = case.one_of(1, 1, 2, 3)
    depth, outputs = case.integer(1, 6), groups * case.integer(1, 6)
    shape = case.image(groups * depth)
    attrs = window(case, shape) | {"group": groups}
    x = case.layers.input(shape, *case.grid())
    values = case.rng.integers(-WEIGHT, WEIGHT + 1, (outputs, depth, *attrs["kernel_shape"]))
    per_channel = case.flag()
    scale = case.rng.uniform(0.001, 0.05, outputs) if per_channel else case.scale()
    w = case.layers.weights(values, scale, 0 if per_channel else None)
    operands = [x, w]
    if case.flag():
        stored = case.rng.integers(-9999, 9999, outputs)
        x_scale = bias_scale(case, x)
        operands.append(
            case.layers.weights(stored, np.float32(x_scale) * np.float32(scale), 0, "int32")
            if per_channel
            else case.layers.weights(stored, float(x_scale * scale), None, "int32")
        )
    case.result(case.layers.node("Conv", operands, **attrs))
    case.check()


def bias_scale(case: Case, x: str) -> float:
    """The scale of a quantised input, as its dequantise node states it."""
    node = next(n for n in case.layers.nodes if n.output[0] == x)
    constant = next(c for c in case.layers.constants if c.name == node.input[1])
    from onnx import numpy_helper

    return float(numpy_helper.to_array(constant))


@matrix
@given(st.data())
def test_depthwise_convolution(data: st.DataObject) -> None:
    case = Case(data)
    channels = case.integer(2, 9)
    shape = case.image(channels)
    attrs = window(case, shape) | {"group": channels}
    x = case.layers.input(shape, *case.grid())
    values = case.rng.integers(-WEIGHT, WEIGHT + 1, (channels, 1, *attrs["kernel_shape"]))
    w = case.layers.weights(values, case.rng.uniform(0.001, 0.05, channels), 0)
    case.result(case.layers.node("Conv", [x, w], **attrs))
    case.check()


@matrix
@given(st.data())
def test_fully_connected(data: st.DataObject) -> None:
    case = Case(data)
    depth, outputs = case.integer(1, 40), case.integer(1, 12)
    scale: Any = case.scale()
    axis = None
    if case.flag():
        rows = (case.integer(1, 4),)
        by_rows = case.flag()
        shape = (outputs, depth) if by_rows else (depth, outputs)
        if case.flag():
            axis, scale = (0 if by_rows else 1), case.rng.uniform(0.001, 0.05, outputs)
        x = case.layers.input((*rows, depth), *case.grid())
        w = case.layers.weights(case.rng.integers(-WEIGHT, WEIGHT + 1, shape), scale, axis)
        result = case.layers.node("Gemm", [x, w], transB=int(by_rows))
    else:
        lead = [case.integer(1, 3) for _ in range(case.integer(1, 3))]
        x = case.layers.input((*lead, depth), *case.grid())
        w = case.layers.weights(
            case.rng.integers(-WEIGHT, WEIGHT + 1, (depth, outputs)), scale, None
        )
        result = case.layers.node("MatMul", [x, w])
    case.outputs(result)
    case.check()


@matrix
@given(st.data())
def test_matrix_product(data: st.DataObject) -> None:
    case = Case(data)
    rank = case.integer(0, 2)
    lead = [case.integer(1, 3) for _ in range(rank)]
    rows, depth, columns = (case.integer(1, 8) for _ in range(3))
    a_shape, b_shape = [*lead, rows, depth], [*lead, depth, columns]
    swap = case.flag()
    if swap:
        b_shape[-2:] = [columns, depth]
    a, b = (case.layers.input(shape, *case.grid()) for shape in (a_shape, b_shape))
    if swap:
        perm = [*range(rank), rank + 1, rank]
        b = case.layers.quantized(case.layers.node("Transpose", [b], perm=perm), *case.grid())
    case.outputs(case.layers.node("MatMul", [a, b]))
    case.check()


@matrix
@given(st.data())
def test_binary(data: st.DataObject) -> None:
    case = Case(data)
    op = case.one_of("Add", "Mul", "Sub", "Div", "Min", "Max")
    shape = list(case.image())
    other = [n if case.flag() else 1 for n in shape]
    if case.flag():
        other = other[case.integer(0, 2) :]
    a = case.layers.input(shape, *case.grid())
    # a computed divisor may be zero, which no two implementations quantise alike
    if op != "Div" and case.flag():
        b = case.layers.input(other, *case.grid())
    else:
        grid = case.layers.scale(case.scale(), case.layers.zero(0), case.layers.activation)
        low = 1 if case.layers.activation == "int8" else 129
        stored = case.layers.const(case.rng.integers(low, low + 126, other), case.layers.activation)
        b = case.layers.node("DequantizeLinear", [stored, *grid])
    operands = [a, b] if op == "Div" or case.flag() else [b, a]
    case.result(case.layers.node(op, operands))
    case.check()


UNARY: dict[str, dict[str, float]] = {
    "Sigmoid": {},
    "Tanh": {},
    "LeakyRelu": {"alpha": 0.1},
    "HardSigmoid": {"alpha": 1 / 6},
    "HardSwish": {},
    "Relu": {},
    "Elu": {},
    "Exp": {},
    "Abs": {},
    "Neg": {},
    "Erf": {},
    "Softplus": {},
}


@matrix
@given(st.data())
def test_unary(data: st.DataObject) -> None:
    case = Case(data)
    op = case.one_of(*UNARY)
    if op == "HardSwish" and case.layers.opset < 14:
        op = "Tanh"
    x = case.layers.input(case.image(), *case.grid())
    case.outputs(case.layers.node(op, [x], **UNARY[op]))
    case.check()


@matrix
@given(st.data())
def test_softmax(data: st.DataObject) -> None:
    case = Case(data)
    rank = case.integer(2, 4)
    shape = [case.integer(1, 12) for _ in range(rank)]
    x = case.layers.input(shape, *case.grid())
    result = case.layers.node("Softmax", [x], axis=case.integer(-rank, rank - 1))
    if case.flag():
        case.layers.output(case.layers.quantized(result, 1 / 256, -128))
    else:
        case.outputs(result)
    case.check()


@matrix
@given(st.data())
def test_pooling(data: st.DataObject) -> None:
    case = Case(data)
    shape = case.image()
    op = case.one_of("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
    grid = case.grid()
    x = case.layers.input(shape, *grid)
    attrs: dict[str, Any] = {}
    if not op.startswith("Global"):
        attrs = window(case, shape)
        del attrs["dilations"]
        kernel = attrs["kernel_shape"]
        for axis in (0, 1):
            kernel[axis] = min(kernel[axis], shape[axis + 2])
        attrs["pads"] = [case.integer(0, kernel[i % 2] - 1) for i in range(4)]
        if op == "AveragePool":
            attrs["count_include_pad"] = case.integer(0, 1)
    result = case.layers.node(op, [x], **attrs)
    if op in ("MaxPool", "GlobalMaxPool") and case.flag():
        case.layers.output(case.layers.quantized(result, *grid))
    else:
        case.outputs(result)
    case.check()


@matrix
@given(st.data())
def test_reduction(data: st.DataObject) -> None:
    case = Case(data)
    rank = case.integer(2, 4)
    shape = [case.integer(1, 6) for _ in range(rank)]
    axes = sorted({case.integer(0, rank - 1) for _ in range(case.integer(1, 3))})
    op = case.one_of("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
    x = case.layers.input(shape, *case.grid())
    keep = case.integer(0, 1)
    if op == "ReduceSum" or (case.layers.opset >= 18 and op != "ReduceSum"):
        operands = [x, case.layers.const(axes, "int64")]
        result = case.layers.node(op, operands, keepdims=keep)
    else:
        result = case.layers.node(op, [x], axes=axes, keepdims=keep)
    case.outputs(result)
    case.check()


@matrix
@given(st.data())
def test_movement(data: st.DataObject) -> None:
    case = Case(data)
    shape = list(case.image())
    grid = case.grid()
    x = case.layers.input(shape, *grid)
    move = case.one_of(transposed, sliced, split, padded, joined, resized, tiled, blocks)
    for result in move(case, x, shape, grid):
        case.layers.output(case.layers.quantized(result, *(grid if case.flag() else case.grid())))
    case.check()


def transposed(case: Case, x: str, shape: list[int], grid: Any) -> list[str]:
    perm = case.draw(st.permutations(range(4)))
    return [case.layers.node("Transpose", [x], perm=list(perm))]


def sliced(case: Case, x: str, shape: list[int], grid: Any) -> list[str]:
    axis = case.integer(0, 3)
    first = case.integer(0, shape[axis] - 1)
    last = case.integer(first + 1, shape[axis])
    step = case.one_of(1, 2, -1)
    if step < 0:
        first, last = last - 1, first - 1 if first else -(1 << 40)
    operands = [case.layers.const([v], "int64") for v in (first, last, axis, step)]
    return [case.layers.node("Slice", [x, *operands])]


def split(case: Case, x: str, shape: list[int], grid: Any) -> list[str]:
    axis = max(range(4), key=lambda i: shape[i])
    if shape[axis] < 2:
        return [case.layers.node("Identity", [x])]
    first = case.integer(1, shape[axis] - 1)
    sizes = case.layers.const([first, shape[axis] - first], "int64")
    pieces: list[str] = case.layers.node("Split", [x, sizes], 2, axis=axis)
    return pieces


def padded(case: Case, x: str, shape: list[int], grid: Any) -> list[str]:
    pads = [case.integer(0, 2) for _ in range(8)]
    amounts = case.layers.const(pads, "int64")
    fill = case.layers.const(case.one_of(0.0, grid[0] * 3), "float32")
    return [case.layers.node("Pad", [x, amounts, fill])]


def joined(case: Case, x: str, shape: list[int], grid: Any) -> list[str]:
    axis = case.integer(0, 3)
    other = list(shape)
    other[axis] = case.integer(1, 4)
    y = case.layers.input(other, *case.grid())
    return [case.layers.node("Concat", [x, y], axis=axis)]


def resized(case: Case, x: str, shape: list[int], grid: Any) -> list[str]:
    empty = case.layers.const([], "float32")
    mode = case.one_of("nearest", "linear")
    modes = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attrs = {"mode": mode, "coordinate_transformation_mode": case.one_of(*modes)}
    if mode == "nearest":
        kinds = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        attrs["nearest_mode"] = case.one_of(*kinds)
    sizes = [*shape[:2], case.integer(1, 14), case.integer(1, 14)]
    operands = [x, empty, empty, case.layers.const(sizes, "int64")]
    return [case.layers.node("Resize", operands, **attrs)]


def tiled(case: Case, x: str, shape: list[int], grid: Any) -> list[str]:
    repeats = case.layers.const([case.integer(1, 3) for _ in range(4)], "int64")
    return [case.layers.node("Tile", [x, repeats])]


def blocks(case: Case, x: str, shape: list[int], grid: Any) -> list[str]:
    block = case.integer(1, 3)
    n, c, h, w = shape
    if case.flag():
        target = case.layers.const([n, 4, h * c, w], "int64")
        wide = [n, 4, h * c, w]
        if np.prod(wide) != np.prod(shape):
            target = case.layers.const([n, c, h, w], "int64")
        return [case.layers.node("Reshape", [x, target])]
    repeats = case.layers.const([1, block * block, block, block], "int64")
    wide_x = case.layers.quantized(case.layers.node("Tile", [x, repeats]), *grid)
    if case.flag():
        mode = case.one_of("DCR", "CRD")
        return [case.layers.node("DepthToSpace", [wide_x], blocksize=block, mode=mode)]
    return [case.layers.node("SpaceToDepth", [wide_x], blocksize=block)]


@matrix
@given(st.data())
def test_float_layers(data: st.DataObject) -> None:
    case = Case(data, unsigned=False)
    layers, rng = case.layers, case.rng
    shape = list(case.image())
    channels = shape[1]
    x = layers.input(shape, None)
    op = case.one_of("Conv", "ConvTranspose", "BatchNormalization", "PRelu", "Clip", "Pool", "Mix")
    if op == "Conv":
        attrs = window(case, tuple(shape))
        size = (case.integer(1, 5), channels, *attrs["kernel_shape"])
        operands = [layers.const(rng.normal(size=size), "float32")]
        operands.append(layers.const(rng.normal(size=size[0]), "float32"))
        result = layers.node("Conv", [x, *operands], **attrs)
    elif op == "ConvTranspose":
        kernel = [case.integer(1, 3), case.integer(1, 3)]
        w = layers.const(rng.normal(size=(channels, case.integer(1, 5), *kernel)), "float32")
        strides = [case.integer(1, 2), case.integer(1, 2)]
        result = layers.node("ConvTranspose", [x, w], strides=strides, kernel_shape=kernel)
    elif op == "BatchNormalization":
        operands = [layers.const(rng.uniform(0.5, 2, channels), "float32") for _ in range(4)]
        result = layers.node("BatchNormalization", [x, *operands])
    elif op == "PRelu":
        slope = layers.const(rng.uniform(-1, 1, (channels, 1, 1)), "float32")
        result = layers.node("PRelu", [x, slope])
    elif op == "Clip":
        limits = [layers.const(v, "float32") for v in (-0.5, case.one_of(0.75, 6.0))]
        result = layers.node("Clip", [x, *limits])
    elif op == "Pool":
        kind = case.one_of("MaxPool", "AveragePool")
        kernel = [case.integer(1, min(3, n)) for n in shape[2:]]
        result = layers.node(kind, [x], kernel_shape=kernel)
    else:
        flat = layers.node("Flatten", [x])
        depth = int(np.prod(shape[1:]))
        w = layers.const(rng.normal(size=(depth, 4)), "float32")
        result = layers.node("Softmax", [layers.node("MatMul", [flat, w])], axis=-1)
    layers.output(layers.node("Sqrt", [layers.node("Abs", [result])]))
    case.check()


QLINEAR = {"QLinearAdd": "Add", "QLinearMul": "Mul", "QLinearSigmoid": "Sigmoid"}


@matrix
@given(st.data())
def test_qoperator_form(data: st.DataObject) -> None:
    """Nodes that carry their scales themselves, as ONNX Runtime's quantiser writes them."""
    case = Case(data)
    layers, rng = case.layers, case.rng
    kind = layers.activation

    def stored(shape: Any) -> list[str]:
        name = layers.name("x")
        layers.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        grid = layers.scale(case.scale(), layers.zero(case.zero()), kind)
        return [layers.node("QuantizeLinear", [name, *grid]), *grid]

    def grid() -> list[str]:
        return layers.scale(case.scale(), layers.zero(case.zero()), kind)

    op = case.one_of("QLinearConv", "QLinearMatMul", "QGemm", *QLINEAR, "QLinearConcat", "Pool")
    shape = case.image()
    result_grid = grid()
    domain = {"domain": "com.microsoft"}
    if op == "QLinearConv":
        outputs = case.integer(1, 5)
        w = layers.const(rng.integers(-WEIGHT, WEIGHT + 1, (outputs, shape[1], 1, 1)), "int8")
        per_channel = [rng.uniform(0.001, 0.05, outputs), np.zeros(outputs)]
        bias = layers.const(rng.integers(-999, 999, outputs), "int32")
        operands = [*stored(shape), w, *layers.scale(*per_channel, "int8"), *result_grid, bias]
        result = layers.node(op, operands)
    elif op in ("QLinearMatMul", "QGemm"):
        depth, outputs = case.integer(1, 20), case.integer(1, 6)
        w = [layers.const(rng.integers(-WEIGHT, WEIGHT + 1, (depth, outputs)), "int8")]
        w += layers.scale(case.scale(), 0, "int8")
        x = stored((case.integer(1, 3), depth))
        if op == "QGemm":
            bias = layers.const(rng.integers(-999, 999, outputs), "int32")
            result = layers.node(op, [*x, *w, bias, *result_grid], **domain)
        else:
            result = layers.node(op, [*x, *w, *result_grid])
    elif op in ("QLinearAdd", "QLinearMul"):
        result = layers.node(op, [*stored(shape), *stored(shape), *result_grid], **domain)
    elif op == "QLinearSigmoid":
        result = layers.node(op, [*stored(shape), *result_grid], **domain)
    elif op == "QLinearConcat":
        operands = [*result_grid, *stored(shape), *stored(shape)]
        result = layers.node(op, operands, axis=case.integer(0, 3), **domain)
    else:
        operands = [*stored(shape), *result_grid]
        attrs = {"channels_last": 0, **domain}
        result = layers.node("QLinearGlobalAveragePool", operands, **attrs)
    layers.output(layers.node("DequantizeLinear", [result, *result_grid]))
    case.check()
