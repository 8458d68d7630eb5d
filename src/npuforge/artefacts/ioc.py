"""CubeMX projects (``.ioc``): chip, board, packages, clocks, contexts, start-up copy, AI pools.

The format is that of Java property files: ``key=value`` lines, a backslash in front of ``:``,
``=``, ``#`` and blanks. Which keys carry what was read in the public project files of CubeMX 6.13
to 6.16.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

MAX_KEYS = 100_000


@dataclass(frozen=True)
class IocPool:
    """A memory pool as the X-CUBE-AI panel states it.

    Attributes:
        name: for example ``npuRAM5``.
        start: address.
        size: bytes.
        used: bytes, ``None`` where the panel has not computed it.
    """

    name: str
    start: int
    size: int
    used: int | None


@dataclass(frozen=True)
class Ioc:
    """A CubeMX project.

    Attributes:
        values: every setting by its key, escapes removed.
        lines: line number of each key.
        mcu: the part, for example ``STM32N657X0HxQ``.
        family: for example ``STM32N6``.
        board: board name, "" for a project without one.
        firmware: version of the STM32Cube firmware package, "" when unknown.
        contexts: names of its sub-projects (FSBL, Appli, ExtMemLoader).
        peripherals: names of the peripherals in use, by context.
        clocks: frequencies in Hz by name: ``cpu``, ``npu``, ``npu_ram``, ``axi``, ``xspi1``,
            ``xspi2``; only those that the file states.
        ai_version: version of the X-CUBE-AI pack, "" without it.
        ai_context: the sub-project that pack is assigned to.
        pools: its memory pools.
        user_inputs: whether the application allocates the inputs; ``None`` when not stated.
        user_outputs: likewise for the outputs.
        heap: bytes of heap by context.
        stack: bytes of stack by context.
        copy_size: bytes the start-up copy (load and run) moves, ``None`` without one.
        tasks: FreeRTOS tasks with their stack in bytes.
        interrupts: interrupts that CubeMX enables.
    """

    values: Mapping[str, str]
    lines: Mapping[str, int]
    mcu: str
    family: str
    board: str
    firmware: str
    contexts: tuple[str, ...]
    peripherals: Mapping[str, tuple[str, ...]]
    clocks: Mapping[str, int]
    ai_version: str
    ai_context: str
    pools: tuple[IocPool, ...]
    user_inputs: bool | None
    user_outputs: bool | None
    heap: Mapping[str, int]
    stack: Mapping[str, int]
    copy_size: int | None
    tasks: Mapping[str, int]
    interrupts: tuple[str, ...]

    def line(self, key: str) -> int | None:
        """Line number of a key, ``None`` without it."""
        return self.lines.get(key)

    def setting(self, key: str) -> str:
        """``key=value`` as one line, for quoting; "" without the key."""
        return f"{key}={self.values[key]}" if key in self.values else ""


CLOCK_KEYS = {
    "cpu": "RCC.CpuClockFreq_Value",
    "npu": "RCC.SYSCCLKFreq_VALUE",
    "npu_ram": "RCC.SYSDCLKFreq_VALUE",
    "axi": "RCC.AXIClockFreq_Value",
    "xspi1": "RCC.XSPI1Freq_Value",
    "xspi2": "RCC.XSPI2Freq_Value",
}
"""Where the file states each frequency: sysc drives the NPU, sysd its RAM (RM0486, clock tree)."""
COPY_KEY = "EXTMEM_MANAGER.RefParam_LRUN_SRC_size"
_ESCAPE = re.compile(r"\\(.)")
_AI = re.compile(r"STMicroelectronics\.X-CUBE-AI\.(\d+(?:\.\d+)+)(?:_(\w+))?\.(\w+)")
_POOL = re.compile(r"memoryPool(\d{1,9})(name|start|size|used)")
_NETWORK = re.compile(r"-[0-9a-f]{32,}$")
_AMOUNT = re.compile(r"(?:(\w+)-)?(0x[0-9a-fA-F]{1,16}|\d{1,18})")


def read_ioc(text: str) -> Ioc:
    """Read a CubeMX project; a setting that is missing or no number leaves its field empty."""
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(("#", "!")) or "=" not in line or len(values) >= MAX_KEYS:
            continue
        key, value = _split(line.strip())
        values[key] = value
        lines.setdefault(key, number)
    ai = next(((m[1], m[2] or "") for m in map(_AI.match, values) if m), ("", ""))
    own = {
        _NETWORK.sub("", m[3] + key[m.end() :]): values[key]
        for key in values
        if (m := _AI.match(key)) is not None
    }
    contexts = _numbered(values, "Mcu.Context")
    return Ioc(
        values,
        lines,
        values.get("Mcu.UserName") or values.get("Mcu.Name", ""),
        values.get("Mcu.Family", ""),
        "" if values.get("board", "custom") == "custom" else values["board"],
        _version(values.get("ProjectManager.FirmwarePackage", "")),
        contexts,
        _peripherals(values, contexts),
        {
            name: clock
            for name, key in CLOCK_KEYS.items()
            if (clock := _integer(values.get(key))) is not None
        },
        *ai,
        _pools(own),
        _by_user(own.get("useInputAllocation")),
        _by_user(own.get("useOutputAllocation")),
        _amounts(values.get("ProjectManager.HeapSize", "")),
        _amounts(values.get("ProjectManager.StackSize", "")),
        _integer(values.get(COPY_KEY)),
        _tasks(values),
        _interrupts(values),
    )


def _split(line: str) -> tuple[str, str]:
    """Key and value at the first ``=`` that no backslash protects."""
    at = 0
    while at < len(line) and line[at] != "=":
        at += 2 if line[at] == "\\" else 1
    return _ESCAPE.sub(r"\1", line[:at]), _ESCAPE.sub(r"\1", line[at + 1 :])


def _integer(text: str | None) -> int | None:
    try:
        return int(float(text)) if text and "x" not in text.lower() else int(text or "", 16)
    except (ValueError, OverflowError):
        return None


def _by_user(text: str | None) -> bool | None:
    """What the panel does not allocate, the application does."""
    return {"true": False, "false": True}.get(text or "")


def _version(text: str) -> str:
    found = re.search(r"V?(\d+\.\d+(?:\.\d+)*)", text)
    return found[1] if found else ""


def _numbered(values: Mapping[str, str], stem: str) -> tuple[str, ...]:
    total = min(_integer(values.get(f"{stem}Nb")) or 0, 10_000)
    return tuple(values[f"{stem}{i}"] for i in range(total) if f"{stem}{i}" in values)


def _peripherals(
    values: Mapping[str, str], contexts: tuple[str, ...]
) -> Mapping[str, tuple[str, ...]]:
    if not contexts:
        return {"": _numbered(values, "Mcu.IP")}
    return {
        name: tuple(item.split(":")[0] for item in values.get(f"{name}.IPs", "").split(",") if item)
        for name in contexts
    }


def _pools(own: Mapping[str, str]) -> tuple[IocPool, ...]:
    found: dict[int, dict[str, str]] = {}
    for key, value in own.items():
        match = _POOL.fullmatch(key)
        if match:
            found.setdefault(int(match[1]), {})[match[2]] = value
    pools = []
    for _, entry in sorted(found.items()):
        start, size = _integer(entry.get("start")), _integer(entry.get("size"))
        if start is not None and size is not None and "name" in entry:
            used = _integer(entry.get("used"))
            # the panel counts in units of 1024 bytes
            pools.append(
                IocPool(entry["name"], start, size << 10, None if used is None else used << 10)
            )
    return tuple(pools)


def _amounts(text: str) -> Mapping[str, int]:
    """``FSBL-0x200,Appli-0x800`` or one number for all."""
    found = {}
    for part in text.split(","):
        match = _AMOUNT.fullmatch(part.strip())
        if match:
            found[match[1] or ""] = int(match[2], 16 if match[2].startswith("0x") else 10)
    return found


def _tasks(values: Mapping[str, str]) -> Mapping[str, int]:
    """FreeRTOS tasks: name, priority, stack in words of four bytes, entry, ... for each."""
    found = {}
    for key, value in values.items():
        if re.fullmatch(r"FREERTOS\w*\.Tasks\d+", key):
            for task in value.split(";"):
                fields = task.split(",")
                if len(fields) > 3 and fields[2].isdecimal():
                    found[fields[3].strip() or fields[0]] = 4 * int(fields[2])
    return found


def _interrupts(values: Mapping[str, str]) -> tuple[str, ...]:
    found = []
    for key, value in values.items():
        match = re.fullmatch(r"NVIC\w*\.(\w+_IRQn)", key)
        if match and value.startswith("true"):
            found.append(match[1])
    return tuple(dict.fromkeys(found))
