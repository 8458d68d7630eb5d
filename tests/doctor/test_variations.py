"""The diagnosis does not hang on names, prefixes, folders, build systems or encodings.

Every case meets one variation here; `benchmarks/doctor_variations.py` runs all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doctor.case_files import Case, cases
from tests.doctor.variations import VARIATIONS, judge

NAMED = {"B16-call", "C12", "D14", "D35"}
"""Cases that only their names tell: a score, a cache helper, a table of base addresses."""
PAIRS = [
    (case, list(VARIATIONS)[(number * 5 + 1) % len(VARIATIONS)])
    for number, case in enumerate(cases())
]


@pytest.mark.parametrize(("case", "name"), PAIRS, ids=[f"{case.id}-{name}" for case, name in PAIRS])
def test_varied_case(case: Case, name: str, tmp_path: Path) -> None:
    if name == "anonymous" and case.id in NAMED:
        name = "names"
    folder = case.build(tmp_path)
    VARIATIONS[name](folder)
    assert judge(case, folder) == ""
