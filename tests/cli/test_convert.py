"""`npuforge convert` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.builders import single, tensor
from tests.cli.test_cli import npuforge

from npuforge import api
from npuforge.errors import UsageError
from npuforge.exporters import export_onnx
from npuforge.graph import HardSigmoidAttrs
from npuforge.numerics import Executor, random_inputs
from npuforge.vocab import Contract, DType


@pytest.mark.parametrize("suffix", ["onnx", "tflite"])
def test_written_file_validates(
    suffix: str, example: Callable[[str], Path], tmp_path: Path
) -> None:
    """The whole way: convert, then every tensor of the file against the format's own oracle."""
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("onnxruntime")
    output = tmp_path / f"network.{suffix}"
    shown = npuforge("convert", example("keyword_spotting"), "-o", output, "--json")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["schema"] == "npuforge.conversion/1"
    assert document["format"] == suffix
    assert document["bytes"] == output.stat().st_size
    assert bool(document["changed"]) == (suffix == "onnx")
    checked = npuforge("validate", output, "--random-samples", "2")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_table_and_note(example: Callable[[str], Path], tmp_path: Path) -> None:
    output = tmp_path / "network.onnx"
    shown = npuforge("convert", example("keyword_spotting"), "--output", output)
    assert shown.returncode == 0
    assert "network.onnx" in shown.stdout
    assert "onnx_qlinear" in shown.stderr


def test_same_numbers_in_the_same_format(example: Callable[[str], Path], tmp_path: Path) -> None:
    graph = api.load_graph(example("keyword_spotting"))
    made = api.convert_model(example("keyword_spotting"), tmp_path / "again.tflite")
    assert made.changed == ()
    again = api.load_graph(tmp_path / "again.tflite")
    sample = random_inputs(graph, np.random.default_rng(0))
    ours, theirs = Executor(graph).run(sample), Executor(again).run(sample)
    assert all(np.array_equal(ours[name], theirs[name]) for name in graph.outputs)


def test_bad_usage(example: Callable[[str], Path], tmp_path: Path) -> None:
    unnamed = npuforge("convert", example("keyword_spotting"), "-o", tmp_path / "network.bin")
    assert unnamed.returncode == 2
    assert "EXP-010" in unnamed.stderr
    there = tmp_path / "network.tflite"
    there.write_bytes(b"mine")
    kept = npuforge("convert", example("keyword_spotting"), "-o", there)
    assert kept.returncode == 2
    assert "OUT-005" in kept.stderr
    assert there.read_bytes() == b"mine"
    assert npuforge("convert", example("keyword_spotting"), "-o", there, "--force").returncode == 0
    assert there.read_bytes() != b"mine"
    with pytest.raises(UsageError):
        api.convert_model(example("keyword_spotting"), tmp_path, force=True)


def test_refusal_leaves_nothing(tmp_path: Path) -> None:
    """A node that TFLite does not have stops the conversion by name."""
    x, y = tensor("x", (4,), DType.FLOAT32), tensor("y", (4,), DType.FLOAT32)
    graph = single("hard_sigmoid", [x], [y], HardSigmoidAttrs(0.2), Contract.FLOAT32)
    (tmp_path / "model.onnx").write_bytes(export_onnx(graph))
    output = tmp_path / "model.tflite"
    shown = npuforge("convert", tmp_path / "model.onnx", "-o", output)
    assert shown.returncode == 1
    assert "EXP-001" in shown.stderr
    assert "hard_sigmoid" in shown.stderr
    assert not output.exists()
