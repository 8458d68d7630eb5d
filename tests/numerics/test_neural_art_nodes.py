"""Contract neural_art node by node: geometry against other kernels, rescaling against reals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import single, tensor

from npuforge.accelerators.neural_art.lowering import conv_choice, default_choices
from npuforge.graph import (
    Attrs,
    ConcatAttrs,
    ConvAttrs,
    CoordinateMode,
    ElementwiseAttrs,
    Graph,
    PoolAttrs,
    Quantization,
    ResizeAttrs,
    ResizeMode,
    Tensor,
    TransposeConvAttrs,
)
from npuforge.graph.ops import SCHEMAS
from npuforge.numerics import Executor
from npuforge.numerics.neural_art import (
    Choices,
    ConvConstants,
    Convolver,
    Form,
    Grade,
    NeuralArtExecutor,
    Unit,
    conv_layer,
    function_table,
    grade,
    node_constants,
    unit_of,
    with_neural_art,
)
from npuforge.vocab import Activation, Contract, DType

LAYERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], Attrs]] = {
    "strided": ("conv2d", (1, 9, 8, 5), (6, 3, 3, 5), ConvAttrs((2, 2), (1, 1), (1, 1, 0, 1))),
    "dilated": ("conv2d", (1, 9, 11, 4), (3, 3, 3, 4), ConvAttrs((1, 1), (2, 3), (2, 2, 3, 3))),
    "split": ("conv2d", (1, 12, 13, 3), (17, 7, 8, 3), ConvAttrs((1, 1), (1, 1), (3, 3, 4, 3))),
    "many": ("conv2d", (1, 3, 4, 300), (5, 1, 1, 300), ConvAttrs()),
    "batch": ("conv2d", (3, 5, 5, 2), (4, 3, 2, 2), ConvAttrs()),
    "groups": ("conv2d", (1, 6, 6, 8), (6, 3, 3, 4), ConvAttrs(groups=2)),
    "depthwise": ("depthwise_conv2d", (1, 8, 7, 6), (1, 5, 3, 6), ConvAttrs((1, 2), (1, 1))),
    "multiplied": ("depthwise_conv2d", (1, 6, 6, 3), (1, 3, 3, 6), ConvAttrs()),
    "connected": ("fully_connected", (4, 70), (9, 70), SCHEMAS["fully_connected"].attrs()),
    "transposed": (
        "transpose_conv2d", (1, 5, 6, 3), (4, 3, 3, 3), TransposeConvAttrs((2, 2), (0, 1, 1, 0)),
    ),
    "spread": (
        "transpose_conv2d", (1, 4, 3, 2), (3, 2, 2, 2), TransposeConvAttrs((3, 2), (0, 0, 0, 0)),
    ),
    "cut": (
        "transpose_conv2d", (1, 6, 6, 2), (3, 2, 2, 2), TransposeConvAttrs((1, 1), (2, 2, 1, 2)),
    ),
}  # fmt: skip


def layer(name: str, zero: int, seed: int = 0) -> Graph:
    """A quantised layer whose outputs use the whole range for inputs near the zero point."""
    op, in_shape, w_shape, attrs = LAYERS[name]
    rng = np.random.default_rng(seed)
    outputs = w_shape[3] if op == "depthwise_conv2d" else w_shape[0]
    scale = rng.uniform(0.004, 0.008, outputs).astype(np.float32)
    if op == "fully_connected":
        scale = np.full(outputs, 0.005, np.float32)
    axis = 3 if op == "depthwise_conv2d" else 0
    weights = rng.integers(-127, 128, w_shape)
    x = tensor("x", in_shape, quant=(0.05, zero))
    w = tensor("w", w_shape, quant=Quantization.per_channel(scale, axis), data=weights)
    b = tensor(
        "b",
        (outputs,),
        DType.INT32,
        Quantization.per_channel(scale * np.float32(0.05), 0),
        rng.integers(-500, 500, outputs),
    )
    shape = SCHEMAS[op].infer((x, w, b), attrs)[0]
    taps = int(np.prod(w_shape)) // outputs
    y = tensor("y", shape, quant=(0.05 * 0.006 * 17 * 74 * np.sqrt(taps) / 40, -5))
    return single(op, [x, w, b], [y], attrs)


@pytest.mark.parametrize("merged", [False, True], ids=["two stages", "merged"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree_with_the_reference_rule_within_its_rounding(name: str, merged: bool) -> None:
    """Another kernel tells whether weights, padding and strides meet; rounding differs by one."""
    contract = Contract.NEURAL_ART_1_1_3 if merged else Contract.NEURAL_ART
    for zero in (-128, 7):
        graph = layer(name, zero)
        # small values: the 16-bit sums of random weights would saturate on others
        near = np.random.default_rng(1).integers(-30, 31, LAYERS[name][1]) + zero
        x = np.clip(near, -128, 127).astype(np.int8)
        chip = with_neural_art(graph, contract)
        assert chip.nodes[0].contract is contract
        executor = NeuralArtExecutor(chip, default_choices(chip))
        found = executor.run({"x": x})["y"].astype(int)
        assert executor.counts[chip.nodes[0].name].shift == 0
        flat = [single_image(graph, image) for image in x] if name == "batch" else None
        wanted = np.concatenate(flat) if flat else Executor(graph).run({"x": x})["y"]
        assert np.ptp(found) > 60
        assert np.abs(found - wanted).max() <= 1


def single_image(graph: Graph, image: np.ndarray) -> np.ndarray:
    x, y = graph.tensors["x"], graph.tensors["y"]
    one = {
        "x": replace(x, shape=(1, *x.shape[1:])),
        "y": replace(y, shape=(1, *y.shape[1:])),
    }
    alone = replace(graph, tensors={**graph.tensors, **one})
    return Executor(alone).run({"x": image[None]})["y"]


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(LAYERS)),
    seed=st.integers(0, 2**32 - 1),
    zero=st.sampled_from([-128, 0, 31, 127]),
    passes=st.integers(1, 5),
    chain=st.integers(1, 4),
    outshift=st.integers(0, 14),
    gain_shift=st.sampled_from([-1, 0, 1, 9, 20]),
    form=st.sampled_from(list(Form)),
)
def test_native_loops_equal_numpy(
    name: str, seed: int, zero: int, passes: int, chain: int, outshift: int, gain_shift: int,
    form: Form,
) -> None:  # fmt: skip
    graph = with_neural_art(layer(name, zero, seed), Contract.NEURAL_ART)
    node = graph.nodes[0]
    rng = np.random.default_rng(seed)
    outputs = graph.tensors["b"].size
    constants = ConvConstants(
        outshift, rng.integers(0, 32768, outputs), gain_shift, int(rng.integers(1, 32768)),
        int(rng.integers(1, 22)), rng.integers(-(2**31), 2**31, outputs), form,
    )  # fmt: skip
    choice = replace(conv_choice(graph, node), passes=passes, chain=chain)
    x = rng.integers(-128, 128, LAYERS[name][1]).astype(np.int8)
    results = [
        Convolver(conv_layer(graph, node), choice, constants, (-120, 119), native).run(x)
        for native in (False, None, "portable")
    ]
    for y, counts in results[1:]:
        np.testing.assert_array_equal(y, results[0][0])
        assert counts == results[0][1]


@pytest.mark.parametrize("native", [False, None, "portable"])
def test_sums_along_a_chain_saturate_at_24_bits(native: bool | str | None) -> None:
    """256 channels of 255 * 127 a link: 8 290 560, the second link passes 2^23 - 1."""
    x = tensor("x", (1, 1, 1, 1024), quant=(0.1, -128))
    w = tensor("w", (1, 1, 1, 1024), quant=(0.1, 0), data=np.full(1024, 127))
    graph = single("conv2d", [x, w, None], [tensor("y", (1, 1, 1, 1))], ConvAttrs())
    graph = with_neural_art(graph, Contract.NEURAL_ART)
    node = graph.nodes[0]
    c = node_constants(graph, node)
    assert c.outshift == 10
    sums = {1: 4 * 8_290_560, 4: 2**23 - 1 + 8_290_560}
    for chain, total in sums.items():
        choice = replace(conv_choice(graph, node), passes=1, chain=chain)
        # gains that leave the 16-bit sum's top eight bits
        plain = ConvConstants(10, np.array([1]), 0, 1, 8, np.array([0]), Form.TWO_STAGE)
        convolver = Convolver(conv_layer(graph, node), choice, plain, (-128, 127), native)
        y, counts = convolver.run(np.full((1, 1, 1, 1024), 127, np.int8))
        assert counts[3] == (total + 512) >> 10
        assert y.item() == (counts[3] + 128) >> 8


def reals(t: Tensor, q: np.ndarray) -> np.ndarray:
    return float(t.quant.s) * (q.astype(float) - t.quant.z)


SCALES = st.floats(0.01, 0.1)
ZEROS = st.integers(-128, 127)


@settings(max_examples=60, deadline=None)
@given(
    op=st.sampled_from(["add", "sub", "mul", "minimum", "maximum"]),
    scales=st.tuples(SCALES, SCALES, SCALES),
    zeros=st.tuples(ZEROS, ZEROS, ZEROS),
    seed=st.integers(0, 999),
    activation=st.sampled_from([Activation.NONE, Activation.RELU]),
)
def test_pairs_stay_within_half_a_step(
    op: str, scales: tuple[float, ...], zeros: tuple[int, ...], seed: int, activation: Activation
) -> None:
    if op == "mul":
        scales = (scales[0], scales[1], scales[0] * scales[1] * 120)
    x, y = (tensor(n, (4, 6, 5), quant=(scales[i], zeros[i])) for i, n in enumerate("xy"))
    y = replace(y, shape=(5,))
    out = tensor("z", (4, 6, 5), quant=(scales[2], zeros[2]))
    graph = single(op, [x, y], [out], ElementwiseAttrs(activation))
    chip = with_neural_art(graph, Contract.NEURAL_ART)
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-128, 128, t.shape).astype(np.int8) for t in (x, y))
    found = NeuralArtExecutor(chip, Choices()).run({"x": a, "y": b})["z"]
    functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
    functions |= {"minimum": np.minimum, "maximum": np.maximum}
    exact = functions[op](reals(x, a), reals(y, b)) / scales[2] + zeros[2]
    low = zeros[2] if activation is Activation.RELU else -128
    wanted = np.clip(exact, low, 127)
    # 15-bit factors: at most 2^-15 of operands up to 255 steps, on each of two
    ratio = max(scales[0], scales[1]) / scales[2]
    slack = 0.02 if op == "mul" else 0.02 * max(1.0, ratio)
    assert np.abs(found - wanted).max() <= 0.5 + slack


@pytest.mark.parametrize(("dtype", "to"), [(DType.UINT8, DType.INT8), (DType.INT8, DType.UINT8)])
def test_changing_the_sign_of_the_type_is_exact(dtype: DType, to: DType) -> None:
    zeros = {DType.UINT8: 128, DType.INT8: 0}
    x = tensor("x", (256,), dtype, (0.02, zeros[dtype]))
    y = tensor("y", (256,), to, (0.02, zeros[to]))
    graph = with_neural_art(single("quantize", [x], [y]), Contract.NEURAL_ART)
    values = np.arange(*([0, 256] if dtype is DType.UINT8 else [-128, 128])).astype(str(dtype))
    found = NeuralArtExecutor(graph, Choices()).run({"x": values})["y"]
    np.testing.assert_array_equal(found.astype(int), values.astype(int) + zeros[to] - zeros[dtype])
    assert (unit_of(graph, graph.nodes[0]), grade(graph, graph.nodes[0])) == (Unit.ARITH, Grade.B)


def test_concatenation_rescales_only_what_differs() -> None:
    a, b = tensor("a", (1, 2, 2, 3), quant=(0.1, 4)), tensor("b", (1, 2, 2, 2), quant=(0.2, -9))
    y = tensor("y", (1, 2, 2, 5), quant=(0.2, -9))
    graph = with_neural_art(
        single("concat", [a, b], [y], ConcatAttrs(3), Contract.ONNX_QLINEAR), Contract.NEURAL_ART
    )
    rng = np.random.default_rng(0)
    data = {n: rng.integers(-128, 128, graph.tensors[n].shape).astype(np.int8) for n in "ab"}
    found = NeuralArtExecutor(graph, Choices()).run(data)["y"].astype(int)
    np.testing.assert_array_equal(found[..., 3:], data["b"])
    half = (data["a"].astype(int) - 4) / 2 - 9
    away = np.where(half >= 0, np.floor(half + 0.5), np.ceil(half - 0.5))
    np.testing.assert_array_equal(found[..., :3], away)


def test_function_takes_the_given_table() -> None:
    x, y = tensor("x", (1, 256), quant=(0.06, 0)), tensor("y", (1, 256), quant=(1 / 256, -128))
    graph = with_neural_art(single("logistic", [x], [y]), Contract.NEURAL_ART)
    node, values = graph.nodes[0], np.arange(-128, 128).astype(np.int8)[None]
    ideal = NeuralArtExecutor(graph, Choices()).run({"x": values})["y"]
    exact = 256 / (1 + np.exp(-0.06 * values.astype(float))) - 128
    assert np.abs(ideal - np.clip(exact, -128, 127)).max() <= 0.5 + 1e-4
    shifted = function_table(graph, node) - 3
    found = NeuralArtExecutor(graph, Choices(tables={node.name: shifted})).run({"x": values})["y"]
    np.testing.assert_array_equal(found, np.clip(ideal.astype(int) - 3, -128, 127))


def test_average_windows() -> None:
    x, y = tensor("x", (1, 6, 4, 2)), tensor("y", (1, 3, 2, 2))
    graph = single("average_pool2d", [x], [y], PoolAttrs((2, 2), (2, 2)))
    chip = with_neural_art(graph, Contract.NEURAL_ART)
    values = np.random.default_rng(5).integers(-128, 128, x.shape).astype(np.int8)
    found = NeuralArtExecutor(chip, Choices()).run({"x": values})["y"]
    sums = values.astype(int).reshape(1, 3, 2, 2, 2, 2).sum(axis=(2, 4))
    wanted = np.where(sums >= 0, (2 * sums + 4) // 8, -((-2 * sums + 4) // 8))
    np.testing.assert_array_equal(found, wanted)


def test_bilinear_resize_is_computed_in_floats() -> None:
    x, y = tensor("x", (1, 2, 2, 1)), tensor("y", (1, 4, 4, 1))
    attrs = ResizeAttrs((4, 4), ResizeMode.BILINEAR, CoordinateMode.HALF_PIXEL)
    graph = with_neural_art(single("resize", [x], [y], attrs), Contract.NEURAL_ART)
    values = np.array([[0, 8], [16, 33]], np.int8).reshape(x.shape)
    found = NeuralArtExecutor(graph, Choices()).run({"x": values})["y"]
    # weights 0, 1/4, 3/4, 1 across; the second row is a quarter of the way down
    assert found[0, 0, :, 0].tolist() == [0, 2, 6, 8]
    assert found[0, 1, :, 0].tolist() == [4, 7, 12, 14]
    assert (unit_of(graph, graph.nodes[0]), grade(graph, graph.nodes[0])) == (Unit.CPU, Grade.D)
