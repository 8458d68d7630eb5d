"""ST's compiler as backend `st`, with a stand-in for `stedgeai` written here."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.aton.networks import write_network
from typer.testing import CliRunner

from npuforge import api
from npuforge.artefacts.mpool import read_mpool
from npuforge.boards.stedgeai import StStatus, find_stedgeai
from npuforge.cli.main import app
from npuforge.errors import UsageError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script with a shebang")

STAND_IN = """#!{python}
import json, pathlib, subprocess, sys, time
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("ST Edge AI Core v4.0.1-20581 abc")
    sys.exit(0)
options = dict(zip(arguments[1::2], arguments[2::2]))
profile, _, file = options["--st-neural-art"].partition("@")
profiles = json.loads(pathlib.Path(file).read_text())["Profiles"]
assert pathlib.Path(profiles[profile]["memory_pool"]).is_file(), "pools are looked up here"
assert pathlib.Path(options["--model"]).is_file()
print("ST Edge AI Core v4.0.1-20581 abc")
if {mode!r} == "hang":
    subprocess.run(["sleep", "60"])
if {mode!r} == "fail" or ({mode!r} == "half" and profile == "memory"):
    print("TOOL ERROR: list index out of range")
    sys.exit(255)
if {mode!r} == "nothing":
    sys.exit(0)
output, name = pathlib.Path(options["--output"]), options["--name"]
for item in pathlib.Path({made!r}).iterdir():
    (output / item.name.replace("tiny.c", name + ".c")).write_bytes(item.read_bytes())
small = profile == "memory"
(output / (name + "_c_info.json")).write_text(json.dumps({{
    "json_schema_version": "2.0",
    "environment": {{"tools": [], "generated_model": {{"name": name}}}},
    "memory_footprint": {{"activations": 1000 if small else 3000, "weights": 500}},
    "buffers": [], "memory_pools": [],
    "graphs": [{{"nodes": [{{"id": 1, "name": "epoch_1", "mapping": "NODE_EC", "inputs": [],
                            "outputs": [], "subgraph_nodes": []}}]}}],
    "power_estimates": [{{"id": 1, "node_id": 1, "ops": 10, "compute_cycles": 5,
                         "max_cycles": 900 if small else 400}}],
}}))
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts the stand-in on the PATH; its word says what it does."""

    def put(mode: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        tool = folder / "stedgeai"
        made = tmp_path / "made"
        write_network(made)
        if mode == "strange":
            (made / "tiny.c").write_text("/* made up */")
        tool.write_text(STAND_IN.format(python=sys.executable, mode=mode, made=str(made)))
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return put


def deploy(example: Callable[[str], Path], out: Path, seconds: float = 60.0) -> api.Deployment:
    return api.deploy_model(
        example("anomaly_detection"), "stm32n6570-dk", out, emulate="off", random_samples=1,
        backend="st", st_seconds=seconds,
    )  # fmt: skip


def test_without_the_tool_all_is_ready_to_run(
    example: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = deploy(example, tmp_path / "out")
    folder = tmp_path / "out" / "st"
    script = (folder / "compile.sh").read_text()
    for objective in ("latency", "memory"):
        assert f"{objective}@neural_art.json" in script
        assert objective in json.loads((folder / "neural_art.json").read_text())["Profiles"]
    assert (folder / "anomaly_detection.tflite").is_file()
    pools = {pool.name: pool for pool in read_mpool((folder / "npu.mpool").read_bytes()).pools}
    assert pools["octoFlash"].address == 0x71000000
    assert any("compile.sh" in note for note in done.notes)
    assert json.loads((tmp_path / "out" / "st.json").read_text())["tool"] is None


def test_both_objectives_are_tried_and_tabulated(
    example: Callable[[str], Path], tmp_path: Path, install: Callable[[str], None]
) -> None:
    install("work")
    tool = find_stedgeai()
    assert tool is not None
    assert tool.version == "4.0.1-20581"
    shown = CliRunner().invoke(
        app,
        ["deploy", str(example("anomaly_detection")), "--target", "stm32n6570-dk", "--output",
         str(tmp_path / "out"), "--emulate", "off", "--random-samples", "1", "--backend", "st"],
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    assert "best for latency: latency" in shown.output
    assert "best for memory: memory" in shown.output
    document = json.loads((tmp_path / "out" / "st.json").read_text())
    rows = {row["objective"]: row for row in document["runs"]}
    assert (rows["latency"]["activation_bytes"], rows["memory"]["activation_bytes"]) == (3000, 1000)
    assert rows["latency"]["estimated_npu_clocks"] == 400
    for objective in ("latency", "memory"):
        assert rows[objective]["firmware"] == f"{objective}/firmware"
        project = tmp_path / "out" / "st" / objective / "firmware"
        assert "0x342e0000u" in (project / "st" / "network.c").read_text()
        assert f"{objective}: firmware in st/{objective}/firmware" in shown.output
    log = (tmp_path / "out" / "st" / "memory" / "stedgeai.log").read_text()
    assert "memory@" in log
    assert "ST Edge AI Core" in log


def test_code_that_cannot_be_read_gets_no_firmware(
    example: Callable[[str], Path], tmp_path: Path, install: Callable[[str], None]
) -> None:
    install("strange")
    done = deploy(example, tmp_path / "out")
    assert done.st is not None
    assert [run.status for run in done.st.runs] == [StStatus.DONE, StStatus.DONE]
    assert done.st.firmware == {}
    assert set(done.st.refused) == {"latency", "memory"}
    assert not (tmp_path / "out" / "st" / "memory" / "firmware").exists()


def test_a_known_error_has_a_cause_and_a_remedy(
    example: Callable[[str], Path], tmp_path: Path, install: Callable[[str], None]
) -> None:
    install("half")
    done = deploy(example, tmp_path / "out")
    assert done.st is not None
    assert [run.status for run in done.st.runs] == [StStatus.DONE, StStatus.FAILED]
    assert set(done.st.best.values()) == {done.st.runs[0]}
    document = json.loads((tmp_path / "out" / "st.json").read_text())
    failed = document["runs"][1]
    assert failed["messages"] == ["TOOL ERROR: list index out of range"]
    assert failed["causes"][0]["finding"] == "K26-gemm-bias"
    assert failed["causes"][0]["remedy"]


def test_success_without_a_network_is_a_failure(
    example: Callable[[str], Path], tmp_path: Path, install: Callable[[str], None]
) -> None:
    install("nothing")
    done = deploy(example, tmp_path / "out")
    assert done.st is not None
    assert {run.status for run in done.st.runs} == {StStatus.FAILED}
    assert done.st.best == {}


def test_a_compiler_that_hangs_is_stopped_with_what_it_started(
    example: Callable[[str], Path], tmp_path: Path, install: Callable[[str], None]
) -> None:
    install("hang")
    begin = time.monotonic()
    done = deploy(example, tmp_path / "out", 1.0)
    assert time.monotonic() - begin < 50
    assert done.st is not None
    assert {run.status for run in done.st.runs} == {StStatus.TIMEOUT}


def test_backend_is_checked(example: Callable[[str], Path], tmp_path: Path) -> None:
    model = example("anomaly_detection")
    with pytest.raises(UsageError):
        api.deploy_model(model, "stm32n6570-dk", tmp_path / "out", backend="gpu")
    with pytest.raises(UsageError):
        api.deploy_model(
            model, "mps3-an547", tmp_path / "out", backend="st", emulate="off", random_samples=1
        )
    assert not (tmp_path / "out").exists()
