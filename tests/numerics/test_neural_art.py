"""The contract neural_art: recorded boards, an independent scalar model, hand-made vectors."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import single, tensor

from npuforge import api
from npuforge.accelerators.neural_art import lowering, placement
from npuforge.accelerators.neural_art.lowering import conv_choice, default_choices
from npuforge.errors import UnsupportedError
from npuforge.graph import ConvAttrs, Graph, Quantization, ReduceAttrs, SoftmaxAttrs, StateAttrs
from npuforge.numerics import Executor
from npuforge.numerics.neural_art import (
    Choices,
    ConvChoice,
    Convolver,
    Form,
    NeuralArtExecutor,
    average_constants,
    choices,
    conv_layer,
    grade,
    node_constants,
    product_constants,
    sum_constants,
    units,
    with_neural_art,
)
from npuforge.vocab import Contract, DType

NETWORKS = {
    "conv2d_16f_3x3": 160,
    "conv2d_1x1": 320,
    "conv2d_32f_5x5": 320,
    "conv2d_32f_7x7": 320,
    "conv2d_3x3": 320,
    "conv2d_64f_3x3": 640,
    "conv2d_poll": 160,
    "depthwise_3x3": 30,
}


def differing(shared: Path, name: str, contract: str | None) -> tuple[int, int]:
    model = shared / "models" / f"baseline_{name.replace('poll', 'pool')}_int8.tflite"
    with np.load(shared / "silicon" / f"{name}.npz", allow_pickle=False) as data:
        inputs, board = data["c_inputs_1"], data["c_outputs_1"]
    graph = api.load_graph(model, contract)
    executor = api.make_executor(graph)
    ours = [executor.run({graph.inputs[0]: x[None]})[graph.outputs[0]] for x in inputs]
    return board.size, int(np.count_nonzero(np.concatenate(ours).ravel() != board.ravel()))


@pytest.mark.shared
@pytest.mark.parametrize("name", NETWORKS)
def test_recorded_boards(name: str, shared: Path) -> None:
    assert differing(shared, name, "neural_art") == (NETWORKS[name], 0)


@pytest.mark.shared
def test_other_rules_do_not_agree_with_the_boards(shared: Path) -> None:
    merged = sum(differing(shared, name, "neural_art@1.1.3")[1] for name in NETWORKS)
    tflite = sum(differing(shared, name, None)[1] for name in NETWORKS)
    assert (merged, tflite) == (13, 51)


@pytest.mark.parametrize("module", [units, lowering, placement, choices], ids=lambda m: m.__name__)
def test_examples_in_the_documentation(module: object) -> None:
    extra = {"np": np, "product_constants": product_constants}
    found = doctest.testmod(module, extraglobs=extra)  # type: ignore[arg-type]
    assert found.attempted
    assert not found.failed


def half_away(value: Fraction) -> int:
    whole = math.floor(abs(value) + Fraction(1, 2))
    return whole if value >= 0 else -whole


def limited(value: int, bits: int) -> int:
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, value))


def layer(seed: int, height: int, channels: int, outputs: int, zero: int, stride: int) -> Graph:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-127, 128, (outputs, height, height, channels))
    scale = rng.uniform(0.001, 0.02, outputs).astype(np.float32)
    size = 5 + height
    out = (size - height) // stride + 1
    bias = rng.integers(-3000, 3000, outputs)
    return single(
        "conv2d",
        [
            tensor("x", (1, size, size, channels), quant=(0.037, zero)),
            tensor("w", weights.shape, quant=Quantization.per_channel(scale, 0), data=weights),
            tensor(
                "b",
                (outputs,),
                DType.INT32,
                Quantization.per_channel(scale * np.float32(0.037), 0),
                bias,
            ),
        ],
        [tensor("y", (1, out, out, outputs), quant=(0.21, -11))],
        ConvAttrs(stride=(stride, stride)),
    )


def scalar_layer(graph: Graph, x: np.ndarray, choice: ConvChoice) -> np.ndarray:
    """The layer in exact fractions, one value after the other, from the published formulas."""
    node = graph.nodes[0]
    c = node_constants(graph, node, choice.form)
    w = graph.tensors["w"].array
    y = graph.tensors["y"]
    zero = graph.tensors["x"].quant.z
    stride = node.attrs.stride[0]  # type: ignore[attr-defined]
    size = -(-w.shape[3] // (choice.passes * choice.chain))
    result = np.zeros(y.shape, np.int8)
    for oy, ox, k in np.ndindex(y.shape[1:]):
        parts, i0 = [], 0
        for rows in choice.rows:
            j0 = 0
            for columns in choice.columns:
                held = 0
                for link in range(choice.passes * choice.chain):
                    c0 = min(w.shape[3], link * size)
                    total = sum(
                        (int(x[0, oy * stride + i, ox * stride + j, ch]) - zero)
                        * int(w[k, i, j, ch])
                        for i in range(i0, i0 + rows)
                        for j in range(j0, j0 + columns)
                        for ch in range(c0, min(w.shape[3], c0 + size))
                    )
                    total += held * (1 if link % choice.chain else 2**c.outshift)
                    if (link + 1) % choice.chain:
                        held = limited(total, 24)
                    else:
                        held = limited(half_away(Fraction(total, 2**c.outshift)), 16)
                parts.append(held)
                j0 += columns
            i0 += rows
        y1 = parts[0]
        for part in parts[1:]:
            y1 = limited(y1 + part, 16)
        gain, offset = int(c.gain[k]), int(c.offset[k])
        if choice.form is Form.TWO_STAGE:
            y2 = limited(half_away(Fraction(y1 * gain) / Fraction(2) ** c.gain_shift), 16)
            value = Fraction(y2 * c.global_gain + offset) / Fraction(2) ** c.global_shift
        else:
            value = Fraction(y1 * gain + offset) / Fraction(2) ** c.gain_shift
        result[0, oy, ox, k] = limited(half_away(value), 8)
    return result


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    height=st.sampled_from([1, 3, 5, 7]),
    channels=st.integers(1, 12),
    outputs=st.integers(1, 3),
    zero=st.sampled_from([-128, -3, 0, 40]),
    stride=st.integers(1, 2),
    passes=st.integers(1, 3),
    chain=st.integers(1, 3),
    merged=st.booleans(),
    native=st.sampled_from([None, False, "portable"]),
)
def test_convolution_equals_the_formulas(
    seed: int,
    height: int,
    channels: int,
    outputs: int,
    zero: int,
    stride: int,
    passes: int,
    chain: int,
    merged: bool,
    native: bool | str | None,
) -> None:
    contract = Contract.NEURAL_ART_1_1_3 if merged else Contract.NEURAL_ART
    graph = with_neural_art(layer(seed, height, channels, outputs, zero, stride), contract)
    node = graph.nodes[0]
    choice = replace(conv_choice(graph, node), passes=passes, chain=chain)
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)
    constants = node_constants(graph, node, choice.form)
    convolver = Convolver(conv_layer(graph, node), choice, constants, (-128, 127), native)
    np.testing.assert_array_equal(convolver.run(x)[0], scalar_layer(graph, x, choice))


def test_passes_change_results() -> None:
    graph = layer(1, 1, 96, 3, -3, 1)
    # weights of one sign: the largest OUTSHIFT, so the coarsest partial sums
    positive = replace(graph.tensors["w"], data=np.abs(graph.tensors["w"].array))
    graph = replace(graph, tensors={**graph.tensors, "w": positive})
    graph = with_neural_art(graph, Contract.NEURAL_ART)
    name = graph.nodes[0].name
    base = replace(conv_choice(graph, graph.nodes[0]), passes=1)
    rng = np.random.default_rng(3)
    x = rng.integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)
    one = NeuralArtExecutor(graph, Choices({name: base}))
    one.run({"x": x})
    more = Choices({name: replace(base, passes=8)})
    eight = NeuralArtExecutor(graph, more).run({"x": x})["y"]
    difference = np.abs(eight.astype(int) - one.read(["y"])["y"])
    assert 0 < difference.max() <= 1


def test_stages_count_what_they_limit() -> None:
    graph = layer(5, 3, 4, 2, 0, 1)
    weights = np.full(graph.tensors["w"].shape, 1)
    weights[..., 0] = 127
    weights[..., 1:] = -42
    tensors = {**graph.tensors, "w": replace(graph.tensors["w"], data=weights.astype(np.int8))}
    graph = with_neural_art(replace(graph, tensors=tensors), Contract.NEURAL_ART)
    executor = NeuralArtExecutor(graph, default_choices(graph))
    # opposite signs where weights cancel in the sum that OUTSHIFT is derived from
    x = np.where(np.arange(4) == 0, 127, -128) * np.ones(graph.tensors["x"].shape)
    executor.run({"x": x.astype(np.int8)})
    counts = executor.counts[graph.nodes[0].name]
    assert counts.shift == counts.values > 0
    assert counts.headroom == 0
    executor.run({"x": np.zeros(graph.tensors["x"].shape, np.int8)})
    assert executor.counts[graph.nodes[0].name].shift == 0


def test_global_average_rounds_a_tie_away_from_zero() -> None:
    """-427112 / 4096 * 256 = -26694.5, recorded on a board as -26695."""
    c = average_constants(4096, 1.0, 0, 1.0, 0)
    assert (c.multiplier, c.outshift) == (16384, 18)
    mean = units.rounded_shift(np.array([-427112, 427112]) * c.multiplier, c.outshift)
    assert mean.tolist() == [-26695, 26695]


def test_average_of_a_constant_map_is_that_constant() -> None:
    shapes = [tensor("x", (1, 8, 6, 3), quant=(0.5, 7)), tensor("y", (1, 3), quant=(0.5, 7))]
    graph = with_neural_art(
        single("mean", shapes[:1], shapes[1:], ReduceAttrs((1, 2))), Contract.NEURAL_ART
    )
    for value in (-128, -1, 0, 93, 127):
        x = np.full((1, 8, 6, 3), value, np.int8)
        y = NeuralArtExecutor(graph, Choices()).run({"x": x})["y"]
        assert np.all(y == value)


@given(
    scales=st.tuples(*[st.floats(1e-3, 1.0)] * 2),
    zeros=st.tuples(*[st.integers(-128, 127)] * 3),
)
def test_sum_stays_within_its_bound(
    scales: tuple[float, float], zeros: tuple[int, int, int]
) -> None:
    out = sum(scales)
    c = sum_constants(scales[0], zeros[0], scales[1], zeros[1], out, zeros[2])
    assert 8192 <= max(c.a, c.b) <= 32767
    assert abs(c.c) <= 32767
    x = np.arange(-128, 128)[:, None]
    y = np.arange(-128, 128)[None, :]
    real = (scales[0] * (x - zeros[0]) + scales[1] * (y - zeros[1])) / out + zeros[2]
    assert np.abs(units.added(x, y, c) - real).max() < 0.55


def test_other_nodes_keep_their_rule() -> None:
    graph = single(
        "softmax",
        [tensor("x", (1, 4))],
        [tensor("y", (1, 4), quant=(1 / 256, -128))],
        SoftmaxAttrs(1),
    )
    changed = with_neural_art(graph, Contract.NEURAL_ART)
    assert changed.nodes[0].contract is Contract.TFLITE_REFERENCE
    assert grade(changed, changed.nodes[0]) == "D"
    x = np.array([[-5, -1, 0, 9]], np.int8)
    found = NeuralArtExecutor(changed, Choices()).run({"x": x})["y"]
    np.testing.assert_array_equal(found, Executor(graph).run({"x": x})["y"])


def test_runtime_kernels_refuse_the_contract() -> None:
    graph = with_neural_art(layer(1, 1, 2, 1, 0, 1), Contract.NEURAL_ART)
    with pytest.raises(UnsupportedError) as caught:
        Executor(graph)
    assert caught.value.code == "NUM-019"


def test_state_is_refused() -> None:
    y = tensor("y", (2,))
    graph = single("read_variable", [], [y], StateAttrs("v", (2,)))
    graph = replace(graph, states={"v": np.zeros(2, np.int8)})
    with pytest.raises(UnsupportedError) as caught:
        NeuralArtExecutor(graph, Choices())
    assert caught.value.code == "NUM-018"
