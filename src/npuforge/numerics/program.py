"""From placed kernel calls to the host build of the runtime.

The same table that generated C holds as data is built here as arrays. Space 0 holds the constants,
spaces 1.. the activation memories.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from npuforge import _native
from npuforge.errors import UsageError
from npuforge.graph import Array
from npuforge.numerics.call import View

CONST_SPACE = 0
CONST_ALIGN = 16
"""Alignment of each constant in the weights image, in bytes."""
MAX_THREADS = 256


@dataclass(frozen=True)
class KernelInfo:
    """A runtime kernel: its number and its parameter fields, ("i" or "f", name)."""

    number: int
    fields: tuple[tuple[str, str], ...]


@cache
def kernel_table() -> Mapping[str, KernelInfo]:
    """All kernels of the runtime by name, as the extension reports them."""
    table = {}
    for number, (name, fields) in enumerate(_native.kernels()):
        pairs = [item.split(":") for item in fields.split()]
        table[name] = KernelInfo(number, tuple((kind, field) for kind, field in pairs))
    return table


def param_words(kernel: str, params: Mapping[str, int | float]) -> list[int]:
    """The parameter structure of a kernel as 32-bit words.

    Raises:
        ValueError: a field is missing or unknown (a programming error of a binder).
    """
    fields = kernel_table()[kernel].fields
    names = {name for _, name in fields}
    if names != set(params):
        raise ValueError(f"{kernel}: fields {sorted(names ^ set(params))} do not match")
    return [
        struct.unpack("<i", struct.pack("<f", params[name]))[0]
        if kind == "f"
        else int(params[name])
        for kind, name in fields
    ]


@dataclass
class ConstantPool:
    """Collects constants into one image, equal ones once."""

    parts: list[Array] = field(default_factory=list)
    size: int = 0
    _known: dict[tuple[bytes, str], int] = field(default_factory=dict)

    def add(self, data: Array) -> int:
        """Offset of a constant in the image."""
        raw = data.tobytes()
        key = (raw, data.dtype.str)
        known = self._known.get(key)
        if known is not None:
            return known
        offset = -(-self.size // CONST_ALIGN) * CONST_ALIGN
        self.parts.append(np.zeros(offset - self.size, np.uint8))
        self.parts.append(np.frombuffer(raw, np.uint8))
        self.size = offset + len(raw)
        self._known[key] = offset
        return offset

    def image(self) -> npt.NDArray[np.uint8]:
        """All constants as bytes."""
        return np.concatenate(self.parts) if self.parts else np.zeros(0, np.uint8)


@dataclass(frozen=True)
class PlacedOperand:
    """An operand with its space and byte offset; `view.offset` is already added."""

    space: int
    offset: int
    view: View


@dataclass(frozen=True)
class PlacedStep:
    """A kernel call whose operands all have addresses."""

    kernel: str
    node: int
    operands: tuple[PlacedOperand, ...]
    params: Mapping[str, int | float]


def kernel_variant(name: str | None = None) -> str:
    """The kernel variant to run: the one named, else NPUFORGE_KERNELS, else the best one.

    Variants yield the same bytes; `portable` is the code that firmware runs.

    Raises:
        UsageError: this machine has no such variant.
    """
    known = _native.variants()
    wanted = name or os.environ.get("NPUFORGE_KERNELS") or known[0]
    if wanted not in known:
        raise UsageError("NUM-020", variant=wanted, known=", ".join(known))
    return wanted


def kernel_threads(count: int | None = None) -> int:
    """The threads that share large steps: `count`, else NPUFORGE_THREADS, else 1.

    Their number never changes a result, only its time.

    Raises:
        UsageError: not a whole number from 1 to `MAX_THREADS`.
    """
    wanted = os.environ.get("NPUFORGE_THREADS") or "1" if count is None else str(count)
    if not wanted.isdecimal() or not 1 <= int(wanted) <= MAX_THREADS:
        raise UsageError("NUM-023", count=wanted, most=MAX_THREADS)
    return int(wanted)


def all_cores() -> int:
    """Threads for work that wants the whole machine: NPUFORGE_THREADS, else its processors.

    Raises:
        UsageError: NPUFORGE_THREADS is not a number of threads.
    """
    if os.environ.get("NPUFORGE_THREADS"):
        return kernel_threads()
    return min(os.cpu_count() or 1, MAX_THREADS)


def build_program(
    steps: Sequence[PlacedStep],
    constants: npt.NDArray[np.uint8],
    space_bytes: Sequence[int],
    variant: str | None = None,
    threads: int | None = None,
) -> _native.Program:
    """The host program of a step table.

    Args:
        steps: in execution order.
        constants: contents of space 0.
        space_bytes: sizes of spaces 1, 2, ...
        variant: kernel variant; None takes that of the environment, see `kernel_variant`.
        threads: see `kernel_threads`.

    Raises:
        UsageError: this machine has no such variant, or the number of threads is none.
    """
    table = kernel_table()
    operand_start, param_start = [0], [0]
    operands: list[tuple[int, ...]] = []
    params: list[int] = []
    for step in steps:
        operands += [(op.space, op.offset, *op.view.fields) for op in step.operands]
        operand_start.append(len(operands))
        params += param_words(step.kernel, step.params)
        param_start.append(len(params))
    return _native.Program(
        kernels=np.array([table[step.kernel].number for step in steps], np.int32),
        nodes=np.array([step.node for step in steps], np.int32),
        operand_start=np.array(operand_start, np.int32),
        operands=np.array(operands, np.int64).reshape(-1, 15),
        param_start=np.array(param_start, np.int32),
        params=np.array(params, np.int32),
        constants=constants,
        space_bytes=list(space_bytes),
        variant=kernel_variant(variant),
        threads=kernel_threads(threads),
    )
