"""The published ONNX networks: integer nodes equal to ONNX Runtime, others within a step."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuforge.importers import load_model, read_model_bytes
from npuforge.numerics import Executor, random_inputs
from npuforge.validate import oracle_for
from npuforge.validate.onnx_layers import OnnxRuntimeLayers

pytest.importorskip("onnxruntime")


@pytest.mark.shared
@pytest.mark.parametrize(
    "name", ["mobilenet_v2_224_int8", "deeplab_v3_mobilenetv2_05_16_320_fft_qdq_int8"]
)
def test_published_models(name: str, shared: Path) -> None:
    path = shared / "models" / f"{name}.onnx"
    graph = load_model(path)
    oracle = oracle_for(graph, read_model_bytes(path))
    assert isinstance(oracle, OnnxRuntimeLayers)
    executor = Executor(graph, capture=True)
    inputs = random_inputs(graph, np.random.default_rng(0))
    executor.run(inputs)
    ours = executor.read(executor.activations())
    truth = oracle.tensors(inputs, ours)
    assert len(truth) > 60
    for key, value in truth.items():
        steps = np.abs(value.astype(int) - ours[key].astype(int)).max()
        assert steps <= (0 if oracle.pieces[key].is_qlinear else 1), key
    assert sum(piece.is_qlinear for piece in oracle.pieces.values()) > 55
