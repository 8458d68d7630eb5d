"""The files of a deployment, recognised and read once."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from npuforge.artefacts.recognise import HEAD, Kind, recognise
from npuforge.artefacts.text import read_bytes, read_text
from npuforge.doctor.findings import Evidence, Unread
from npuforge.errors import NpuforgeError, UsageError

MAX_FILES = 40_000
MAX_SIZE = 256 << 20
_SKIP = {
    ".git", ".svn", ".hg", "node_modules", "__pycache__", ".venv",
    ".metadata", ".history",  # what an IDE remembers: old versions of the sources among it
    "CMakeFiles",
}  # fmt: skip
T = TypeVar("T")


@dataclass(frozen=True)
class Artefact:
    """A recognised file.

    Attributes:
        path: where it is.
        name: how it is shown: relative to the path given by the user, with forward slashes.
        kind: what it is.
        size: bytes.
        given: whether the user named the file itself, not a folder around it.
    """

    path: Path
    name: str
    kind: Kind
    size: int
    given: bool = False

    def at(
        self, line: int | None = None, token: str = "", address: int | None = None, note: str = ""
    ) -> Evidence:
        """Evidence in this file; the token is shortened to one line."""
        quoted = " ".join(token[:1000].split())
        if len(quoted) > 160:
            quoted = quoted[:159] + "…"
        return Evidence(self.name, line, quoted, address, note)


class Project:
    """Artefacts with their parsed forms; each file is read at most once by each reader.

    Readers are functions of the artefact's path and text (or of the path alone for binary files)
    that raise ``NpuforgeError`` or ``OSError`` on files they cannot take; such files are noted and
    left out.
    """

    def __init__(self, artefacts: Iterable[Artefact], skipped: int = 0) -> None:
        self.artefacts = tuple(artefacts)
        self.skipped = skipped
        self.unread: list[Unread] = []
        self._texts: dict[Path, str] = {}
        self._cache: dict[tuple[object, object], object] = {}

    def of(self, *kinds: Kind) -> tuple[Artefact, ...]:
        """Artefacts of some kinds, in the order of their names."""
        return tuple(item for item in self.artefacts if item.kind in kinds)

    def text(self, artefact: Artefact) -> str:
        """Text of a file; empty when it cannot be read."""
        if artefact.path not in self._texts:
            try:
                self._texts[artefact.path] = read_text(artefact.path)
            except OSError as error:
                self.note(artefact, "DOC-002", error)
                self._texts[artefact.path] = ""
        return self._texts[artefact.path]

    def data(self, artefact: Artefact, limit: int = MAX_SIZE) -> bytes:
        """Bytes of a file; empty when it cannot be read."""
        try:
            return read_bytes(artefact.path, limit)
        except OSError as error:
            self.note(artefact, "DOC-002", error)
            return b""

    def once(self, key: object, make: Callable[[], T]) -> T:
        """A value computed at most once for this project."""
        place = (key, None)
        if place not in self._cache:
            self._cache[place] = make()
        return self._cache[place]  # type: ignore[return-value]

    def parsed(
        self, reader: Callable[[Artefact, str], T], *kinds: Kind
    ) -> Iterator[tuple[Artefact, T]]:
        """Parsed text files of some kinds.

        Args:
            reader: takes the artefact and its text; called once for each file.
            kinds: which files.
        """
        for item in self.of(*kinds):
            key = (reader, item.path)
            if key not in self._cache:
                try:
                    self._cache[key] = reader(item, self.text(item))
                except (NpuforgeError, OSError) as error:
                    self.note(item, getattr(error, "code", "DOC-002"), error)
                    self._cache[key] = None
            value = self._cache[key]
            if value is not None:
                yield item, value  # type: ignore[misc]

    def note(self, artefact: Artefact, code: str, error: Exception) -> None:
        """Remember a file that could not be read."""
        self.unread.append(Unread(artefact.name, code, str(error)))

    @property
    def kinds(self) -> tuple[tuple[str, int], ...]:
        """Number of files of each kind, by name."""
        return tuple(sorted(Counter(item.kind.value for item in self.artefacts).items()))


def collect(paths: Iterable[Path | str]) -> Project:
    """Recognise the files under some paths, in any mix of files and folders.

    Symbolic links to folders are not followed, version-control folders are left out, and at most
    `MAX_FILES` files are taken.

    Raises:
        UsageError: DOC-001 when a path does not exist.
    """
    found: dict[Path, Artefact] = {}
    skipped = 0
    for given in map(Path, paths):
        if not given.exists():
            raise UsageError("DOC-001", path=given)
        for path in _files(given):
            if len(found) >= MAX_FILES:
                skipped += 1
                continue
            try:
                size = path.stat().st_size
                head = read_bytes(path, HEAD)
                where = path.resolve()
            except OSError:
                skipped += 1
                continue
            if where not in found:
                shown = path.name if given.is_file() else path.relative_to(given).as_posix()
                kind = recognise(path, head, size)
                found[where] = Artefact(path, shown, kind, size, given.is_file())
    return Project(sorted(found.values(), key=lambda item: item.name), skipped)


def _files(given: Path) -> Iterator[Path]:
    if not given.is_dir():
        if given.is_file():
            yield given
        return
    for folder, folders, names in os.walk(given, followlinks=False):
        folders[:] = sorted(name for name in folders if name not in _SKIP)
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file():
                yield path
