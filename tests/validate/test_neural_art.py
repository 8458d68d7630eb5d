"""Deviations from the model's own arithmetic: found in the stage where they were put."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.builders import single, tensor
from typer.testing import CliRunner

from npuforge import api
from npuforge.accelerators.neural_art.lowering import default_choices
from npuforge.cli.main import app
from npuforge.errors import UsageError
from npuforge.graph import ConvAttrs, Graph, Quantization
from npuforge.numerics.neural_art import Choices, ConvConstants, node_constants, with_neural_art
from npuforge.numerics.neural_art.explain import Stage
from npuforge.report.chip import chip_document
from npuforge.validate.neural_art import Deviation, validate_against_chip
from npuforge.vocab import Contract, DType

ROOT = Path(__file__).parents[2]


def layer() -> Graph:
    rng = np.random.default_rng(2)
    scale = rng.uniform(0.004, 0.008, 6).astype(np.float32)
    weights = rng.integers(-50, 100, (6, 3, 3, 8))
    x = tensor("x", (1, 14, 14, 8), quant=(0.05, -128))
    w = tensor("w", weights.shape, quant=Quantization.per_channel(scale, 0), data=weights)
    bias = Quantization.per_channel(scale * np.float32(0.05), 0)
    b = tensor("b", (6,), DType.INT32, bias, rng.integers(-4000, 4000, 6))
    y = tensor("y", (1, 12, 12, 6), quant=(1.1, -128))
    return single("conv2d", [x, w, b], [y], ConvAttrs())


def deviation(constants: dict[str, int] | None = None, gain: float = 1.0) -> Deviation:
    """The layer against itself on the chip, with constants changed."""
    graph = layer()
    chip = with_neural_art(graph, Contract.NEURAL_ART)
    node = chip.nodes[0]
    c: ConvConstants = node_constants(chip, node)
    c = replace(c, gain=np.round(c.gain * gain).astype(np.int64), **(constants or {}))
    choices = Choices(default_choices(chip).convolutions, {node.name: c})
    rng = np.random.default_rng(0)
    samples = [{"x": rng.integers(-128, -20, (1, 14, 14, 8)).astype(np.int8)} for _ in range(2)]
    found = validate_against_chip(graph, chip, choices, samples)
    assert found.samples == 2
    (entry,) = found.deviations
    assert sum(entry.stages.values()) == entry.differing
    assert entry.values == 2 * 12 * 12 * 6
    return entry


def test_rounding_alone_moves_few_values_by_one() -> None:
    entry = deviation()
    assert entry.largest == 1
    assert 0 < entry.differing < 0.05 * entry.values
    assert not entry.unexplained
    assert (entry.saturated, entry.unit, entry.grade) == (0, "CONVACC", "B")
    assert entry.headroom is not None


def test_a_wrong_stage_is_named() -> None:
    graph = with_neural_art(layer(), Contract.NEURAL_ART)
    c = node_constants(graph, graph.nodes[0])
    base = deviation()
    # eight bits less of each sum, the gain the same: only the shift gets coarser
    coarse = deviation({"outshift": c.outshift + 8, "gain_shift": c.gain_shift - 8})
    assert coarse.stages[Stage.SHIFT] > 5 * base.stages.get(Stage.SHIFT, 1)
    assert coarse.stages[Stage.SHIFT] > 0.9 * coarse.differing
    steep = deviation(gain=1.02)
    assert steep.stages[Stage.GAIN] > 0.9 * steep.differing > 0
    last = deviation({"global_gain": round(c.global_gain * 1.03)})
    assert last.stages[Stage.GLOBAL] > 0.9 * last.differing > 0


def test_saturation_is_counted_and_explains() -> None:
    graph = with_neural_art(layer(), Contract.NEURAL_ART)
    c = node_constants(graph, graph.nodes[0])
    # four bits more of each sum do not fit 16
    entry = deviation({"outshift": max(0, c.outshift - 4), "gain_shift": c.gain_shift + 4})
    assert entry.saturated > 0
    assert entry.headroom == 0
    assert entry.stages[Stage.SATURATION] > 0.9 * entry.differing > 0
    assert entry.largest > 1
    assert not entry.unexplained


def test_a_deviation_that_no_stage_explains_fails() -> None:
    entry = deviation(gain=1.3)
    assert entry.saturated == 0
    assert entry.largest > 1
    assert entry.unexplained


def model() -> Path:
    return next(iter(sorted((ROOT / "examples").rglob("*.tflite"))))


def test_verb_and_document() -> None:
    found = api.validate_against(model(), "neural_art", random_samples=1)
    document = chip_document(found)
    run = CliRunner().invoke(
        app,
        ["validate", str(model()), "--against", "neural_art", "--random-samples", "1", "--json"],
    )
    assert run.exit_code == int(found.failed)
    assert json.loads(run.stdout) == json.loads(json.dumps(document))
    assert document["tensors"]
    for entry in document["tensors"]:
        assert sum(entry["stages"].values()) == entry["differing"]


def test_only_contracts_of_the_chip_are_taken() -> None:
    with pytest.raises(UsageError) as caught:
        api.validate_against(model(), "onnx_qlinear")
    assert caught.value.code == "VAL-005"
