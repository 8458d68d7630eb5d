"""Reports of boards beside the estimate: reading, matching, patterns."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.artefacts.epoch_times import MeasuredEpoch, MeasuredKind, read_epoch_times
from npuforge.artefacts.log_text import log_from_text
from npuforge.cost import Bottleneck, NpuCost, npu_cost
from npuforge.cost.measured import compare_measured
from npuforge.errors import ValidationError
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu
from npuforge.targets import OperatingPoint

BOARD = OperatingPoint("overdrive", 800.0, 1000.0, flash_mhz=200.0)

REPORT = """
 idx  m_id  type                 dur (ms)      %   cumul   cycles [pre, core, post]      name
 0    -     epoch                   0.177   0.9%    0.9%   [    2,438     138,584        966 ]   EpochBlock_1
 1    -     epoch (SW)              0.555   2.7%    3.6%   [       45          35    443,761 ]   EpochBlock_54
 2    -     epoch (EC)             35.146  71.2%   74.8%   [   21,270  21,064,269      2,281 ]   EpochBlock_1 -> 53
 3    -     epoch (HYBRID)          0.107   0.1%   74.9%   [       65          52     63,931 ]   EpochBlock_52
 4    -     epoch (extra HW.7)      0.101   0.1%   75.0%   [   14,703      38,136      7,642 ]   EpochBlock_52 (7)
 5    -     epoch - Conv2D_PW       0.199                                                        EpochBlock_2
 training epoch 12 loss 0.3
"""  # noqa: E501


def test_a_report_is_read_line_by_line() -> None:
    rows = read_epoch_times(log_from_text(REPORT))
    assert [(r.kind, r.ms, r.count) for r in rows] == [
        (MeasuredKind.HARDWARE, 0.177, 1),
        (MeasuredKind.SOFTWARE, 0.555, 1),
        (MeasuredKind.CONTROLLER, 35.146, 53),
        (MeasuredKind.HYBRID, 0.107, 1),
        (MeasuredKind.EXTRA, 0.101, 1),
        (MeasuredKind.HARDWARE, 0.199, 1),
    ]
    assert rows[0].clocks == (2438, 138_584, 966)
    assert rows[2].name == "EpochBlock_1 -> 53"
    assert rows[5].clocks is None


def test_csv_is_read_by_its_header() -> None:
    text = (
        "type,dur_ms,cyc_pre,cyc_core,cyc_post,name\n"
        "epoch,0.2,1,2,3,EpochBlock_2\nepoch (SW),0.5,,,,EpochBlock_3\nother,1,1,1,1,x\n"
        "epoch,abc,1,1,1,x\n"
    )
    rows = read_epoch_times(log_from_text(text))
    assert [(r.kind.value, r.ms, r.clocks) for r in rows] == [
        ("hardware", 0.2, (1, 2, 3)),
        ("software", 0.5, None),
    ]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400))
def test_any_text_is_read_or_empty(text: str) -> None:
    for row in read_epoch_times(log_from_text("epoch " + text + "\nepoch (SW) 1.0 " + text)):
        assert row.ms >= 0
        assert row.count >= 1


@pytest.fixture(scope="module")
def cost(example: Callable[[str], Path]) -> NpuCost:
    folder = example("x").parent.parent
    model = max(folder.glob("*/*.tflite"), key=lambda path: path.stat().st_size)
    graph = load_model(model)
    return npu_cost(graph, map_to_npu(graph).placements, BOARD, controller=False)


KIND = {"hardware": MeasuredKind.HARDWARE, "hybrid": MeasuredKind.HYBRID}


def board_log(
    cost: NpuCost, slower: Callable[[Bottleneck, bool], float], seed: int = 0
) -> list[MeasuredEpoch]:
    """The estimate as a board would report it, with noise and a factor for each epoch."""
    rng = random.Random(seed)
    rows = []
    for index, epoch in enumerate(cost.epochs):
        kind = KIND.get(epoch.kind.value, MeasuredKind.SOFTWARE)
        factor = slower(epoch.bottleneck, kind is MeasuredKind.SOFTWARE) * rng.uniform(0.95, 1.05)
        rows.append(MeasuredEpoch(kind, epoch.ms * factor, None, f"EpochBlock_{index}", 1, index))
    return rows


def codes(cost: NpuCost, rows: Sequence[MeasuredEpoch]) -> list[str]:
    return [s.code for s in compare_measured(cost, rows).suspicions]


def test_an_expected_board_raises_no_suspicion(cost: NpuCost) -> None:
    found = compare_measured(cost, board_log(cost, lambda waits, cpu: 1.0))
    assert found.suspicions == ()
    assert found.matched == pytest.approx(1.0)
    assert found.ratio == pytest.approx(1.0, rel=0.05)
    assert all(p.ratio is not None for p in found.pairs)


STREAMS = (Bottleneck.INPUT, Bottleneck.OUTPUT, Bottleneck.KERNEL)


def test_a_slow_flash_is_told_from_a_slow_npu(cost: NpuCost) -> None:
    waiting = [e for e in cost.epochs if e.bottleneck is Bottleneck.FLASH]
    streaming = [e for e in cost.epochs if e.bottleneck in STREAMS]
    assert min(len(waiting), len(streaming)) >= 3, "the example network must have both"
    flash = board_log(cost, lambda waits, cpu: 4.0 if waits is Bottleneck.FLASH else 1.0)
    assert codes(cost, flash) == ["CST-saw-flash"]
    clock = board_log(cost, lambda waits, cpu: 1.0 if cpu else 2.5)
    assert codes(cost, clock) == ["CST-saw-npu-clock"]


def test_lost_epochs_are_left_without_partner_and_the_rest_still_matches(cost: NpuCost) -> None:
    rows = board_log(cost, lambda waits, cpu: 1.0)
    cut = rows[: len(rows) // 2] + rows[len(rows) // 2 + 2 :]
    found = compare_measured(cost, cut)
    assert found.matched > 0.9
    assert sum(p.measured is None for p in found.pairs) == 2


def test_unexpected_cpu_epochs_are_fallback(cost: NpuCost) -> None:
    rows = board_log(cost, lambda waits, cpu: 1.0)
    extra = [
        MeasuredEpoch(MeasuredKind.SOFTWARE, cost.ms, None, f"EpochBlock_{900 + i}", 1, 900 + i)
        for i in range(3)
    ]
    assert "CST-saw-fallback" in codes(cost, rows[:3] + extra + rows[3:])


def test_controller_runs_are_compared_with_sums(cost: NpuCost) -> None:
    rows: list[MeasuredEpoch] = []
    for row in board_log(cost, lambda waits, cpu: 1.0):
        last = rows[-1] if rows else None
        if row.kind is not MeasuredKind.HARDWARE:
            rows.append(row)
        elif last is not None and last.kind is MeasuredKind.CONTROLLER:
            rows[-1] = replace(last, ms=last.ms + row.ms, count=last.count + 1)
        else:
            rows.append(replace(row, kind=MeasuredKind.CONTROLLER))
    found = compare_measured(cost, rows)
    assert found.ratio == pytest.approx(1.0, rel=0.05)
    assert found.matched == pytest.approx(1.0)


def test_an_empty_report_is_refused(cost: NpuCost) -> None:
    with pytest.raises(ValidationError, match="CST-003"):
        compare_measured(cost, [])
    many = [MeasuredEpoch(MeasuredKind.HARDWARE, 1.0, None, "x", 1, 1)] * 4_000_001
    with pytest.raises(ValidationError, match="CST-004"):
        compare_measured(cost, many)
