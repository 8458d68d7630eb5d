"""Networks in stripes: the same numbers in fewer bytes, on the host."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import tensor
from tests.tools import needs_emulator

from npuforge.boards import (
    HostBoard,
    QemuBoard,
    build_project,
    find_toolchain,
    write_sources,
)
from npuforge.errors import PlanError
from npuforge.explore.tiling import Tiler, tile_into, tile_least, tile_within
from npuforge.firmware import KnownAnswer, Network, capture_order, project_files
from npuforge.graph import ConvAttrs, Graph, Node, verify
from npuforge.importers import load_model
from npuforge.lowering import Schedule, lower
from npuforge.lowering.stripes import Run
from npuforge.lowering.tile import row_steps, tile
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory, verify_plan
from npuforge.memory.shortfall import bytes_needed
from npuforge.numerics import Executor, random_inputs
from npuforge.targets import Target, Use, load_target
from npuforge.vocab import Contract, DType

ROOT = Path(__file__).parents[2]
BOARD = load_target("mps3-an547")


def lowered(graph: Graph) -> Schedule:
    return lower(graph, map_graph(graph, BOARD), BOARD)


def assert_same(graph: Graph, whole: Schedule, tiled: Schedule) -> None:
    """Outputs of both, bit for bit, with plans that pass the verifier."""
    sample = random_inputs(graph, np.random.default_rng(1))
    results = []
    for schedule in (whole, tiled):
        plan = plan_memory(schedule, BOARD)
        verify_plan(schedule, plan, BOARD)
        results.append(HostBoard(graph, schedule, plan).run(sample).outputs)
    for name in graph.outputs:
        assert np.array_equal(results[0][name], results[1][name]), name


@pytest.mark.parametrize("name", ["image_classification", "visual_wake_words"])
def test_examples_in_fewer_bytes(name: str, example: Callable[[str], Path]) -> None:
    graph = load_model(example(name))
    whole = lowered(graph)
    least = tile_least(whole)
    assert least is not None
    assert least.before == bytes_needed(whole)
    assert least.after == bytes_needed(least.schedule) < least.before
    assert least.recomputed == 0
    assert least.added_steps == len(least.schedule.steps) - len(whole.steps)
    assert_same(graph, whole, least.schedule)
    halfway = tile_within(whole, (least.before + least.after) // 2)
    assert halfway is not None
    assert halfway.after <= (least.before + least.after) // 2
    assert halfway.added_steps <= least.added_steps
    assert_same(graph, whole, halfway.schedule)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("zoo2__food-101__mobilenet_v1_0.5_224_fft_int8", 294),
        ("zoo2__food-101__mobilenet_v2_0.35_224_fft_int8", 275),
        ("zoo2__food-101__squeezenetv1.1_224_tfs_int8", 425),
    ],
)
def test_real_networks(name: str, most: int, shared: Path) -> None:
    graph = load_model(shared / "models" / f"{name}.tflite")
    whole = lowered(graph)
    found = tile_within(whole, most * 1024)
    assert found is not None
    assert plan_memory(found.schedule, BOARD).activation_bytes <= most * 1024
    assert_same(graph, whole, found.schedule)


def chain(layers: list[tuple[int, int, int, int]], rows: int) -> Graph:
    """Convolutions of (kernel, stride, dilation, channels), with what padding keeps most rows."""
    rng = np.random.default_rng(len(layers) + rows)
    x = tensor("x", (1, rows, 7, 3), quant=(0.1, 4))
    tensors, nodes = [x], []
    for number, (kernel, stride, dilation, channels) in enumerate(layers):
        reach = (kernel - 1) * dilation + 1
        top, bottom = (reach - 1) // 2, reach - 1 - (reach - 1) // 2
        height = (x.shape[1] + reach - 1 - reach) // stride + 1
        width = (x.shape[2] + reach - 1 - reach) // stride + 1
        y = tensor(f"y{number}", (1, height, width, channels), quant=(0.3, -2))
        shape = (channels, kernel, kernel, x.shape[3])
        w = tensor(f"w{number}", shape, data=rng.integers(-127, 128, shape))
        b = tensor(
            f"b{number}", (channels,), DType.INT32, (0.01, 0), rng.integers(-99, 99, channels)
        )
        attrs = ConvAttrs(
            stride=(stride, stride), dilation=(dilation, dilation),
            padding=(top, bottom, top, bottom),
        )  # fmt: skip
        inputs = (x.name, w.name, b.name)
        nodes.append(
            Node(f"conv{number}", "conv2d", inputs, (y.name,), attrs, Contract.TFLITE_REFERENCE)
        )
        tensors += [w, b, y]
        x = y
    graph = Graph("chain", {t.name: t for t in tensors}, tuple(nodes), ("x",), (x.name,))
    verify(graph)
    return graph


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4), st.integers(1, 3), st.integers(1, 2), st.sampled_from((1, 4, 5))
        ),
        min_size=2, max_size=5,
    ),
    st.integers(1, 24),
    st.integers(1, 9),
)  # fmt: skip
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_chain_in_any_stripes(
    layers: list[tuple[int, int, int, int]], rows: int, lines: int
) -> None:
    graph = chain(layers, rows)
    whole = lowered(graph)
    members = [row for row in row_steps(whole) if row is not None]
    assert len(members) == len(whole.steps)
    tiled = tile(whole, [Run(whole, members).stripes(min(lines, members[0].rows))])
    assert tiled.macs == whole.macs
    assert_same(graph, whole, tiled)


def test_nothing_is_promised_that_is_impossible(example: Callable[[str], Path]) -> None:
    whole = lowered(load_model(example("image_classification")))
    assert Tiler(whole).within(100) is None


def small(nbytes: int) -> Target:
    """A board whose activation memory is one pool of so many bytes."""
    first, *others = BOARD.pools_for(Use.ACTIVATIONS)
    gone = {pool.name for pool in others}
    pools = [p for p in BOARD.pools if p.name not in gone]
    return replace(BOARD, pools=tuple(replace(p, size=nbytes) if p == first else p for p in pools))


def test_detector_into_a_small_memory() -> None:
    """The detector of `benchmarks/tiling.py` at 160x160: branches, joins, doubled rows, heads."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from detector import detector
    finally:
        sys.path.pop(0)
    graph = detector(160)
    whole = lowered(graph)
    need = bytes_needed(whole)
    for part in (0.6, 0.45):
        target = small(int(need * part))
        made = tile_into(whole, target)
        assert made is not None
        found, plan = made
        verify_plan(found.schedule, plan, target)
        assert plan.activation_bytes <= need * part
        assert found.schedule.macs == whole.macs
        sample = random_inputs(graph, np.random.default_rng(3))
        want = Executor(graph).run(sample)
        got = HostBoard(graph, found.schedule, plan).run(sample).outputs
        for name in graph.outputs:
            assert np.array_equal(want[name], got[name]), name
            assert np.unique(want[name]).size > 20
    assert tile_into(whole, small(need // 50)) is None


def test_several_small_memories() -> None:
    """Enough memory in all, but each buffer is larger than any one of the memories."""
    graph = chain([(3, 1, 1, 16), (3, 1, 1, 16), (3, 2, 2, 4)], 64)
    whole = lowered(graph)
    largest = max(buffer.nbytes for buffer in whole.activations)
    each = largest * 2 // 3 // 32 * 32
    first = BOARD.pools_for(Use.ACTIVATIONS)[0]
    pools = tuple(
        replace(first, name=f"bank {n}", base=0x21000000 + 0x100000 * n, size=each)
        for n in range(6)
    )
    others = tuple(p for p in BOARD.pools if p.use is not Use.ACTIVATIONS)
    target = replace(BOARD, pools=(*pools, *others))
    assert bytes_needed(whole) < 0.65 * 6 * each
    with pytest.raises(PlanError):
        plan_memory(whole, target)
    made = tile_into(whole, target)
    assert made is not None
    verify_plan(made[0].schedule, made[1], target)
    assert_same(graph, whole, made[0].schedule)


@pytest.mark.qemu
@needs_emulator
def test_tiled_firmware_in_the_emulator(example: Callable[[str], Path], tmp_path: Path) -> None:
    """The generated C of a tiled network gives what the untiled one gives on the host."""
    graph = load_model(example("image_classification"))
    whole = lowered(graph)
    least = tile_least(whole)
    assert least is not None
    sample = random_inputs(graph, np.random.default_rng(2))
    want = HostBoard(graph, whole, plan_memory(whole, BOARD)).run(sample).outputs
    network = Network("tiled", graph, least.schedule, plan_memory(least.schedule, BOARD))
    files = project_files([network], [KnownAnswer(sample, want)], BOARD, "tiled")
    write_sources(tmp_path, files)
    tools = find_toolchain()
    build_project(tmp_path, tmp_path / "build", tools)
    order = capture_order(least.schedule)
    board = QemuBoard(graph, least.schedule, order, tmp_path / "build", 0, tools)
    assert "known answer reproduced" in board.known_answer()
    got = board.run([sample])[0].outputs
    for name in graph.outputs:
        assert np.array_equal(want[name], got[name]), name
