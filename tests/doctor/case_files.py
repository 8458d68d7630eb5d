"""Published problem cases, reproduced by small files of our own.

A case is a folder under ``cases/`` with an ``expect.toml``:

* ``title``: one line;
* ``expect``: finding ids of which one must be first or second in the diagnosis, or
  ``correct = true`` for correct code, which must give no error and no warning;
* ``base``: start from the files of ``_base``, a correct application (false when absent);
* ``remove``: names of base files that the case does not have;
* ``[[copy]]`` tables with ``file`` and ``of``: another copy of a base file, before the edits;
* ``[[blob]]`` tables with ``file``, ``size`` and optionally ``head``, hexadecimal first bytes:
  binary files that would be large to keep, filled with zeros;
* ``[[model]]`` tables with ``file`` and ``of``: an ONNX model of ``model_cases``;
* ``[[edit]]`` tables with ``file``, ``old``, ``new``: changes to the base, each must apply.

All other files of the folder are put on top.
"""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.doctor.model_cases import write_model

CASES = Path(__file__).parent / "cases"
BASE = CASES / "_base"


@dataclass(frozen=True)
class Case:
    """One reproduction.

    Attributes:
        id: case id of the catalogue; a letter behind a dash tells variants apart.
        title: one line.
        expect: finding ids of which one must come first or second; empty for correct code.
        folder: where it is.
        recipe: the whole ``expect.toml``.
    """

    id: str
    title: str
    expect: tuple[str, ...]
    folder: Path
    recipe: dict[str, Any]

    @property
    def case(self) -> str:
        """Id in the catalogue."""
        return self.id.split("-")[0]

    def build(self, target: Path) -> Path:
        """Write the case's files into an empty folder and return it."""
        if self.recipe.get("base"):
            gone = set(self.recipe.get("remove", ()))
            for path in BASE.iterdir():
                if path.name not in gone:
                    shutil.copyfile(path, target / path.name)
        for copy in self.recipe.get("copy", ()):
            shutil.copyfile(BASE / copy["of"], target / copy["file"])
        for edit in self.recipe.get("edit", ()):
            path = target / edit["file"]
            text = path.read_text(encoding="utf-8")
            assert edit["old"] in text, f"{self.id}: {edit['old']!r} is not in {edit['file']}"
            path.write_text(text.replace(edit["old"], edit["new"]), encoding="utf-8")
        for blob in self.recipe.get("blob", ()):
            head = bytes.fromhex(blob.get("head", ""))
            _folder_of(target / blob["file"]).write_bytes(head.ljust(blob["size"], b"\0"))
        for model in self.recipe.get("model", ()):
            write_model(model["of"], _folder_of(target / model["file"]))
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path.name != "expect.toml":
                place = target / path.relative_to(self.folder)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)
        return target


def _folder_of(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def cases() -> list[Case]:
    """All reproductions by id."""
    found = []
    for folder in sorted(CASES.iterdir()):
        recipe = folder / "expect.toml"
        if recipe.is_file():
            data = tomllib.loads(recipe.read_text(encoding="utf-8"))
            if data.get("correct") is not True and not data.get("expect"):
                raise ValueError(f"{folder.name}: neither expect nor correct")
            found.append(
                Case(folder.name, data["title"], tuple(data.get("expect", ())), folder, data)
            )
    return found
