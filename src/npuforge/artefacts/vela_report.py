"""Vela's per-layer report (`*_per-layer.csv`): the operators it put on an Ethos-U, with cycles.

Columns and their meaning: Vela's performance estimation (`--verbose-performance`). Only operators
on the NPU are listed; what is missing runs on the CPU or was folded away.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from npuforge.errors import ModelError

_OPERATOR = ("TFLite_operator", "TOSA_operator", "Original Operator")
_NEEDED = ("NNG Operator", "Op Cycles", "MAC Count", "Name")
MAX_ROWS = 100_000
"""Rows of a report that are read; a network has thousands at most."""


@dataclass(frozen=True)
class VelaLayer:
    """One operator on the NPU.

    Attributes:
        operator: as the model file calls it, for example ``CONV_2D``.
        internal: as Vela calls it.
        cycles: NPU clocks Vela estimates, the slowest of compute and memories.
        npu_cycles: clocks of the compute units alone.
        macs: multiply-accumulates.
        sram_bytes: SRAM in use while it runs.
        name: name of the operator, mostly that of its output tensor.
    """

    operator: str
    internal: str
    cycles: int
    npu_cycles: int
    macs: int
    sram_bytes: int
    name: str


def read_vela_layers(content: bytes, file: str) -> tuple[VelaLayer, ...]:
    """The rows of a per-layer report.

    Args:
        content: the file.
        file: its name, for messages.

    Raises:
        ModelError: VEL-001, a column is missing or a number is none.
    """
    rows = csv.reader(io.StringIO(content.decode("utf-8", "replace"), newline=""))
    try:
        header = next(rows, [])
        first = next((header.index(name) for name in _OPERATOR if name in header), None)
        missing = [name for name in _NEEDED if name not in header]
        if first is None or missing:
            raise ModelError("VEL-001", file=file, what=(missing or _OPERATOR)[0])
        layers = []
        for number, row in enumerate(rows, 2):
            if number > MAX_ROWS:
                break
            if not any(row):
                continue
            if len(row) < len(header):
                raise ModelError("VEL-001", file=file, what=f"line {number}")
            layers.append(_layer(header, row, first, file, number))
    except csv.Error as error:
        raise ModelError("VEL-001", file=file, what=str(error)) from None
    return tuple(layers)


def _layer(header: list[str], row: list[str], first: int, file: str, number: int) -> VelaLayer:
    def count(*names: str) -> int:
        for name in names:
            if name in header:
                text = row[header.index(name)].strip() or "0"
                try:
                    value = float(text)
                    return int(value)
                except (ValueError, OverflowError):
                    what = f"line {number}, {name}: {text}"
                    raise ModelError("VEL-001", file=file, what=what) from None
        return 0

    return VelaLayer(
        row[first],
        row[header.index("NNG Operator")],
        count("Op Cycles"),
        count("NPU"),
        count("MAC Count"),
        count("SRAM Usage", "Staging Usage"),
        row[header.index("Name")],
    )
