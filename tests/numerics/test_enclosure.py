"""The chip's numbers lie within the bound derived for them; wrong constants do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.builders import single, tensor

from npuforge.accelerators.neural_art.lowering import default_choices
from npuforge.graph import ConvAttrs, Graph, Quantization, SoftmaxAttrs
from npuforge.numerics.neural_art import (
    Choices,
    NeuralArtExecutor,
    node_constants,
    with_neural_art,
)
from npuforge.numerics.neural_art.enclosure import Enclosure
from npuforge.vocab import Contract, DType


def layer(seed: int, contract: Contract, channels: int = 8, largest: int = 100) -> Graph:
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.004, 0.008, 6).astype(np.float32)
    weights = rng.integers(-50, largest, (6, 3, 3, channels))
    x = tensor("x", (1, 9, 9, channels), quant=(0.05, int(rng.integers(-128, 127))))
    w = tensor("w", weights.shape, quant=Quantization.per_channel(scale, 0), data=weights)
    bias = Quantization.per_channel(scale * np.float32(0.05), 0)
    b = tensor("b", (6,), DType.INT32, bias, rng.integers(-4000, 4000, 6))
    y = tensor("y", (1, 7, 7, 6), quant=(0.9, int(rng.integers(-128, 127))))
    return with_neural_art(single("conv2d", [x, w, b], [y], ConvAttrs()), contract)


def outside(graph: Graph, chip: Choices, rule: Choices, seed: int) -> tuple[int, int]:
    """Values beyond the bound, and how many places have a single number as their bound."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)
    made = NeuralArtExecutor(graph, chip).run({"x": x})["y"]
    found = Enclosure(graph, rule).of("y", {"x": x})
    assert found is not None
    return found.outside(made), int(np.count_nonzero(found.low == found.high))


@pytest.mark.parametrize("contract", [Contract.NEURAL_ART, Contract.NEURAL_ART_1_1_3])
@pytest.mark.parametrize("channels", [8, 200])
def test_the_chip_is_within_its_bound(contract: Contract, channels: int) -> None:
    for seed in range(6):
        graph = layer(seed, contract, channels)
        choices = default_choices(graph)
        beyond, single_numbers = outside(graph, choices, choices, seed)
        assert beyond == 0
        assert single_numbers > 0.4 * graph.tensors["y"].size


def test_saturation_of_the_16_bit_sum_is_in_the_bound() -> None:
    for seed in range(6):
        graph = layer(seed, Contract.NEURAL_ART, 8, 51)
        choices = default_choices(graph)
        assert outside(graph, choices, choices, seed)[0] == 0


@pytest.mark.parametrize("change", ["gain", "offset", "outshift"])
def test_wrong_constants_are_outside(change: str) -> None:
    graph = layer(3, Contract.NEURAL_ART)
    choices = default_choices(graph)
    node = graph.nodes[0]
    c = node_constants(graph, node)
    changed = {
        "gain": replace(c, gain=np.roll(c.gain, 1)),
        "offset": replace(c, offset=c.offset + (1 << c.global_shift)),
        "outshift": replace(c, outshift=c.outshift + 8, gain_shift=c.gain_shift - 8),
    }[change]
    wrong = replace(choices, constants={node.name: changed})
    assert outside(graph, wrong, choices, 3)[0] > 10


def test_an_unknown_ancestor_gives_no_bound() -> None:
    graph = layer(0, Contract.NEURAL_ART)
    bound = Enclosure(graph, default_choices(graph))
    assert bound.of("y", {}) is None
    assert bound.sources("y", frozenset(("x",))) == {"x"}


def test_bounds_that_rest_on_what_was_seen_say_so() -> None:
    graph = layer(0, Contract.NEURAL_ART)
    known = frozenset(("x",))
    assert Enclosure(graph, default_choices(graph)).derived("y", known)
    x, y = tensor("x", (1, 4)), tensor("y", (1, 4), quant=(1 / 256, -128))
    curve = with_neural_art(single("logistic", [x], [y]), Contract.NEURAL_ART)
    choices = default_choices(curve)
    assert not Enclosure(curve, choices).derived("y", known)
    given = replace(choices, tables={curve.nodes[0].name: np.zeros(256, np.int8)})
    assert Enclosure(curve, given).derived("y", known)
    alpha = tensor("a", (1,), data=[12])
    slope = single("prelu", [x, alpha], [tensor("y", (1, 4))])
    assert not Enclosure(slope, default_choices(slope)).derived("y", known)


def test_bounds_of_real_numbers_go_through_a_kernel() -> None:
    """Softmax gives its ends in double precision; the kernel behind it takes single."""
    x, soft, y = (tensor(name, (1, 8), DType.FLOAT32) for name in ("x", "soft", "y"))
    first, second = single("softmax", [x], [soft], SoftmaxAttrs(1)), single("relu", [soft], [y])
    nodes = (*first.nodes, *(replace(n, name="second") for n in second.nodes))
    graph = with_neural_art(
        Graph("g", {t.name: t for t in (x, soft, y)}, nodes, ("x",), ("y",)), Contract.NEURAL_ART
    )
    values = np.linspace(-2, 2, 8, dtype=np.float32).reshape(1, 8)
    found = Enclosure(graph, default_choices(graph)).of("y", {"x": values})
    assert found is not None
    true = np.exp(values) / np.exp(values).sum()
    assert found.outside(true) == 0
    assert found.outside(true + 0.01) == true.size
