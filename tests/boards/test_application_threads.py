"""Applications of several threads: three operating systems' calls, one pipeline, its mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.boards.test_application import network
from tests.tools import needs_application_board

from npuforge.boards.application import Application, ApplicationBoard, ApplicationRun

pytestmark = needs_application_board
SOURCE = Path(__file__).parent / "threads.c"
LINES = SOURCE.read_text("utf-8").splitlines()
SYSTEMS = ("FREERTOS", "CMSIS", "THREADX")

Run = Callable[..., ApplicationRun]


def line(mark: str) -> int:
    found = [i for i, text in enumerate(LINES, 1) if text.endswith(f"/* {mark} */")]
    assert len(found) == 1, mark
    return found[0]


@pytest.fixture(params=SYSTEMS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    built: dict[tuple[str, ...], ApplicationBoard] = {}

    def start(*defines: str, seed: int = 1, seconds: int = 20) -> ApplicationRun:
        if defines not in built:
            macros = (request.param, *defines)
            built[defines] = ApplicationBoard(
                Application((SOURCE,), defines=macros),
                {"Default": network()},
                tmp_path,
                user_buffers=True,
            )
        return built[defines].run(8, seed=seed, seconds=seconds)

    return start


def test_a_sound_pipeline_gives_no_alarm_whatever_the_order(run: Run) -> None:
    orders = set()
    for seed in range(1, 9):
        found = run(seed=seed)
        assert found.violations == ()
        assert found.inferences == 8
        # the eighth result may still be on its way
        assert len(re.findall(r"^\d+$", found.said, re.MULTILINE)) in (7, 8)
        orders.add(found.said)
    assert len(orders) > 1


@pytest.mark.parametrize(
    ("defines", "kind", "cause"),
    [
        ("RESULT_TOO_EARLY", "read_in_flight", "reads"),
        ("NO_INVALIDATE", "missing_invalidate", "reads"),
        ("DEADLOCK", "hang", "infer_waits"),
        ("BLOCKS_IN_INTERRUPT", "interrupt_call", "interrupt"),
    ],
)
def test_each_mistake_is_named_at_its_line(run: Run, defines: str, kind: str, cause: str) -> None:
    for seed in (1, 2, 3):
        kinds = {v.kind: v for v in run(defines, seed=seed).errors}
        assert kind in kinds
        assert kinds[kind].cause.line == line(cause)
        assert kinds[kind].cause.file.endswith("threads.c")


def test_a_run_is_the_same_for_the_same_seed(run: Run) -> None:
    first, second = run("RESULT_TOO_EARLY", seed=5), run("RESULT_TOO_EARLY", seed=5)
    assert first == second
