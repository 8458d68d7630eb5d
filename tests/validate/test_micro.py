"""tflite-micro as an oracle over our exported graph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from npuforge.graph import verify
from npuforge.importers import load_model, read_model_bytes
from npuforge.numerics import Executor, random_inputs, with_contract
from npuforge.validate import Comparer, oracle_for
from npuforge.validate.micro import TfliteMicroExport, pieces
from npuforge.vocab import Contract

pytest.importorskip("tflite_micro.python.tflite_micro.runtime")


def mismatches(path: Path, ours: Contract, samples: int) -> int:
    graph = with_contract(load_model(path), Contract.TFLITE_MICRO)
    oracle = oracle_for(graph, read_model_bytes(path))
    assert isinstance(oracle, TfliteMicroExport)
    executor = Executor(with_contract(graph, ours), capture=True)
    comparer, rng = Comparer(graph), np.random.default_rng(3)
    for _ in range(samples):
        sample = random_inputs(graph, rng)
        executor.run(sample)
        comparer.add(oracle.tensors(sample, {}), executor.read(executor.activations()))
    result = comparer.result()
    assert {entry.tensor for entry in result.tensors} == set(executor.activations())
    return result.mismatches


@pytest.mark.parametrize("name", ["image_classification", "keyword_spotting"])
def test_every_tensor_equal(name: str, example: Callable[[str], Path]) -> None:
    assert mismatches(example(name), Contract.TFLITE_MICRO, 5) == 0


def test_another_contract_differs(example: Callable[[str], Path]) -> None:
    assert mismatches(example("image_classification"), Contract.ONNX_QLINEAR, 3) > 0


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_pieces_are_the_whole(size: int, example: Callable[[str], Path]) -> None:
    """Run piece by piece, a network gives the same outputs."""
    graph = load_model(example("keyword_spotting"))
    sample = random_inputs(graph, np.random.default_rng(0))
    known = dict(sample)
    parts = list(pieces(graph, size))
    assert [node for part in parts for node in part.nodes] == list(graph.nodes)
    for part in parts:
        verify(part)
        known |= Executor(part).run({name: known[name] for name in part.inputs})
    whole = Executor(graph).run(sample)
    assert all(np.array_equal(known[name], whole[name]) for name in graph.outputs)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["snn_1000_2_V2", "snn_100_10_V2"])
def test_networks_that_litert_refuses(name: str, shared: Path) -> None:
    assert mismatches(shared / "models" / f"{name}.tflite", Contract.TFLITE_MICRO, 2) == 0
