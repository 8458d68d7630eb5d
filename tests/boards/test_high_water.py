"""Reading what the tool chain prints about a program."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from npuforge.boards import high_water
from npuforge.boards.toolchain import Toolchain
from npuforge.errors import ToolError

GOOD = "   text\t   data\t    bss\n  100\t  20\t  3\t 123\t 7b\tx.elf\n"


def answer(monkeypatch: pytest.MonkeyPatch, code: int, text: str) -> tuple[int, int, int]:
    done = SimpleNamespace(returncode=code, stdout=text, stderr="said")
    monkeypatch.setattr(high_water, "run_tool", lambda *_: done)
    return high_water.printed_sizes(Path("x.elf"), Toolchain("arm-none-eabi-gcc", "", "", "", ()))


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, 0, GOOD) == (100, 20, 3)


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, ""), (0, "text data bss\n"), (0, "a\nb c\n"), (0, "a\nx y z\n"), (1, GOOD)],
)
def test_anything_else_is_an_error_of_the_tool(
    code: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ToolError):
        answer(monkeypatch, code, text)
