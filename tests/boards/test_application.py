"""A user's application on the virtual board: mistakes are named at their lines, sound code not."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.tools import needs_application_board

from npuforge.boards.application import (
    Application,
    ApplicationBoard,
    ApplicationRun,
    FrameFault,
)
from npuforge.boards.application_network import BoardBuffer, BoardNetwork
from npuforge.errors import ToolError

SOURCE = Path(__file__).with_name("application.c")
LINES = SOURCE.read_text("utf-8").splitlines()

pytestmark = needs_application_board


def sums(inputs: Sequence[bytes], size: int = 64) -> list[bytes]:
    """The network: output i is the sum of the input's bytes i, i + 64, … modulo 256."""
    return [bytes(sum(inputs[0][i::size]) % 256 for i in range(size))]


def network(output: int = 64) -> BoardNetwork:
    return BoardNetwork(
        inputs=(BoardBuffer("in", 0x3420_0000, 1000, (1000,), "UINT8"),),
        outputs=(BoardBuffer("out", 0x3420_1000, output, (output,), "UINT8"),),
        scratch=((0x3420_2000, 0x3420_4000),),
        memories=(("npuRAM3", 0x3420_0000, 0x3420_8000),),
        run=lambda data: sums(data, output),
    )


Run = Callable[..., ApplicationRun]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    built: dict[tuple[object, ...], ApplicationBoard] = {}

    def start(
        *defines: str,
        net: BoardNetwork | None = None,
        frames: Sequence[FrameFault] = (),
        uncached: tuple[str, ...] = (),
        coupled: tuple[str, ...] = (),
        seconds: int = 30,
        seed: int = 1,
        count: int = 8,
    ) -> ApplicationRun:
        used = net or network()
        macros = (*defines, f"OUTPUT={used.outputs[0].size}")
        key = (macros, used.inputs, used.outputs, uncached, coupled)
        if key not in built:
            built[key] = ApplicationBoard(
                Application((SOURCE,), defines=macros, uncached=uncached, coupled=coupled),
                {"Default": used},
                tmp_path,
                user_buffers="USER" in defines,
            )
        return built[key].run(count, seed=seed, frames=frames, seconds=seconds)

    return start


def line(mark: str) -> int:
    """Number of the line that ends with a comment holding the mark."""
    found = [
        i for i, text in enumerate(LINES, 1) if re.search(rf"/\*[^*]*\b{mark}\b[^*]*\*/$", text)
    ]
    assert len(found) == 1, mark
    return found[0]


def wanted(frames: int) -> list[str]:
    """What the application prints when every number is right."""
    data = [bytes((i * 7 + n) % 256 for i in range(1000)) for n in range(frames)]
    return [str(sum(sums([raw])[0])) for raw in data]


SOUND = {
    "clean, run, invalidate": (),
    "ranges by first and end address": ("RANGES",),
    "one call for the whole life cycle": ("MAIN",),
    "invalidate after post-processing": ("AFTER",),
    "post-processing in place, then invalidate": ("AFTER", "IN_PLACE"),
    "callback of the network": ("CALLBACK",),
    "cycle counter, serial line, interface by pointers": ("MEASURE",),
    "CACHEAXI enabled in a loop": ("NPU_CACHE", "CACHEAXI_BUSY"),
    "invalidate before the run": ("BEFORE_ONLY",),
    "buffers of the application": ("USER",),
    "buffer from the heap, aligned": ("USER", "HEAP"),
    "banks clocked in order": ("CLOCKS",),
    "banks left to other code": ("NPU_CLOCK",),
    "banks woken by register": ("CLOCKS", "RAMCFG_REGISTER"),
    "NPU cache maintained": ("NPU_CACHE", "NPU_CACHE_KEPT"),
}


@pytest.mark.parametrize("defines", SOUND.values(), ids=SOUND.keys())
def test_sound_code_gives_no_alarm(run: Run, defines: tuple[str, ...]) -> None:
    net = network()
    cached = dataclasses.replace(net.inputs[0], in_npu_cache="NPU_CACHE" in defines)
    found = run(*defines, net=dataclasses.replace(net, inputs=(cached,)))
    assert found.errors == ()
    assert found.inferences == 8
    if not {"AFTER", "BEFORE_ONLY"} & set(defines):  # a refill may bring old bytes there
        assert found.violations == ()
        assert found.said.split() == wanted(8)


def test_an_invalidate_before_the_run_only_is_a_risk(run: Run) -> None:
    found = run("BEFORE_ONLY")
    assert {v.kind for v in found.violations} == {"speculative_refill"}
    assert found.violations[0].cause.line == line("missing_invalidate")


@dataclasses.dataclass(frozen=True)
class Mistake:
    """Macros of a build; the kind it must be reported as; marks of cause and effect; the buffer."""

    defines: tuple[str, ...]
    kind: str
    cause: str = ""
    effect: str = ""
    written: str = ""
    buffer: str = ""


MISTAKES = [
    Mistake(("NO_CLEAN",), "missing_clean", "missing_clean", "run", buffer="in"),
    Mistake(("NO_INVALIDATE",), "missing_invalidate", "missing_invalidate", "run", buffer="out"),
    Mistake(("LOST",), "lost_write", "lost", "run", "modify", buffer="in"),
    Mistake(("USER", "MISALIGNED"), "misaligned", "bind", buffer="plain+4"),
    Mistake(("USER", "STACK"), "stack_buffer", "run"),
    Mistake(("USER", "HEAP", "FREE_IN_FLIGHT"), "freed", "freed"),
    Mistake(("USER", "TIGHTLY_COUPLED"), "unreachable", "run"),
    Mistake(("WRITE_IN_FLIGHT",), "write_in_flight", "in_flight", "run", buffer="in"),
    Mistake(("SET_ALLOCATED",), "not_bound", "bind_allocated"),
    Mistake(("SIZE_FOR_END",), "end_not_size", "size", buffer="in"),
    Mistake(("NO_RESET",), "not_reset", "run"),
    Mistake(("RESET_IN_FLIGHT",), "reset_in_flight", "reset", "run"),
    Mistake(("USER", "NOT_BOUND"), "not_bound", "run"),
    Mistake(("NO_RUNTIME",), "not_initialised", "run"),
    Mistake(("NO_RUNTIME",), "hang"),
    Mistake(("CLOCKS", "RAMCFG_LATE"), "unclocked_bank", "run"),
    Mistake(("NPU_CACHE",), "stale_npu_cache", "run", buffer="in"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.kind)
def test_each_mistake_is_named_at_its_line(run: Run, mistake: Mistake) -> None:
    net = network()
    if "NPU_CACHE" in mistake.defines:
        net = dataclasses.replace(
            net, inputs=(dataclasses.replace(net.inputs[0], in_npu_cache=True),)
        )
    for seed in (1, 2):
        errors = run(*mistake.defines, net=net, seed=seed).errors
        found = [v for v in errors if v.kind == mistake.kind]
        assert found, mistake.kind
        first = found[0]
        marks = (mistake.cause, mistake.effect, mistake.written)
        for place, mark in zip((first.cause, first.effect, first.written), marks, strict=True):
            if mark:
                assert place.file.endswith("application.c")
                assert place.line == line(mark), f"{place}"
        if mistake.buffer:
            assert first.buffer == mistake.buffer
            assert mistake.buffer in first.message
        for place in (first.cause, first.effect, first.written):
            assert not re.search(r"\{|\}", first.message + first.hint)
            assert place.file.endswith("application.c") or not place.file


@pytest.mark.parametrize(
    ("section", "reached"),
    [(".dtcm", False), (".RAM_DTCM", False), (".itcm_data", False), (".tcmalloc", True)],
)
def test_buffers_in_tightly_coupled_memory_are_found_by_their_section(
    run: Run, section: str, reached: bool
) -> None:
    found = run("USER", f'IN_SECTION="{section}"')
    assert {v.kind for v in found.errors} == (set() if reached else {"unreachable"})
    for v in found.errors:
        assert v.buffer.startswith("apart")


def test_a_section_said_to_be_tightly_coupled(run: Run) -> None:
    defines = ("USER", 'IN_SECTION=".fast"', "NO_CLEAN")
    assert {v.kind for v in run(*defines).errors} == {"missing_clean"}
    # no cache holds it: what was not cleaned is not missing
    assert {v.kind for v in run(*defines, coupled=(".fast",)).errors} == {"unreachable"}


def test_the_missing_call_is_named(run: Run) -> None:
    assert "SCB_CleanDCache_by_Addr(in, 1000)" in run("LOST").errors[0].hint


def test_a_neighbour_in_the_results_line_is_lost(run: Run) -> None:
    found = run("USER", "SHARED_LINE", net=network(48))
    kinds = {v.kind: v for v in found.errors}
    assert "dirty_over_result" in kinds
    assert kinds["dirty_over_result"].written.line == line("neighbour")


def test_an_endless_loop_ends_with_its_place(run: Run) -> None:
    found = run("ENDLESS", seconds=2)
    assert [v.kind for v in found.errors] == ["hang"]
    assert found.errors[0].cause.line == line("endless")


def test_output_of_the_drivers_cpu_code_needs_no_invalidate(run: Run) -> None:
    net = network()
    net = dataclasses.replace(net, outputs=(dataclasses.replace(net.outputs[0], by_cpu=True),))
    found = run("NO_INVALIDATE", net=net)
    assert found.violations == ()
    assert found.said.split() == wanted(8)


def test_an_output_over_a_cleaned_input_is_stale(run: Run) -> None:
    """A clean leaves valid lines, and the result that the NPU writes there is behind them."""
    net = network()
    over = dataclasses.replace(net.outputs[0], address=net.inputs[0].address)
    found = run("NO_INVALIDATE", net=dataclasses.replace(net, outputs=(over,)))
    assert [v.kind for v in found.errors] == ["missing_invalidate"]
    assert [v.kind for v in run(net=dataclasses.replace(net, outputs=(over,))).errors] == []


# -- frames


def test_two_frame_buffers_in_turn_are_sound(run: Run) -> None:
    found = run("USER", "CAMERA=2")
    assert found.errors == ()


def test_one_frame_buffer_is_overwritten_under_the_npu(run: Run) -> None:
    kinds = {v.kind: v for v in run("USER", "CAMERA=1").errors}
    assert "dma_overlap" in kinds
    assert kinds["dma_overlap"].cause.line == line("run")
    assert kinds["dma_overlap"].effect.line == line("camera")


def test_a_torn_frame_is_found_where_it_is_used(run: Run) -> None:
    found = list(run("USER", "CAMERA=2", frames=[FrameFault.TORN], count=40).errors)
    assert [v.kind for v in found if v.kind == "torn_frame"]
    assert next(v for v in found if v.kind == "torn_frame").cause.line == line("run")


def test_an_application_that_does_not_wait_repeats_late_frames(run: Run) -> None:
    kinds = {v.kind for v in run("USER", "CAMERA=2", "NO_WAIT", frames=[FrameFault.LATE]).errors}
    assert "repeated_frame" in kinds


def test_frames_that_nobody_takes_are_dropped(run: Run) -> None:
    kinds = {v.kind for v in run("USER", "CAMERA=2", "SLOW").violations}
    assert "dropped_frame" in kinds


def test_what_does_not_compile_is_an_error(tmp_path: Path) -> None:
    bad = tmp_path / "bad.c"
    bad.write_text("int main(void) { return missing; }\n", "utf-8")
    with pytest.raises(ToolError, match="BRD-030") as caught:
        ApplicationBoard(Application((bad,)), {"Default": network()}, tmp_path)
    assert "missing" in str(caught.value.detail)
