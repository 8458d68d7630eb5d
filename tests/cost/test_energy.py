"""Energy: levels stay apart, epochs add up, published figures, race to idle."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cost.test_puzzles import BOARD, averaged, timed

from npuforge.cost.energy import (
    Level,
    Waiting,
    duty_cycles,
    energy_from_counts,
    energy_sources,
    load_energy,
    network_energy,
    wait_power,
)


@pytest.mark.parametrize(
    ("macs", "ms", "uj"),
    # STM32N6570-DK, USB meter above idle: MAC count, inference time, energy (LarocheC's zoo).
    [
        (21_700_000, 0.619, 147.97),
        (65_000_000, 1.611, 444.9),
        (94_700_000, 1.154, 471.53),
        (168_200_000, 2.597, 935.28),
        (280_000, 0.789, 9.78),
        (1_440_000, 2.788, 29.69),
    ],
)
def test_published_board_energies_are_inside_the_interval(macs: int, ms: float, uj: float) -> None:
    found = energy_from_counts(macs, ms, Level.BOARD)
    assert found.low <= uj <= found.high


def test_the_core_figure_took_part_in_no_fit_and_is_inside() -> None:
    found = energy_from_counts(777_482_634, 30.46, Level.CORE)
    assert found.low <= 8068.1 <= found.high


def test_every_constant_has_a_source() -> None:
    assert all(len(source) > 20 for source in energy_sources().values())


def test_epochs_add_up_and_levels_differ() -> None:
    cost = timed(averaged(3, 64), BOARD, "4.0")
    board, core = (network_energy(cost, level) for level in (Level.BOARD, Level.CORE))
    assert sum(e.energy.uj for e in board.epochs) == pytest.approx(board.total.uj)
    assert board.total.level is Level.BOARD
    waiting = wait_power(BOARD) * cost.ms
    assert core.total.uj > waiting


@given(st.integers(0, 10**9), st.floats(0.01, 100))
def test_energy_grows_with_work_and_voltage(macs: int, ms: float) -> None:
    base = energy_from_counts(macs, ms, Level.BOARD, point=BOARD)
    assert base.low <= base.uj <= base.high
    assert energy_from_counts(macs + 10**6, ms, Level.BOARD, point=BOARD).uj > base.uj
    low = replace(BOARD, core_millivolt=800.0)
    assert energy_from_counts(macs, ms, Level.BOARD, point=low).uj < base.uj


def test_a_slow_rate_is_waited_for_with_the_npu_off() -> None:
    cost = timed(averaged(3, 64), BOARD, "4.0")
    nominal = replace(BOARD, name="nominal", cpu_mhz=600.0, npu_mhz=800.0, core_millivolt=800.0)
    slow = timed(averaged(3, 64), nominal, "4.0")
    rare = duty_cycles([cost, slow], 1.0)
    assert len(rare) == 4
    assert rare[0].waiting is Waiting.STOPPED
    assert rare[0].mw < rare[-1].mw / 3
    assert [entry.mw for entry in rare] == sorted(entry.mw for entry in rare)


def test_a_rate_that_is_not_reached_is_said_and_comes_last() -> None:
    cost = timed(averaged(3, 64), BOARD, "4.0")
    rate = 0.9e3 / cost.ms
    entries = duty_cycles([cost], rate)
    assert [entry.reached for entry in entries] == [True, False]
    assert entries[0].waiting is Waiting.CLOCKS_ON
    assert entries[1].ms == pytest.approx(cost.ms + load_energy().wake_ms)
