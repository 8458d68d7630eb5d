"""Generated C: golden text, hostile names, and the real thing in the emulator."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import single, tensor

from npuforge.boards import (
    HostBoard,
    QemuBoard,
    build_project,
    find_toolchain,
    missing_tools,
    toolchain,
)
from npuforge.errors import ToolError
from npuforge.firmware import KnownAnswer, Network, capture_order, identifier, project_files
from npuforge.firmware.names import comment, float_literal, int_literal, string_literal
from npuforge.graph import NoAttrs
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory
from npuforge.numerics import random_inputs
from npuforge.targets import load_target

GOLDEN = Path(__file__).parent / "golden"
needs_emulator = pytest.mark.skipif(
    bool(missing_tools()), reason=f"not on the PATH: {', '.join(missing_tools())}"
)


def network_of(graph, target: str = "mps3-an547") -> Network:  # type: ignore[no-untyped-def]
    board = load_target(target)
    schedule = lower(graph, map_graph(graph, board), board)
    return Network(identifier(graph.name), graph, schedule, plan_memory(schedule, board))


def small_network() -> Network:
    graph = single(
        "relu", [tensor("x*/in", (1, 4), quant=(0.5, 3))], [tensor("y", (1, 4))], NoAttrs()
    )
    return network_of(graph)


def test_golden_text() -> None:
    """The whole text of a generated network; run with --update-golden after a wanted change."""
    network = small_network()
    sample = {"x*/in": np.array([[1, 2, 3, 4]], np.int8)}
    outputs = HostBoard(network.graph, network.schedule, network.plan).run(sample).outputs
    files = project_files(
        [network], [KnownAnswer(sample, outputs)], load_target("mps3-an547"), "golden"
    )
    for name in ("network/single.c", "network/single.h", "board/link.ld", "network/networks.c"):
        want = (GOLDEN / Path(name).name).read_text(encoding="utf-8")
        assert files[name].decode() == want, name


@given(st.text(max_size=60))
@settings(max_examples=200, derandomize=True)
def test_names_are_safe_in_c(text: str) -> None:
    assert re.fullmatch(r"[a-z_][a-z0-9_]*", identifier(text))
    literal = string_literal(text)
    assert re.fullmatch(r'"([ -!#-\[\]-~]|\\[0-7]{3})*"', literal)
    assert "*/" not in comment(text)
    assert "\n" not in comment(text)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@settings(max_examples=200, derandomize=True)
def test_float_literals_are_exact(value: float) -> None:
    assert float.fromhex(float_literal(value)[:-1]) == value


def test_smallest_integer_literal() -> None:
    assert int_literal(-(1 << 31)) == "(-2147483647 - 1)"


@pytest.mark.qemu
@needs_emulator
@pytest.mark.parametrize("name", ["keyword_spotting", "image_classification"])
def test_emulated_equals_host(name: str, example: Callable[[str], Path], tmp_path: Path) -> None:
    graph = load_model(example(name))
    network = network_of(graph, "stm32n6570-dk")
    host = HostBoard(graph, network.schedule, network.plan)
    rng = np.random.default_rng(0)
    samples = [random_inputs(graph, rng) for _ in range(3)]
    answer = KnownAnswer(samples[0], host.run(samples[0]).outputs)
    folder = tmp_path / "Prüfung 测试"
    machine = load_target("mps3-an547")
    for path, content in project_files([network], [answer], machine, name).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    tools = find_toolchain()
    build_project(folder, folder / "build", tools)
    order = capture_order(network.schedule)
    board = QemuBoard(graph, network.schedule, order, folder / "build", 0, tools)
    assert "known answer reproduced" in board.known_answer()
    for sample, result in zip(samples, board.run(samples, capture=True), strict=True):
        want = host.run(sample, capture=True)
        assert set(result.tensors) == set(want.tensors)
        for key, value in want.tensors.items():
            assert np.array_equal(value, result.tensors[key]), key
    plain = board.run(samples[:1])[0]
    for key in graph.outputs:
        assert np.array_equal(plain.outputs[key], host.run(samples[0]).outputs[key])
    counts = board.count_instructions(samples[0])
    assert counts == board.count_instructions(samples[0])
    assert len(counts) == len(network.schedule.steps)
    # at least one instruction a multiply-accumulate, at most a hundred
    assert network.schedule.macs < sum(counts) < 100 * network.schedule.macs

    # a wrong known answer is found
    answer_file = next((folder / "network").glob("*_answer.bin"))
    content = bytearray(answer_file.read_bytes())
    content[-1] ^= 1
    answer_file.write_bytes(content)
    build_project(folder, folder / "build", tools)
    with pytest.raises(ToolError) as caught:
        board.known_answer()
    assert caught.value.code == "BRD-011"
    assert "differs at byte" in (caught.value.detail or "")


@pytest.mark.qemu
@needs_emulator
def test_build_errors_are_shown(tmp_path: Path) -> None:
    network = small_network()
    sample = {"x*/in": np.zeros((1, 4), np.int8)}
    files = project_files(
        [network], [KnownAnswer(sample, {"y": sample["x*/in"]})], load_target("mps3-an547"), "bad"
    )
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    (tmp_path / "app" / "validate.c").write_text("int main(void) { return oops; }\n")
    with pytest.raises(ToolError) as caught:
        build_project(tmp_path, tmp_path / "build", find_toolchain())
    assert caught.value.code == "BRD-004"
    assert "oops" in (caught.value.detail or "")


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ToolError) as caught:
        toolchain.find_toolchain()
    assert caught.value.code == "BRD-001"
    assert "qemu-system-arm" in caught.value.message
    assert "gcc-arm-none-eabi" in caught.value.hint


def test_tools_that_hang_are_stopped() -> None:
    import sys

    with pytest.raises(ToolError) as caught:
        toolchain.run_tool([sys.executable, "-c", "import time; time.sleep(60)"], 0.3)
    assert caught.value.code == "BRD-002"
    with pytest.raises(ToolError) as caught:
        toolchain.run_tool(["no-such-tool-anywhere"], 1)
    assert caught.value.code == "BRD-003"
