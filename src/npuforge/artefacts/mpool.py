"""Memory-pool descriptions (``.mpool``): the pools a compilation may use.

Field meanings follow the public getting-started projects. Two spellings exist:
hand-written files (``read_power``) and those the compiler saves (``readPower``).
"""

from __future__ import annotations

from dataclasses import dataclass

from npuforge.artefacts.fields import Fields, read_json


@dataclass(frozen=True)
class PoolDescription:
    """One memory pool.

    Attributes:
        name: pool name in reports, for example ``npuRAM5``.
        file: suffix of the files with its constants, for example ``AXISRAM5``.
        address: base address.
        size: bytes; 0 takes the pool out of use.
        writable: whether the network may write it.
        cacheable: whether the NPU cache may hold it.
        width: bytes of the bus.
        ratio: NPU clocks for each clock of the memory bus.
        throughput: class LOW, MID or HIGH.
        latency: class LOW, MID or HIGH.
        read_mw: milliwatts while it is read.
        write_mw: milliwatts while it is written.
        constants_preferred: whether weights go here first.
        format: how constants are emitted, for example ``FORMAT_RAW``.
        absolute: whether ``address`` is one of the chip's; false for a relocatable pool, whose
            size is then only an upper bound.
    """

    name: str
    file: str
    address: int
    size: int
    writable: bool
    cacheable: bool
    width: int
    ratio: float
    throughput: str
    latency: str
    read_mw: float
    write_mw: float
    constants_preferred: bool
    format: str
    absolute: bool

    @property
    def end(self) -> int:
        """First address behind the pool."""
        return self.address + self.size


@dataclass(frozen=True)
class NpuCache:
    """The cache between NPU and external memories: lines, bytes a line, ways."""

    lines: int
    line_bytes: int
    ways: int


@dataclass(frozen=True)
class PoolFile:
    """A ``.mpool`` file.

    Attributes:
        prefix: prefix of the files with constants, for example ``atonbuf``.
        pools: in file order.
        cache: the NPU cache, when the file describes one.
        parameters: named limits, sizes in bytes (``max_onchip_sram_size``).
    """

    prefix: str
    pools: tuple[PoolDescription, ...]
    cache: NpuCache | None
    parameters: tuple[tuple[str, int], ...]


def _pool(item: Fields) -> PoolDescription:
    prop = item.part("prop")
    rights = prop.text("rights", default="ACC_WRITE")
    if rights not in ("ACC_WRITE", "ACC_READ"):
        raise prop.refuse("rights", f"{rights} is unknown")
    found = PoolDescription(
        name=item.text("name"),
        file=item.text("fname", default=""),
        address=item.bytes("offset"),
        size=item.bytes("size"),
        writable=rights == "ACC_WRITE",
        cacheable=prop.text("cacheable", default="CACHEABLE_OFF") == "CACHEABLE_ON",
        width=prop.integer("byteWidth", "byte_width", default=1),
        ratio=prop.number("freqRatio", "freq_ratio", default=1.0),
        throughput=prop.text("throughput", default="MID"),
        latency=prop.text("latency", default="MID"),
        read_mw=prop.number("read_power", "readPower", default=0.0),
        write_mw=prop.number("write_power", "writePower", default=0.0),
        constants_preferred=prop.flag("constants_preferred", "constantsPreferred"),
        format=item.text("fformat", default="FORMAT_RAW"),
        absolute=item.text("mode", default="USEMODE_ABSOLUTE") == "USEMODE_ABSOLUTE",
    )
    if found.absolute and not 0 <= found.address <= found.end <= 1 << 32:
        raise item.refuse("size", f"{found.size} bytes from 0x{found.address:x} leave 32 bits")
    return found


def read_mpool(content: bytes, file: str = "mpool") -> PoolFile:
    """A ``.mpool`` file.

    Args:
        content: the file.
        file: its name, for messages.

    Raises:
        ModelError: CMP-001 with the field that is wrong.
    """
    top = read_json(content, file)
    memory = top.part("memory")
    pools = tuple(_pool(item) for item in memory.parts("mempools"))
    if not pools:
        raise memory.refuse("mempools", "no pool")
    _, cache = memory.pick("cacheinfo", "cacheInfo")
    first = cache[0] if isinstance(cache, list) and cache and isinstance(cache[0], dict) else None
    info = Fields(file, "$.memory.cacheinfo[0]", first or {})
    lines = info.integer("nlines", "nLines", default=0)
    size = info.integer("linesize", "lineSize", default=0)
    ways = info.integer("associativity", default=0)
    parameters = tuple(
        (item.text("paramname"), Fields(file, item.where, {"v": item.values}).bytes("v"))
        for item in top.part("params").parts("param")
    )
    return PoolFile(
        prefix=memory.text("mem_file_prefix", "memFilePrefix", default=""),
        pools=pools,
        cache=NpuCache(lines, size, ways) if first else None,
        parameters=parameters,
    )
