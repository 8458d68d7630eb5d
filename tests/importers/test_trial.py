"""The harness of the fuzz tests sees what it is there to see."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.importers import trial

from npuforge import importers
from npuforge.errors import ModelError


def test_hang_is_no_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that takes every exception for damage does not hide that it hangs."""

    def slow(path: Path) -> None:
        try:
            while True:
                pass
        except Exception as error:
            raise ModelError("IMP-004", path=path, reason=str(error)) from None

    monkeypatch.setattr(importers, "load_model", slow)
    monkeypatch.setattr(trial, "SECONDS_A_FILE", 1)
    monkeypatch.setattr(trial, "kinds", lambda: {"same": (bytes, lambda content, rng: content)})
    source = tmp_path / "a.tflite"
    source.write_bytes(b"TFL3")
    outcome = trial.trial("same", [source], 1, 0, tmp_path, 1)
    assert outcome.errors == 0
    assert len(outcome.wrong) == 1
    assert "Hang" in outcome.wrong[0]
