"""`npuforge quantize` from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.quantize.networks import small_network, write_float, write_samples
from typer.testing import CliRunner

from npuforge import api
from npuforge.cli.main import app
from npuforge.errors import UsageError
from npuforge.importers import load_model
from npuforge.vocab import DType

run = CliRunner()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_float(small_network(), tmp_path / "net.tflite")


@pytest.fixture
def data(tmp_path: Path, model: Path) -> Path:
    return write_samples(load_model(model), tmp_path / "d.npz")


@pytest.mark.parametrize("suffix", ["tflite", "onnx"])
def test_writes_an_integer_network(model: Path, data: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"q.{suffix}"
    words = ["quantize", str(model), "--data", str(data), "-o", str(target), "--json"]
    shown = run.invoke(app, words)
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert document["file"]["path"] == str(target)
    assert document["samples"] == 6
    assert document["outputs"][0]["cosine"] > 0.99
    made = load_model(target)
    assert made.tensors[made.inputs[0]].dtype is DType.INT8
    again = run.invoke(app, words)
    assert isinstance(again.exception, UsageError) or again.exit_code == 2


def test_table(model: Path, data: Path) -> None:
    shown = run.invoke(app, ["quantize", str(model), "--data", str(data)])
    assert shown.exit_code == 0, shown.output
    assert "SQNR" in shown.stdout
    assert "calibrated on 6 samples" in shown.stdout


def test_pictures_leave_a_declaration(model: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(3):
        Image.fromarray(rng.integers(0, 256, (20, 30, 3), np.uint8)).save(folder / f"{i}.png")
    _, written = api.quantize_model(
        model, tmp_path / "q.tflite", data=[folder], image_range="-1..1", measured_on=2
    )
    assert written is not None
    assert written.preprocessing == tmp_path / "q.preprocess.toml"
    again, _ = api.quantize_model(model, data=[folder], preprocess=written.preprocessing)
    first, _ = api.quantize_model(model, data=[folder], image_range="-1..1")
    assert again.ranges == first.ranges


@pytest.mark.parametrize(
    "more",
    [["--method", "best"], ["--inputs", "int4"], ["--percentile", "0"], ["--engine", "none"]],
)
def test_bad_usage(model: Path, data: Path, more: list[str]) -> None:
    shown = run.invoke(app, ["quantize", str(model), "--data", str(data), *more])
    assert isinstance(shown.exception, UsageError)
