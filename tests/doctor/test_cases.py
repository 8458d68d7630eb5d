"""Every reproduced case gives the right finding first or second; correct code gives none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.doctor.case_files import BASE, Case, cases

from npuforge.doctor import RULES, collect, diagnose
from npuforge.vocab import Severity


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_case(case: Case, tmp_path: Path) -> None:
    assert set(case.expect) <= set(RULES)
    diagnosis = diagnose(collect([case.build(tmp_path)]))
    seen = [finding.id for finding in diagnosis.findings]
    if not case.expect:
        bad = [f.id for f in diagnosis.findings if f.severity is not Severity.INFO]
        assert bad == []
        return
    assert set(seen[:2]) & set(case.expect), seen
    for finding in diagnosis.findings:
        assert finding.words.message
        assert finding.evidence[0].file


def test_base_is_correct(tmp_path: Path) -> None:
    for path in BASE.iterdir():
        shutil.copyfile(path, tmp_path / path.name)
    assert [finding.id for finding in diagnose(collect([tmp_path])).findings] == []
