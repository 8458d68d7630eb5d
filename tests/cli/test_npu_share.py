"""`analyze` on a board with an NPU: shares, fallbacks and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from npuforge.cli.main import app

EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL = str(next(iter(sorted(EXAMPLES.rglob("*.tflite")))))


def _run(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["analyze", MODEL, *options])
    return result.exit_code, result.stdout


def test_json_lists_every_node() -> None:
    code, out = _run("--json")
    document = json.loads(out)
    assert code == 0
    npu = document["npu"]
    assert len(npu["nodes"]) == document["model"]["nodes"]
    leaving = [n for n in npu["nodes"] if n["kind"] not in ("hardware", "view")]
    assert len(leaving) == len(npu["fallbacks"])
    assert all(f["reason"] and f["remedy"] for f in npu["fallbacks"])


@pytest.mark.parametrize("operator", ["conv2d"])
def test_thresholds_decide_the_exit_code(operator: str) -> None:
    assert _run("--strict", "0")[0] == 0
    assert _run("--strict", "100.1")[0] == 1
    assert _run("--only-npu", "--cpu", operator)[0] == 1
    assert _run("--cpu", "no-such-node")[0] == 2


def test_a_board_without_npu_never_satisfies_only_npu() -> None:
    assert _run("--target", "mps3-an547")[0] == 0
    assert _run("--target", "mps3-an547", "--only-npu")[0] == 1
