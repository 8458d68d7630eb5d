"""Text form of epoch-controller programs, one instruction a line, and the way back.

``UNIT.REGISTER[msb:lsb] value``; words after ``;`` are comments for people. The text holds every
word of the file, so `assemble` returns the very bytes `disassemble` was given.
"""

from __future__ import annotations

import re

from npuforge.artefacts.ec_blob import Blob, Instruction, Op, encode
from npuforge.aton.registers import UNITS, fields_of, kind_of, register_names
from npuforge.errors import ModelError

_TARGET = re.compile(r"([A-Z]+\d+)\.(\w+?)(?:\[(\d+)(?::(\d+))?\])?")
_NAMES = {op.name.lower(): op for op in Op}


def _note(item: Instruction) -> str:
    if item.op is not Op.WRITE:
        return ""
    parts = [
        f"{name.split('.')[1]}={item.values[0] << item.lsb >> field.lsb & (1 << field.width) - 1}"
        for name, field in fields_of(kind_of(item.unit)).items()
        if field.register == item.register and item.lsb <= field.lsb <= item.msb
    ]
    known = [part for part in parts if not part.endswith("=0")]
    return "  ; " + " ".join(known) if known and len(parts) > 1 else ""


def line_of(item: Instruction) -> str:
    """One instruction as text."""
    name = item.op.name.lower()
    if item.op is Op.IRQ:
        return f"  {name}"
    if item.op is Op.LABEL:
        return f"{name} {item.values[0]}"
    register = register_names(kind_of(item.unit)).get(item.register, f"r{item.register}")
    target = f"{UNITS[item.unit]}.{register}"
    if item.op is Op.BIT:
        target += f"[{item.lsb}]"
    elif (item.lsb, item.msb) != (0, 31):
        target += f"[{item.msb}:{item.lsb}]"
    values = " ".join(hex(value) for value in item.values)
    return f"  {name} {target} {values}{_note(item)}"


def disassemble(blob: Blob) -> str:
    """A whole blob as text, newline at the end."""
    lines = []
    for name, words in ((".prefix", blob.prefix), (".tail", blob.tail)):
        if words:
            lines.append(" ".join((name, *(hex(word) for word in words))))
    return "\n".join((*lines, *(line_of(item) for item in blob.instructions))) + "\n"


def _target(text: str) -> tuple[int, int, int, int]:
    match = _TARGET.fullmatch(text)
    if match is None or match[1] not in UNITS:
        raise ValueError(text)
    unit = UNITS.index(match[1])
    names = {name: word for word, name in register_names(kind_of(unit)).items()}
    name = match[2]
    register = names[name] if name in names else int(name.removeprefix("r"))
    msb = int(match[3]) if match[3] else 31
    lsb = int(match[4]) if match[4] else (msb if match[3] else 0)
    return unit, register, lsb, msb


def _instruction(words: list[str]) -> Instruction:
    op = _NAMES[words[0]]
    if op in (Op.IRQ, Op.LABEL):
        return Instruction(op, values=tuple(int(word, 0) for word in words[1:]))
    unit, register, lsb, msb = _target(words[1])
    return Instruction(op, unit, register, lsb, msb, tuple(int(word, 0) for word in words[2:]))


def assemble(text: str) -> Blob:
    """Inverse of `disassemble`. Raises ``ModelError`` ATN-005 with the line number."""
    items: list[Instruction] = []
    around: dict[str, tuple[int, ...]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition(";")[0].split()
        if not words:
            continue
        try:
            if words[0] in (".prefix", ".tail"):
                around[words[0]] = tuple(int(word, 0) & 0xFFFFFFFF for word in words[1:])
            else:
                items.append(_instruction(words))
                encode(items[-1])
        except (ValueError, KeyError, IndexError, ModelError):
            raise ModelError("ATN-005", line=number, text=line.strip()[:80]) from None
    return Blob(around.get(".prefix", ()), tuple(items), around.get(".tail", ()))
