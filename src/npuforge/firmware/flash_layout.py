"""What lies where in a board's flash: image, weights, known answers; checked and listed."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from npuforge.errors import PlanError
from npuforge.firmware.network import Network
from npuforge.memory.layout import SystemLayout
from npuforge.memory.writers.link_script import CONSTANTS_REGION, SECTOR, code_room, link_regions


@dataclass(frozen=True)
class FlashPart:
    """A range of the flash.

    Attributes:
        name: what it holds.
        file: file of the project with its contents; "" for what the build makes.
        address: its first address.
        nbytes: bytes it has at most, or exactly where there is a file.
        crc32: of the contents (IEEE 802.3), None where the build makes them.
        sha256: likewise.
    """

    name: str
    file: str
    address: int
    nbytes: int
    crc32: int | None = None
    sha256: str = ""

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.address + self.nbytes


@dataclass(frozen=True)
class FlashLayout:
    """The flash of a board.

    Attributes:
        boot: how the program gets to run.
        runs_at: address of the vector table when it runs.
        header: bytes that the signing tool puts before it.
        sector: bytes that the flash erases at once.
        parts: by address.
    """

    boot: str
    runs_at: int
    header: int
    sector: int
    parts: tuple[FlashPart, ...]

    def part(self, name: str) -> FlashPart:
        """A part by name; KeyError when there is none."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(name)


def flash_layout(layout: SystemLayout, networks: Sequence[Network]) -> FlashLayout:
    """The flash of a layout, checked: nothing overlaps, weights begin on a sector of their own.

    Raises:
        PlanError: the layout would write over something.
    """
    boot = layout.boot
    start, end = code_room(layout)
    at = boot.stored or start - boot.header
    parts = [FlashPart("image", "", at, end - start + boot.header)]
    for region in link_regions(layout):
        if region.name == CONSTANTS_REGION:
            parts.append(FlashPart("known answers", "", region.origin, region.length))
    for network in networks:
        content = network.plan.image.tobytes()
        parts.append(
            FlashPart(
                f"weights of {network.name}",
                f"network/{network.name}_weights.bin",
                network.plan.weights.base,
                len(content),
                zlib.crc32(content),
                hashlib.sha256(content).hexdigest(),
            )
        )
    made = FlashLayout(
        boot.name, start, boot.header, SECTOR, tuple(sorted(parts, key=lambda part: part.address))
    )
    check_flash(made, layout)
    return made


def check_flash(flash: FlashLayout, layout: SystemLayout) -> None:
    """Refuse parts that overlap, leave the flash, or share a sector with the image.

    Raises:
        PlanError: FLS-001 to FLS-003.
    """
    for before, after in zip(flash.parts, flash.parts[1:], strict=False):
        if before.end > after.address:
            raise PlanError(
                "FLS-001", first=before.name, second=after.name, at=f"{after.address:#010x}"
            )
    for part in flash.parts:
        pool = layout.target.pool_at(part.address)
        if pool is None or pool.writable or part.end > pool.end:
            raise PlanError("FLS-002", name=part.name, at=f"{part.address:#010x}")
    first = next((part for part in flash.parts if part.file), None)
    if first is not None and first.address % flash.sector:
        at = f"{first.address:#010x}"
        raise PlanError("FLS-003", name=first.name, at=at, sector=flash.sector)


def manifest(flash: FlashLayout) -> bytes:
    """The layout as a JSON document: addresses, sizes and checksums."""
    parts = []
    for part in flash.parts:
        entry: dict[str, object] = {
            "name": part.name,
            "address": f"{part.address:#010x}",
            "bytes" if part.file else "at_most_bytes": part.nbytes,
        }
        if part.crc32 is not None:
            entry |= {"file": part.file, "crc32": f"{part.crc32:#010x}", "sha256": part.sha256}
        parts.append(entry)
    document = {
        "schema": "npuforge.flash/1",
        "boot": flash.boot,
        "runs_at": f"{flash.runs_at:#010x}",
        "header_bytes": flash.header,
        "sector_bytes": flash.sector,
        "parts": parts,
    }
    return (json.dumps(document, indent=2) + "\n").encode()
