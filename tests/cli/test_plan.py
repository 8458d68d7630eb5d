"""`npuforge plan` as users call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from npuforge.cli.main import app
from npuforge.errors import NpuforgeError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "camera_classifier" / "system.toml"


def test_fit(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["plan", "fit", str(EXAMPLE)])
    assert shown.exit_code == 0
    assert "camera frame" in shown.output
    assert "2752512 allowed (70%)" in shown.output
    shown = CliRunner().invoke(app, ["plan", "fit", str(EXAMPLE), "--json"])
    document = json.loads(shown.output)
    assert document["schema"] == "npuforge.system/1"
    assert document["pipeline"]["latency_ms"] == pytest.approx(58.3)
    lines = document["ledger"]["lines"]
    assert sum(e["bytes"] for e in document["ledger"]["accounts"]) == sum(
        line["bytes"] for line in lines
    )


def test_over_the_limit_is_a_finding(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("limit = 0.70", "limit = 0.10")
    model = ROOT / "examples/image_classification/image_classification.tflite"
    text = text.replace("../image_classification/image_classification.tflite", model.as_posix())
    path = tmp_path / "s.toml"
    path.write_text(text, encoding="utf-8")
    shown = CliRunner().invoke(app, ["plan", "fit", str(path)])
    assert shown.exit_code == 1
    assert "bytes over the limit" in shown.output


def test_other_name() -> None:
    """Scripts that say `memory` go on; help lists one name."""
    shown = [CliRunner().invoke(app, [verb, "fit", str(EXAMPLE)]) for verb in ("plan", "memory")]
    assert shown[0].output == shown[1].output
    assert shown[0].exit_code == shown[1].exit_code == 0
    lines = [line.split()[:1] for line in CliRunner().invoke(app, ["--help"]).output.splitlines()]
    assert ["plan"] in lines
    assert ["memory"] not in lines


def test_bad_usage(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["plan", "fit", "a", "b"])
    assert isinstance(shown.exception, NpuforgeError)
    assert shown.exception.code == "SYS-004"
    assert shown.exception.exit_code == 2


def test_write(tmp_path: Path) -> None:
    arguments = ["plan", "write", str(EXAMPLE), "-o", str(tmp_path)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0
    assert {"link.ld", "nf_mpu.c", "nf_mpu.h"} <= {path.name for path in tmp_path.iterdir()}
    again = CliRunner().invoke(app, arguments)
    assert isinstance(again.exception, NpuforgeError)
    assert again.exception.code == "OUT-005"
    assert CliRunner().invoke(app, [*arguments, "--force"]).exit_code == 0


def test_check_asks_for_no_board_unless_one_is_named(tmp_path: Path) -> None:
    """The files of a board agree among themselves; another board has other memories."""
    write = ["plan", "write", str(EXAMPLE), "-o", str(tmp_path)]
    assert CliRunner().invoke(app, write).exit_code == 0
    check = [
        "plan",
        "check",
        str(tmp_path / "link.ld"),
        str(tmp_path / "npu.mpool"),
        str(EXAMPLE),
    ]
    shown = CliRunner().invoke(app, check)
    assert shown.exit_code == 0, shown.output
    assert CliRunner().invoke(app, [*check, "-t", "stm32n6570-dk"]).exit_code == 0
    other = CliRunner().invoke(app, [*check, "-t", "mps3-an547"])
    assert other.exit_code == 1
    assert "no memory at" in other.output
