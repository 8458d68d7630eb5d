"""Weight images of a compiled network: which files hold them, and at which addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from npuforge.artefacts.ihex import Segment, read_ihex
from npuforge.artefacts.network_c import NetworkCode, read_word_arrays
from npuforge.errors import ModelError, UsageError

_NAMED = re.compile(r"(?:^|_)atonbuf\.(\w+)\.(raw|bin|hex|c)$")
_KINDS = (".raw", ".bin", ".hex", ".c")
"""Forms of the same image, the most direct first."""
_FOLDERS = 4
"""Folders above the code that may hold the images: CubeMX puts them beside the project file."""


def file_bytes(path: Path) -> bytes:
    """What is in a file of a compiled network. Raises ATN-009."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError("ATN-009", path=path, reason=error.strerror or str(error)) from None


def images_of(path: Path, code: NetworkCode, given: Sequence[Path]) -> tuple[Segment, ...]:
    """The constants of generated code; empty when no image is found.

    Args:
        path: of the code.
        code: read from it.
        given: images to take; without any they are looked for beside the code and above it.

    Raises:
        ModelError: CMP-004 an image that belongs to no pool of the code, CMP-002 or CMP-003 one
            that does not parse.
        UsageError: ATN-009 an image that cannot be read.
    """
    found: list[Segment] = []
    for item in given or _near(path):
        for segment in _segments(item, code):
            if segment not in found:
                found.append(segment)
    return tuple(found)


def _segments(path: Path, code: NetworkCode) -> Iterator[Segment]:
    if path.suffix == ".hex":
        yield from read_ihex(file_bytes(path), path.name)
        return
    named = _NAMED.search(path.name)
    pools = [pool for pool in code.pools if not pool.virtual]
    if named:
        places = [pool.address for pool in pools if pool.file == named[1]]
    else:
        places = [pool.address for pool in pools if not pool.writable and pool.size]
    if len(places) != 1:
        raise ModelError("CMP-004", path=path, reason="no pool of the code has that name")
    data = file_bytes(path)
    if path.suffix == ".c":
        arrays = read_word_arrays(data, path.name)
        if len(arrays) != 1:
            raise ModelError("CMP-004", path=path, reason=f"{len(arrays)} arrays of words")
        (data,) = arrays.values()
    if data:
        yield Segment(places[0], data)


def _near(path: Path) -> list[Path]:
    """Images of a source file: named like it, or in its folder for the only network there."""
    stem, folder = path.stem, path.resolve().parent
    own = _best(item for item in _files(folder) if _own(item, stem))
    if own:
        return own
    others = [item for item in _files(folder) if item.suffix == ".c" and item.stem != stem]
    if not any(_beginning(item.name) in _stems(others) for item in _files(folder)):
        loose = [item for item in _files(folder) if item.name.startswith("atonbuf.")]
        loose = loose or [item for item in _files(folder) if item.suffix == ".hex"]
        if found := _best(loose):
            return found
    for above in list(folder.parents)[:_FOLDERS]:
        if own := _best(item for item in _files(above) if _own(item, stem)):
            return own
    return []


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(item for item in folder.iterdir() if item.is_file())
    except OSError:
        return []


def _own(path: Path, stem: str) -> bool:
    if not path.name.startswith(f"{stem}_"):
        return False
    return bool(_NAMED.search(path.name)) or path.suffix == ".hex"


def _beginning(name: str) -> str:
    return re.split(r"_atonbuf\.|_data\.hex|_weights\.hex", name)[0]


def _stems(paths: Sequence[Path]) -> set[str]:
    return {path.stem for path in paths}


def _best(paths: Iterator[Path] | Sequence[Path]) -> list[Path]:
    """One file for each pool, else one whole image without a pool's name."""
    pools: dict[str, list[Path]] = {}
    whole: list[Path] = []
    for path in paths:
        named = _NAMED.search(path.name)
        if named and path.stat().st_size:
            pools.setdefault(named[1], []).append(path)
        elif path.suffix == ".hex":
            whole.append(path)
    if pools:
        return [min(same, key=lambda p: _KINDS.index(p.suffix)) for same in pools.values()]
    return whole[:1]
