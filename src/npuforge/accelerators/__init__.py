"""The accelerators room: one package an execution unit behind one protocol."""

from __future__ import annotations

from npuforge.accelerators.cpu_m55 import CpuM55
from npuforge.accelerators.protocol import Accelerator, Placement, PlacementKind

__all__ = ["Accelerator", "Placement", "PlacementKind", "accelerator"]


def accelerator(name: str) -> Accelerator:
    """An accelerator by the name of its package; KeyError when there is none."""
    return {"cpu_m55": CpuM55()}[name]
