"""Keras files: numbers against numpy, both containers, hostile files."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npuforge.errors import ModelError, UnsupportedError
from npuforge.importers import load_model
from npuforge.numerics import Executor

h5py = pytest.importorskip("h5py")
RNG = np.random.default_rng(0)
ARRAYS = {
    "dense": [RNG.normal(size=(5, 4)), RNG.normal(size=4)],
    "batch_normalization": [
        RNG.normal(size=4),
        RNG.normal(size=4),
        RNG.normal(size=4),
        RNG.uniform(1, 2, 4),
    ],
}
KINDS = {"dense": "Dense", "batch_normalization": "BatchNormalization"}


def layers(last: str = "ReLU") -> list[dict[str, Any]]:
    return [
        {"class_name": "InputLayer", "config": {"name": "in", "batch_input_shape": [None, 5]}},
        {"class_name": "Dense", "config": {"name": "dense", "activation": "tanh"}},
        {"class_name": "BatchNormalization",
         "config": {"name": "batch_normalization", "epsilon": 1e-3, "axis": [1]}},
        {"class_name": last, "config": {"name": "last"}},
    ]  # fmt: skip


def config(last: str = "ReLU") -> str:
    return json.dumps({"class_name": "Sequential", "config": {"layers": layers(last)}})


def two_branches(*reads: str) -> str:
    """Two inputs, and a dense layer that is called once for each tensor named."""
    ends = [["a", 0, 0], ["b", 0, 0]]
    inputs = [
        {"class_name": "InputLayer", "name": n, "inbound_nodes": [],
         "config": {"name": n, "batch_input_shape": [None, 5]}}
        for n in "ab"
    ]  # fmt: skip
    dense = {
        "class_name": "Dense", "name": "dense", "config": {"name": "dense", "activation": "tanh"},
        "inbound_nodes": [[[name, 0, 0, {}]] for name in reads],
    }  # fmt: skip
    outputs = [["dense", i, 0] for i in range(len(reads))]
    body = {"layers": [*inputs, dense], "input_layers": ends, "output_layers": outputs}
    return json.dumps({"class_name": "Functional", "config": body})


def legacy(path: Path, last: str = "ReLU", model: str = "") -> Path:
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = model or config(last)
        for name, arrays in ARRAYS.items():
            group = file.create_group(f"model_weights/{name}")
            names = [f"{name}/w{i}:0" for i in range(len(arrays))]
            for label, array in zip(names, arrays, strict=True):
                group[label] = array.astype(np.float32)
            group.attrs["weight_names"] = [n.encode() for n in names]
    return path


def archive(path: Path) -> Path:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, arrays in ARRAYS.items():
            for i, array in enumerate(arrays):
                file[f"layers/{name}/vars/{i}"] = array.astype(np.float32)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("config.json", config())
        made.writestr("model.weights.h5", buffer.getvalue())
    return path


@pytest.mark.parametrize("make", [legacy, archive])
def test_numbers(make: Any, tmp_path: Path) -> None:
    graph = load_model(make(tmp_path / "net.bin"))
    x = RNG.normal(size=(1, 5)).astype(np.float32)
    w, b = ARRAYS["dense"]
    gamma, beta, mean, variance = ARRAYS["batch_normalization"]
    y = np.maximum((np.tanh(x @ w + b) - mean) / np.sqrt(variance + 1e-3) * gamma + beta, 0)
    (found,) = Executor(graph).run({"in": x}).values()
    np.testing.assert_allclose(found, y, atol=1e-5)


def test_unknown_layers_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"layer last: Lambda"):
        load_model(legacy(tmp_path / "net.h5", "Lambda"))


def test_a_layer_that_is_used_twice_is_refused(tmp_path: Path) -> None:
    """Never the numbers of one use for the other."""
    graph = load_model(legacy(tmp_path / "once.h5", model=two_branches("b")))
    x = {n: RNG.normal(size=(1, 5)).astype(np.float32) for n in "ab"}
    (found,) = Executor(graph).run(x).values()
    w, b = ARRAYS["dense"]
    np.testing.assert_allclose(found, np.tanh(x["b"] @ w + b), atol=1e-5)
    with pytest.raises(UnsupportedError, match=r"layer dense: used 2 times"):
        load_model(legacy(tmp_path / "twice.h5", model=two_branches("a", "b")))


@pytest.mark.parametrize("make", [legacy, archive])
def test_damaged_files(make: Any, tmp_path: Path) -> None:
    content = make(tmp_path / "net.bin").read_bytes()
    path = tmp_path / "bad"
    for cut in range(16, len(content) - 1, max(len(content) // 25, 1)):
        path.write_bytes(content[:cut])
        with pytest.raises(ModelError):
            load_model(path)
