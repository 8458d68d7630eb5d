"""Arrays that a firmware printed over a serial line.

The generated probes print ``nf-dump NAME TYPE COUNT`` followed by lines of hexadecimal bytes and
``nf-end``. Also understood: ``name: 1, 2, 3`` or ``name = [0.1 0.2]`` lines of plain numbers, which
become int32 or float32 arrays.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from npuforge.artefacts.log_text import LogText

Array = npt.NDArray[np.generic]

_TYPES = {
    "int8": np.int8, "uint8": np.uint8, "int16": np.int16, "int32": np.int32, "float32": np.float32,
}  # fmt: skip
MAX_BYTES = 64 << 20
_HEAD = re.compile(r"nf-dump\s+(\S{1,80})\s+(int8|uint8|int16|int32|float32)\s+(\d{1,9})\s*$")
_HEX = re.compile(r"^(?:[0-9a-fA-F]{4,8}:)?((?:[ \t]*[0-9a-fA-F]{2})+)[ \t]*$")
_PLAIN = re.compile(
    r"\b((?:device_)?(?:in|out)put(?:s|_?\d+)?)\s*(?:\[\d*\])?\s*[=:]\s*[\[({]?\s*"
    r"((?:-?[\d.]+(?:e[+-]?\d+)?[\s,]+)+-?[\d.]+(?:e[+-]?\d+)?)\s*[\])}]?\s*$",
    re.IGNORECASE,
)


def read_dumps(log: LogText) -> dict[str, Array]:
    """Arrays of a log by name; dumps of one name with one length are stacked in order.

    A dump that is cut short or damaged is left out.
    """
    found: dict[str, list[Array]] = {}
    name, kind, count, raw = "", "", 0, bytearray()
    for line in log.lines():
        head = _HEAD.search(line.text)
        if head:
            name, kind, count, raw = head.group(1), head.group(2), int(head.group(3)), bytearray()
            continue
        if name and "nf-end" in line.text:
            array = _array(bytes(raw), kind, count)
            if array is not None:
                found.setdefault(name, []).append(array)
            name = ""
        elif name and len(raw) < MAX_BYTES:
            row = _HEX.match(line.text.strip())
            if row:
                raw += bytes.fromhex(row.group(1))
        else:
            plain = _PLAIN.search(line.text)
            if plain:
                found.setdefault(plain.group(1).lower(), []).append(_numbers(plain.group(2)))
    return {key: _stack(arrays) for key, arrays in found.items()}


def _array(raw: bytes, kind: str, count: int) -> Array | None:
    dtype = np.dtype(_TYPES[kind])
    if len(raw) != count * dtype.itemsize or not count:
        return None
    return np.frombuffer(raw, dtype)


def _numbers(text: str) -> Array:
    words = [word for word in re.split(r"[\s,]+", text) if word]
    try:
        if all(re.fullmatch(r"-?\d{1,9}", word) for word in words):
            return np.array([int(word) for word in words], np.int32)
        return np.array([float(word) for word in words], np.float32)
    except ValueError:
        return np.zeros(0, np.float32)


def _stack(arrays: list[Array]) -> Array:
    usable = [array for array in arrays if array.size == arrays[0].size]
    return np.stack(usable) if len(usable) > 1 else usable[0]
