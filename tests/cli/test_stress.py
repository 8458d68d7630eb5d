"""`npuforge stress` end to end on a bundled network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tools import needs_gcc
from typer.testing import CliRunner

from npuforge.cli.main import app
from npuforge.errors import UsageError

pytestmark = needs_gcc


def test_stress_verb(example: Callable[[str], Path]) -> None:
    model = str(example("keyword_spotting"))
    command = ["stress", model, "--target", "stm32n6570-dk", "--count", "20"]
    run = CliRunner().invoke(app, [*command, "--faults", "20", "--json"])
    assert run.exit_code == 0, run.output
    document = json.loads(run.stdout)
    assert document["stress"]["failures"] == 0
    assert document["stress"]["high"] > 0.1
    assert {fault["named"] for fault in document["faults"]} == {20}


def test_a_page_fault_needs_pages(example: Callable[[str], Path]) -> None:
    command = ["stress", str(example("keyword_spotting")), "--target", "stm32n6570-dk"]
    with pytest.raises(UsageError, match="BRD-035"):
        CliRunner().invoke(
            app, [*command, "--driver-fault", "scattered_pages"], catch_exceptions=False
        )
