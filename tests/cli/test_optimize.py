"""`npuforge optimize` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.cli.test_cli import npuforge
from tests.passes.patterns import batch_norm, focus, prelu, upsample

from npuforge import api
from npuforge.errors import UsageError
from npuforge.exporters import export_tflite
from npuforge.graph import Array
from npuforge.importers import load_model
from npuforge.passes import Status, calibrated_inputs, run


def test_optimize_and_validate(example: Callable[[str], Path], tmp_path: Path) -> None:
    """The whole way: optimise with --cut, every tensor of the file against LiteRT."""
    pytest.importorskip("ai_edge_litert")
    output = tmp_path / "better.tflite"
    shown = npuforge("optimize", example("keyword_spotting"), "-o", output, "--cut", "--json")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["schema"] == "npuforge.optimization/1"
    assert document["after"]["node_share"] == 1.0
    assert document["before"]["node_share"] < 1.0
    assert document["difference"]["changed"] == 0.0
    assert document["file"]["score"] == document["after"]
    assert document["file"]["difference"]["changed"] == 0.0
    applied = {entry["pass"] for entry in document["passes"] if entry["status"] == "applied"}
    assert "cpu-tail" in applied
    checked = npuforge("validate", output, "--random-samples", "2")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_files_compose_to_the_original(example: Callable[[str], Path], tmp_path: Path) -> None:
    """Network and tail, read from their files, give the original's outputs."""
    output = tmp_path / "better.tflite"
    _, written = api.optimize_model(example("keyword_spotting"), output, cut=True)
    assert written is not None
    assert written.parts["tail"] == tmp_path / "better.tail.tflite"
    graph = api.load_graph(example("keyword_spotting"))
    samples = calibrated_inputs(graph, 3, 77)
    ends: list[dict[str, Array]] = samples
    for path in (written.parts["head"], output, written.parts["tail"]):
        part = load_model(path)
        ends = run(part, [dict(zip(part.inputs, v.values(), strict=True)) for v in ends])
    for reference, end in zip(run(graph, samples), ends, strict=True):
        for a, b in zip(reference.values(), end.values(), strict=True):
            assert np.array_equal(a, b)


def test_table(example: Callable[[str], Path]) -> None:
    shown = npuforge("optimize", example("image_classification"), "--cut")
    assert shown.returncode == 0, shown.stderr
    assert "cpu-tail" in shown.stdout
    assert "100.0%" in shown.stdout
    assert "outputs are now" in shown.stdout


def test_onnx_output_and_data(tmp_path: Path) -> None:
    model = tmp_path / "up.tflite"
    graph = upsample()
    model.write_bytes(export_tflite(graph))
    read = load_model(model)
    sample = calibrated_inputs(read, 1, 3)[0]
    np.savez(tmp_path / "data.npz", **sample)
    data = tmp_path / "data.npz"
    shown = npuforge("optimize", model, "-o", tmp_path / "up.onnx", "--data", data, "--json")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["samples"] == 3
    assert document["file"]["format"] == "onnx"
    assert document["file"]["score"]["hybrid_epochs"] == 0


def test_named_pass_that_differs_exits_1(tmp_path: Path) -> None:
    """A batch normalisation behind a convolution that saturates: measured, refused, said."""
    model = tmp_path / "saturates.tflite"
    model.write_bytes(export_tflite(batch_norm(spread=20.0)))
    shown = npuforge("optimize", model, "--passes", "fold-affine", "--json")
    assert shown.returncode == 1, shown.stdout
    entry = json.loads(shown.stdout)["passes"][0]
    assert entry["status"] == "differs"
    assert entry["worst_steps"] > entry["bound"]
    assert entry["after"] == entry["before"]


def test_bad_usage(tmp_path: Path) -> None:
    model = tmp_path / "focus.tflite"
    model.write_bytes(export_tflite(focus()))
    unknown = npuforge("optimize", model, "--passes", "make-it-fast")
    assert unknown.returncode == 2
    assert "OPT-001" in unknown.stderr
    assert npuforge("optimize").returncode == 2
    (tmp_path / "out.tail.tflite").write_bytes(b"mine")
    kept = npuforge("optimize", model, "--cut", "-o", tmp_path / "out.tflite")
    assert kept.returncode == 2
    assert not (tmp_path / "out.tflite").exists()
    with pytest.raises(UsageError):
        api.optimize_model(model, random_samples=0)


def test_list() -> None:
    shown = npuforge("optimize", "--list")
    assert shown.returncode == 0
    assert "fold-pad" in shown.stdout
    assert "cpu-tail" in shown.stdout


def test_target_without_npu_only_tidies(tmp_path: Path) -> None:
    model = tmp_path / "prelu.tflite"
    model.write_bytes(export_tflite(prelu()))
    made, _ = api.optimize_model(model, target="mps3-an547")
    assert made.before.node_share is None
    assert all(outcome.status is not Status.APPLIED for outcome in made.outcomes)
