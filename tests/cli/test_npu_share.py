"""`analyze` on a board with an NPU: shares, fallbacks and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.passes.patterns import Net
from typer.testing import CliRunner

from npuforge.cli.main import app
from npuforge.errors import UsageError
from npuforge.exporters import export_tflite
from npuforge.graph import attrs as at

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


def test_thresholds_decide_the_exit_code() -> None:
    share = 100 * json.loads(_run("--json")[1])["npu"]["node_share"]
    assert 50 < share <= 100
    assert _run("--strict", f"{share - 0.01:.3f}")[0] == 0
    assert _run("--strict", f"{share - 0.01:.3f}", "--cpu", "fully_connected")[0] == 1
    assert _run("--strict", "100.1")[0] == 1


def test_only_npu() -> None:
    fallbacks = json.loads(_run("--json", "--integer-io")[1])["npu"]["fallbacks"]
    assert _run("--only-npu", "--integer-io")[0] == (1 if fallbacks else 0)
    assert _run("--only-npu", "--integer-io", "--cpu", "fully_connected")[0] == 1


def test_a_name_that_fits_nothing_is_bad_usage() -> None:
    result = CliRunner().invoke(app, ["analyze", MODEL, "--cpu", "no-such-node"])
    assert isinstance(result.exception, UsageError)
    assert result.exception.code == "NPU-001"


def test_a_board_without_npu_never_satisfies_only_npu() -> None:
    assert _run("--target", "mps3-an547")[0] == 0
    assert _run("--target", "mps3-an547", "--only-npu")[0] == 1


def test_each_rule_is_explained_once(tmp_path: Path) -> None:
    """Two nodes of one rule: two rows, one block with both reasons and one remedy."""
    net = Net()
    x = net.input(1, 4, 4, 8)
    for more in (4, 12):
        attrs = at.PadAttrs((0, 0, 0, 0), (0, 0, 0, more), value=-3.0)
        x = net.move("pad", x, attrs)
    model = tmp_path / "pads.tflite"
    model.write_bytes(export_tflite(net.graph(x)))
    result = CliRunner().invoke(app, ["analyze", str(model)])
    assert result.exit_code == 0
    printed = " ".join(result.stdout.split())
    assert printed.count("hybrid 0 ") == 2
    assert printed.count("MAP-npu-channel-pad: nodes 2") == 1
    assert "pad by 4 channels" in printed
    assert "pad by 12 channels" in printed
    assert printed.count("channel-pad-to-conv") == 1
