"""Signed boot images of STM32N6: the header in front of the program.

Two layouts are met in published images of ST's signing tool: header 2.3 with version at 0x68,
length 0x6C and entry point 0x70, and header 2.1 with the three words at 0x48. With the alignment
option the program starts at 0x400; in 28 published images the entry point then equals the reset
vector at 0x404.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from npuforge.errors import ModelError

PAYLOAD = 0x400


@dataclass(frozen=True)
class BootImage:
    """Header of an image.

    Attributes:
        version: header version word.
        length: bytes of the program behind the header.
        entry: entry point.
        reset: second word of the vector table at `PAYLOAD`, or ``None`` in a short file.
        size: bytes of the file.
    """

    version: int
    length: int
    entry: int
    reset: int | None
    size: int

    @property
    def aligned(self) -> bool:
        """Whether the vector table lies at `PAYLOAD` and names the header's entry point."""
        return self.reset is not None and self.reset | 1 == self.entry | 1


def read_boot_image(data: bytes, file: str = "image") -> BootImage:
    """Read a header. Raises ``ModelError`` DOC-004 when the file is shorter than one."""
    if len(data) < 0x74 or not data.startswith(b"STM2"):
        raise ModelError("DOC-004", file=file, reason="no STM2 header")
    old = struct.unpack_from("<I", data, 0x48)[0] >> 16 == 2
    version, length, entry = struct.unpack_from("<III", data, 0x48 if old else 0x68)
    if version >> 16 != 2:
        raise ModelError("DOC-004", file=file, reason=f"header version {version:#010x}")
    reset = struct.unpack_from("<I", data, PAYLOAD + 4)[0] if len(data) >= PAYLOAD + 8 else None
    return BootImage(version, length, entry, reset, len(data))
