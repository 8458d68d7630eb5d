"""``c_info.json``: the compiler's machine-readable report, schema 2.0, as public projects have it.

Buffers, pools, epochs and the compiler's own estimates of each epoch. Epoch 0 holds parameters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from npuforge.artefacts.fields import Fields, read_json


class Where(StrEnum):
    """What runs an epoch: ``mapping`` of the report."""

    HARDWARE = "NODE_HW"
    BLOB = "NODE_EC"
    SOFTWARE = "NODE_SW"
    HYBRID = "NODE_SW_HW"
    NOTHING = "NODE_NO_X"


@dataclass(frozen=True)
class InfoBuffer:
    """A buffer of the report.

    Attributes:
        id: number other parts of the report use.
        name: as in the generated C.
        pool: id of its memory pool.
        offset: bytes from the pool's address.
        size: bytes.
        shape: logical shape (batch, channels, height, width for four dimensions).
        batch: channels stored together (1 channel first, all channels last).
        channel_first: order in memory.
        channel_last: order in memory; both false means groups of ``batch`` channels.
        format: for example ``STAI_FORMAT_S8``.
        bits: of one element.
        scales: quantisation steps, empty when none are given.
        offsets: zero points, as many as scales.
        parameter: whether it is a constant.
        first_epoch: epoch that writes it.
        last_epoch: last epoch that reads it.
    """

    id: int
    name: str
    pool: int
    offset: int
    size: int
    shape: tuple[int, ...]
    batch: int
    channel_first: bool
    channel_last: bool
    format: str
    bits: int
    scales: tuple[float, ...]
    offsets: tuple[int, ...]
    parameter: bool
    first_epoch: int
    last_epoch: int


@dataclass(frozen=True)
class InfoPool:
    """A memory pool of the report: bytes, milliwatts, NPU clocks for each bus clock.

    Attributes:
        id: number buffers and accesses use.
        name: for example ``npuRAM5``.
        file: file with its constants, empty for virtual pools.
        address: base address; None where the application or the C linker places it.
        size: bytes.
        used: bytes in use.
        writable: whether the network writes it.
        cacheable: whether the NPU cache may hold it.
        width: bytes of the bus.
        ratio: NPU clocks for each clock of the memory bus.
        read_mw: milliwatts while read.
        write_mw: milliwatts while written.
        parts: ids of the pools a virtual pool joins.
        buffers: ids of the buffers inside.
    """

    id: int
    name: str
    file: str
    address: int | None
    size: int
    used: int
    writable: bool
    cacheable: bool
    width: int
    ratio: float
    read_mw: float
    write_mw: float
    parts: tuple[int, ...]
    buffers: tuple[int, ...]


@dataclass(frozen=True)
class InfoOperator:
    """A node inside an epoch: its name and kind (``Conv``), empty when the report has none."""

    name: str
    kind: str


@dataclass(frozen=True)
class InfoEpoch:
    """An epoch of the report.

    Attributes:
        id: node id used by estimates and accesses.
        name: for example ``epoch_7``.
        number: epoch number, -1 when the name carries none.
        where: what runs it.
        blob: name of the epoch-controller blob that holds it, or empty.
        operators: the nodes it computes.
        inputs: buffer ids.
        outputs: buffer ids.
        macs: multiply-accumulates the report states.
    """

    id: int
    name: str
    number: int
    where: Where
    blob: str
    operators: tuple[InfoOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    macs: int


@dataclass(frozen=True)
class Estimate:
    """The compiler's estimate of one epoch: NPU clocks and milliwatts."""

    node: int
    operations: int
    compute_cycles: int
    cycles: int
    npu_mw: float
    memory_mw: float


@dataclass(frozen=True)
class Access:
    """Bytes and NPU clocks one epoch spends on one pool, as the compiler estimates them."""

    node: int
    pool: int
    read_bytes: int
    read_cycles: int
    write_bytes: int
    write_cycles: int


@dataclass(frozen=True)
class CInfo:
    """A ``c_info.json`` file.

    Attributes:
        schema: version of the format.
        network: name given to the generated network.
        tools: name, version and arguments of each tool.
        models: source model files.
        buffers, pools, epochs: in file order.
        inputs: buffer ids of the graph's inputs.
        outputs: buffer ids of the graph's outputs.
        estimates, accesses: the compiler's cost model.
        activations: bytes of activations.
        weights: bytes of constants.
    """

    schema: str
    network: str
    tools: tuple[tuple[str, str, str], ...]
    models: tuple[str, ...]
    buffers: tuple[InfoBuffer, ...]
    pools: tuple[InfoPool, ...]
    epochs: tuple[InfoEpoch, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    estimates: tuple[Estimate, ...]
    accesses: tuple[Access, ...]
    activations: int
    weights: int

    def address_of(self, buffer: InfoBuffer) -> int | None:
        """Absolute address of a buffer; None when its pool is not listed or has no address."""
        pool = next((pool for pool in self.pools if pool.id == buffer.pool), None)
        return None if pool is None or pool.address is None else pool.address + buffer.offset


_SYMBOL = re.compile(r"(?:[A-Za-z_]\w*)?")


def _buffer(item: Fields) -> InfoBuffer:
    quantised, epochs = item.part("intq"), item.part("epochs")
    return InfoBuffer(
        id=item.integer("id"),
        name=item.text("name"),
        pool=item.integer("mpool_id", default=-1),
        offset=item.integer("offset_start", default=0),
        size=item.integer("size_bytes", default=0),
        shape=item.integers("shape"),
        batch=item.integer("batch", default=1),
        channel_first=item.flag("channel_first"),
        channel_last=item.flag("channel_last"),
        format=item.text("format", default=""),
        bits=item.integer("nbits", default=0),
        scales=quantised.numbers("scales"),
        offsets=quantised.integers("offsets"),
        parameter=item.flag("is_param"),
        first_epoch=epochs.integer("start", default=-1),
        last_epoch=epochs.integer("end", default=-1),
    )


def _pool(item: Fields) -> InfoPool:
    attributes = item.part("attributes")
    # Inputs and outputs left to the application have no address, networks of the CPU a C symbol.
    placed = _SYMBOL.fullmatch(item.text("address", default="0")) is None
    start = item.integer("offset_start", default=0)
    return InfoPool(
        id=item.integer("id"),
        name=item.text("name"),
        file=item.text("fname", default=""),
        address=item.integer("address", default=0) + start if placed else None,
        size=item.integer("size_bytes", default=0),
        used=item.integer("used_size_bytes", default=0),
        writable=item.text("rights", default="ACC_WRITE") == "ACC_WRITE",
        cacheable=item.text("cacheable", default="") == "CACHEABLE_ON",
        width=attributes.integer("byte_width", default=1),
        ratio=attributes.number("freq_ratio", default=1.0),
        read_mw=attributes.number("read_power", default=0.0),
        write_mw=attributes.number("write_power", default=0.0),
        parts=item.integers("subpools"),
        buffers=item.integers("buffers"),
    )


def _epoch(item: Fields) -> InfoEpoch:
    name = item.text("name")
    number = name.rpartition("_")[2]
    where = item.text("mapping", default="NODE_HW")
    if where not in list(Where):
        raise item.refuse("mapping", f"{where} is unknown")
    description = item.text("description", default="")
    return InfoEpoch(
        id=item.integer("id"),
        name=name,
        number=int(number) if number.isdecimal() and len(number) < 9 else -1,
        where=Where(where),
        blob=description.rpartition(" ")[2] if description.startswith("Epoch Controller") else "",
        operators=tuple(
            InfoOperator(
                node.text("name", default=""),
                node.text("description", default="").rpartition("kind=")[2],
            )
            for node in item.parts("subgraph_nodes")
        ),
        inputs=item.integers("inputs"),
        outputs=item.integers("outputs"),
        macs=item.integer("macc", default=0),
    )


def _estimate(item: Fields) -> Estimate:
    return Estimate(
        node=item.integer("node_id"),
        operations=item.integer("ops", default=0),
        compute_cycles=item.integer("compute_cycles", default=0),
        cycles=item.integer("max_cycles", default=0),
        npu_mw=item.number("average_acc_power_mw", default=0.0),
        memory_mw=item.number("average_memory_power_mw", default=0.0),
    )


def _access(item: Fields) -> Access:
    return Access(
        node=item.integer("node_id"),
        pool=item.integer("mpool_id"),
        read_bytes=item.integer("reads", default=0),
        read_cycles=item.integer("read_cycles", default=0),
        write_bytes=item.integer("writes", default=0),
        write_cycles=item.integer("write_cycles", default=0),
    )


def read_c_info(content: bytes, file: str = "c_info.json") -> CInfo:
    """A ``c_info.json`` file.

    Args:
        content: the file.
        file: its name, for messages.

    Raises:
        ModelError: CMP-001 with the field that is wrong.
    """
    top = read_json(content, file)
    schema = top.text("json_schema_version")
    if not schema.startswith("2."):
        raise top.refuse("json_schema_version", f"{schema}, this version reads 2.x")
    environment = top.part("environment")
    tools = list(environment.parts("tools"))
    graph = next(top.parts("graphs"), Fields(file, "$.graphs[0]", {}))
    footprint = top.part("memory_footprint")
    return CInfo(
        schema=schema,
        network=environment.part("generated_model").text("name", default=""),
        tools=tuple(
            (
                tool.text("name", default=""),
                tool.text("version", default=""),
                tool.text("arguments", default="").strip(),
            )
            for tool in tools
        ),
        models=tuple(
            entry.text("name", default="")
            for tool in tools[:1]
            for entry in tool.part("input_model").parts("model_files")
        ),
        buffers=tuple(_buffer(item) for item in top.parts("buffers")),
        pools=tuple(_pool(item) for item in top.parts("memory_pools")),
        epochs=tuple(_epoch(item) for item in graph.parts("nodes")),
        inputs=graph.integers("inputs"),
        outputs=graph.integers("outputs"),
        estimates=tuple(_estimate(item) for item in top.parts("power_estimates")),
        accesses=tuple(_access(item) for item in top.parts("memory_accesses")),
        activations=footprint.integer("activations", default=0),
        weights=footprint.integer("weights", default=0),
    )
