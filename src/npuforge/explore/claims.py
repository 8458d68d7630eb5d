"""Files that describe memory, read into claims by their own readers."""

from __future__ import annotations

from pathlib import Path

from npuforge.artefacts.c_info import read_c_info
from npuforge.artefacts.elf import read_elf, read_map
from npuforge.artefacts.linker_script import read_linker_script
from npuforge.artefacts.mpool import read_mpool
from npuforge.artefacts.recognise import HEAD, Kind, recognise
from npuforge.artefacts.text import decode
from npuforge.errors import UsageError
from npuforge.explore.system import plan_description
from npuforge.memory.check import (
    FileClaims,
    image_claims,
    layout_claims,
    pool_claims,
    protection_claims,
    report_claims,
    script_claims,
)
from npuforge.memory.system import read_system
from npuforge.memory.writers.mpu import read_mpu_source


def read_claims(path: Path) -> FileClaims:
    """What a file says about memory.

    Takes linker scripts, ELF files, linker maps, ``.mpool`` files, ``c_info.json`` reports,
    generated memory protection tables, and system descriptions.

    Raises:
        NpuforgeError: the file cannot be read, or is of another kind (SYS-050).
    """
    if path.suffix == ".toml":
        return layout_claims(plan_description(read_system(path)), path.name)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError("SYS-003", path=path, reason=error.strerror) from None
    kind = recognise(path, data[:HEAD], len(data))
    if kind is Kind.ELF:
        return image_claims(read_elf(data, path.name), path.name)
    if kind is Kind.MPOOL:
        return pool_claims(read_mpool(data, path.name), path.name)
    if kind is Kind.C_INFO:
        return report_claims(read_c_info(data, path.name), path.name)
    text = decode(data)
    if kind is Kind.LINKER_SCRIPT:
        return script_claims(read_linker_script(text), path.name)
    if kind is Kind.MAP:
        return image_claims(read_map(text), path.name)
    if kind is Kind.C_SOURCE and "nf_mpu_regions" in text:
        return protection_claims(read_mpu_source(text, path.name), path.name)
    raise UsageError("SYS-050", path=path, kind=kind)
