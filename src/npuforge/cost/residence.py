"""Which memory holds each activation, as far as time depends on it.

Nothing is placed here: it is the least that ST's compiler must do when the live activations exceed
a memory. The largest tensors leave first. `explore` and a memory plan give other residences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from npuforge.cost.epochs import EpochWork
from npuforge.graph import Graph
from npuforge.targets import Target

NPU_RAM_BYTES = 4 * 448 * 1024
"""npuRAM3 to npuRAM6, contiguous."""
INTERNAL_BYTES = 2_883_584 - 8
"""npuRAM and cpuRAM2 of ST's stock memory pools."""


class Memory(StrEnum):
    """Kinds of memory that differ in speed."""

    NPU_RAM = "npu ram"
    CPU_RAM = "cpu ram"
    EXTERNAL = "external ram"


@dataclass(frozen=True)
class Residence:
    """Where activations are.

    Attributes:
        memory: by tensor name; tensors not listed are in NPU RAM.
        nbytes: bytes by tensor name, of those listed.
        peak: bytes live at the same time, at most.
    """

    memory: Mapping[str, Memory] = field(default_factory=dict)
    nbytes: Mapping[str, int] = field(default_factory=dict)
    peak: int = 0

    def _held(self, work: EpochWork, memory: Memory) -> int:
        return sum(self.nbytes[n] for n in work.tensors if self.memory.get(n) is memory)

    def external_bytes(self, work: EpochWork) -> int:
        """Bytes an epoch reads from and writes to external RAM, every tensor once."""
        return self._held(work, Memory.EXTERNAL) if self.memory else 0

    def cpu_ram_share(self, work: EpochWork) -> float:
        """Part of an epoch's activation bytes in CPU RAM; 0 to 1."""
        if not self.memory or not work.moved_bytes:
            return 0.0
        return min(1.0, self._held(work, Memory.CPU_RAM) / work.moved_bytes)

    def bytes_in(self, memory: Memory) -> int:
        """Bytes of the tensors in a kind of memory, not counting that they may share space."""
        return sum(size for name, size in self.nbytes.items() if self.memory[name] is memory)


def activation_limits(target: Target) -> tuple[int, int]:
    """Bytes of a target's NPU RAM, and of all its on-chip activation RAM."""
    internal = [p for p in target.pools if not p.external and p.use.value == "activations"]
    fastest = min((p.clocks_per_byte for p in internal), default=0.0)
    near = sum(p.size for p in internal if p.clocks_per_byte == fastest)
    return near, sum(p.size for p in internal)


def place_activations(
    graph: Graph,
    works: Sequence[EpochWork],
    near: int = NPU_RAM_BYTES,
    internal: int = INTERNAL_BYTES,
) -> Residence:
    """Least spill: at every epoch the live tensors fit, and the largest leave first.

    Args:
        graph: the network.
        works: its epochs.
        near: bytes of NPU RAM.
        internal: bytes of NPU and CPU RAM.
    """
    lifetimes = _lifetimes(graph, works)
    sizes = {name: graph.tensor(name).nbytes for name in lifetimes}
    live = _live(graph, works, lifetimes)
    peak = int(live.max(initial=0))
    if peak <= near:
        return Residence(peak=peak)
    # What is on the chip, and what of it is in CPU RAM, at every epoch.
    inside, slow = live.copy(), np.zeros_like(live)
    memory: dict[str, Memory] = {}
    by_size = sorted(lifetimes, key=lambda name: (-sizes[name], name))

    def span(name: str) -> slice:
        first, last = lifetimes[name]
        return slice(first, last + 1)

    for name in by_size:
        if (inside[span(name)] > internal).any():
            memory[name] = Memory.EXTERNAL
            inside[span(name)] -= sizes[name]
    for name in by_size:
        if name in memory or not (inside[span(name)] - slow[span(name)] > near).any():
            continue
        if int(slow[span(name)].max()) + sizes[name] <= internal - near:
            memory[name] = Memory.CPU_RAM
            slow[span(name)] += sizes[name]
        else:
            memory[name] = Memory.EXTERNAL
            inside[span(name)] -= sizes[name]
    return Residence(memory, {name: sizes[name] for name in memory}, peak)


def least_live_order(graph: Graph, works: Sequence[EpochWork]) -> tuple[EpochWork, ...]:
    """The epochs in the order that keeps the fewest bytes alive: the given one, or one that always
    takes the epoch which adds least of those that can run.

    Args:
        graph: the network.
        works: its epochs, in an order that can run.
    """
    by_name = {node.name: node for node in graph.nodes}
    maker = {
        name: index
        for index, work in enumerate(works)
        for node in work.nodes
        for name in by_name[node].outputs
    }
    needs = [
        {maker[n] for n in work.tensors if n in maker and maker[n] != index}
        for index, work in enumerate(works)
    ]
    made = [[n for n in work.tensors if maker.get(n) == index] for index, work in enumerate(works)]
    left = {name: {i for i, w in enumerate(works) if name in w.tensors} for name in maker}
    kept, sizes = set(graph.outputs), {name: graph.tensor(name).nbytes for name in maker}
    waiting = set(range(len(works)))
    order: list[int] = []

    def added(index: int) -> tuple[int, int]:
        gone = sum(
            sizes[n]
            for n in works[index].tensors
            if n in left and n not in kept and left[n] <= {index}
        )
        return sum(sizes[n] for n in made[index]) - gone, index

    while waiting:
        ready = [i for i in waiting if not needs[i] & waiting]
        best = min(ready, key=added)
        waiting.discard(best)
        order.append(best)
        for name in works[best].tensors:
            if name in left:
                left[name].discard(best)
    other = tuple(works[i] for i in order)
    return other if _peak(graph, other) < _peak(graph, works) else tuple(works)


def _peak(graph: Graph, works: Sequence[EpochWork]) -> int:
    return int(_live(graph, works, _lifetimes(graph, works)).max(initial=0))


def _live(
    graph: Graph, works: Sequence[EpochWork], lifetimes: Mapping[str, tuple[int, int]]
) -> np.ndarray:
    """Bytes alive at every epoch."""
    live = np.zeros(len(works), dtype=np.int64)
    for name, (first, last) in lifetimes.items():
        live[first : last + 1] += graph.tensor(name).nbytes
    return live


def _lifetimes(graph: Graph, works: Sequence[EpochWork]) -> dict[str, tuple[int, int]]:
    """First and last epoch of every activation that an epoch reads or writes."""
    found: dict[str, tuple[int, int]] = {}
    for step, work in enumerate(works):
        for name in work.tensors:
            first, _ = found.get(name, (step, step))
            found[name] = (first, step)
    last = len(works) - 1
    for name in graph.outputs:
        if name in found:
            found[name] = (found[name][0], last)
    return found
