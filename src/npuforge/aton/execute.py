"""Running a compiled network: memory image, steps in order, buffers captured by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npuforge.aton.compiled import Compiled
from npuforge.aton.simulate import EpochRun, run_epoch
from npuforge.aton.software import run_work
from npuforge.aton.streams import Memory
from npuforge.errors import ModelError

_SLACK = 64
_GAP = 1 << 12

Hook = Callable[[int, Memory], None]
"""Called with an epoch number and the memory."""


@dataclass(frozen=True)
class ProgramRun:
    """A finished run.

    Attributes:
        epochs: profile of every hardware epoch, in order.
        buffers: bytes of captured buffers, as they were right after the epoch that wrote them.
        outputs: bytes of the network's outputs at the end, by buffer name.
    """

    epochs: tuple[EpochRun, ...]
    buffers: Mapping[str, bytes]
    outputs: Mapping[str, bytes]


def memory_spans(network: Compiled) -> list[tuple[int, int]]:
    """First and end address of every stretch of memory a run needs; neighbouring pools are one."""
    spans = [(region.address, region.end) for region in network.regions if region.size]
    spans += [(image.address, image.end + _SLACK) for image in network.images]
    spans += [(buffer.address, buffer.end + _SLACK) for buffer in network.lacking]
    if not network.regions:
        spans += [(b.address, b.end) for b in network.buffers if b.size]
    joined: list[list[int]] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1] + _GAP:
            joined[-1][1] = max(joined[-1][1], high)
        else:
            joined.append([low, high])
    return _cut(network, joined)


def memory_for(network: Compiled, regions: Mapping[int, NDArray[np.uint8]] | None = None) -> Memory:
    """Memory with the network's pools and constants.

    Args:
        network: whose memory.
        regions: bytes of every span by its first address, to be used in place; new ones when None.
    """
    if regions is None:
        regions = {low: np.zeros(high - low, np.uint8) for low, high in memory_spans(network)}
    memory = Memory(regions)
    for image in network.images:
        memory.load(image.address, image.data)
    return memory


def _cut(network: Compiled, joined: list[list[int]]) -> list[tuple[int, int]]:
    """Spans of read-only pools end behind their constants: flash is not all reserved."""
    cut = []
    for low, high in joined:
        inside = [r for r in network.regions if low <= r.address < high]
        if inside and not any(region.writable for region in inside):
            held = [(image.address, image.end) for image in network.images]
            held += [(buffer.address, buffer.end) for buffer in network.lacking]
            ends = [end + _SLACK for address, end in held if low <= address < high]
            if not ends:
                continue
            high = min(high, max(ends))
        cut.append((low, high))
    return cut


def run_program(
    network: Compiled,
    inputs: Mapping[str, bytes],
    *,
    memory: Memory | None = None,
    capture: bool = False,
    before: Hook | None = None,
    after: Hook | None = None,
    check: bool = True,
) -> ProgramRun:
    """Run a compiled network once.

    Args:
        network: from `npuforge.aton.load.load_compiled`.
        inputs: bytes of every input buffer by name.
        memory: to run on; a fresh image by default.
        capture: keep each buffer right after the epoch that writes it.
        before: called before every epoch.
        after: called after every epoch.
        check: refuse reads of bytes nothing has written.

    Raises:
        ModelError: what the program does that hardware would not survive, by epoch and unit.
    """
    if network.absent:
        reason = f"blob {network.absent[0]} is in no header beside it"
        raise ModelError("CMP-004", path=network.name, reason=reason)
    if network.lacking and memory is None:
        first = network.lacking[0]
        raise ModelError("ATN-017", buffer=first.name, address=hex(first.address))
    space = memory_for(network) if memory is None else memory
    for buffer in network.inputs:
        if buffer.name not in inputs:
            raise ModelError("ATN-014", buffer=buffer.name, reason="no data given")
        if len(inputs[buffer.name]) != buffer.size:
            reason = f"{len(inputs[buffer.name])} bytes given, {buffer.size} wanted"
            raise ModelError("ATN-014", buffer=buffer.name, reason=reason)
        space.load(buffer.address, inputs[buffer.name])
    kept: dict[str, bytes] = {}
    runs: list[EpochRun] = []

    def finish(number: int) -> None:
        if capture:
            for buffer in network.written_in(number):
                if buffer.size and space.holds(buffer.address, buffer.end - 1):
                    kept[buffer.name] = space.peek(buffer.address, buffer.size)
        if after is not None:
            after(number, space)

    for step in network.steps:
        for epoch in step.epochs:
            if before is not None:
                before(epoch.number, space)
            runs.append(run_epoch(epoch, space, check=check))
            finish(epoch.number)
        for work in step.work:
            if before is not None:
                before(step.number, space)
            run_work(work, space, step.number, check=check)
            finish(step.number)
    outputs = {
        buffer.name: space.peek(buffer.address, buffer.size)
        for buffer in network.outputs
        if buffer.size
    }
    return ProgramRun(tuple(runs), kept, outputs)
