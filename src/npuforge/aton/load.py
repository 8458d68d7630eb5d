"""Compiled networks from files: generated C with its blobs and weights, or a folder of blobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from npuforge.artefacts.c_values import Record, Symbol, Value, integers, reals, unwrapped
from npuforge.artefacts.ec_blob import read_blob, relocated, relocations
from npuforge.artefacts.fields import Fields, read_json
from npuforge.artefacts.ihex import Segment
from npuforge.artefacts.network_c import (
    USER_STEP,
    Block,
    CacheRange,
    NetworkBuffer,
    NetworkCall,
    NetworkCode,
    is_network,
    read_blobs,
    read_network_c,
)
from npuforge.aton.compiled import (
    Buffer,
    CacheStep,
    Compiled,
    Kind,
    Operand,
    Region,
    Step,
    Work,
)
from npuforge.aton.descriptors import base_address, epoch_of
from npuforge.aton.images import file_bytes, images_of
from npuforge.aton.program import epochs_of
from npuforge.errors import ModelError

_TENSOR = re.compile(r"(.+?)\.(dim|stride|mem|format)\.(\w+)")
_MOVERS = {
    "LL_ATON_LIB_Concat": "Concat",
    "LL_ATON_LIB_DMA_Concat": "Concat",
    "LL_ATON_LIB_DMA_DepthToSpace": "DepthToSpace",
    "LL_ATON_LIB_DMA_SpaceToDepth": "SpaceToDepth",
    "LL_ATON_LIB_DepthToSpace": "DepthToSpace",
    "LL_ATON_LIB_SpaceToDepth": "SpaceToDepth",
    "LL_ATON_LIB_DMA_Transpose": "Transpose",
    "LL_ATON_LIB_Split": "Split",
    "LL_ATON_LIB_DMA_Outputs_Slice_SplitLike": "Slice",
    "LL_ATON_LIB_Cast": "Cast",
}
_HEADERS = ("Inc", "inc", "Include", "include")
_FOLDERS = 2
"""Folders above the code in which its header is looked for."""
ON_CHIP = (0x34000000, 1 << 22)
"""Where the chip's own RAM lies (secure alias) and its bytes."""
EXTERNAL = (0x90000000, 1 << 25)
"""Where external RAM is mapped and the bytes of the discovery board's."""


def load_compiled(path: Path, weights: Sequence[Path] = ()) -> Compiled:
    """A compiled network.

    Args:
        path: a generated ``network.c``; a folder with one (and its blobs header and weight image
            beside it); a folder with ``network.json``; or one epoch-controller blob.
        weights: weight images (Intel HEX, or raw named ``…atonbuf.POOL.raw``) instead of the ones
            found beside the code.

    Raises:
        ModelError: a file that cannot be read as what it claims to be.
        UsageError: ATN-009 for a path that cannot be read.
    """
    if path.is_dir():
        if (path / "network.json").is_file():
            return _from_json(path)
        sources = [item for item in sorted(path.glob("*.c")) if is_network(file_bytes(item))]
        if len(sources) != 1:
            names = ", ".join(item.name for item in sources) or "no network code"
            raise ModelError("CMP-004", path=path, reason=names)
        return _from_code(sources[0], weights)
    if path.suffix == ".c":
        return _from_code(path, weights)
    data = file_bytes(path)
    step = Step(Kind.HARDWARE, 0, path.name, epochs_of(read_blob(data)))
    return Compiled(path.name, "", "", (), (), (), (), (), (step,), caches=False)


# Generated C


def _from_code(path: Path, weights: Sequence[Path]) -> Compiled:
    code = read_network_c(file_bytes(path), path.name)
    blobs: dict[str, bytes] = {}
    if code.header and (header := _beside(path, Path(code.header).name)):
        blobs = read_blobs(file_bytes(header), header.name)
    images = images_of(path, code, weights)

    def peek(address: int, size: int) -> bytes:
        for image in images:
            if image.address <= address and address + size <= image.end:
                return image.data[address - image.address : address - image.address + size]
        return b"" if images else bytes(size)

    buffers = tuple(_buffer(item) for item in code.buffers)
    steps = tuple(_step(code, block, blobs, peek) for block in code.blocks)
    regions = [
        Region(pool.name, pool.address, pool.size, pool.writable, pool.cacheable)
        for pool in code.pools
        if not pool.virtual and pool.size
    ]
    for name, address in code.users:
        regions.append(Region(name, address, USER_STEP))
    options = dict(code.options)
    model = options.get("onnx-input", "").strip('"').replace("\\", "/")
    return Compiled(
        name=path.stem,
        version=code.version,
        model=re.sub(r"_OE_\d+_\d+_\d+\.onnx$", "", model.rpartition("/")[2]),
        regions=tuple(regions),
        images=images,
        buffers=buffers,
        inputs=tuple(_buffer(item) for item in code.inputs),
        outputs=tuple(_buffer(item) for item in code.outputs),
        steps=steps,
        described=not options or options.get("all-buffers-info") == "true",
        absent=tuple(b.blob for b in code.blocks if b.blob and b.blob not in blobs),
    )


def _beside(path: Path, name: str) -> Path | None:
    """A header of a source file: in its folder, or where projects keep theirs."""
    folder = path.resolve().parent
    for place in (folder, *list(folder.parents)[:_FOLDERS]):
        for inner in (".", *_HEADERS):
            if (place / inner / name).is_file():
                return place / inner / name
    return None


def _buffer(item: NetworkBuffer) -> Buffer:
    return Buffer(
        name=item.name,
        address=item.address,
        size=item.size,
        epoch=item.epoch,
        batch=item.batch,
        memory_shape=item.memory_shape,
        channel=item.channel,
        bits=item.bits,
        unsigned=item.unsigned,
        real=item.type == "DataType_FLOAT",
        scales=item.scales,
        offsets=item.offsets,
        parameter=item.parameter,
    )


def _caches(ranges: Iterable[CacheRange]) -> tuple[CacheStep, ...]:
    """Maintenance of the CPU's cache; names are ``LL_ATON_Cache_MCU_…`` or ``mcu_cache_…``."""
    found = []
    for item in ranges:
        name = item.function.lower()
        if "mcu" in name:
            found.append(CacheStep("clean" in name, "invalidate" in name, item.address, item.size))
    return tuple(found)


def _step(code: NetworkCode, block: Block, blobs: Mapping[str, bytes], peek: Any) -> Step:
    before, after = _caches(block.caches_before), _caches(block.caches_after)
    if block.blob:
        data = blobs.get(block.blob)
        if data is None:
            return Step(Kind.HARDWARE, block.epoch, block.blob, (), (), before, after)
        bases = {item.symbol: _base(code, item.symbol) for item in relocations(data)}
        epochs = epochs_of(read_blob(relocated(data, bases)))
        return Step(Kind.HARDWARE, block.epoch, block.blob, epochs, (), before, after)
    epoch = epoch_of(block, peek)
    if epoch is not None:
        name = block.kinds[0][1] if block.kinds else ""
        return Step(Kind.HARDWARE, block.epoch, name, (epoch,), (), before, after)
    kinds = block.kinds or (("", ""),)
    made = (_work(call, kinds[min(n, len(kinds) - 1)]) for n, call in enumerate(_worked(block)))
    work = tuple(item for item in made if item is not None)
    hybrid = any("hybrid" in flag for flag in block.flags)
    name = block.kinds[0][1] if block.kinds else ""
    kind = Kind.HYBRID if hybrid else Kind.SOFTWARE
    return Step(kind, block.epoch, name, (), work, before, after)


def _base(code: NetworkCode, symbol: str) -> int:
    """What a blob's symbol stands for: a buffer of the application's, or a pool linked in."""
    for name, address in code.users:
        if name.startswith(f"_mem_pool_{symbol}_"):
            return address
    return next((pool.address for pool in code.pools if pool.file == symbol), 0)


def _worked(block: Block) -> list[NetworkCall]:
    return [
        call
        for call in (*block.start, *block.end)
        if call.function.startswith(("ll_sw_", "LL_ATON_LIB_"))
    ]


def _work(call: NetworkCall, kind: tuple[str, str]) -> Work | None:
    if call.function.startswith("ll_sw_"):
        record = call.arguments[0] if call.arguments else None
        if not isinstance(record, Record):
            return None
        operands, options = _operands(dict(record.fields))
        return Work(
            kind[0] or call.function.removeprefix("ll_sw_forward_"),
            kind[1],
            call.function.endswith("_integer"),
            operands,
            (),
            (),
            {**options, "function": call.function},
        )
    if call.function == "LL_ATON_LIB_DMA_Transpose":
        return _transpose(call, kind[1])
    ends = [_listed(value) for value in call.arguments if isinstance(value, tuple | Record)]
    numbers = tuple(value for value in call.arguments if isinstance(value, int))
    return Work(
        _MOVERS.get(call.function, kind[0] or call.function),
        kind[1],
        True,
        {},
        ends[0] if ends else (),
        ends[1] if len(ends) > 1 else (),
        {"numbers": numbers, "function": call.function},
    )


def _listed(value: Value) -> tuple[Buffer, ...]:
    """Buffers of a descriptor table in an argument."""
    found = []
    for record in value if isinstance(value, tuple) else (value,):
        if not isinstance(record, Record) or record.text("name") == "NULL":
            continue
        if record.get("addr_base") is None:
            continue
        start, end = record.integer("offset_start"), record.integer("offset_end")
        found.append(
            Buffer(
                name=record.text("name"),
                address=base_address(record.get("addr_base")) + start,
                size=end - start,
                epoch=record.integer("epoch"),
                batch=record.integer("batch", 1),
                memory_shape=integers(record.get("mem_shape") or record.get("shape")),
                channel=record.text("chpos").removeprefix("CHPos_"),
                bits=record.integer("nbits", 8),
                unsigned=bool(record.integer("Qunsigned")),
                real=record.text("type") == "DataType_FLOAT",
                scales=reals(record.get("scale")),
                offsets=integers(record.get("offset")),
                parameter=bool(record.integer("is_param")),
                shape=integers(record.get("shape")),
                fraction=record.integer("Qn"),
            )
        )
    return tuple(found)


def _transpose(call: NetworkCall, node: str) -> Work | None:
    """A DMA transpose: shapes and byte steps of both ends, and the permutation."""
    if len(call.arguments) < 6:
        return None
    ends, steps = call.arguments[0:3:2], call.arguments[1:4:2]
    operands, size = {}, 1
    for role, held, step in zip(("input", "output"), ends, steps, strict=True):
        end = unwrapped(held)
        if not isinstance(end, Record):
            return None
        shape, strides = _four(integers(end.get("shape"))), _four(integers(step))
        if shape is None or strides is None:
            return None
        address = base_address(end.get("addr_base")) + end.integer("offset_start")
        count = shape[0] * shape[1] * shape[2] * shape[3]
        operands[role] = Operand(address, shape, strides, True, count)
        size = end.integer("nbits", 8) // 8
    options: dict[str, float | str | tuple[int, ...]] = {
        "permutation": integers(call.arguments[5]),
        "bytes": float(size),
    }
    return Work("Transpose", node, True, operands, (), (), options)


def _four(values: tuple[int, ...]) -> tuple[int, int, int, int] | None:
    return (values[0], values[1], values[2], values[3]) if len(values) == 4 else None


def _operands(
    fields: Mapping[str, Any],
) -> tuple[dict[str, Operand], dict[str, float | str | tuple[int, ...]]]:
    """Tensors and options of a CPU call from its flat fields."""
    raw: dict[str, dict[str, int]] = {}
    options: dict[str, float | str | tuple[int, ...]] = {}
    for name, value in fields.items():
        match = _TENSOR.fullmatch(name)
        if match and isinstance(value, int | float):
            role = match[1].removeprefix("general.")
            raw.setdefault(role, {})[match[3]] = int(value)
        elif isinstance(value, Symbol):
            options[name] = value.name
        elif isinstance(value, int | float | str):
            options[name] = value
        elif isinstance(value, tuple):
            options[name] = integers(value)
    operands = {}
    for role, items in raw.items():
        dims = tuple(items.get(f"tensor_{axis}", 1) for axis in "bhwc")
        steps = tuple(items.get(axis, 0) for axis in "bhwc")
        operands[role] = Operand(
            items.get("start_offset", 0),
            (dims[0], dims[1], dims[2], dims[3]),
            (steps[0], steps[1], steps[2], steps[3]),
            bool(items.get("is_signed", 1)),
            items.get("num_elem", dims[0] * dims[1] * dims[2] * dims[3]),
        )
    return operands, options


# Folders of blobs with network.json


def _json_buffer(item: Fields) -> Buffer:
    start, end = item.integer("offset_start"), item.integer("offset_end")
    return Buffer(
        name=item.text("name"),
        address=item.integer("addr", default=item.integer("base", default=0) + start),
        size=end - start,
        epoch=item.integer("epoch", default=0),
        batch=item.integer("batch", default=1),
        memory_shape=item.integers("mem_shape"),
        channel=item.text("chpos", default="").removeprefix("CHPos_"),
        bits=item.integer("nbits", default=8),
        unsigned=bool(item.integer("Qunsigned", default=0)),
        real=item.text("type", default="") == "DataType_FLOAT",
        scales=item.numbers("scale"),
        offsets=item.integers("offset"),
        parameter=bool(item.integer("is_param", default=0)),
        shape=item.integers("shape"),
        fraction=item.integer("Qn", default=0),
    )


def _json_work(item: Fields) -> Work:
    fields = item.part("f").values
    operands, options = _operands(fields)
    inputs = tuple(_json_buffer(part) for part in item.parts("ins"))
    outputs = tuple(_json_buffer(part) for part in item.parts("outs"))
    kind = item.text("kind")
    return Work(kind, item.text("node"), bool("is" in operands), operands, inputs, outputs, options)


def _from_json(folder: Path) -> Compiled:
    top = read_json(file_bytes(folder / "network.json"), "network.json")
    held = top.part("weights")
    image = Segment(held.integer("base"), file_bytes(folder / held.text("file")))
    buffers = tuple(_json_buffer(item) for item in top.parts("buffers"))
    steps: list[Step] = []
    for item in top.parts("blobs"):
        epochs = epochs_of(read_blob(file_bytes(folder / item.text("file"))))
        name = item.text("name")
        number = int(name.rpartition("_")[2]) if name.rpartition("_")[2].isdecimal() else 0
        steps.append(Step(Kind.HARDWARE, number, name, epochs))
    software = top.part("software_epochs")
    for key in software.values:
        parts = list(software.parts(key))
        work = tuple(_json_work(part) for part in parts)
        moves = any(item.inputs for item in work)
        kind = Kind.HYBRID if moves else Kind.SOFTWARE
        number = int(key) if key.isdecimal() else 0
        steps.append(Step(kind, number, work[0].node if work else "", (), work))
    steps.sort(key=lambda step: step.number)
    last = max((b.epoch for b in buffers if not b.parameter), default=0)
    results = [b for b in buffers if not b.parameter and b.epoch and _is_result(b, buffers, steps)]
    results = [b for b in results if b.real] or results
    return Compiled(
        name=folder.name,
        version="",
        model=top.text("model", default=""),
        regions=(
            Region("on-chip RAM", *ON_CHIP),
            Region("external RAM", *EXTERNAL, cacheable=True),
            Region("constants", image.address, len(image.data), writable=False, cacheable=True),
        ),
        images=(image,),
        buffers=buffers,
        inputs=tuple(b for b in buffers if b.epoch == 0 and not b.parameter),
        outputs=tuple(results) or tuple(b for b in buffers if b.epoch == last),
        steps=tuple(steps),
        caches=False,
    )


def _is_result(buffer: Buffer, buffers: Sequence[Buffer], steps: Sequence[Step]) -> bool:
    """Whether nothing reads a buffer after it is written, nor lies over it later."""
    if buffer.name.startswith("SCRATCH"):
        return False
    for step in steps:
        for epoch in step.epochs:
            if epoch.number > buffer.epoch:
                for unit in (*epoch.readers, *epoch.writers):
                    if unit.pattern.low < buffer.end and buffer.address <= unit.pattern.high:
                        return False
        for item in step.work:
            if step.number <= buffer.epoch:
                continue
            spans = [(o.address, o.address + max(1, o.count)) for o in item.operands.values()]
            spans += [(b.address, b.end) for b in (*item.inputs, *item.outputs)]
            if any(low < buffer.end and buffer.address < high for low, high in spans):
                return False
    return not any(
        b.epoch > buffer.epoch and b.address < buffer.end and buffer.address < b.end
        for b in buffers
        if not b.parameter and (b.address, b.size) != (buffer.address, buffer.size)
    )
