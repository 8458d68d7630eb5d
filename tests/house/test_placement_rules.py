"""Every placement rule has words in all languages, a row on its page and a test of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.mapping.test_npu import CASES

from npuforge.accelerators.neural_art.placement import RULES, USER_RULE
from npuforge.accelerators.protocol import PlacementKind
from npuforge.messages import LANGUAGES, catalogue

ROOT = Path(__file__).parents[2]
ALL = {rule.code: rule for rule in (*RULES, USER_RULE)}
TESTED_ELSEWHERE = {
    "MAP-npu-resize-mode": "test_other_resize_modes_go_to_the_cpu",
    "MAP-npu-user": "test_user_choice_costs_share",
}


@pytest.mark.parametrize("code", sorted(ALL))
def test_rule_has_words_page_and_test(code: str) -> None:
    leaves = ALL[code].kind not in (PlacementKind.HARDWARE, PlacementKind.VIEW)
    for language in LANGUAGES:
        entry = catalogue(language)[code]
        assert entry["message"]
        assert entry.get("hint") or not leaves
    page = (ROOT / "docs" / "reference" / "placement.md").read_text(encoding="utf-8")
    assert f"\n| {code} |" in page
    if code in TESTED_ELSEWHERE:
        source = (ROOT / "tests" / "mapping" / "test_npu.py").read_text(encoding="utf-8")
        name = TESTED_ELSEWHERE[code]
        body = re.search(rf"def {name}\(.*?(?=\ndef |\Z)", source, re.DOTALL)
        assert body is not None
        assert code in body[0]
    else:
        assert code in CASES


def test_no_words_without_a_rule() -> None:
    known = {code for code in catalogue("en") if code.startswith("MAP-npu-")}
    assert known == set(ALL)
