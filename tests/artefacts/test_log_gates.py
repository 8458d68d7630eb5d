"""What is left out for speed could not have matched."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.artefacts.log_text import log_from_text
from npuforge.artefacts.npu_driver_log import _GATES
from npuforge.artefacts.uart_log import _COMPILED

ASCII = st.characters(min_codepoint=32, max_codepoint=126)
TABLE = [(stage.value, words, pattern) for stage, words, pattern in _COMPILED] + [
    (pattern.pattern[:20], tuple(words.split("|")), pattern) for pattern, words in _GATES
]


@pytest.mark.parametrize(("name", "words", "pattern"), TABLE, ids=[row[0] for row in TABLE])
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_every_match_holds_a_literal(
    name: str, words: tuple[str, ...], pattern: re.Pattern[str], data: st.DataObject
) -> None:
    text = data.draw(st.from_regex(pattern, alphabet=ASCII))
    assert log_from_text(text).holds(*words)
