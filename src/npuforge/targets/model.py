"""What a target is: pools, operating points, unit counts, as validated data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Reach(StrEnum):
    """Who can access a pool."""

    CPU = "cpu"
    NPU = "npu"
    DMA = "dma"


class Use(StrEnum):
    """What a pool holds."""

    ACTIVATIONS = "activations"
    WEIGHTS = "weights"
    SYSTEM = "system"


@dataclass(frozen=True)
class Pool:
    """One memory.

    Attributes:
        name: as ST's tools or the board's manual call it.
        base: first address.
        size: bytes.
        width: bus width in bytes.
        ratio: accelerator clocks for one clock of the memory's bus.
        reach: who can access it.
        cacheable: whether the CPU's data cache may hold it.
        use: what it holds.
        external: outside of the chip.
        writable: False for flash.
    """

    name: str
    base: int
    size: int
    width: int
    ratio: float
    reach: tuple[Reach, ...]
    cacheable: bool
    use: Use
    external: bool = False
    writable: bool = True

    @property
    def end(self) -> int:
        """First address behind the pool."""
        return self.base + self.size

    @property
    def on_chip_ram(self) -> bool:
        """Whether it is RAM on the chip."""
        return self.writable and not self.external

    @property
    def clocks_per_byte(self) -> float:
        """Accelerator clocks for one byte of a full-width access."""
        return self.ratio / self.width


@dataclass(frozen=True)
class Boot:
    """A way a program gets to run on a board.

    Attributes:
        name: what a system description calls it, for example "lrun" (load and run) or "xip".
        code: pool the program runs in.
        data: pools for its data, the one with static data and stack first.
        offset: bytes from the base of the code pool to the image.
        header: bytes of boot header in front of the vector table.
        stored: address of the stored image where that is not where it runs, else 0.
        weights: first address of the weights pool that the image does not own, 0 for its base.
        loader_ram: first and end address of RAM that the boot loader uses while it copies.
    """

    name: str
    code: str
    data: tuple[str, ...]
    offset: int = 0
    header: int = 0
    stored: int = 0
    weights: int = 0
    loader_ram: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class OperatingPoint:
    """Clocks in MHz and core voltage; 0 where a target has no such clock or it is not known."""

    name: str
    cpu_mhz: float
    npu_mhz: float = 0.0
    npu_ram_mhz: float = 0.0
    bus_mhz: float = 0.0
    flash_mhz: float = 0.0
    core_millivolt: float = 0.0


@dataclass(frozen=True)
class Target:
    """A board.

    Attributes:
        name: what `--target` takes.
        title: shown in reports.
        core: the CPU, as compilers name it.
        accelerators: packages of `npuforge.accelerators` that the chip has, CPU first.
        cache_line: bytes of a CPU data cache line.
        buffer_alignment: alignment of a buffer shared between CPU and accelerator, in bytes.
        weight_alignment: the same for constants; 0 where it is that of buffers.
        coherent_dma: whether the accelerator's DMA sees what lies in the CPU's data cache.
        keep_inputs: whether inputs keep their bytes through an inference; without it a plan may
            put other buffers there once they have been read.
        reserve_outputs: whether nothing but the result lies in outputs from the beginning of an
            inference; without it a plan may use them before the result is written.
        pools: all memories, in order of address preference for activations.
        operating_points: by name; "nominal" always exists.
        units: accelerator units by kind.
        emulated_by: target on which the CPU side runs under emulation, "" for itself.
        boots: ways to boot, the usual one first; empty where code and data simply take the first
            two system pools.
    """

    name: str
    title: str
    core: str
    accelerators: tuple[str, ...]
    cache_line: int
    buffer_alignment: int
    pools: tuple[Pool, ...]
    operating_points: Mapping[str, OperatingPoint]
    units: Mapping[str, int]
    emulated_by: str
    weight_alignment: int = 0
    coherent_dma: bool = False
    keep_inputs: bool = False
    reserve_outputs: bool = False
    boots: tuple[Boot, ...] = ()

    def pool(self, name: str) -> Pool:
        """A pool by name; KeyError when there is none."""
        for pool in self.pools:
            if pool.name == name:
                return pool
        raise KeyError(name)

    def pool_at(self, address: int) -> Pool | None:
        """The memory behind an address."""
        return next((pool for pool in self.pools if pool.base <= address < pool.end), None)

    def pools_for(self, use: Use) -> tuple[Pool, ...]:
        """The pools that hold one kind of data, in the order of preference."""
        return tuple(pool for pool in self.pools if pool.use is use)

    def boot(self, name: str = "") -> Boot:
        """A way to boot by name, the usual one for ""; KeyError when there is none.

        Without any, code and data take the first two system pools; a target without those (the
        part of Linux that an NPU shares) has no program to place, and the names are empty.
        """
        if not self.boots and not name:
            names = [pool.name for pool in self.pools_for(Use.SYSTEM)] or [""]
            return Boot("direct", names[0], (names[min(1, len(names) - 1)],))
        for boot in self.boots:
            if name in ("", boot.name):
                return boot
        raise KeyError(name)

    @property
    def has_neural_art(self) -> bool:
        """Whether the target has the NPU whose placement is predicted."""
        return "neural_art" in self.accelerators

    @property
    def has_npu(self) -> bool:
        """Whether the chip has an accelerator beside its CPU."""
        return len(self.accelerators) > 1


def pool_groups(target: Target, same_speed: bool) -> list[list[Pool]]:
    """Activation pools joined where one begins at the other's end, fastest group first."""
    pools = sorted(target.pools_for(Use.ACTIVATIONS), key=lambda pool: pool.base)
    groups: list[list[Pool]] = []
    for pool in pools:
        last = groups[-1][-1] if groups else None
        joins = last is not None and last.end == pool.base and last.external == pool.external
        if joins and last is not None and (not same_speed or last.ratio == pool.ratio):
            groups[-1].append(pool)
        else:
            groups.append([pool])
    return sorted(groups, key=lambda group: (group[0].external, group[0].clocks_per_byte))
