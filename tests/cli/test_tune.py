"""`npuforge tune` and `npuforge sensitivity` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.quantize.networks import classifier, write_float
from typer.testing import CliRunner

from npuforge.cli.main import app
from npuforge.errors import UsageError
from npuforge.importers import load_model

run = CliRunner()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    folder = tmp_path_factory.mktemp("tune")
    task = classifier(hard=True)
    model = write_float(task.graph, folder / "net.tflite")
    data = task.write(folder / "c.npz", 0, 120), task.write(folder / "v.npz", 120, 360)
    return str(model), *map(str, data)


def test_recovers_and_explains(files: tuple[str, str, str], tmp_path: Path) -> None:
    model, data, validation = files
    words = ["tune", model, "--data", data, "--validate", validation]
    target = tmp_path / "q.tflite"
    shown = run.invoke(app, [*words, "-o", str(target), "--json"])
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert document["met"]
    assert document["score"]["drop"] <= 0.01
    assert document["trials"][0]["score"]["drop"] > 0.3
    assert document["raised"]
    assert {"QNS-spread", "QNS-saturates"} <= {item["cause"] for item in document["diagnoses"]}
    assert document["price"]["ms"] > 0
    assert load_model(target).nodes


def test_explains_in_words(files: tuple[str, str, str]) -> None:
    model, data, validation = files
    shown = run.invoke(app, ["tune", model, "--data", data, "--validate", validation])
    assert shown.exit_code == 0, shown.output
    for words in ("cause:", "raised:", "within the bounds"):
        assert words in shown.stdout


def test_a_missed_bound_is_exit_code_1(files: tuple[str, str, str]) -> None:
    model, data, _ = files
    shown = run.invoke(app, ["tune", model, "--data", data, "--max-ms", "0.00001", "--json"])
    assert shown.exit_code == 1
    assert not json.loads(shown.stdout)["met"]


@pytest.mark.parametrize("more", [["--max-drop", "1"], ["--max-ms", "0"], ["--clock", "warp"],
                                  ["--max-ms", "1", "--target", "mps3-an547"]])  # fmt: skip
def test_bad_usage(files: tuple[str, str, str], more: list[str]) -> None:
    shown = run.invoke(app, ["tune", files[0], "--data", files[1], *more])
    assert isinstance(shown.exception, UsageError)


def test_sensitivity(files: tuple[str, str, str], tmp_path: Path) -> None:
    model, data, _ = files
    picture = tmp_path / "s.svg"
    words = ["sensitivity", model, "--data", data, "--picture", str(picture)]
    shown = run.invoke(app, [*words, "--json"])
    assert shown.exit_code == 0, shown.output
    groups = json.loads(shown.stdout)["groups"]
    assert groups[0]["ops"] == ["fully_connected"]
    assert groups[0]["score"]["kind"] == "accuracy"
    bars = [e for e in ElementTree.parse(picture).iter() if e.tag.endswith("rect")]
    assert len(bars) == len(groups) + 1
    table = run.invoke(app, ["sensitivity", model, "--data", data, "--group", "operator"])
    assert "fully_connected" in table.stdout
