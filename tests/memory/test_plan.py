"""Plans are checked by the verifier, and the verifier finds what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from npuforge.errors import PlanError
from npuforge.importers import load_model
from npuforge.lowering import BufferKind, Schedule, lower
from npuforge.mapping import map_graph
from npuforge.memory import BufferPlace, Plan, plan_memory, verify_plan
from npuforge.memory.linker import linker_script, place_sections
from npuforge.targets import Target, load_target, target_names

NAMES = ["visual_wake_words", "image_classification", "keyword_spotting", "anomaly_detection"]


def planned(path: Path, target: str) -> tuple[Schedule, Plan, Target]:
    board = load_target(target)
    graph = load_model(path)
    schedule = lower(graph, map_graph(graph, board), board)
    return schedule, plan_memory(schedule, board), board


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("name", NAMES)
def test_plans_pass_the_verifier(name: str, target: str, example: Callable[[str], Path]) -> None:
    schedule, plan, board = planned(example(name), target)
    verify_plan(schedule, plan, board)
    assert plan.lower_bound <= plan.activation_bytes
    assert plan.gap >= 0
    assert plan.proved_optimal == (plan.activation_bytes == plan.least)
    assert plan.lower_bound <= plan.least
    assert (plan.spill_gap is None) == (len(plan.regions) == 1)
    assert sum(step.macs for step in schedule.steps) == schedule.macs


def broken(plan: Plan, buffer: str, **change: int) -> Plan:
    return replace(plan, places={**plan.places, buffer: replace(plan.places[buffer], **change)})


def test_verifier_finds_faults(example: Callable[[str], Path]) -> None:
    schedule, plan, board = planned(example("image_classification"), "stm32n6570-dk")
    live = [b.name for b in schedule.activations if b.nbytes > 1000]
    first, second = live[0], live[1]
    constant = schedule.constants[0].name

    def code(changed: Plan, steps: Schedule = schedule) -> str:
        with pytest.raises(PlanError) as caught:
            verify_plan(steps, changed, board)
        assert caught.value.hint
        return caught.value.code

    missing = replace(plan, places={k: v for k, v in plan.places.items() if k != first})
    assert code(missing) == "MEM-010"
    assert code(broken(plan, first, offset=8)) == "MEM-011"
    assert code(broken(plan, first, offset=1 << 28)) == "MEM-013"
    assert code(broken(plan, constant, offset=plan.places[constant].offset + 16)) == "MEM-012"
    other = plan.places[second]
    assert code(replace(plan, places={**plan.places, first: other})) == "MEM-017"
    step = schedule.steps[1]
    grown = replace(step.operands[0], view=replace(step.operands[0].view, h=10**6, y1=10**6))
    steps = [schedule.steps[0], replace(step, operands=(grown, *step.operands[1:]))]
    assert code(plan, replace(schedule, steps=tuple(steps))) == "MEM-014"
    writes = replace(step.operands[1], writes=True)
    steps = [schedule.steps[0], replace(step, operands=(step.operands[0], writes))]
    assert code(plan, replace(schedule, steps=tuple(steps))) == "MEM-015"
    assert code(plan, replace(schedule, steps=schedule.steps[1:])) == "MEM-016"


def test_too_large_for_the_target(example: Callable[[str], Path]) -> None:
    board = load_target("nucleo-n657x0-q")
    small = replace(
        board,
        pools=tuple(
            replace(pool, size=4096) if pool.use == "activations" else pool for pool in board.pools
        ),
    )
    graph = load_model(example("visual_wake_words"))
    with pytest.raises(PlanError) as caught:
        plan_memory(lower(graph, map_graph(graph, small), small), small)
    assert caught.value.code == "MEM-001"
    assert "138240" in caught.value.message
    tiny_flash = replace(
        board,
        pools=tuple(
            replace(pool, size=4096) if pool.use == "weights" else pool for pool in board.pools
        ),
    )
    with pytest.raises(PlanError) as caught:
        plan_memory(lower(graph, map_graph(graph, tiny_flash), tiny_flash), tiny_flash)
    assert caught.value.code == "MEM-002"


def test_linker_script_is_the_plan(example: Callable[[str], Path]) -> None:
    _, plan, _ = planned(example("keyword_spotting"), "stm32n6570-dk")
    machine = load_target("mps3-an547")
    sections = place_sections([("kws", plan)], machine)
    assert [(s.section, s.pool, s.nbytes, s.load) for s in sections] == [
        (".nf_kws_region_0", "SRAM", plan.regions[0].used, False),
        (".nf_kws_weights", "DDR_weights", plan.image.size, True),
    ]
    script = linker_script(sections, machine, "title")
    assert "SRAM (rwx) : ORIGIN = 0x01000000, LENGTH = 0x200000" in script
    assert f"ASSERT(SIZEOF(.nf_kws_region_0) == {plan.regions[0].used:#x}" in script
    two = place_sections([("a", plan), ("b", plan)], machine)
    regions = [s for s in two if not s.load]
    assert regions[1].address >= regions[0].address + regions[0].nbytes


def test_plan_for_the_machine_itself_keeps_its_addresses(example: Callable[[str], Path]) -> None:
    _, plan, board = planned(example("keyword_spotting"), "mps3-an547")
    sections = place_sections([("kws", plan)], board)
    assert sections[0].address == plan.regions[0].base
    assert sections[1].address == plan.weights.base


def test_equal_constants_are_stored_once(example: Callable[[str], Path]) -> None:
    schedule, plan, _ = planned(example("keyword_spotting"), "mps3-an547")
    contents = [b.data.tobytes() for b in schedule.constants if b.data is not None]
    kinds = [str(b.data.dtype) for b in schedule.constants if b.data is not None]
    assert len(set(zip(contents, kinds, strict=True))) == len(contents)
    assert all(
        plan.places[b.name] == BufferPlace(-1, plan.places[b.name].offset)
        for b in schedule.buffers.values()
        if b.kind is BufferKind.CONSTANT
    )


@pytest.mark.parametrize("name", NAMES)
def test_lifetime_rules_of_the_target(name: str, example: Callable[[str], Path]) -> None:
    """Rules of a target change the plan, and each plan fails where the other rules hold."""
    board = load_target("stm32n6570-dk")
    strict = replace(board, keep_inputs=True, reserve_outputs=True)
    graph = load_model(example(name))
    plans = {}
    for target in (board, strict):
        schedule = lower(graph, map_graph(graph, target), target)
        plans[target.keep_inputs] = schedule, plan_memory(schedule, target)
        verify_plan(*plans[target.keep_inputs], target)
    schedule, plan = plans[True]
    held = {b.name for b in schedule.activations if b.held}
    assert held == {schedule.tensors[n].buffer for n in (*schedule.inputs, *schedule.outputs)}
    for a in held:
        for b in (b.name for b in schedule.activations if b.name != a and b.nbytes):
            one, other = plan.address(a), plan.address(b)
            sizes = schedule.buffers[a].nbytes, schedule.buffers[b].nbytes
            assert one + sizes[0] <= other or other + sizes[1] <= one, (a, b)
    assert plan.activation_bytes >= plans[False][1].activation_bytes
    loose = plans[False][1]
    shared = any(
        loose.address(a) < loose.address(b.name) + b.nbytes
        and loose.address(b.name) < loose.address(a) + schedule.buffers[a].nbytes
        for a in held for b in schedule.activations if b.name != a
    )  # fmt: skip
    assert shared
    with pytest.raises(PlanError) as caught:
        verify_plan(plans[False][0], loose, strict)
    assert caught.value.code == "MEM-017"


def test_lines_and_alignment_of_the_target(example: Callable[[str], Path]) -> None:
    """The verifier asks the target, not the schedule that was planned."""
    schedule, plan, board = planned(example("keyword_spotting"), "stm32n6570-dk")
    with pytest.raises(PlanError) as caught:
        verify_plan(schedule, plan, replace(board, buffer_alignment=4096))
    assert caught.value.code == "MEM-011"
    with pytest.raises(PlanError) as caught:
        verify_plan(schedule, plan, replace(board, weight_alignment=1024))
    assert caught.value.code == "MEM-011"
    # nothing may share a line, here of 16 KiB, unless DMA is coherent
    wide = replace(board, cache_line=1 << 14)
    with pytest.raises(PlanError) as caught:
        verify_plan(schedule, plan, wide)
    assert caught.value.code == "MEM-019"
    verify_plan(schedule, plan, replace(wide, coherent_dma=True))


@pytest.mark.parametrize("alignment", [32, 64, 128])
def test_alignment_is_target_data(alignment: int, example: Callable[[str], Path]) -> None:
    board = load_target("stm32n6570-dk")
    board = replace(board, buffer_alignment=alignment, cache_line=alignment)
    graph = load_model(example("image_classification"))
    schedule = lower(graph, map_graph(graph, board), board)
    plan = plan_memory(schedule, board)
    verify_plan(schedule, plan, board)
    assert all(plan.address(b.name) % alignment == 0 for b in schedule.activations)
