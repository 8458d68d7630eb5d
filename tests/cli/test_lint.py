"""`npuforge lint`, and the lint section of `npuforge analyze`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tests.cli.test_cli import npuforge
from tests.passes.patterns import Net, strided_line

from npuforge.exporters import export_tflite


def test_error_exits_1(tmp_path: Path) -> None:
    model = tmp_path / "line.tflite"
    model.write_bytes(export_tflite(strided_line()))
    shown = npuforge("lint", model, "--json")
    assert shown.returncode == 1
    document = json.loads(shown.stdout)
    assert document["schema"] == "npuforge.lint/1"
    assert document["counts"]["error"] == 1
    finding = document["findings"][0]
    assert finding["rule"] == "LINT-hang-strided-depthwise"
    assert finding["remedy"]
    table = npuforge("lint", model)
    assert "LINT-hang-strided-depthwise" in table.stdout.replace("\n", "")
    # optimising takes the fault away
    better = tmp_path / "better.tflite"
    assert npuforge("optimize", model, "-o", better).returncode == 0
    assert npuforge("lint", better).returncode == 0


def test_warning_exits_1_only_when_strict(tmp_path: Path) -> None:
    net = Net()
    model = tmp_path / "seven.tflite"
    model.write_bytes(export_tflite(net.graph(net.conv(net.input(1, 9, 9, 3), 4, (7, 7)))))
    assert npuforge("lint", model).returncode == 0
    assert npuforge("lint", model, "--strict").returncode == 1
    analysis = json.loads(npuforge("analyze", model, "--json").stdout)
    assert analysis["lint"]["counts"]["warning"] == 1


def test_sound_model_and_data(example: Callable[[str], Path], tmp_path: Path) -> None:
    shown = npuforge("lint", example("keyword_spotting"))
    assert shown.returncode == 0
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 5), np.float32))
    wrong = npuforge("lint", example("keyword_spotting"), "--data", tmp_path / "x.npy", "--json")
    assert wrong.returncode == 1
    assert json.loads(wrong.stdout)["findings"][0]["rule"] == "LINT-sample-shape"
    assert npuforge("lint", tmp_path / "none.tflite").returncode == 2
