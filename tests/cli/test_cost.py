"""Verbs cost, calibrate and explore: documents, exit codes, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from npuforge.cli.main import app
from npuforge.cost import read_calibration
from npuforge.errors import UsageError

KWS = "keyword_spotting"


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_cost_says_time_energy_causes_and_points(
    example: Callable[[str], Path], tmp_path: Path
) -> None:
    picture = tmp_path / "roof.svg"
    done = run("cost", example(KWS), "--clock", "overdrive", "--rate", 5, "--roofline", picture,
               "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    low, high = document["time"]["interval_ms"]
    assert low < document["time"]["ms"] < high
    assert document["best_possible_ms"] < document["time"]["ms"]
    assert {entry["cause"] for entry in document["why"]} >= {"flash", "control"}
    assert [p["name"] for p in document["operating_points"]] == ["nominal", "overdrive"]
    assert document["operating_points"][1]["ms"] == pytest.approx(document["time"]["ms"])
    assert len(document["duty_cycles"]) == 4
    assert sum(e["ms"] for e in document["epochs"]) == pytest.approx(document["time"]["ms"])
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert run("cost", example(KWS)).exit_code == 0


def test_a_measured_log_with_a_slow_flash_is_a_finding(
    example: Callable[[str], Path], tmp_path: Path
) -> None:
    model = example("visual_wake_words")
    words = ("cost", model, "--clock", "overdrive", "--no-epoch-controller", "--json")
    document = json.loads(run(*words).stdout)

    def log(factor: float) -> Path:
        rows = ["type,dur_ms,name"]
        for index, epoch in enumerate(document["epochs"]):
            kind = "epoch" if epoch["kind"] == "hardware" else "epoch (SW)"
            ms = epoch["ms"] * (factor if epoch["waits_for"] == "flash" else 1.0)
            rows.append(f"{kind},{ms:.6f},EpochBlock_{index}")
        path = tmp_path / f"log{factor}.csv"
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        return path

    slow = run(*words, "--measured", log(4.0))
    assert slow.exit_code == 1
    found = json.loads(slow.stdout)["measured"]
    assert [entry["code"] for entry in found["suspicions"]] == ["CST-saw-flash"]
    good = run(*words[:-1], "--measured", log(1.0))
    assert good.exit_code == 0, good.output


def test_calibrate_writes_a_file_that_cost_reads(
    example: Callable[[str], Path], tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    model = example("visual_wake_words")
    before = json.loads(run("cost", model, "--clock", "overdrive", "--json").stdout)["time"]["ms"]
    done = run("calibrate", f"{model}={before * 1.3}", "--clock", "overdrive", "-o", own, "--json")
    assert done.exit_code == 0, done.output
    after = json.loads(
        run("cost", model, "--clock", "overdrive", "--calibration", own, "--json").stdout
    )["time"]["ms"]
    assert before < after <= before * 1.31
    assert after == pytest.approx(before * 1.3, rel=0.15)
    assert read_calibration(own).fitted


@pytest.mark.parametrize(
    "words",
    [
        ("calibrate", "nothing", "-o", "x.toml"),
        ("calibrate", "m.tflite=-3", "-o", "x.toml"),
        ("cost", "{model}", "--clock", "warp"),
        ("cost", "{model}", "--compiler", "new"),
        ("cost", "{model}", "--target", "mps3-an547"),
        ("explore", "{model}", "--clock", "warp"),
    ],
)
def test_bad_usage_is_refused(example: Callable[[str], Path], words: tuple[str, ...]) -> None:
    filled = [word.format(model=example(KWS)) for word in words]
    done = run(*filled)
    assert isinstance(done.exception, UsageError), done.output


def test_explore_prints_a_front_and_says_when_nothing_fits(
    example: Callable[[str], Path],
) -> None:
    done = run("explore", example(KWS), "--json")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    times = [entry["ms"] for entry in document["front"]]
    assert times == sorted(times)
    assert document["tried"] > len(times)
    assert run("explore", example(KWS)).exit_code == 0
    assert run("explore", example(KWS), "--max-ms", 0.0001).exit_code == 1
