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
_PLACES = ("Binary", "Binaries", "Bin", "Model", "Models", "st_ai_output", "stedgeai_out", "Output")
"""Folders in which projects keep what is to be flashed."""
_SPARE = 64
"""Bytes an image may be longer than the constants in it: prefetched, or padding."""
_LARGEST = 1 << 28
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
    if given or not _lacking(code, found):
        return tuple(found)
    return _fitting(path, code) or tuple(found)


def _lacking(code: NetworkCode, images: Sequence[Segment]) -> bool:
    """Whether a constant lies in none of the images."""
    return any(
        not any(i.address <= b.address and b.address + b.size <= i.end for i in images)
        for b in code.buffers
        if b.parameter
    )


def _fitting(path: Path, code: NetworkCode) -> tuple[Segment, ...]:
    """An image under another name: the file that is as long as the constants of the code.

    Projects rename images. A raw one is taken when its length is that of the constants, an Intel
    HEX file when it covers them and nothing beyond; several with different content are none.
    """
    constants = [b for b in code.buffers if b.parameter]
    pools = [p for p in code.pools if not p.virtual and not p.writable and p.size]
    homes = [
        p for p in pools if any(p.address <= b.address < p.address + p.size for b in constants)
    ]
    if len(homes) != 1 or any(not homes[0].address <= b.address for b in constants):
        return ()
    start = homes[0].address
    length = max(b.address + b.size for b in constants) - start
    found: set[Segment] = set()
    for item in _anywhere(path):
        size = item.stat().st_size
        if item.suffix == ".hex" and 2 * length < size < _LARGEST:
            try:
                segments = read_ihex(file_bytes(item), item.name)
            except ModelError:
                continue
            if len(segments) == 1 and segments[0].address == start:
                found |= {segments[0]} if 0 <= len(segments[0].data) - length <= _SPARE else set()
        elif item.suffix in (".bin", ".raw") and 0 <= size - length <= _SPARE:
            found.add(Segment(start, file_bytes(item)))
    bodies = {segment.data[:length] for segment in found}
    return (min(found, key=lambda s: len(s.data)),) if len(bodies) == 1 else ()


def _anywhere(path: Path) -> Iterator[Path]:
    """Files beside the code, in the folders above it, and where projects keep images there."""
    folder = path.resolve().parent
    for place in (folder, *list(folder.parents)[:_FOLDERS]):
        for inner in (place, *(place / name for name in _PLACES)):
            yield from _files(inner)


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
    """One file for each pool, else one whole image without a pool's name; empty files are none."""
    pools: dict[str, list[Path]] = {}
    whole: list[Path] = []
    for path in paths:
        if not path.stat().st_size:
            continue
        named = _NAMED.search(path.name)
        if named:
            pools.setdefault(named[1], []).append(path)
        elif path.suffix == ".hex":
            whole.append(path)
    if pools:
        return [min(same, key=lambda p: _KINDS.index(p.suffix)) for same in pools.values()]
    return whole[:1]
