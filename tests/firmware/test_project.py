"""Generated C: golden text, hostile names, and the real thing in the emulator."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import single, tensor
from tests.tools import needs_emulator

from npuforge.boards import (
    HostBoard,
    QemuBoard,
    build_project,
    find_toolchain,
    toolchain,
    write_sources,
)
from npuforge.errors import ToolError
from npuforge.firmware import KnownAnswer, Network, capture_order, identifier, project_files
from npuforge.firmware.names import comment, float_literal, int_literal, string_literal
from npuforge.graph import (
    Array,
    ConcatAttrs,
    ConvAttrs,
    Graph,
    NoAttrs,
    Node,
    ReshapeAttrs,
    SliceAttrs,
    StateAttrs,
    verify,
)
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory
from npuforge.numerics import random_inputs
from npuforge.targets import load_target
from npuforge.vocab import Contract, DType

GOLDEN = Path(__file__).parent / "golden"


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
    """The whole text of a generated network."""
    network = small_network()
    sample = {"x*/in": np.array([[1, 2, 3, 4]], np.int8)}
    outputs = HostBoard(network.graph, network.schedule, network.plan).run(sample).outputs
    files = project_files(
        [network], [KnownAnswer(sample, outputs)], load_target("mps3-an547"), "golden"
    )
    made = ("network/single.c", "network/single.h", "network/networks.c")
    for name in (*made, "board/link.ld", "board/memory.c"):
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
    write_sources(folder, project_files([network], [answer], machine, name))
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


def streaming_graph() -> Graph:
    """Frames of a signal through a delay line of three frames into a convolution over time."""
    rng = np.random.default_rng(3)
    frame, line = tensor("frame", (1, 1, 4)), tensor("line", (1, 3, 4))
    whole, rest = tensor("whole", (1, 4, 4)), tensor("rest", (1, 3, 4))
    image, y = tensor("image", (1, 4, 1, 4)), tensor("y", (1, 2, 1, 5), quant=(0.4, 7))
    old = tensor("old", (1, 3, 4))
    weights = tensor("w", (5, 3, 1, 4), data=rng.integers(-127, 128, (5, 3, 1, 4)))
    bias = tensor("b", (5,), DType.INT32, (0.01, 0), rng.integers(-900, 900, 5))
    lite = Contract.TFLITE_REFERENCE
    state = StateAttrs("line", (1, 3, 4))
    drop = SliceAttrs((0, 1, 0), (1, 1, 1), (1, 3, 4))
    nodes = (
        Node("read", "read_variable", (), ("old",), state, Contract.EXACT),
        Node("join", "concat", ("old", "frame"), ("whole",), ConcatAttrs(1), lite),
        Node("drop", "slice", ("whole",), ("rest",), drop, Contract.EXACT),
        Node("keep", "assign_variable", ("rest",), (), state, Contract.EXACT),
        Node("view", "reshape", ("whole",), ("image",), ReshapeAttrs((1, 4, 1, 4)), Contract.EXACT),
        Node("conv", "conv2d", ("image", "w", "b"), ("y",), ConvAttrs(), lite),
    )
    made = (frame, line, old, whole, rest, image, weights, bias, y)
    initial = rng.integers(-50, 50, (1, 3, 4)).astype(np.int8)
    graph = Graph(
        "streaming",
        {t.name: t for t in made},
        nodes,
        ("frame",),
        ("y",),
        states={"line": initial},
    )
    verify(graph)
    return graph


@pytest.mark.qemu
@needs_emulator
def test_streaming_network_in_the_emulator(tmp_path: Path) -> None:
    """State lives from inference to inference on the machine as on the host."""
    graph = streaming_graph()
    network = network_of(graph)
    host = HostBoard(graph, network.schedule, network.plan)
    rng = np.random.default_rng(4)
    samples = [random_inputs(graph, rng) for _ in range(6)]
    answer = KnownAnswer(samples[0], host.run(samples[0]).outputs)
    machine = load_target("mps3-an547")
    write_sources(tmp_path, project_files([network], [answer], machine, "streaming"))
    tools = find_toolchain()
    build_project(tmp_path, tmp_path / "build", tools)
    order = capture_order(network.schedule)
    board = QemuBoard(graph, network.schedule, order, tmp_path / "build", 0, tools)
    assert "known answer reproduced" in board.known_answer()

    def outputs() -> list[Array]:
        host.reset()
        return [host.run(sample).outputs["y"] for sample in samples]

    wanted = outputs()
    assert any((a != b).any() for a, b in itertools.pairwise(wanted))
    for sample, want, got in zip(samples, wanted, board.run(samples), strict=True):
        assert np.array_equal(want, got.outputs["y"]), sample
    # what came before is seen: the last sample alone gives another result
    host.reset()
    alone = host.run(samples[-1]).outputs["y"]
    assert not np.array_equal(alone, wanted[-1])
    assert np.array_equal(board.run(samples[-1:])[0].outputs["y"], alone)


@pytest.mark.qemu
@needs_emulator
def test_build_errors_are_shown(tmp_path: Path) -> None:
    network = small_network()
    sample = {"x*/in": np.zeros((1, 4), np.int8)}
    files = project_files(
        [network], [KnownAnswer(sample, {"y": sample["x*/in"]})], load_target("mps3-an547"), "bad"
    )
    write_sources(tmp_path, files)
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
