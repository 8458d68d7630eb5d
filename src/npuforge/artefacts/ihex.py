"""Weight images: raw binary and Intel HEX (record types 00 to 05), both ways."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from npuforge.errors import ModelError

MAX_BYTES = 1 << 29


@dataclass(frozen=True)
class Segment:
    """Bytes at an address."""

    address: int
    data: bytes

    @property
    def end(self) -> int:
        """First address behind the bytes."""
        return self.address + len(self.data)


def _refuse(file: str, line: int, reason: str) -> ModelError:
    return ModelError("CMP-002", path=file, line=line, reason=reason)


def _record(text: str, file: str, number: int) -> tuple[int, int, bytes]:
    if not text.startswith(":"):
        raise _refuse(file, number, "no ':'")
    try:
        raw = bytes.fromhex(text[1:])
    except ValueError:
        raise _refuse(file, number, "no hexadecimal digits") from None
    if len(raw) < 5 or raw[0] != len(raw) - 5:
        raise _refuse(file, number, f"length byte and {max(0, len(raw) - 5)} data bytes differ")
    if sum(raw) & 255:
        raise _refuse(file, number, "checksum")
    return raw[3], raw[1] << 8 | raw[2], raw[4:-1]


def read_ihex(content: bytes, file: str = "hex") -> tuple[Segment, ...]:
    """Segments of an Intel HEX file in address order, neighbours joined.

    Raises:
        ModelError: CMP-002 with the line that is wrong, or for overlapping records.
    """
    if len(content) > MAX_BYTES:
        raise _refuse(file, 0, f"{len(content)} bytes")
    base, ended = 0, False
    runs: list[tuple[int, bytearray]] = []
    for number, line in enumerate(content.split(b"\n"), 1):
        text = line.decode("ascii", "replace").strip()
        if not text:
            continue
        if ended:
            raise _refuse(file, number, "record behind the end record")
        kind, offset, data = _record(text, file, number)
        if kind == 0:
            address = base + offset
            if runs and runs[-1][0] + len(runs[-1][1]) == address:
                runs[-1][1].extend(data)
            else:
                runs.append((address, bytearray(data)))
        elif kind == 1:
            ended = True
        elif kind in (2, 4) and len(data) == 2:
            base = int.from_bytes(data, "big") << (4 if kind == 2 else 16)
        elif kind not in (3, 5):
            raise _refuse(file, number, f"record type {kind}")
    if not ended:
        raise _refuse(file, number, "no end record")
    return _joined(runs, file)


def _joined(runs: Iterable[tuple[int, bytes | bytearray]], file: str) -> tuple[Segment, ...]:
    found: list[tuple[int, bytearray]] = []
    for address, data in sorted(runs, key=lambda run: run[0]):
        end = found[-1][0] + len(found[-1][1]) if found else -1
        if address < end:
            raise _refuse(file, 0, f"two records write 0x{address:x}")
        if address == end:
            found[-1][1].extend(data)
        else:
            found.append((address, bytearray(data)))
    return tuple(Segment(address, bytes(data)) for address, data in found if data)


def write_ihex(segments: Iterable[Segment], width: int = 16) -> bytes:
    """Intel HEX text of segments; addresses below 2^32, ``width`` data bytes a record."""
    lines: list[str] = []

    def put(kind: int, offset: int, data: bytes) -> None:
        raw = bytes((len(data), offset >> 8 & 255, offset & 255, kind)) + data
        lines.append(":" + (raw + bytes((-sum(raw) & 255,))).hex().upper())

    high = -1
    for segment in segments:
        at = 0
        while at < len(segment.data):
            address = segment.address + at
            if address >> 16 != high:
                high = address >> 16
                put(4, 0, high.to_bytes(2, "big"))
            count = min(width, len(segment.data) - at, 0x10000 - (address & 0xFFFF))
            put(0, address & 0xFFFF, segment.data[at : at + count])
            at += count
    put(1, 0, b"")
    return "\n".join((*lines, "")).encode()
