"""The virtual board: sound firmware never fails on it, every injected fault is caught by name."""

from __future__ import annotations

import numpy as np
import pytest
from tests.builders import single, tensor
from tests.tools import needs_gcc

from npuforge.boards import HostBoard
from npuforge.boards.virtual_board import VirtualBoard, interval
from npuforge.firmware import KnownAnswer, Network, project_files
from npuforge.graph import ConvAttrs
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory
from npuforge.numerics import random_inputs
from npuforge.targets import load_target
from npuforge.vocab import DriverFault, DType, MachineProfile

pytestmark = needs_gcc


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> VirtualBoard:
    """The smallest reproducer: one 3x3 convolution of a 16x16x8 image."""
    rng = np.random.default_rng(1)
    weights = tensor("w", (8, 3, 3, 8), data=rng.integers(-127, 128, (8, 3, 3, 8)))
    bias = tensor("b", (8,), DType.INT32, (0.01, 0), rng.integers(-900, 900, 8))
    graph = single(
        "conv2d",
        [tensor("x", (1, 16, 16, 8)), weights, bias],
        [tensor("y", (1, 14, 14, 8), quant=(2.0, 0))],
        ConvAttrs(),
    )
    target, machine = load_target("stm32n6570-dk"), load_target("mps3-an547")
    schedule = lower(graph, map_graph(graph, target), target)
    plan = plan_memory(schedule, target)
    sample = random_inputs(graph, rng)
    answer = KnownAnswer(sample, HostBoard(graph, schedule, plan).run(sample).outputs)
    files = project_files([Network("single", graph, schedule, plan)], [answer], machine, "single")
    return VirtualBoard(files, tmp_path_factory.mktemp("virtual"), sanitize=True)


def test_sound_firmware_never_fails(board: VirtualBoard) -> None:
    result = board.stress(300, seed=5)
    assert result.failures == 0, result.first
    assert result.high < 0.02
    assert board.stress(300, seed=5) == result


def test_maintenance_of_an_inference(board: VirtualBoard) -> None:
    """Exactly the frame's and the output's lines are invalidated; at most three ranges cleaned."""
    few, many = board.stress(10), board.stress(110)
    frame, output = 16 * 16 * 8, -(-14 * 14 * 8 // 32) * 32
    assert (many.invalidates - few.invalidates) == 100 * 2
    assert (many.invalidated - few.invalidated) == 100 * (frame + output)
    # the input, and the two buffers of the frame's DMA that the CPU may have written before
    assert (many.cleans - few.cleans) <= 100 * 3


@pytest.mark.parametrize(("profile", "kinds"), [("mcu", 28), ("linux", 30)])
def test_every_fault_is_caught_by_name(board: VirtualBoard, profile: str, kinds: int) -> None:
    results = board.inject(100, profile=MachineProfile(profile))
    assert len(results) == kinds
    for result in results:
        assert result.caught >= 99, result
        assert result.named >= 99, result


def test_sound_firmware_on_a_linux_class_machine(board: VirtualBoard) -> None:
    result = board.stress(300, seed=5, profile=MachineProfile.LINUX)
    assert result.failures == result.wrong == 0, result.first


@pytest.mark.parametrize("fault", DriverFault)
def test_a_drivers_fault_gives_wrong_results(board: VirtualBoard, fault: DriverFault) -> None:
    result = board.stress(60, profile=MachineProfile.LINUX, driver_fault=fault)
    # a frame of 2 KiB lies in one page: scattered ones do it no harm
    assert (result.wrong > 0) == (fault is not DriverFault.SCATTERED_PAGES)
    assert result.failures >= result.wrong


@pytest.mark.parametrize(
    ("failures", "trials", "low", "high"),
    [(0, 0, 0.0, 1.0), (0, 10_000, 0.0, 0.000384), (60, 500, 0.0944, 0.1514)],
)
def test_interval(failures: int, trials: int, low: float, high: float) -> None:
    assert interval(failures, trials) == pytest.approx((low, high), abs=1e-4)
