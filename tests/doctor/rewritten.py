"""Whole applications in other hands, and what someone breaks in them by mistake.

A folder under ``rewritten/`` is a correct application written without looking at the cases: another
kernel, another interface of the runtime, other names, wrappers and folders. Its ``faults.toml``
says where the generated network lies and its name there (``network``; the code is the cases' own),
and lists faults: ``name``, ``expect`` (ids of which one must be first or second) and ``edits``
(file, old text, new text; each must apply).
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "rewritten"
NETWORK = Path(__file__).parent / "cases" / "_base" / "network.c"


@dataclass(frozen=True)
class Fault:
    """One mistake in one application.

    Attributes:
        base: folder of the application.
        name: one line.
        expect: finding ids of which one must come first or second.
        edits: file, old text and new text of each change.
    """

    base: Path
    name: str
    expect: tuple[str, ...]
    edits: tuple[tuple[str, str, str], ...]

    def build(self, target: Path) -> Path:
        """Write the broken application into a new folder and return it."""
        copy(self.base, target)
        for file, old, new in self.edits:
            path = target / file
            text = path.read_text(encoding="utf-8")
            assert old in text, f"{self.name}: {old!r} is not in {file}"
            path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return target


def applications() -> list[Path]:
    """Folders of the applications."""
    return sorted(path for path in FOLDER.iterdir() if path.is_dir())


def copy(base: Path, target: Path) -> None:
    """The correct application in a new folder."""
    shutil.copytree(base, target, ignore=shutil.ignore_patterns("faults.toml"))
    place, name = tomllib.loads((base / "faults.toml").read_text(encoding="utf-8"))["network"]
    code = NETWORK.read_text(encoding="utf-8").replace("_Default", f"_{name}")
    (target / place).parent.mkdir(exist_ok=True)
    (target / place).write_text(code, encoding="utf-8")


def faults() -> Iterator[Fault]:
    """Every fault of every application."""
    for base in applications():
        for row in tomllib.loads((base / "faults.toml").read_text(encoding="utf-8"))["fault"]:
            edits = tuple((file, old, new) for file, old, new in row["edits"])
            yield Fault(base, row["name"], tuple(row["expect"]), edits)
