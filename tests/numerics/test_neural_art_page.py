"""The explanation page: every example on it gives what it says."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "neural-art.md"


def test_examples_of_the_page() -> None:
    found = doctest.testfile(str(PAGE), module_relative=False)
    assert found.attempted > 20
    assert not found.failed
