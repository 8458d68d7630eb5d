"""Generated network code: pools, buffers, epochs, CPU calls, descriptors and blobs as data.

Read are ``network.c`` as compilers 1.0 to 1.1.3 (tools STAI-2.0 to STAI-4.0) write it, for the
epoch controller or with descriptors in clear, and the header with the blobs. What is read is what
stands there; nothing is judged.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from npuforge.artefacts.c_values import (
    MAX_CHARACTERS,
    Apply,
    Call,
    Definition,
    Record,
    Symbol,
    Value,
    calls,
    definitions,
    integers,
    reals,
    unwrapped,
    without_comments,
)
from npuforge.artefacts.text import line_of
from npuforge.errors import ModelError

USER_IO = 0xA0000000
"""Where user-allocated buffers are put: an address no pool of the chip has."""
USER_STEP = 1 << 24

_POOL = re.compile(
    r"index=(?P<index>\d{1,9})\s++file postfix=(?P<file>\S{0,200})\s++name=(?P<name>.{0,200}?)\s+"
    r"offset=(?P<offset>\w{1,40})\s++(?P<mode>\w{0,40}_mode\s++)?.{0,200}?size=(?P<size>\d{1,18})\s++"
    r"(?P<rest>.{0,800}?)\*/"
)
_EPOCH = re.compile(r"scheduling epoch=(\d{1,9})\b")
_KIND = re.compile(r"/\*\s*kind=(\w+)\s+node=(\S+)\s*\*/")
_VERSION = re.compile(r"GIT_DESCRIPTION\s+\"(?:[^\"]*?v(\d+\.\d+\.\d+)|([^\"-]+-[^\"-]+))[^\"]*\"")
_GUARD = re.compile(
    r"LL_ATON_VERSION_MAJOR\s*!=\s*(\d{1,9})\D{1,200}?LL_ATON_VERSION_MINOR\s*!=\s*(\d{1,9})"
    r"\D{1,200}?LL_ATON_VERSION_MICRO\s*!=\s*(\d{1,9})"
)
_BLOCKS = ("EpochBlock_ItemTypeDef", "LL_ATON_RT_EpochBlockItem_t")
"""Types of the table of epoch blocks, up to 1.1.3 and after it."""
_OPTION = re.compile(r"^[ \t]*+\*[ \t]*+--([\w-]++)[ \t]*+=[ \t]*+(\S(?:.*\S)?)", re.MULTILINE)
_BRACE = re.compile(r"[{}]")
_FUNCTION = re.compile(
    r"^[A-Za-z_][\w \t*]{0,200}?\b(\w{1,200})[ \t]{0,20}\([^;{}]{0,4000}\)\s*+\{", re.MULTILINE
)
_ENCRYPTED = re.compile(rb"MustDecryptBlob_(\w+)\s+true\b")
_FUNCTIONS = r"LL_[A-Za-z_0-9]+|ll_sw_[a-z_0-9]+|(?:mcu|npu)_cache_[a-z_]+"


@dataclass(frozen=True)
class NetworkPool:
    """A memory pool the generated code lists.

    Attributes:
        index: number used in comments.
        name: for example ``npuRAM5``.
        file: suffix of its weight file.
        address: base address.
        size: bytes.
        writable: whether the network writes it.
        cacheable: whether the NPU cache may hold it.
        virtual: whether it only joins other pools.
        width: bytes of the bus.
        ratio: NPU clocks for each clock of the memory bus.
    """

    index: int
    name: str
    file: str
    address: int
    size: int
    writable: bool
    cacheable: bool
    virtual: bool
    width: int
    ratio: float


@dataclass(frozen=True)
class NetworkBuffer:
    """A buffer descriptor.

    Attributes:
        name: unique in its table.
        address: of its first byte.
        size: bytes.
        limit: bytes up to which engines may prefetch.
        epoch: that writes it; 0 for inputs and parameters.
        batch: channels stored together.
        memory_shape: as it lies in memory.
        shape: logical shape as the table gives it.
        channel: ``First``, ``Last``, ``Mixed`` or ``UNDEFINED`` (position of channels in memory).
        bits: of one element.
        unsigned: of one element.
        type: data type, for example ``DataType_INT8``.
        scales: quantisation steps.
        offsets: zero points.
        parameter: a constant.
        user: allocated by the application; the address is then a stand-in.
    """

    name: str
    address: int
    size: int
    limit: int
    epoch: int
    batch: int
    memory_shape: tuple[int, ...]
    shape: tuple[int, ...]
    channel: str
    bits: int
    unsigned: bool
    type: str
    scales: tuple[float, ...]
    offsets: tuple[int, ...]
    parameter: bool
    user: bool


@dataclass(frozen=True)
class NetworkCall:
    """A call inside an epoch block.

    Attributes:
        function: its name.
        arguments: values; arrays and structures the file defines stand in full.
    """

    function: str
    arguments: tuple[Value, ...]


@dataclass(frozen=True)
class CacheRange:
    """A cache operation: function name, address, bytes."""

    function: str
    address: int
    size: int


@dataclass(frozen=True)
class Block:
    """An epoch block: one blob, one CPU or hybrid epoch, or one epoch in clear.

    Attributes:
        epoch: first epoch number.
        last: last epoch number.
        blob: name of its blob, or empty.
        flags: words of the flags field.
        kinds: (operator, node) of the nodes in it, in order.
        start: calls before it runs.
        end: calls after it.
        caches_before: cache operations of the start function.
        caches_after: cache operations of the end function that follow its CPU work.
    """

    epoch: int
    last: int
    blob: str
    flags: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...]
    start: tuple[NetworkCall, ...]
    end: tuple[NetworkCall, ...]
    caches_before: tuple[CacheRange, ...]
    caches_after: tuple[CacheRange, ...]


@dataclass(frozen=True)
class NetworkCode:
    """A generated network.

    Attributes:
        version: of the compiler, for example ``1.1.0`` (releases before it state only that of the
            tool, ``STAI-2.0``); empty when it is not stated.
        options: its command line as the file states it.
        pools: memory pools.
        inputs, outputs: buffers of the graph's ends, in order.
        buffers: all buffers the tables name, ends included.
        blocks: epoch blocks in execution order.
        users: variables that hold user-allocated buffers, and their stand-in addresses.
        header: name of the header with the blobs, or empty.
    """

    version: str
    options: tuple[tuple[str, str], ...]
    pools: tuple[NetworkPool, ...]
    inputs: tuple[NetworkBuffer, ...]
    outputs: tuple[NetworkBuffer, ...]
    buffers: tuple[NetworkBuffer, ...]
    blocks: tuple[Block, ...]
    users: tuple[tuple[str, int], ...]
    header: str


def read_word_arrays(content: bytes, file: str) -> dict[str, bytes]:
    """Arrays of 64-bit words of a C file as bytes, by name: programs or constants.

    Raises:
        ModelError: CMP-003 with the line that does not parse.
    """
    text = without_comments(_decoded(content, file))
    found = {}
    for item in definitions(text, file, "uint64_t"):
        values = item.value
        if not isinstance(values, tuple) or not all(isinstance(word, int) for word in values):
            continue
        words = [word for word in values if isinstance(word, int)]
        if all(0 <= word < 1 << 64 for word in words):
            found[item.name] = b"".join(word.to_bytes(8, "little") for word in words)
    return found


def read_blobs(content: bytes, file: str = "ecblobs.h") -> dict[str, bytes]:
    """Epoch-controller programs of a generated header, by the name that epoch blocks use.

    A relocatable program stands in an array of its own name with a suffix; the plain name is then
    the RAM it is copied to.

    Raises:
        ModelError: CMP-003 with the line that does not parse; CMP-005 an encrypted program.
    """
    encrypted = tuple(word.decode() for word in _ENCRYPTED.findall(content))
    found = {}
    for name, data in read_word_arrays(content, file).items():
        plain = name.removesuffix("_reloc").removesuffix("_binary")
        if any(word.endswith(f"_{plain}") for word in encrypted):
            raise ModelError("CMP-005", path=file, blob=plain)
        found[plain] = data
    return found


def _decoded(content: bytes, file: str) -> str:
    if len(content) > MAX_CHARACTERS:
        raise ModelError("CMP-003", path=file, line=0, reason=f"{len(content)} bytes")
    return content.decode("utf-8", "replace")


def _pools(text: str) -> Iterator[NetworkPool]:
    for match in _POOL.finditer(text):
        rest = match["rest"]

        def value(name: str, default: str, rest: str = rest) -> str:
            found = re.search(rf"{name}=(\S+)", rest)
            return found[1] if found else default

        try:
            yield NetworkPool(
                index=int(match["index"]),
                name=match["name"],
                file=match["file"],
                address=int(match["offset"], 0),
                size=int(match["size"]),
                writable="READ_ONLY" not in rest,
                cacheable=value("cacheable", "OFF") == "ON",
                virtual="vpool" in rest,
                width=int(value("byte width", "1")),
                ratio=float(value("freq ratio", "1")),
            )
        except ValueError:
            continue


class _Code:
    """One file while it is taken apart."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.text = without_comments(text)
        self.definitions = list(definitions(self.text, file))
        self.calls = list(calls(self.text, file, _FUNCTIONS))
        self.by_name: dict[str, list[Definition]] = {}
        for item in self.definitions:
            self.by_name.setdefault(item.name, []).append(item)
        self.users: dict[str, int] = {}
        self.pools = tuple(_pools(text))

    def refuse(self, position: int, reason: str) -> ModelError:
        line = line_of(self.text, position)
        return ModelError("CMP-003", path=self.file, line=line, reason=reason)

    def resolved(self, value: Value, before: int) -> Value:
        """Names of arrays and structures replaced by what they hold, nearest definition before."""
        if isinstance(value, Symbol):
            held = [item for item in self.by_name.get(value.name, ()) if item.position < before]
            if held:
                return self.resolved(held[-1].value, held[-1].position)
            known = self.address(value)
            return value if known is None else known
        if isinstance(value, tuple):
            return tuple(self.resolved(item, before) for item in value)
        if isinstance(value, Record):
            return Record(tuple((k, self.resolved(v, before)) for k, v in value.fields))
        if isinstance(value, Apply) and value.function == "+":
            known = self.address(value)
            return value if known is None else known
        if isinstance(value, Apply) and value.function == "[":
            base, index = (self.resolved(part, before) for part in value.arguments)
            if isinstance(base, tuple) and isinstance(index, int) and 0 <= index < len(base):
                return base[index]
        return value

    def address(self, value: Value | None) -> int | None:
        """An address expression; names of user buffers get stand-ins."""
        value = unwrapped(value)
        if isinstance(value, int):
            return value
        if isinstance(value, Symbol) and value.name.startswith("_mem_pool"):
            linked = [p for p in self.pools if value.name.startswith(f"_mem_pool_{p.file}_")]
            if linked:
                return linked[0].address
            if value.name not in self.users:
                self.users[value.name] = USER_IO + USER_STEP * len(self.users)
            return self.users[value.name]
        if isinstance(value, Apply) and value.function == "+":
            parts = [self.address(part) for part in value.arguments]
            known = [part for part in parts if part is not None]
            return sum(known) if len(known) == len(parts) else None
        return None

    def buffer(self, record: Record, before: int) -> NetworkBuffer | None:
        name = record.text("name")
        if not name or name == "NULL":
            return None
        base = self.address(record.get("addr_base"))
        if base is None:
            raise self.refuse(before, f"buffer {name} has no address")
        start, end = record.integer("offset_start"), record.integer("offset_end")
        if not 0 <= start <= end < 1 << 32:
            raise self.refuse(before, f"buffer {name}: bytes {start} to {end}")
        shapes = [self.resolved(record.get(key) or (), before) for key in ("mem_shape", "shape")]
        numbers = [integers(shape) for shape in shapes]
        scale = self.resolved(record.get("scale") or (), before)
        offset = self.resolved(record.get("offset") or (), before)
        return NetworkBuffer(
            name=name,
            address=base + start,
            size=end - start,
            limit=record.integer("offset_limit", end) - start,
            epoch=record.integer("epoch"),
            batch=record.integer("batch", 1),
            memory_shape=numbers[0],
            shape=numbers[1],
            channel=record.text("chpos").removeprefix("CHPos_"),
            bits=record.integer("nbits", 8),
            unsigned=bool(record.integer("Qunsigned")),
            type=record.text("type"),
            scales=reals(scale),
            offsets=integers(offset),
            parameter=bool(record.integer("is_param")),
            user=bool(record.integer("is_user_allocated")),
        )

    def table(self, function: str) -> tuple[NetworkBuffer, ...]:
        """Buffers of the table a function returns."""
        place = re.search(rf"\b{function}\w*\s*\([^;{{]*\)\s*\{{", self.text)
        if place is None:
            return ()
        for item in self.definitions:
            if item.position >= place.start() and item.type == "LL_Buffer_InfoTypeDef":
                return self.buffers(item.value, item.position)
        return ()

    def buffers(self, value: Value, before: int) -> tuple[NetworkBuffer, ...]:
        """Buffers of an array of descriptors, up to the one without a name."""
        records = [value] if isinstance(value, Record) else value
        if not isinstance(records, list | tuple):
            return ()
        found = (self.buffer(item, before) for item in records if isinstance(item, Record))
        return tuple(item for item in found if item is not None)

    @cached_property
    def functions(self) -> dict[str, int]:
        """Where the body of each function starts."""
        return {match[1]: match.end() for match in _FUNCTION.finditer(self.text)}

    def inside(self, name: str) -> tuple[int, int]:
        """Span of a function's body; empty when the file does not define it."""
        start = self.functions.get(name)
        if start is None:
            return 0, 0
        depth = 1
        for mark in _BRACE.finditer(self.text, start):
            depth += 1 if mark[0] == "{" else -1
            if depth == 0:
                return start, mark.start()
        return start, start

    def body(self, name: str) -> tuple[tuple[NetworkCall, ...], tuple[CacheRange, ...], int]:
        """Calls and cache operations of a function; how many of these come before other calls."""
        low, high = self.inside(name)
        found: list[NetworkCall] = []
        caches: list[CacheRange] = []
        before = -1
        first = bisect_right(self.calls, low, key=lambda call: call.position)
        for item in self.calls[first:]:
            if item.position >= high:
                break
            if item.function == "LL_ATON_LIB_UNUSED":
                continue
            if "_cache_" in item.function.lower():
                caches.append(self.cache(item))
                continue
            if before < 0:
                before = len(caches)
            found.append(
                NetworkCall(
                    item.function,
                    tuple(self.resolved(value, item.position) for value in item.arguments),
                )
            )
        return tuple(found), tuple(caches), len(caches) if before < 0 else before

    def cache(self, item: Call) -> CacheRange:
        """A cache operation: address and bytes, or (compiler 1.0) first and end address."""
        if len(item.arguments) != 2:
            raise self.refuse(item.position, f"{item.function} with {len(item.arguments)} operands")
        address, size = (self.address(value) for value in item.arguments)
        if address is None or size is None:
            raise self.refuse(item.position, f"{item.function}: no address")
        if not item.function.startswith("LL_"):
            size -= address
        if size < 0:
            raise self.refuse(item.position, f"{item.function}: {size} bytes")
        return CacheRange(item.function, address, size)


def _words(value: Value | None) -> tuple[str, ...]:
    if isinstance(value, Symbol):
        return (value.name,)
    if isinstance(value, Apply):
        return tuple(word for part in value.arguments for word in _words(part))
    return ()


def _block(code: _Code, record: Record, kinds: dict[int, list[tuple[str, str]]]) -> Block | None:
    flags = _words(record.get("flags"))
    if "EpochBlock_Flags_last_eb" in flags:
        return None
    start, end = record.text("start_epoch_block"), record.text("end_epoch_block")
    blob = record.text("blob_address").removesuffix("_address").removesuffix("_ptr")
    number = record.integer("epoch_num", -1)
    if number < 0:
        digits = re.search(r"(\d{1,9})$", end if end not in ("", "NULL") else blob or start)
        number = int(digits[1]) if digits else -1
    before, caches_before, _ = code.body(start)
    after, caches, first = code.body(end)
    return Block(
        epoch=number,
        last=record.integer("last_epoch_num", number),
        blob="" if blob == "NULL" else blob,
        flags=flags,
        kinds=tuple(kinds.get(number, ())),
        start=before,
        end=after,
        caches_before=caches_before + caches[:first],
        caches_after=caches[first:],
    )


def _kinds(text: str) -> dict[int, list[tuple[str, str]]]:
    """Operators that the comments name, by the epoch section they stand in."""
    found: dict[int, list[tuple[str, str]]] = {}
    marks = [(match.start(), int(match[1])) for match in _EPOCH.finditer(text)]
    at = 0
    for match in _KIND.finditer(text):
        while at + 1 < len(marks) and marks[at + 1][0] < match.start():
            at += 1
        if marks and marks[at][0] < match.start():
            found.setdefault(marks[at][1], []).append((match[1], match[2]))
    return found


def _unique(tables: Iterator[NetworkBuffer]) -> tuple[NetworkBuffer, ...]:
    seen: dict[tuple[str, int, int], NetworkBuffer] = {}
    for item in tables:
        seen.setdefault((item.name, item.address, item.epoch), item)
    return tuple(seen.values())


def _version(text: str) -> str:
    """From the guard on the runtime's version, else from the compiler's description of itself."""
    if guard := _GUARD.search(text):
        return ".".join(guard.groups())
    stated = _VERSION.search(text)
    return (stated[1] or stated[2]) if stated else ""


def is_network(content: bytes) -> bool:
    """Whether a C file defines a table of epoch blocks."""
    return any(f"static const {name} ".encode() in content for name in _BLOCKS)


def read_network_c(content: bytes, file: str = "network.c") -> NetworkCode:
    """A generated ``network.c``.

    Args:
        content: the file.
        file: its name, for messages.

    Raises:
        ModelError: CMP-003 with the line that does not parse; CMP-004 when there is no list of
            epoch blocks.
    """
    text = _decoded(content, file)
    code = _Code(text, file)
    items = [item for item in code.definitions if item.type in _BLOCKS]
    if not items:
        raise ModelError("CMP-004", path=file, reason="no table of epoch blocks")
    inputs = code.table("LL_ATON_Input_Buffers_Info")
    outputs = code.table("LL_ATON_Output_Buffers_Info")
    inner = code.table("LL_ATON_Internal_Buffers_Info")
    kinds = _kinds(text)
    records = items[-1].value if isinstance(items[-1].value, tuple) else (items[-1].value,)
    blocks = [_block(code, record, kinds) for record in records if isinstance(record, Record)]
    header = re.search(r"#include\s+\"([^\"]*ecblobs[^\"]*)\"", text)
    return NetworkCode(
        version=_version(text),
        options=tuple((match[1], match[2]) for match in _OPTION.finditer(text)),
        pools=code.pools,
        inputs=tuple(item for item in inputs if not item.parameter),
        outputs=tuple(item for item in outputs if not item.parameter),
        buffers=_unique(iter((*inputs, *outputs, *inner))),
        blocks=tuple(block for block in blocks if block is not None),
        users=tuple(code.users.items()),
        header=header[1] if header else "",
    )
