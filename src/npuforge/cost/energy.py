"""Power and energy of epochs, of operating points and of a duty cycle, with their uncertainty.

Two levels that must not be mixed: `BOARD` is what a USB meter sees above a board that idles with
all clocks on; `CORE` is the supply of the core alone, waiting included. Constants and sources:
`energy.toml`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from importlib.resources import files

from npuforge.accelerators import PlacementKind
from npuforge.cost.neural_art import NpuCost
from npuforge.targets import OperatingPoint

REFERENCE_MILLIVOLT = 900.0
"""Core voltage of the boards that were measured: overdrive."""
REFERENCE_CPU_MHZ = 800.0


class Level(StrEnum):
    """What an energy includes."""

    BOARD = "board above idle"
    CORE = "core supply"


@dataclass(frozen=True)
class EnergyConstants:
    """Constants of the energy model; pJ, mW at 0.9 V.

    Attributes:
        mac_pj: one multiply-accumulate on the NPU, board level, data movement on the chip included.
        busy_mw: an inference that does nothing but control, above the busy idle board.
        cpu_mw: the CPU computing, above the CPU waiting.
        flash_pj_per_byte: external flash.
        external_pj_per_byte: external RAM.
        converter: part of the board's power that reaches the core.
        wait_mw: core supply while the CPU sleeps and all clocks run.
        stop_mw: core supply at 4 MHz with the NPU's RAM shut down.
        dynamic: part of the waiting power that follows clock and voltage.
        wake_ms: from the slow clock back to work.
        spread: factor of the 80 % interval, board level.
        core_spread: the same, core level.
    """

    mac_pj: float
    busy_mw: float
    cpu_mw: float
    flash_pj_per_byte: float
    external_pj_per_byte: float
    converter: float
    wait_mw: float
    stop_mw: float
    dynamic: float
    wake_ms: float
    spread: float
    core_spread: float


@dataclass(frozen=True)
class Energy:
    """Energy of something, in microjoules, with its 80 % interval."""

    uj: float
    low: float
    high: float
    level: Level

    @staticmethod
    def of(uj: float, level: Level, constants: EnergyConstants) -> Energy:
        """With the interval of its level."""
        spread = constants.spread if level is Level.BOARD else constants.core_spread
        return Energy(uj, uj / spread, uj * spread, level)


@dataclass(frozen=True)
class EpochEnergy:
    """Energy and mean power of one epoch."""

    node: str
    energy: Energy
    ms: float

    @property
    def mw(self) -> float:
        """Mean milliwatts."""
        return self.energy.uj / self.ms if self.ms else 0.0


@dataclass(frozen=True)
class NetworkEnergy:
    """Energy of one inference, and its epochs."""

    total: Energy
    epochs: tuple[EpochEnergy, ...]


@cache
def load_energy() -> EnergyConstants:
    """The constants that come with npuforge."""
    text = files("npuforge.cost").joinpath("energy.toml").read_text(encoding="utf-8")
    values = tomllib.loads(text)
    return EnergyConstants(**{f.name: float(values[f.name]["value"]) for f in fields(
        EnergyConstants)})  # fmt: skip


def energy_sources() -> Mapping[str, str]:
    """Where each constant comes from."""
    text = files("npuforge.cost").joinpath("energy.toml").read_text(encoding="utf-8")
    return {name: str(entry["source"]) for name, entry in tomllib.loads(text).items()}


def _volts(point: OperatingPoint) -> float:
    """Square of the core voltage over that of the measured boards."""
    return ((point.core_millivolt or REFERENCE_MILLIVOLT) / REFERENCE_MILLIVOLT) ** 2


def energy_from_counts(
    macs: float,
    ms: float,
    level: Level,
    *,
    cpu_ms: float = 0.0,
    flash_bytes: float = 0.0,
    external_bytes: float = 0.0,
    point: OperatingPoint | None = None,
    constants: EnergyConstants | None = None,
) -> Energy:
    """Energy of work that is known by its counts only.

    Args:
        macs: multiply-accumulates.
        ms: time it takes, `cpu_ms` of it on the CPU.
        level: what to include.
        cpu_ms: milliseconds of CPU kernels and copies.
        flash_bytes: constants read from external flash; not part of the core's supply.
        external_bytes: activation bytes in external RAM; not part of the core's supply.
        point: for the core voltage; default: that of the measured boards.
        constants: default: `load_energy()`.
    """
    k = constants or load_energy()
    factor = _volts(point) if point is not None else 1.0
    switching = (macs * k.mac_pj / 1e6 + ms * k.busy_mw + cpu_ms * k.cpu_mw) * factor
    if level is Level.BOARD:
        outside = (
            flash_bytes * k.flash_pj_per_byte + external_bytes * k.external_pj_per_byte
        ) / 1e6
        return Energy.of(switching + outside, level, k)
    waiting = wait_power(point, k) * ms
    return Energy.of(switching * k.converter + waiting, level, k)


def wait_power(point: OperatingPoint | None, constants: EnergyConstants | None = None) -> float:
    """Milliwatts of the core's supply while the CPU sleeps and the clocks run."""
    k = constants or load_energy()
    if point is None:
        return k.wait_mw
    moving = _volts(point) * point.cpu_mhz / REFERENCE_CPU_MHZ
    return k.wait_mw * (k.dynamic * moving + (1 - k.dynamic) * math.sqrt(_volts(point)))


def network_energy(
    cost: NpuCost, level: Level = Level.BOARD, constants: EnergyConstants | None = None
) -> NetworkEnergy:
    """Energy of every epoch and of one inference."""
    k = constants or load_energy()
    entries = []
    for epoch in cost.epochs:
        on_cpu = epoch.kind is not PlacementKind.HARDWARE
        entries.append(
            EpochEnergy(
                epoch.node,
                energy_from_counts(
                    0 if on_cpu else epoch.macs, epoch.ms, level,
                    cpu_ms=epoch.ms if on_cpu else 0.0, flash_bytes=epoch.flash_bytes,
                    external_bytes=cost.residence.external_bytes(epoch.work),
                    point=cost.point, constants=k,
                ),
                epoch.ms,
            )
        )  # fmt: skip
    return NetworkEnergy(Energy.of(sum(e.energy.uj for e in entries), level, k), tuple(entries))


class Waiting(StrEnum):
    """What the chip does between two inferences."""

    CLOCKS_ON = "sleep, clocks on"
    STOPPED = "slow clock, npu off"


@dataclass(frozen=True)
class DutyCycle:
    """Mean power of inference at a fixed rate, core supply.

    Attributes:
        point: the operating point.
        waiting: what happens between inferences.
        rate: inferences a second.
        ms: time of an inference, waking included.
        busy: part of the time spent on it; above 1 the rate is not reached.
        mw: mean milliwatts, with its 80 % interval.
        uj_per_inference: microjoules an inference, its share of the waiting included.
    """

    point: OperatingPoint
    waiting: Waiting
    rate: float
    ms: float
    busy: float
    mw: float
    low: float
    high: float
    uj_per_inference: float

    @property
    def reached(self) -> bool:
        """Whether the rate is reached."""
        return self.busy <= 1.0


def duty_cycles(
    costs: Sequence[NpuCost], rate: float, constants: EnergyConstants | None = None
) -> tuple[DutyCycle, ...]:
    """Race to idle against a slower clock: every point with every way to wait, best first.

    Args:
        costs: the network at the operating points to compare.
        rate: inferences a second, above 0.
        constants: default: `load_energy()`.
    """
    k = constants or load_energy()
    found = []
    for cost in costs:
        active = network_energy(cost, Level.CORE, k).total.uj
        for waiting in Waiting:
            stopped = waiting is Waiting.STOPPED
            ms = cost.ms + (k.wake_ms if stopped else 0.0)
            idle = k.stop_mw if stopped else wait_power(cost.point, k)
            wake = k.wake_ms * wait_power(cost.point, k) if stopped else 0.0
            busy = ms * rate / 1e3
            mw = rate * (active + wake) / 1e3 + idle * max(0.0, 1.0 - busy)
            found.append(
                DutyCycle(
                    *(cost.point, waiting, rate, ms, busy, mw, mw / k.core_spread),
                    *(mw * k.core_spread, mw / rate * 1e3),
                )
            )
    return tuple(sorted(found, key=lambda entry: (not entry.reached, entry.mw)))
