"""Causes: every saving is what the model gives without the cause; together they are the best."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.builders import single, tensor
from tests.cost.test_puzzles import BOARD, averaged, timed

from npuforge.cost import Bottleneck, NpuCost, npu_cost
from npuforge.cost.explain import Cause, Explanation, prefetch_plan, why_slower
from npuforge.graph import Graph
from npuforge.graph.attrs import ConvAttrs
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu
from npuforge.targets import OperatingPoint

NOMINAL = OperatingPoint("nominal", 600.0, 800.0, flash_mhz=200.0, core_millivolt=800.0)


def convolution(size: int, channels: int, count: int, kernel: int, zero: int) -> Graph:
    pad = kernel // 2
    shape = (count, kernel, kernel, channels)
    return single(
        "conv2d",
        [tensor("x", (1, size, size, channels), quant=(0.1, zero)),
         tensor("w", shape, data=np.ones(shape))],
        [tensor("y", (1, size, size, count), quant=(0.1, -128))],
        ConvAttrs(padding=(pad, pad, pad, pad)),
    )  # fmt: skip


def explained(graph: Graph, point: OperatingPoint = BOARD) -> tuple[NpuCost, Explanation]:
    placements = map_to_npu(graph).placements
    cost = npu_cost(graph, placements, point)
    return cost, why_slower(graph, placements, cost, (NOMINAL, BOARD))


def causes(found: Explanation) -> dict[Cause, float]:
    return {saving.cause: saving.ms for saving in found.savings}


def test_an_odd_zero_point_is_named_and_its_saving_is_the_other_mode() -> None:
    odd, found = explained(convolution(64, 256, 32, 3, 5))
    even, clean = explained(convolution(64, 256, 32, 3, -128))
    assert found.savings[0].cause is Cause.ZERO_POINT
    assert odd.ms - found.savings[0].ms == pytest.approx(even.ms)
    assert Cause.ZERO_POINT not in causes(clean)
    assert "-128" in found.savings[0].remedy


def test_weights_that_bind_are_flash_and_ranked_for_ram() -> None:
    cost, found = explained(convolution(4, 512, 512, 3, -128))
    assert found.savings[0].cause is Cause.FLASH
    (entry,) = prefetch_plan(cost, 4 << 20).entries
    assert entry.fits
    assert entry.ms == pytest.approx(causes(found)[Cause.FLASH])
    (too_large,) = prefetch_plan(cost, 1000).entries
    assert not too_large.fits
    assert prefetch_plan(cost, 1000).ms == 0


def test_prime_channel_counts_are_named() -> None:
    _, prime = explained(convolution(32, 512, 47, 1, -128))
    _, whole = explained(convolution(32, 512, 48, 1, -128))
    assert Cause.CHANNELS in causes(prime)
    assert Cause.CHANNELS not in causes(whole)
    assert causes(prime)[Cause.CHANNELS] > 0.5 * prime.ms


def test_a_slower_clock_is_a_cause_only_below_the_fastest() -> None:
    graph = convolution(64, 8, 32, 3, -128)
    _, fast = explained(graph)
    _, slow = explained(graph, NOMINAL)
    assert Cause.CLOCK not in causes(fast)
    assert 0.1 * slow.ms < causes(slow)[Cause.CLOCK] < 0.25 * slow.ms


def test_the_best_possible_is_no_slower_than_any_removal(
    example: Callable[[str], Path],
) -> None:
    names = [p.name for p in example("x").parent.parent.iterdir() if p.is_dir()]
    assert names
    for name in names:
        path = example(name)
        if not path.is_file():
            continue
        cost, found = explained(load_model(path), NOMINAL)
        assert found.ms == pytest.approx(cost.ms)
        for saving in found.savings:
            assert 0 < saving.ms <= cost.ms
            assert found.best_ms <= cost.ms - saving.ms + 1e-9
            assert saving.remedy
        assert [s.ms for s in found.savings] == sorted((s.ms for s in found.savings), reverse=True)


def test_fetching_ahead_never_saves_more_than_holding() -> None:
    cost = timed(averaged(3, 64), BOARD, "4.0")
    plan = prefetch_plan(cost, 1 << 20)
    for entry in plan.entries:
        assert entry.ahead_ms <= entry.ms + 1e-12
    assert cost.share(Bottleneck.OUTPUT) > 0.9
