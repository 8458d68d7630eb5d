"""Operating points: those of a target, from a file, or written on the command line."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

from npuforge.errors import UsageError
from npuforge.targets import OperatingPoint, Target

CLOCKS = tuple(f.name for f in fields(OperatingPoint) if f.name != "name")
SHORT = {name.rpartition("_")[0]: name for name in CLOCKS}
MAX_VALUE = 10_000.0


def operating_point(target: Target, text: str) -> OperatingPoint:
    """The operating point a user means.

    Args:
        target: a board.
        text: a name ("nominal"), a .toml file with any of cpu_mhz, npu_mhz, npu_ram_mhz, bus_mhz,
            flash_mhz, core_millivolt and `base`, or "base,cpu=600,flash=50" in MHz.

    Raises:
        UsageError: no such name, file or clock; a clock that is no number above 0.
    """
    if text in target.operating_points:
        return target.operating_points[text]
    if text.lower().endswith(".toml"):
        return _from_file(target, Path(text))
    head, *rest = [part.strip() for part in text.split(",")]
    if "=" in head:
        head, rest = "", [head, *rest]
    if (head and head not in target.operating_points) or not rest:
        known = ", ".join(target.operating_points)
        raise UsageError("TGT-003", target=target.name, point=text, known=known)
    values: dict[str, object] = {}
    for part in rest:
        key, _, value = part.partition("=")
        values[key.strip()] = value.strip()
    return _changed(target, head, values, text)


def _from_file(target: Target, path: Path) -> OperatingPoint:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError("CST-005", text=path, reason=error) from None
    base = str(values.pop("base", ""))
    name = str(values.pop("name", path.stem))
    return replace(_changed(target, base, values, str(path)), name=name)


def _changed(target: Target, base: str, values: Mapping[str, object], text: str) -> OperatingPoint:
    start = target.operating_points.get(base or "nominal")
    if start is None:
        raise UsageError("CST-005", text=text, reason=f"there is no base {base}")
    changed: dict[str, float] = {}
    for key, value in values.items():
        name = SHORT.get(key, key)
        if name not in CLOCKS:
            raise UsageError("CST-005", text=text, reason=f"there is no clock called {key}")
        try:
            number = float(str(value))
        except ValueError:
            number = math.nan
        if not 0 < number <= MAX_VALUE:
            raise UsageError("CST-005", text=text, reason=f"{key} is {value}, not a number of MHz")
        changed[name] = number
    return replace(start, name=text, **changed)
