"""Shared fixtures: example models, measurement data where present, and the hardware guard."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def shared_folder() -> Path | None:
    """The measurement data: NPUFORGE_SHARED, or a folder `shared` beside the checkout."""
    stated = os.environ.get("NPUFORGE_SHARED")
    candidates = [Path(stated)] if stated else [ROOT.parent / "shared"]
    return next((path for path in candidates if (path / "models").is_dir()), None)


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = shared_folder()
    if folder is None:
        pytest.skip("measurement data not present")
    return folder


@pytest.fixture(scope="session")
def example() -> Callable[[str], Path]:
    """Path of an example network by name."""

    def path(name: str) -> Path:
        return EXAMPLES / name / f"{name}.tflite"

    return path


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("-m"):
        return
    skip = pytest.mark.skip(reason="needs a board; run with -m hardware")
    for item in items:
        if "hardware" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def no_ports(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that opens a serial port fails unless the test is marked for hardware."""
    if "hardware" not in request.keywords:
        try:
            import serial
        except ImportError:
            pass
        else:

            def refuse(*args: object, **kwargs: object) -> None:
                raise AssertionError("a test tried to open a serial port")

            monkeypatch.setattr(serial.Serial, "open", refuse)
