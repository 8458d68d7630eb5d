"""A compiled network as one value: pools, buffers, constants and the steps in execution order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from npuforge.artefacts.ihex import Segment
from npuforge.aton.program import Epoch


class Kind(StrEnum):
    """What carries a step out."""

    HARDWARE = "hardware"
    SOFTWARE = "software"
    HYBRID = "hybrid"


@dataclass(frozen=True)
class Region:
    """A memory pool: addresses and what the network may do there.

    Attributes:
        name: for example ``npuRAM5``.
        address: base address.
        size: bytes.
        writable: whether the network may write it.
        cacheable: whether the NPU cache may hold it.
    """

    name: str
    address: int
    size: int
    writable: bool = True
    cacheable: bool = False

    @property
    def end(self) -> int:
        """First address behind the pool."""
        return self.address + self.size


@dataclass(frozen=True)
class Buffer:
    """A buffer by name.

    Attributes:
        name: as the compiler wrote it.
        address: of its first byte.
        size: bytes.
        epoch: that writes it; 0 for inputs and parameters.
        batch: channels stored together in a pixel.
        memory_shape: as it lies in memory.
        channel: ``First``, ``Last``, ``Mixed`` or ``UNDEFINED``.
        bits: of one element.
        unsigned: of one element.
        real: elements are float32.
        scales: quantisation steps; empty for raw numbers.
        offsets: zero points.
        parameter: a constant.
        shape: logical shape (batch, height, width, channels); empty when it is not stated.
        fraction: bits behind the point of a fixed-point number; may be negative.
    """

    name: str
    address: int
    size: int
    epoch: int
    batch: int
    memory_shape: tuple[int, ...]
    channel: str
    bits: int
    unsigned: bool
    real: bool
    scales: tuple[float, ...]
    offsets: tuple[int, ...]
    parameter: bool
    shape: tuple[int, ...] = ()
    fraction: int = 0

    @property
    def end(self) -> int:
        """First address behind the buffer."""
        return self.address + self.size

    @property
    def interleaved(self) -> tuple[int, int, int] | None:
        """(rows, columns, channels) of a buffer that is some channels of a wider picture.

        Its pixels lie ``batch`` elements apart, and its size counts only its own.
        """
        shape, size = self.memory_shape, self.bits // 8
        if self.channel != "Mixed" or len(shape) < 4 or not size or min(shape[2:4]) < 1:
            return None
        rows, columns = shape[2:4]
        channels = self.size // (size * rows * columns)
        if not 0 < channels < self.batch or channels * size * rows * columns != self.size:
            return None
        return rows, columns, channels


@dataclass(frozen=True)
class Operand:
    """A tensor of a CPU call: address, shape (batch, height, width, channels), byte strides."""

    address: int
    shape: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]
    signed: bool
    count: int


@dataclass(frozen=True)
class Work:
    """One operator a CPU or hybrid step computes.

    Attributes:
        kind: for example ``Softmax``.
        node: its name.
        integer: the kernel works on integers, not float32.
        operands: by role: ``input``, ``output``, ``is``, ``izp``, ``weights``, …
        inputs: buffers of data movers, in order.
        outputs: buffers of data movers.
        options: numbers and words of the operator.
    """

    kind: str
    node: str
    integer: bool
    operands: Mapping[str, Operand]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    options: Mapping[str, float | str | tuple[int, ...]]


@dataclass(frozen=True)
class CacheStep:
    """Cache maintenance of the CPU's data cache: ``clean``, ``invalidate`` or both."""

    clean: bool
    invalidate: bool
    address: int
    size: int

    @property
    def end(self) -> int:
        """First address behind the range."""
        return self.address + self.size


@dataclass(frozen=True)
class Step:
    """What runs between two hand-overs: a blob or an epoch in clear, or one CPU or hybrid epoch.

    Attributes:
        kind: who works.
        number: first epoch number.
        name: of the blob or node.
        epochs: hardware epochs in order.
        work: operators of a CPU or hybrid step.
        before: cache maintenance before it.
        after: cache maintenance after it.
    """

    kind: Kind
    number: int
    name: str
    epochs: tuple[Epoch, ...] = ()
    work: tuple[Work, ...] = ()
    before: tuple[CacheStep, ...] = ()
    after: tuple[CacheStep, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """A compiled network.

    Attributes:
        name: for reports.
        version: of the compiler, empty when unknown.
        model: file name of the network it came from, empty when unknown.
        regions: memory pools, virtual ones left out.
        images: constants at their addresses.
        buffers: all buffers the compiler names.
        inputs: buffers to fill before a run.
        outputs: buffers with the results.
        steps: in execution order.
        caches: whether the program states its cache maintenance at all.
        described: whether `buffers` holds every buffer; compilers leave inner ones out when they
            are not asked for them.
        absent: blobs that the code names and no header beside it holds; their steps have no epochs.
    """

    name: str
    version: str
    model: str
    regions: tuple[Region, ...]
    images: tuple[Segment, ...]
    buffers: tuple[Buffer, ...]
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    steps: tuple[Step, ...] = field(default=())
    caches: bool = True
    described: bool = True
    absent: tuple[str, ...] = ()

    @cached_property
    def lacking(self) -> tuple[Buffer, ...]:
        """Constants that no image holds: the program cannot run without them."""
        return tuple(
            b
            for b in self.buffers
            if b.parameter
            and not any(i.address <= b.address and b.end <= i.end for i in self.images)
        )

    def written_in(self, epoch: int) -> tuple[Buffer, ...]:
        """Buffers a given epoch writes, parameters left out."""
        return tuple(b for b in self.buffers if b.epoch == epoch and not b.parameter)
