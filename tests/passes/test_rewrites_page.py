"""The figures of the how-to page are those that the benchmark wrote."""

from __future__ import annotations

import json
import re

import pytest
from tests.conftest import ROOT
from tests.passes.patterns import PATTERNS

RESULTS = json.loads((ROOT / "benchmarks/results/rewrites.json").read_text())
PAGE = (ROOT / "docs/how-to/optimize.md").read_text()
ROWS = re.findall(r"^\| `([a-z-]+)`[^|]*\| (?:(\d+) models?)? *\| (\d+) → (\d+) % \|", PAGE, re.M)


def test_every_raising_pass_has_a_row() -> None:
    assert len(ROWS) >= 12
    assert sorted(code for code, *_ in ROWS) == RESULTS["raising"]


@pytest.mark.parametrize(("code", "models", "before", "after"), ROWS, ids=[r[0] for r in ROWS])
def test_a_row_quotes_the_results(code: str, models: str, before: str, after: str) -> None:
    assert int(models or 0) == RESULTS["passes"][code]["raised"]
    shares = {
        (round(float(row[3].rstrip("%"))), round(float(row[4].rstrip("%"))))
        for row in RESULTS["patterns"]
        if row[0] == code
    }
    assert (int(before), int(after)) in shares


def test_the_results_are_of_todays_patterns() -> None:
    assert [row[0] for row in RESULTS["patterns"]] == [pattern.code for pattern in PATTERNS]


def test_the_summary_is_quoted() -> None:
    summary = RESULTS["summary"]
    assert summary["places kept beyond their bound"] == "0"
    assert summary["share lowered in"] == "0"
    for words in (
        f"{float(summary['mean share before'][:-1])} % | {summary['mean share after'][:-1]} %",
        f"{summary['wholly on the NPU before']} | {summary['wholly on the NPU after']}",
        f"{summary['nodes off the NPU before']} | {summary['nodes off the NPU after']}",
        f"rises in {summary['share raised in']} models",
        f"{summary['predicted time, median ratio']} of what it was",
    ):
        assert words in PAGE
