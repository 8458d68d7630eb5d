"""The smallest programs: each shows its fault and nothing when it is corrected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.tools import needs_application_board

from npuforge import api
from npuforge.api_board import board_network
from npuforge.boards.application import Application, ApplicationBoard
from npuforge.boards.application_network import BoardNetwork
from npuforge.boards.reproducer import INPUT_BYTES, KINDS, reproducer, single_convolution
from npuforge.exporters import convert
from npuforge.exporters.convert import Format
from npuforge.vocab import DriverFault, MachineProfile

pytestmark = needs_application_board
BOARD = "stm32n6570-dk"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> BoardNetwork:
    path = tmp_path_factory.mktemp("model") / "single_convolution.tflite"
    path.write_bytes(convert(single_convolution(), Format.TFLITE).content)
    return board_network(path, BOARD)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_program_shows_its_fault_and_the_corrected_one_none(
    kind: str, network: BoardNetwork, tmp_path: Path
) -> None:
    assert [b.size for b in network.buffers] == [INPUT_BYTES] * 2
    source = tmp_path / "main.c"
    source.write_text(reproducer(kind), "utf-8")
    shown = {}
    for form in ("", "FIXED"):
        folder = tmp_path / (form or "wrong")
        folder.mkdir()
        application = Application((source,), defines=(form,) if form else ())
        board = ApplicationBoard(application, {"Default": network}, folder, user_buffers=True)
        shown[form] = board.run(4, seconds=10)
    assert kind in {v.kind for v in shown[""].violations}
    assert shown["FIXED"].violations == ()
    assert shown["FIXED"].inferences == 4


def test_every_kind_of_the_page_has_a_program_but_two() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/run-your-application.md").read_text("utf-8")
    rows = re.findall(r"^\| (`.+?) \| .+ \|$", page, re.MULTILINE)
    listed = {kind for row in rows for kind in re.findall(r"`(\w+)`", row)}
    assert listed - KINDS == {"stale_npu_cache", "interrupt_call"}
    assert KINDS - listed == {"speculative_refill"}  # a warning, in the text


def test_a_folder_with_a_program(tmp_path: Path) -> None:
    shown = api.reproduce_violation(tmp_path / "small", BOARD, "lost_write", runs=3)
    assert shown is not None
    assert shown.failures == 3
    readme = (tmp_path / "small/README.md").read_text("utf-8")
    assert f"npuforge stress single_convolution.tflite --target {BOARD}" in readme
    assert "3" in readme.splitlines()[2]
    assert api.reproduce_violation(tmp_path / "none", BOARD, "stale_npu_cache") is None
    assert not (tmp_path / "none").exists()


def test_a_folder_with_a_rate(tmp_path: Path) -> None:
    fault, profile = DriverFault.SCATTERED_PAGES, MachineProfile.LINUX
    shown = api.reproduce_rate(tmp_path / "small", BOARD, profile, fault, 50, 3)
    assert shown.wrong > 0
    assert "--driver-fault scattered_pages" in (tmp_path / "small/README.md").read_text("utf-8")
