"""Cortex-M fault registers in a log: found in any spelling, decoded bit by bit.

Bit names and meanings: Armv8-M Architecture Reference Manual (DDI0553), CFSR at 0xE000ED28, HFSR at
0xE000ED2C, SFSR at 0xE000EDE4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from npuforge.artefacts.log_text import Line, LogText

CFSR_BITS = {
    0: "IACCVIOL",
    1: "DACCVIOL",
    3: "MUNSTKERR",
    4: "MSTKERR",
    5: "MLSPERR",
    7: "MMARVALID",
    8: "IBUSERR",
    9: "PRECISERR",
    10: "IMPRECISERR",
    11: "UNSTKERR",
    12: "STKERR",
    13: "LSPERR",
    15: "BFARVALID",
    16: "UNDEFINSTR",
    17: "INVSTATE",
    18: "INVPC",
    19: "NOCP",
    20: "STKOF",
    24: "UNALIGNED",
    25: "DIVBYZERO",
}
HFSR_BITS = {1: "VECTTBL", 30: "FORCED", 31: "DEBUGEVT"}
SFSR_BITS = {
    0: "INVEP",
    1: "INVIS",
    2: "INVER",
    3: "AUVIOL",
    4: "INVTRAN",
    5: "LSPERR",
    6: "SFARVALID",
    7: "LSERR",
}
_ALIASES = {
    "mmar": "mmfar",
    "bfar": "bfar",
    "xpsr": "psr",
    "exc_return": "exc_return",
    "vtor_ns": "vtor_ns",
}
_NAMES = (
    "cfsr|hfsr|dfsr|afsr|abfsr|sfsr|sfar|mmfar|mmar|bfar|mmfsr|bfsr|ufsr|shcsr|vtor_ns|vtor|"
    "pc|lr|sp|psp|msp|xpsr|psr|exc_return|r9"
)
_VALUE = re.compile(
    rf"(?<![\w.])(?:scb->|stacked[ _]|fault[ _])?({_NAMES})(?:[ _]?(?:register|value|addr))?"
    r"\s*(?:\([^)]{0,40}\))?\s*(?:=|:|->|\sis\s|\s)\s*(?:0x)?([0-9a-f]{1,8})\b(?!\s*(?:ms|us|kb|"
    r"mhz))",
    re.IGNORECASE,
)
_ANCHORS = (
    "cfsr",
    "hfsr",
    "bfar",
    "mmfar",
    "mmar",
    "hardfault",
    "hard fault",
    "bus fault",
    "busfault",
    "usagefault",
    "usage fault",
    "memmanage",
    "mem manage",
    "securefault",
)


@dataclass(frozen=True)
class FaultDump:
    """The registers of one fault.

    Attributes:
        line: number of its first line.
        registers: lower-case register name to value.
        text: the first line, as evidence.
        kind: ``hardfault``, ``busfault``… as the log calls it, or "".
    """

    line: int
    registers: dict[str, int]
    text: str
    kind: str = ""

    @property
    def cfsr(self) -> int:
        """CFSR, put together from its parts where the log prints those."""
        if "cfsr" in self.registers:
            return self.registers["cfsr"]
        parts = self.registers
        return (
            parts.get("mmfsr", 0) & 0xFF
            | (parts.get("bfsr", 0) & 0xFF) << 8
            | (parts.get("ufsr", 0) & 0xFFFF) << 16
        )

    @property
    def flags(self) -> tuple[str, ...]:
        """Names of the bits that are set, CFSR first."""
        names = [name for bit, name in CFSR_BITS.items() if self.cfsr >> bit & 1]
        hfsr, sfsr = self.registers.get("hfsr", 0), self.registers.get("sfsr", 0)
        names += [name for bit, name in HFSR_BITS.items() if hfsr >> bit & 1]
        return (*names, *(name for bit, name in SFSR_BITS.items() if sfsr >> bit & 1))

    @property
    def address(self) -> int | None:
        """The address whose access failed, where the core says that it is valid."""
        cfsr = self.cfsr
        if "bfar" in self.registers and (cfsr >> 15 & 1 or not cfsr):
            return self.registers["bfar"]
        if "mmfar" in self.registers and (cfsr >> 7 & 1 or not cfsr):
            return self.registers["mmfar"]
        if "sfar" in self.registers and self.registers.get("sfsr", 0) >> 6 & 1:
            return self.registers["sfar"]
        return None

    @property
    def pc(self) -> int | None:
        """Program counter of the fault, None where the log does not say."""
        return self.registers.get("pc")

    @property
    def imprecise(self) -> bool:
        """Whether the access was reported late, so that the program counter is not its place."""
        return bool(self.cfsr >> 10 & 1)


def registers_of(line: str) -> Iterator[tuple[str, int]]:
    """Register names and values in a line."""
    for name, digits in _VALUE.findall(line):
        key = name.lower()
        yield _ALIASES.get(key, key), int(digits, 16)


def read_faults(log: LogText, limit: int = 200) -> tuple[FaultDump, ...]:
    """Every fault that a log shows; registers within twelve lines of each other are one fault.

    Args:
        log: the text.
        limit: faults to read at most; a board that reboots for ever repeats itself.
    """
    numbers = log.lines_with(_ANCHORS, 2000)
    dumps: list[FaultDump] = []
    done = 0
    for number in numbers:
        if number <= done:
            continue
        if len(dumps) >= limit:
            break
        registers, last = _collect(log.window(number, 6, 12), number, done)
        kind = _kind(log.window(number, 3, 1))
        if registers.keys() & {"cfsr", "hfsr", "bfar", "mmfar", "bfsr", "ufsr", "mmfsr"} or (
            kind and registers.keys() & {"pc", "lr"}
        ):
            dumps.append(FaultDump(number, registers, log.line(number).text.strip(), kind))
            done = last
        elif kind:
            dumps.append(FaultDump(number, {}, log.line(number).text.strip(), kind))
            done = number
    return tuple(dumps)


def _collect(lines: list[Line], number: int, done: int) -> tuple[dict[str, int], int]:
    registers: dict[str, int] = {}
    last = number
    for line in lines:
        if line.number <= done:
            continue
        for name, value in registers_of(line.text):
            if name in registers and line.number > number:
                return registers, last
            registers[name] = value
            last = max(last, line.number)
    return registers, last


_KIND = re.compile(
    r"\b(hard|bus|usage|secure)[ _]?fault|\bmem[ _]?manage(?:ment)?(?:[ _]?fault)?", re.IGNORECASE
)
_NO_FAULT = re.compile(
    r"\bno (?:hard|bus|usage)[ _]?fault|fault handler (?:installed|ready|enabled)",
    re.IGNORECASE,
)


def _kind(lines: list[Line]) -> str:
    for line in lines:
        found = _KIND.search(line.text)
        if found and not _NO_FAULT.search(line.text):
            word = found.group(0).lower().replace(" ", "").replace("_", "")
            return "memmanage" if word.startswith("mem") else word
    return ""
