"""The free constants of the cost model: one file, each with its unit and source.

`calibration.toml` comes with npuforge; `npuforge calibrate` writes another one from a user's own
measured reports, in the same form.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from npuforge.errors import ValidationError

MAX_BYTES = 1 << 20
"""A calibration file is a few kilobytes."""


@dataclass(frozen=True)
class CpuKernel:
    """Cortex-M55 clocks of one operator: `base + element * elements + mac * macs`.

    Attributes:
        base: clocks of a call.
        element: clocks of an element of the larger of input and output.
        mac: clocks of a multiply-accumulate.
        source: what it was fitted on.
        assumed: no measured layer stands behind it.
    """

    base: float
    element: float
    mac: float
    source: str
    assumed: bool = False

    def clocks(self, elements: int, macs: int) -> float:
        """Clocks of a call."""
        return self.base + self.element * elements + self.mac * macs


@dataclass(frozen=True)
class Constants:
    """Free constants; `cpu` in a name marks Cortex-M clocks, others are NPU clocks.

    Attributes:
        flash_efficiency: part of the flash's two bytes a flash clock that arrives.
        epoch_clocks: start and drain of an epoch.
        program_clocks: the epoch controller fetches and runs the program of an epoch.
        program_clocks_per_channel: the same for the coefficients of one output channel.
        setup_cpu_clocks: the CPU sets up and ends an epoch where there is no controller.
        setup_cpu_clocks_per_channel: the same for the coefficients of one output channel.
        legacy_program_factor: programs of releases below 3.0 over later ones.
        drain_clocks_per_element: line buffer behind a depthwise frame.
        streamed_clocks_per_element: elements whose coefficients are streamed.
        hybrid_cpu_clocks: set-up of a hybrid epoch.
        hybrid_cpu_clocks_per_byte: each activation byte that the CPU moves in a hybrid epoch.
        hybrid_copy_cpu_clocks: set-up of a hybrid epoch whose copies the NPU's DMA makes.
        hybrid_copy_cpu_clocks_per_element: cache maintenance of each element it writes.
        software_cpu_clocks: the runtime around one CPU kernel.
        cpu_ram_factor: streams that live in CPU RAM over those in NPU RAM.
        external_clocks_per_byte: activation bytes in external RAM, at 1 GHz NPU clock.
        scale: everything left over: contention, refresh, the publisher's clock.
    """

    flash_efficiency: float
    epoch_clocks: float
    program_clocks: float
    program_clocks_per_channel: float
    setup_cpu_clocks: float
    setup_cpu_clocks_per_channel: float
    legacy_program_factor: float
    drain_clocks_per_element: float
    streamed_clocks_per_element: float
    hybrid_cpu_clocks: float
    hybrid_cpu_clocks_per_byte: float
    hybrid_copy_cpu_clocks: float
    hybrid_copy_cpu_clocks_per_element: float
    software_cpu_clocks: float
    cpu_ram_factor: float
    external_clocks_per_byte: float
    scale: float


CONSTANT_NAMES = tuple(f.name for f in fields(Constants))


@dataclass(frozen=True)
class Doubts:
    """How far the time of one epoch may be off, as a natural logarithm, by what it rests on.

    Attributes:
        hardware: an epoch of NPU units.
        hybrid: an epoch that a C helper drives.
        cpu: a CPU kernel fitted to measured layers.
        assumed: a CPU kernel without measured layers.
    """

    hardware: float
    hybrid: float
    cpu: float
    assumed: float


DOUBT_NAMES = tuple(f.name for f in fields(Doubts))


@dataclass(frozen=True)
class Calibration:
    """Everything that was fitted.

    Attributes:
        constants: of the machine.
        cpu: CPU kernels by operator; "default" is taken for the others.
        sources: where each constant comes from.
        doubts: how far single epochs may be off.
        spread: half the width of the 80 % interval of a network's time, in its mean doubt.
        basis: what the interval rests on, for reports.
        fitted: names of the constants a fit changed.
    """

    constants: Constants
    cpu: Mapping[str, CpuKernel]
    sources: Mapping[str, str]
    doubts: Doubts
    spread: float
    basis: str
    fitted: tuple[str, ...] = field(default=())

    def kernel(self, op: str) -> CpuKernel:
        """The CPU kernel of an operator."""
        return self.cpu.get(op, self.cpu["default"])

    def with_constants(self, values: Mapping[str, float]) -> Calibration:
        """The same with other constants."""
        return replace(self, constants=replace(self.constants, **values))


@cache
def load_calibration() -> Calibration:
    """The constants that come with npuforge."""
    text = files("npuforge.cost").joinpath("calibration.toml").read_text(encoding="utf-8")
    return _parse(text, "calibration.toml")


def read_calibration(path: Path) -> Calibration:
    """A calibration file that `npuforge calibrate` wrote.

    Raises:
        ValidationError: it cannot be read, or a constant is missing, no number or negative.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValidationError("CST-002", path=path, reason="larger than 1 MiB")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError("CST-002", path=path, reason=error) from None
    return _parse(text, str(path))


def _parse(text: str, path: str) -> Calibration:
    try:
        document = tomllib.loads(text)
        machine = document["machine"]
        values = {name: _number(machine[name]["value"], name) for name in CONSTANT_NAMES}
        sources = {name: str(machine[name]["source"]) for name in CONSTANT_NAMES}
        cpu = {
            str(op): CpuKernel(
                _number(entry["base"], f"{op}.base"),
                _number(entry["element"], f"{op}.element"),
                _number(entry["mac"], f"{op}.mac"),
                str(entry["source"]),
                entry.get("assumed", False) is True,
            )
            for op, entry in document["cpu"].items()
        }
        interval = document["interval"]
        doubts = Doubts(**{name: _number(interval[name], name) for name in DOUBT_NAMES})
        spread = _number(interval["spread"], "spread")
        if "default" not in cpu:
            raise ValueError("no CPU kernel called default")
        return Calibration(
            Constants(**values), cpu, sources, doubts, spread, str(interval["basis"]),
            tuple(str(name) for name in document.get("fitted", ())),
        )  # fmt: skip
    except KeyError as error:
        raise ValidationError("CST-002", path=path, reason=f"{error} is missing") from None
    except (tomllib.TOMLDecodeError, TypeError, ValueError, AttributeError) as error:
        raise ValidationError("CST-002", path=path, reason=error) from None


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise ValueError(f"{name} is {value!r}, not a number from 0 up")
    return float(value)


def format_calibration(calibration: Calibration) -> str:
    """The text of a calibration file; `read_calibration` gives back the same."""
    lines = [f"fitted = [{', '.join(_text(name) for name in calibration.fitted)}]", ""]
    for name in CONSTANT_NAMES:
        value = getattr(calibration.constants, name)
        lines += [f"[machine.{name}]", f"value = {value:.6g}",
                  f"source = {_text(calibration.sources[name])}"]  # fmt: skip
    for op, kernel in sorted(calibration.cpu.items()):
        lines += ["", f"[cpu.{op}]", f"base = {kernel.base:.6g}", f"element = {kernel.element:.6g}",
                  f"mac = {kernel.mac:.6g}", f"source = {_text(kernel.source)}"]  # fmt: skip
        lines += ["assumed = true"] if kernel.assumed else []
    lines += ["", "[interval]", f"spread = {calibration.spread:.4g}"]
    lines += [f"{name} = {getattr(calibration.doubts, name):.4g}" for name in DOUBT_NAMES]
    lines += [f"basis = {_text(calibration.basis)}"]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
