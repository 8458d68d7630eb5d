"""The message catalogue: every user-facing sentence, keyed by code.

One folder a language, one file a room in it. ``en`` is complete; the other languages have the same
keys and placeholders (a test compares them). The language is taken from ``NPUFORGE_LANG``, else
from ``LC_ALL``, ``LC_MESSAGES`` or ``LANG``.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

LANGUAGES = ("en", "zh")
_FOLDER = Path(__file__).parent


def language() -> str:
    """Two-letter code of the language in use, one of `LANGUAGES`."""
    for variable in ("NPUFORGE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(variable, "")
        if value:
            code = value[:2].lower()
            return code if code in LANGUAGES else "en"
    return "en"


@cache
def catalogue(lang: str) -> Mapping[str, Mapping[str, str]]:
    """All entries of one language by code; a label has a message only, an error a hint too."""
    entries: dict[str, Mapping[str, str]] = {}
    for path in sorted((_FOLDER / lang).glob("*.toml")):
        with path.open("rb") as file:
            entries |= tomllib.load(file)
    return entries


def render(code: str, params: Mapping[str, object]) -> tuple[str, str]:
    """Message and hint of a code with its placeholders filled, in the language in use.

    Raises:
        KeyError: the code, or a value that its message needs, does not exist (a programming error).
    """
    entry = catalogue(language()).get(code) or catalogue("en")[code]
    values = {key: _short(value) for key, value in params.items()}
    return entry["message"].format_map(values), entry.get("hint", "").format_map(values)


def parts(code: str, params: Mapping[str, object]) -> dict[str, str]:
    """Every part of an entry with its placeholders filled, in the language in use.

    Raises:
        KeyError: as for `render`.
    """
    entry = catalogue(language()).get(code) or catalogue("en")[code]
    values = _Shortened(params)
    return {part: words.format_map(values) for part, words in entry.items()}


def text(code: str, **params: object) -> str:
    """The message of a code alone: labels and sentences of reports."""
    return render(code, params)[0]


class _Shortened(dict[str, str]):
    """Values as they go into a sentence; looked up where they are used."""

    def __init__(self, params: Mapping[str, object]) -> None:
        super().__init__()
        self._params = params

    def __missing__(self, key: str) -> str:
        return _short(self._params[key])


def _short(value: object, limit: int = 400) -> str:
    """Values come from files that may be hostile: one line, bounded length."""
    line = " ".join(str(value).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
