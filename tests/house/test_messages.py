"""The message catalogue: complete, parallel in all languages, and used."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from npuforge.messages import LANGUAGES, catalogue

SOURCE = Path(__file__).parents[2] / "src" / "npuforge"
CODE = re.compile(r"\"([A-Z]{2,5}-\d{2,3})\"")


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def codes_in_source() -> set[str]:
    return {
        code
        for path in SOURCE.rglob("*.py")
        for code in CODE.findall(path.read_text(encoding="utf-8"))
    }


@pytest.mark.parametrize("lang", [lang for lang in LANGUAGES if lang != "en"])
def test_languages_are_parallel(lang: str) -> None:
    english, other = catalogue("en"), catalogue(lang)
    assert set(other) == set(english)
    for code, entry in english.items():
        assert set(entry) == set(other[code]), code
        for part, text in entry.items():
            assert placeholders(other[code][part]) == placeholders(text), f"{code} {part}"


def test_chinese_is_chinese() -> None:
    for code, entry in catalogue("zh").items():
        for part, text in entry.items():
            assert re.search(r"[\u4e00-\u9fff]", text), f"{code} {part} is not translated"


def test_every_error_has_a_hint() -> None:
    for code, entry in catalogue("en").items():
        if re.match(r"[A-Z]+-\d+$", code):
            assert entry.get("hint"), code


def test_codes_are_declared_and_used() -> None:
    used = codes_in_source()
    declared = {code for code in catalogue("en") if re.match(r"[A-Z]+-\d+$", code)}
    assert used - declared == set()
    assert declared - used == set()
