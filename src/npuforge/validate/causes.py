"""Why an epoch of a compiled program may be further off than one rounding: words for a person."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npuforge.aton.program import Epoch
from npuforge.aton.registers import kind_of
from npuforge.aton.streams import Memory, read_stream

_COARSE = 512
"""Multipliers below this are rounded by more than a thousandth: a quarter step of 255."""


def causes_of(epoch: Epoch | None) -> tuple[str, ...]:
    """Why an epoch may differ by more than one step without saturating."""
    if epoch is None:
        return ("cpu",)
    found = []
    for (page, port), route in epoch.routes.items():
        unit = epoch.units.get(page)
        if unit is None or kind_of(page) != "CONVACC":
            continue
        if port == 0 and route.source is not None and kind_of(route.source) != "STRENG":
            found.append("fused")
        if port == 2 and not unit["CTRL.NOSUM"] and unit["CTRL.AFILTMODE"] == 3:
            found.append("passes")
    if any(
        kind_of(page) == "ARITH" and u["CTRL.DUALIN"] and u["INSHIFTER.FBYTESX"] == 1
        for page, u in epoch.units.items()
    ) and any(kind_of(page) == "CONVACC" for page in epoch.units):
        found.append("fused")
    if any(kind_of(page) == "ACTIV" and u["CTRL.TYPE"] == 3 for page, u in epoch.units.items()):
        found.append("table")
    return tuple(dict.fromkeys(found))


def coarse_gains(epoch: Epoch | None, constants: Memory) -> tuple[str, ...]:
    """``gain`` when a per-channel multiplier, in coefficients or streamed, has few bits."""
    for unit in epoch.units.values() if epoch is not None else ():
        if epoch is None or kind_of(unit.page) != "ARITH" or unit["CTRL.OBYTES"] != 2:
            continue
        factors = np.zeros(0, np.int32)
        if unit["CTRL.OP"] == 0 and unit["CTRL.COEFFA"] and not unit["CTRL.DUALIN"]:
            held = unit.table.reshape(-1, 3)[: max(unit.coefficients, default=-1) + 1, 0]
            factors = held.astype(np.int16).astype(np.int32)
        elif unit["CTRL.OP"] == 7:
            factors = _streamed(epoch, unit.page, constants)
        factors = np.abs(factors[factors != 0])
        if factors.size and int(factors.min()) < _COARSE:
            return ("gain",)
    return ()


def _streamed(epoch: Epoch, page: int, constants: Memory) -> NDArray[np.int32]:
    """The constants an engine brings to an ARITH's second port; empty when they are none."""
    source = epoch.source(page, 1)
    if source is None or kind_of(source.page) != "STRENG":
        return np.zeros(0, np.int32)
    low, high = source.pattern.low, source.pattern.high
    if not constants.holds(low, high) or constants.first_unwritten(low, high - low) is not None:
        return np.zeros(0, np.int32)
    return read_stream(constants, epoch.number, source).values.reshape(-1)
