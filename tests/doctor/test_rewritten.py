"""Applications that were not written for the cases: silent when right, named when broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.doctor.rewritten import Fault, applications, copy, faults

from npuforge.doctor import collect, diagnose
from npuforge.vocab import Severity


@pytest.mark.parametrize("base", applications(), ids=lambda base: base.name)
def test_correct_application_is_left_alone(base: Path, tmp_path: Path) -> None:
    copy(base, tmp_path / "app")
    found = diagnose(collect([tmp_path / "app"])).findings
    assert [item.id for item in found if item.severity is not Severity.INFO] == []


@pytest.mark.parametrize(
    "fault", list(faults()), ids=lambda fault: f"{fault.base.name}: {fault.name}"
)
def test_fault_is_named_first_or_second(fault: Fault, tmp_path: Path) -> None:
    seen = [item.id for item in diagnose(collect([fault.build(tmp_path / "app")])).findings]
    assert set(seen[:2]) & set(fault.expect), seen
