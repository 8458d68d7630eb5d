"""The command line as a user meets it: documents, exit codes, messages, nothing half written."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.tools import needs_emulator

from npuforge import api
from npuforge.report import SCHEMAS

ROOT = Path(__file__).parents[2]


def npuforge(
    *arguments: object, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "npuforge.cli.main", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=folder,
        timeout=300,
        check=False,
        env={**os.environ, "NPUFORGE_LANG": "en", "COLUMNS": "200", **environment},
    )


def test_help_and_version() -> None:
    shown = npuforge("--help")
    assert shown.returncode == 0
    for verb in ("analyze", "aton", "convert", "run", "validate", "deploy", "targets"):
        assert verb in shown.stdout
    assert npuforge("--version").stdout.startswith("npuforge ")


def test_bad_usage() -> None:
    assert npuforge("analyse").returncode == 2
    assert npuforge("run").returncode == 2
    assert npuforge("deploy", "m.tflite", "--nonsense").returncode == 2


def test_start_imports_no_heavy_module() -> None:
    code = (
        "import sys, npuforge, npuforge.cli.main; "
        "heavy = {'numpy', 'onnx', 'tflite', 'jinja2', 'PIL', 'onnxruntime', 'ai_edge_litert', "
        "'rich.console', 'npuforge._native'}; print(sorted(heavy & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.strip() == "[]"


def test_analyze_document(example: Callable[[str], Path]) -> None:
    shown = npuforge("analyze", example("keyword_spotting"), "--target", "stm32n6570-dk", "--json")
    assert shown.returncode == 0
    assert shown.stderr == ""
    document = json.loads(shown.stdout)
    assert document["schema"] == SCHEMAS["analysis"]
    assert document["model"]["macs"] == document["cost"]["macs"] == 2_664_768
    assert document["memory"]["lower_bound"] <= document["memory"]["activation_bytes"]
    assert {n["accelerator"] for n in document["mapping"]["nodes"]} == {"cpu_m55"}
    table = npuforge("analyze", example("keyword_spotting"), "--verbose")
    assert "depthwise_conv2d" in table.stdout
    assert "[tflite_reference]" in table.stdout


def test_run_stores_results(example: Callable[[str], Path], tmp_path: Path) -> None:
    folder = example("keyword_spotting").parent
    out = tmp_path / "out.npz"
    shown = npuforge(
        "run", example("keyword_spotting"), "--input", folder / "yes.npy", "--output", out,
        "--capture", "all",
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    with np.load(out) as results:
        first = results.files[0]
        assert first == "Identity"
        assert int(results[first].argmax()) == 0
        assert len(results.files) == 15
    both = np.concatenate([np.load(folder / "yes.npy"), np.load(folder / "no.npy")])
    np.save(tmp_path / "both.npy", both)
    single = tmp_path / "single.npy"
    shown = npuforge(
        "run", example("keyword_spotting"), "-i", tmp_path / "both.npy", "-o", single, "--json"
    )
    assert json.loads(shown.stdout)["samples"] == 2
    assert np.load(single).argmax(axis=1).tolist() == [0, 1]


def test_run_with_threads(example: Callable[[str], Path], tmp_path: Path) -> None:
    graph = api.load_graph(example("image_classification"))
    rng = np.random.default_rng(3)
    np.save(tmp_path / "x.npy", rng.integers(-128, 128, (1, 32, 32, 3)).astype(np.int8))
    files = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for count, out in zip((1, 2), files, strict=True):
        shown = npuforge(
            "run", example("image_classification"), "-i", tmp_path / "x.npy", "-o", out,
            "--threads", count, "--capture", "all",
        )  # fmt: skip
        assert shown.returncode == 0, shown.stderr
    with np.load(files[0]) as one, np.load(files[1]) as two:
        assert len(one.files) >= len(graph.outputs)
        assert all(np.array_equal(one[name], two[name]) for name in one.files)
    shown = npuforge(
        "run", example("image_classification"), "-i", tmp_path / "x.npy", "--threads", 0
    )
    assert shown.returncode == 2
    assert "threads" in shown.stderr


def test_contracts_change_results(example: Callable[[str], Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.integers(-128, 128, (20, 32, 32, 3)).astype(np.int8))
    results = {}
    for contract in ("tflite_reference", "onnx_qlinear"):
        outcome = api.run_model(
            example("image_classification"), [tmp_path / "x.npy"], contract=contract, capture="all"
        )
        results[contract] = list(outcome.values())[-3]
    difference = np.abs(
        results["tflite_reference"].astype(int) - results["onnx_qlinear"].astype(int)
    )
    assert 0 < difference.max() <= 30


def test_messages_for_bad_input(example: Callable[[str], Path], tmp_path: Path) -> None:
    model = example("image_classification")
    np.save(tmp_path / "wrong.npy", np.zeros((1, 3, 32, 32), np.int8))
    np.save(tmp_path / "float.npy", np.zeros((1, 32, 32, 3), np.float32))
    (tmp_path / "empty.tflite").touch()
    cases = [
        (("run", model, "-i", tmp_path / "wrong.npy"), 2, "INP-005"),
        (("run", model, "-i", tmp_path / "float.npy"), 2, "INP-003"),
        (("run", model, "-i", tmp_path / "none.npy"), 2, "INP-008"),
        (("run", model, "-i", tmp_path / "float.npy", "--real", "--capture", "zzz"), 2, "INP-014"),
        (("run", model, "-i", tmp_path / "float.npy", "--contract", "x"), 2, "NUM-016"),
        (("analyze", tmp_path / "empty.tflite"), 1, "IMP-003"),
        (("analyze", tmp_path / "missing.tflite"), 2, "IMP-001"),
        (("analyze", model, "--target", "z80"), 2, "TGT-001"),
        (("analyze", model, "--clock", "ludicrous"), 2, "TGT-003"),
        (("validate", model, "--mode", "moon"), 2, "VAL-003"),
        (("validate", model, "--random-samples", "0"), 2, "VAL-002"),
        (("targets", "nothing"), 2, "TGT-001"),
    ]
    for arguments, code, token in cases:
        shown = npuforge(*arguments)
        assert shown.returncode == code, (arguments, shown.stderr)
        assert f"error {token}" in shown.stderr, shown.stderr
        assert "hint:" in shown.stderr
        assert "Traceback" not in shown.stderr
        assert shown.stdout == ""


def test_chinese_messages(tmp_path: Path) -> None:
    shown = npuforge("analyze", tmp_path / "没有.tflite", NPUFORGE_LANG="zh")
    assert shown.returncode == 2
    assert "IMP-001" in shown.stderr
    assert "没有.tflite" in shown.stderr
    assert "文件" in shown.stderr


def check_bundle(folder: Path) -> dict[str, dict[str, object]]:
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    found = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path != folder / "manifest.json"
    }
    assert found == manifest["files"]
    documents = {"manifest": manifest}
    for name in ("graph", "mapping", "schedule", "memory", "cost", "validation"):
        document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert document["schema"] == SCHEMAS[name]
        documents[name] = document
    assert (folder / "report.html").is_file()
    assert (folder / "firmware" / "CMakeLists.txt").is_file()
    return documents


def test_deploy_without_emulator(example: Callable[[str], Path], tmp_path: Path) -> None:
    out = tmp_path / "a b" / "结果"
    shown = npuforge(
        "deploy", example("keyword_spotting"), "--target", "stm32n6570-dk", "--output", out,
        "--emulate", "off", "--valinput", example("keyword_spotting").parent / "yes.npy",
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    documents = check_bundle(out)
    checks = documents["validation"]["checks"]
    assert [c["status"] for c in checks] == ["passed", "not_run"]  # type: ignore[attr-defined]
    assert documents["validation"]["npu_executed"] is False
    assert "NPU was not executed" in str(documents["validation"]["verdict"])

    again = npuforge(
        "deploy", example("keyword_spotting"), "--target", "stm32n6570-dk", "--output", out,
        "--emulate", "off",
    )  # fmt: skip
    assert again.returncode == 2
    assert "OUT-001" in again.stderr
    check_bundle(out)

    (tmp_path / "broken.tflite").write_bytes(b"\x00" * 4 + b"TFL3" + b"\xff" * 40)
    failed = npuforge(
        "deploy", tmp_path / "broken.tflite", "--target", "stm32n6570-dk", "--output", out,
        "--force",
    )  # fmt: skip
    assert failed.returncode == 1
    check_bundle(out)
    assert [path.name for path in out.parent.iterdir()] == ["结果"]


def test_deploy_insists_on_the_emulator(example: Callable[[str], Path], tmp_path: Path) -> None:
    shown = npuforge(
        "deploy", example("keyword_spotting"), "--target", "stm32n6570-dk",
        "--output", tmp_path / "out", "--emulate", "on", PATH=str(tmp_path),
    )  # fmt: skip
    assert shown.returncode == 1
    assert "BRD-001" in shown.stderr
    assert list(tmp_path.iterdir()) == []
    auto = npuforge(
        "deploy", example("keyword_spotting"), "--target", "stm32n6570-dk",
        "--output", tmp_path / "out", PATH=str(tmp_path),
    )  # fmt: skip
    assert auto.returncode == 0
    assert "qemu-system-arm" in auto.stderr


@pytest.mark.qemu
@needs_emulator
@pytest.mark.parametrize("name", ["visual_wake_words", "anomaly_detection"])
def test_deploy(name: str, example: Callable[[str], Path], tmp_path: Path) -> None:
    """Host equal to the oracle and emulated Cortex-M55 equal to the host, tensor by tensor."""
    inputs = {"visual_wake_words": "person.png", "anomaly_detection": "hum.npy"}
    done = api.deploy_model(
        example(name),
        "stm32n6570-dk",
        tmp_path / "out",
        valinput=[example(name).parent / inputs[name]],
        emulate="on",
    )
    documents = check_bundle(done.folder)
    checks = documents["validation"]["checks"]
    for check in checks:  # type: ignore[attr-defined]
        assert check["status"] == "passed"
        assert check["samples"] == 11
        assert check["mismatches"] == 0
        assert check["tensors"] == len(documents["graph"]["nodes"])  # type: ignore[arg-type]
    assert int(str(documents["cost"]["emulated_instructions"])) > 100_000
    page = (done.folder / "report.html").read_text(encoding="utf-8")
    assert "The NPU was not executed" in page
    assert "http" not in page.replace("http-equiv", "")


def test_validate_verb(example: Callable[[str], Path]) -> None:
    shown = npuforge("validate", example("anomaly_detection"), "--random-samples", 3, "--json")
    assert shown.returncode == 0, shown.stderr
    document = json.loads(shown.stdout)
    assert document["checks"][0]["mismatches"] == 0


def test_validation_failure_has_exit_code_one(example: Callable[[str], Path]) -> None:
    """Under another contract the network is not what its oracle says, and that is said."""
    shown = npuforge("validate", example("image_classification"), "--contract", "onnx_qlinear")
    assert shown.returncode == 1
    assert "first difference in" in shown.stdout
    assert "FAILED" in shown.stdout


def test_targets_verb() -> None:
    assert "npuRAM3" in npuforge("targets", "stm32n6570-dk").stdout
    assert len(json.loads(npuforge("targets", "--json").stdout)) >= 3


def test_output_pipe_that_closes(example: Callable[[str], Path]) -> None:
    command = (
        f'"{sys.executable}" -m npuforge.cli.main analyze "{example("keyword_spotting")}" --json'
    )
    shown = subprocess.run(
        f"{command} | head -c 10", shell=True, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert "Traceback" not in shown.stderr
