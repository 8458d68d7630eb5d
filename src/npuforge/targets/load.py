"""Reading target descriptions: TOML with strict validation."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from npuforge.errors import UsageError
from npuforge.targets.model import Boot, OperatingPoint, Pool, Reach, Target, Use

_FOLDER = Path(__file__).parent / "data"
_SCHEMA = 1


def target_names() -> tuple[str, ...]:
    """The targets that come with npuforge."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


@cache
def load_target(name: str) -> Target:
    """A target by name, or from the path of a TOML file.

    Raises:
        UsageError: no such target, or a description that breaks a rule.
    """
    path = _FOLDER / f"{name}.toml"
    if not path.exists():
        path = Path(name)
        if path.suffix != ".toml" or not path.is_file():
            raise UsageError("TGT-001", target=name, known=", ".join(target_names()))
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError("TGT-002", path=path, reason=str(error)) from None
    return parse_target(document, str(path))


def parse_target(document: Mapping[str, Any], path: str) -> Target:
    """A target from the content of its description.

    Raises:
        UsageError: a field is missing, unknown, of a wrong type or out of range.
    """
    try:
        target = _target(document)
    except (KeyError, TypeError, ValueError) as error:
        reason = f"field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise UsageError("TGT-002", path=path, reason=reason) from None
    _check(target, path)
    return target


def _target(document: Mapping[str, Any]) -> Target:
    known = {field.name for field in fields(Target)} | {"schema"}
    unknown = set(document) - known
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]}")
    if document["schema"] != _SCHEMA:
        raise ValueError(f"schema {document['schema']}, this version reads {_SCHEMA}")
    points = [OperatingPoint(**entry) for entry in document["operating_points"]]
    return Target(
        name=str(document["name"]),
        title=str(document["title"]),
        core=str(document["core"]),
        accelerators=tuple(document["accelerators"]),
        cache_line=int(document["cache_line"]),
        buffer_alignment=int(document["buffer_alignment"]),
        pools=tuple(_pool(entry) for entry in document["pools"]),
        operating_points={point.name: point for point in points},
        units={str(key): int(value) for key, value in document.get("units", {}).items()},
        emulated_by=str(document.get("emulated_by", "")),
        weight_alignment=int(document.get("weight_alignment", 0)),
        coherent_dma=bool(document.get("coherent_dma", False)),
        keep_inputs=bool(document.get("keep_inputs", False)),
        reserve_outputs=bool(document.get("reserve_outputs", False)),
        boots=tuple(_boot(entry) for entry in document.get("boots", [])),
    )


def _boot(entry: Mapping[str, Any]) -> Boot:
    values = dict(entry)
    values["data"] = tuple(str(item) for item in values["data"])
    low, high = values.get("loader_ram", (0, 0))
    values["loader_ram"] = (int(low), int(high))
    return Boot(**values)


def _pool(entry: Mapping[str, Any]) -> Pool:
    values = dict(entry)
    values["reach"] = tuple(Reach(item) for item in values["reach"])
    values["use"] = Use(values["use"])
    return Pool(**values)


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _check(target: Target, path: str) -> None:
    def refuse(reason: str) -> UsageError:
        return UsageError("TGT-002", path=path, reason=reason)

    if not target.pools:
        raise refuse("no pools")
    if "nominal" not in target.operating_points:
        raise refuse("no operating point called nominal")
    if not _power_of_two(target.cache_line) or not _power_of_two(target.buffer_alignment):
        raise refuse("cache_line and buffer_alignment must be powers of two")
    if target.weight_alignment and not _power_of_two(target.weight_alignment):
        raise refuse("weight_alignment must be a power of two")
    names = [pool.name for pool in target.pools]
    if len(set(names)) != len(names):
        raise refuse("two pools have the same name")
    for pool in target.pools:
        if pool.size <= 0 or pool.base < 0 or pool.end > 1 << 32:
            raise refuse(f"pool {pool.name} lies at {pool.base:#x} with {pool.size} bytes")
        if pool.base % target.buffer_alignment:
            raise refuse(f"pool {pool.name} is not aligned to {target.buffer_alignment}")
        if not pool.reach or pool.width <= 0 or pool.ratio <= 0:
            raise refuse(f"pool {pool.name} needs reach, a width and a ratio")
        if pool.use is Use.ACTIVATIONS and not pool.writable:
            raise refuse(f"pool {pool.name} cannot hold activations: it is not writable")
    ordered = sorted(target.pools, key=lambda pool: pool.base)
    for low, high in pairwise(ordered):
        if low.end > high.base:
            raise refuse(f"pools {low.name} and {high.name} overlap")
    for boot in target.boots:
        unknown = [name for name in (boot.code, *boot.data) if name not in names]
        if unknown or not boot.data:
            raise refuse(f"boot {boot.name} names the pool {(unknown or [''])[0]}")
        if boot.header < 0 or not 0 <= boot.offset < target.pool(boot.code).size:
            raise refuse(f"boot {boot.name} puts the image outside of {boot.code}")
    for point in target.operating_points.values():
        if point.cpu_mhz <= 0:
            raise refuse(f"operating point {point.name} has no CPU clock")
