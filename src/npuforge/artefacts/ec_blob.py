"""Epoch-controller blobs: container and instruction words, both ways, byte-exact.

A plain blob is a magic word, the number of words that follow, the instructions and padding to eight
bytes. A relocatable blob wraps the same program behind a header with a relocation table. The
encoding was checked against 34 902 published instructions (evidence grade B).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from npuforge.errors import ModelError

MAGIC = 0xCA057A7A
RELOCATABLE = {0xECBF0020: 3, 0xECBF0030: 4, 0xECBF0050: 4}
"""Magic of a relocatable blob to the header word with the byte offset of its program."""
MAX_BYTES = 1 << 26


class Op(IntEnum):
    """Opcode, bits 4:0 of an instruction's first word."""

    WRITE = 0x00
    BIT = 0x01
    BURST = 0x02
    LOAD = 0x03
    POLL = 0x04
    IRQ = 0x0C
    LABEL = 0x1D


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Attributes:
        op: what it does.
        unit: register page 0..31.
        register: word index in the page.
        lsb: lowest bit written or polled.
        msb: highest bit, at least ``lsb``.
        values: operand words; for ``POLL`` interval and value, for ``LABEL`` the epoch number.
        word: offset of its first word in the program, for messages; no part of its identity.
    """

    op: Op
    unit: int = 0
    register: int = 0
    lsb: int = 0
    msb: int = 0
    values: tuple[int, ...] = ()
    word: int = -1


@dataclass(frozen=True)
class Blob:
    """A decoded file: everything needed to write the same bytes again.

    Attributes:
        prefix: words before the program (empty for a plain blob).
        instructions: the program.
        tail: words after the program (padding, relocation tables).
    """

    prefix: tuple[int, ...]
    instructions: tuple[Instruction, ...]
    tail: tuple[int, ...]


def _head(item: Instruction) -> int:
    if item.op is Op.IRQ:
        return int(item.op)
    if item.op is Op.LABEL:
        return int(item.op) | item.values[0] << 5
    head = int(item.op) | item.unit << 26
    if item.op is Op.BIT:
        return head | item.lsb << 5 | item.values[0] << 13 | item.register << 21
    head |= item.register << 16
    if item.op in (Op.BURST, Op.LOAD):
        return head | len(item.values) << 5
    return head | item.lsb << 5 | item.msb << 10


def _fits(item: Instruction) -> bool:
    count = len(item.values)
    wanted = {Op.WRITE: 1, Op.BIT: 1, Op.POLL: 2, Op.IRQ: 0, Op.LABEL: 1}.get(item.op)
    if (count != wanted) if wanted is not None else not 0 < count < 2048:
        return False
    limit = {Op.BIT: 2, Op.LABEL: 1 << 27}.get(item.op, 1 << 32)
    registers = 32 if item.op is Op.BIT else 1024
    return (
        all(0 <= value < limit for value in item.values)
        and 0 <= item.unit < 32
        and 0 <= item.register < registers
        and 0 <= item.lsb <= item.msb < 32
    )


def encode(item: Instruction) -> tuple[int, ...]:
    """Words of one instruction. Raises ``ModelError`` ATN-004 when a field does not fit."""
    if not _fits(item):
        raise ModelError("ATN-004", word=item.word, reason=f"{item.op.name} operand out of range")
    head = _head(item)
    return (head,) if item.op in (Op.BIT, Op.IRQ, Op.LABEL) else (head, *item.values)


def _decode(words: Sequence[int], at: int, base: int) -> tuple[Instruction, int]:
    head = words[at]
    try:
        op = Op(head & 31)
    except ValueError:
        raise ModelError("ATN-002", word=base + at, opcode=f"0x{head & 31:02x}") from None
    lsb, msb = head >> 5 & 31, head >> 10 & 31
    unit, register = head >> 26, head >> 16 & 1023
    count = {Op.WRITE: 1, Op.POLL: 2}.get(op, 0)
    if op in (Op.BURST, Op.LOAD):
        count, lsb, msb = head >> 5 & 2047, 0, 31
    if at + 1 + count > len(words):
        raise ModelError("ATN-003", word=base + at, wanted=count, have=len(words) - at - 1)
    values = tuple(words[at + 1 : at + 1 + count])
    if op is Op.BIT:
        register, msb, values = head >> 21 & 31, lsb, (head >> 13 & 1,)
    elif op is Op.IRQ:
        unit = register = lsb = msb = 0
    elif op is Op.LABEL:
        unit = register = lsb = msb = 0
        values = (head >> 5,)
    item = Instruction(op, unit, register, lsb, msb, values, base + at)
    if not _fits(item) or encode(item)[0] != head:
        raise ModelError("ATN-004", word=base + at, reason=f"0x{head:08x} is no {op.name} word")
    return item, at + 1 + count


def read_blob(data: bytes) -> Blob:
    """Decode a blob file. Raises ``ModelError`` ATN-001..004 with the word offset."""
    if len(data) < 8 or len(data) % 4 or len(data) > MAX_BYTES:
        raise ModelError("ATN-001", word=0, reason=f"{len(data)} bytes")
    words = tuple(int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4))
    start = 0
    if words[0] in RELOCATABLE:
        place = RELOCATABLE[words[0]]
        offset = words[place] if place < len(words) else 1
        start = offset // 4
        if offset % 4 or start <= place or start + 2 > len(words):
            raise ModelError("ATN-001", word=place, reason=f"program offset {offset}")
    if words[start] != MAGIC:
        raise ModelError("ATN-001", word=start, reason=f"magic 0x{words[start]:08x}")
    end = start + 2 + words[start + 1]
    if end > len(words):
        raise ModelError("ATN-003", word=start + 1, wanted=end, have=len(words))
    program = words[start + 2 : end]
    items: list[Instruction] = []
    at = 0
    while at < len(program):
        item, at = _decode(program, at, start + 2)
        items.append(item)
    return Blob(words[:start], tuple(items), words[end:])


def write_blob(blob: Blob) -> bytes:
    """The bytes of a blob; inverse of `read_blob`."""
    program = [word for item in blob.instructions for word in encode(item)]
    words = (*blob.prefix, MAGIC, len(program), *program, *blob.tail)
    return b"".join(word.to_bytes(4, "little") for word in words)


@dataclass(frozen=True)
class Relocation:
    """A symbol of a relocatable blob and the words of the file its address is added to."""

    symbol: str
    words: tuple[int, ...]


def relocations(data: bytes) -> tuple[Relocation, ...]:
    """Relocation table of a blob; empty for a plain one. Raises ``ModelError`` ATN-001."""
    if len(data) < 8 or len(data) % 4:
        raise ModelError("ATN-001", word=0, reason=f"{len(data)} bytes")
    words = [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]
    if words[0] not in RELOCATABLE:
        return ()
    place = RELOCATABLE[words[0]]
    if place >= len(words):
        raise ModelError("ATN-001", word=0, reason="header cut short")
    table, program = words[1], words[place] // 4 + 2
    found = []

    def word(offset: int) -> int:
        at = table + offset
        if at % 4 or at + 4 > len(data):
            raise ModelError("ATN-001", word=1, reason=f"relocation table at byte {at}")
        return words[at // 4]

    count = word(0)
    for n in range(min(count, len(words))):
        name, places, listed = (word(4 + 12 * n + 4 * k) for k in range(3))
        end = data.find(b"\0", table + name)
        symbol = data[table + name : end].decode("ascii", "replace") if end >= 0 else ""
        if not symbol or places > len(words):
            raise ModelError("ATN-001", word=1, reason=f"relocation {n}")
        entries = tuple(program + word(listed + 4 * k) for k in range(places))
        if any(entry >= len(words) for entry in entries):
            raise ModelError("ATN-001", word=1, reason=f"relocation {symbol} leaves the program")
        found.append(Relocation(symbol, entries))
    return tuple(found)


def relocated(data: bytes, bases: Mapping[str, int]) -> bytes:
    """A blob with the addresses of its symbols added in. Raises ``ModelError`` ATN-001.

    Args:
        data: the blob.
        bases: address of each symbol; a missing one counts 0.
    """
    made = bytearray(data)
    for item in relocations(data):
        for at in item.words:
            value = int.from_bytes(made[4 * at : 4 * at + 4], "little") + bases.get(item.symbol, 0)
            made[4 * at : 4 * at + 4] = (value & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(made)
