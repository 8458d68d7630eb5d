"""The system description: fields, pipelines, layouts that the verifier passes and refuses."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools import needs_compiler

from npuforge import api
from npuforge.errors import PlanError, UsageError
from npuforge.explore.system import plan_description
from npuforge.importers import load_model
from npuforge.lowering import BufferKind, lower
from npuforge.mapping import map_graph
from npuforge.memory.layout import budget, layout_ledger, layout_system
from npuforge.memory.linker import linker_script
from npuforge.memory.stages import Pipeline, Stage
from npuforge.memory.system import Account, SystemDescription, parse_system, read_system
from npuforge.memory.verify_system import verify_layout
from npuforge.memory.writers.files import layout_files
from npuforge.targets import Target, load_target

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "camera_classifier" / "system.toml"
BASE: dict[str, Any] = {"schema": 1, "target": "stm32n6570-dk"}


def refused(document: dict[str, Any]) -> str:
    with pytest.raises(UsageError) as caught:
        parse_system(document, Path("s.toml"))
    assert caught.value.code == "SYS-002"
    return caught.value.message


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"target": "x"}, "schema: missing"),
        ({"schema": 2, "target": "x"}, "schema: this version reads schema 1"),
        ({"schema": 1}, "target: missing"),
        ({**BASE, "taks": []}, "taks: unknown field"),
        ({**BASE, "tasks": [{"name": "a"}]}, "tasks[0].stack: missing"),
        ({**BASE, "tasks": [{"name": "a", "stack": "2 KB!"}]}, "tasks[0].stack: bytes expected"),
        ({**BASE, "tasks": [{"name": "a", "stack": "0.3 KiB"}]}, "tasks[0].stack: bytes expected"),
        ({**BASE, "tasks": [{"name": "a", "stack": -1}]}, "tasks[0].stack: bytes expected"),
        ({**BASE, "tasks": [{"name": "a", "stack": True}]}, "tasks[0].stack: bytes expected"),
        ({**BASE, "tasks": {"name": "a"}}, "tasks: write [[tasks]]"),
        ({**BASE, "tasks": [{"name": "a*/", "stack": 1}]}, "tasks[0].name: letters"),
        ({**BASE, "policy": {"reserve": 20}}, "policy.reserve: a share from 0 to 1"),
        ({**BASE, "policy": {"dma_alignment": 48}}, "policy.dma_alignment: a power of two"),
        ({**BASE, "policy": 3}, "policy: table expected"),
        ({**BASE, "frames": [{"name": "f", "width": 4, "height": 4}]}, "frames[0].format: missing"),
        (
            {**BASE, "frames": [{"name": "f", "width": 4, "height": 4, "format": "bayer"}]},
            "frames[0].format: bayer is none of grey8",
        ),
        (
            {**BASE, "frames": [{"name": "f", "width": 0, "height": 4, "format": "raw8"}]},
            "frames[0].width: 1 to 65535",
        ),
        (
            {
                **BASE,
                "frames": [
                    {"name": "f", "width": 9, "height": 4, "format": "rgb565", "stride": 17}
                ],
            },
            "frames[0].stride: a row of 9 pixels needs more than 17 bytes",
        ),
        (
            {
                **BASE,
                "frames": [
                    {"name": "f", "width": 9, "height": 4, "format": "raw8", "from": "infer"}
                ],
            },
            "frames[0].from: there is no [pipeline]",
        ),
        (
            {
                **BASE,
                "pipeline": {"capture_ms": 5, "infer_ms": 40, "post_ms": 1, "period_ms": 33},
            },
            "pipeline.period_ms: infer takes 40 ms, longer than 33 ms",
        ),
        (
            {**BASE, "rtos": [{"name": "a", "bytes": 1}, {"name": "a", "bytes": 2}]},
            "rtos[1]: this name is taken",
        ),
        ({**BASE, "linked": {"map": "x.map"}}, "linked.map: a map says too little"),
        (
            {**BASE, "linked": {"elf": "x.elf"}, "code": {"bytes": 3}},
            "code.bytes: the linked program says",
        ),
        ({**BASE, "models": [{"arena": "shared"}]}, "models[0].file: missing"),
        ({**BASE, "models": [{"file": "a", "arena": "both"}]}, "models[0].arena: both is none"),
    ],
)
def test_wrong_fields_are_named(document: dict[str, Any], words: str) -> None:
    assert words in refused(document)


def test_unreadable_files(tmp_path: Path) -> None:
    for content in (b"a = ", b"\xff\xfe\x00"):
        path = tmp_path / "s.toml"
        path.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            read_system(path)
        assert caught.value.code == "SYS-001"
    with pytest.raises(UsageError):
        read_system(tmp_path / "none.toml")


def test_sizes_and_frames() -> None:
    made = parse_system(
        {
            **BASE,
            "heap": {"bytes": "1.5 KiB"},
            "frames": [
                {"name": "a", "width": 7, "height": 2, "format": "raw10p"},
                {"name": "b", "width": 4, "height": 2, "format": "yuv420", "count": 3},
                {"name": "c", "width": 4, "height": 2, "format": "rgb888", "stride": 16},
            ],
        },
        Path("s.toml"),
    )
    assert [(item.name, item.nbytes, item.count) for item in made.items] == [
        ("heap", 1536, 1),
        ("a", 2 * 9, 1),
        ("b", 12, 3),
        ("c", 32, 1),
    ]


def occupied(pipeline: Pipeline, first: Stage, last: Stage, items: int = 60) -> int:
    """Most buffers held at one time, by playing the pipeline in whole microseconds."""
    stages = list(Stage)
    micro = {stage: round(pipeline.duration(stage) * 1000) for stage in stages}
    events: list[tuple[int, int]] = []
    for n in range(items):
        start = n * round(pipeline.period_ms * 1000)
        for stage in stages:
            if stage is first:
                events.append((start, 1))
            start += micro[stage]
            if stage is last:
                events.append((start, -1))
    most = held = 0
    # at one instant, buffers are given back before they are taken
    for _, change in sorted(events):
        held += change
        most = max(most, held)
    return most


@given(
    st.tuples(*[st.integers(1, 400)] * 3),
    st.integers(0, 300),
    st.sampled_from(list(itertools.combinations_with_replacement(list(Stage), 2))),
)
@settings(max_examples=300, deadline=None)
def test_buffer_counts_are_those_of_the_running_pipeline(
    durations: tuple[int, int, int], slack: int, span: tuple[Stage, Stage]
) -> None:
    times = [value / 10 for value in durations]
    pipeline = Pipeline(*times, period_ms=(max(durations) + slack) / 10)
    assert pipeline.buffers(*span) == occupied(pipeline, *span)


def networks(target: Target, example: Callable[[str], Path], *names: str) -> list[tuple[str, Any]]:
    found = []
    for name in names:
        graph = load_model(example(name))
        found.append((name, lower(graph, map_graph(graph, target), target)))
    return found


def test_example_layout() -> None:
    layout = plan_description(read_system(EXAMPLE))
    verify_layout(layout)
    ledger = layout_ledger(layout)
    for pool in ledger.pools:
        lines = [line for line in ledger.lines if line.pool == pool.name]
        assert sum(line.nbytes for line in lines) + pool.free == pool.size
    frame = layout.block("camera frame")
    assert frame.nbytes == 2 * 480 * 480 * 2
    assert not frame.cacheable
    assert layout.block("code").address == 0x34000400
    assert layout.block("image_classification weights").address == 0x71000000
    spent = budget(layout)
    assert spent.ram == 0x3C0000
    assert spent.held == round(0.2 * spent.ram)
    assert spent.within


def test_policy_counts(example: Callable[[str], Path]) -> None:
    made = replace(read_system(EXAMPLE), limit=0.3)
    spent = budget(plan_description(made))
    assert not spent.within
    assert spent.total == spent.held + spent.moving
    high = budget(plan_description(replace(made, reserve=0.0)))
    assert high.held == high.fixed


def test_arenas(example: Callable[[str], Path]) -> None:
    target = load_target("stm32n6570-dk")
    nets = networks(target, example, "visual_wake_words", "keyword_spotting")

    def laid(arena: str) -> Any:
        made = parse_system(
            {**BASE, "models": [{"file": name, "arena": arena} for name, _ in nets]}, Path("s")
        )
        layout = layout_system(made, target, nets)
        verify_layout(layout)
        return layout

    shared, own = laid("shared"), laid("own")
    first, second = shared.networks
    assert first.plan.regions[0].base == second.plan.regions[0].base
    union = shared.block("activations of visual_wake_words, keyword_spotting")
    assert union.nbytes == max(n.plan.activation_bytes for n in shared.networks)
    a, b = (net.plan.regions[0] for net in own.networks)
    assert b.base >= a.base + a.used
    for layout in (shared, own):
        a, b = (net.plan.weights for net in layout.networks)
        assert b.base >= a.base + a.used


def test_kept_inputs(example: Callable[[str], Path]) -> None:
    """A frame that the display reads while the network runs stays as it is."""
    model = {"file": str(example("visual_wake_words"))}
    shared = {}
    for keep in (False, True):
        document = {**BASE, "models": [{**model, "keep_inputs": keep}]}
        (network,) = plan_description(parse_system(document, ROOT / "s.toml")).networks
        plan, schedule = network.plan, network.schedule
        home = schedule.tensors[schedule.inputs[0]].buffer
        end = plan.address(home) + schedule.buffers[home].nbytes
        shared[keep] = [
            b.name for b in schedule.activations
            if b.name != home and plan.address(b.name) < end
            and plan.address(home) < plan.address(b.name) + b.nbytes
        ]  # fmt: skip
    assert shared[False]
    assert not shared[True]


@pytest.mark.parametrize(
    ("name", "frames", "rest"),
    [
        ("detection_display", 2_304_000, 130_296),
        ("steel_inspection", 4_429_824, 227_952),
        ("hand_tracking", 9_062_400, 88_288),
    ],
)
def test_published_applications(name: str, frames: int, rest: int) -> None:
    """Descriptions of three public applications: bytes of the sections in their linker maps."""
    layout = plan_description(read_system(ROOT / "benchmarks" / "systems" / f"{name}.toml"))
    verify_layout(layout)
    ram = layout.target.pool("hyperRAM")
    outside = [block for block in layout.blocks if ram.base <= block.address < ram.end]
    inside = [block for block in layout.blocks if block not in outside]
    assert sum(block.nbytes for block in outside) == frames
    described = (Account.SYSTEM, Account.DATA_PATH, Account.NPU_RUNTIME)
    assert sum(b.nbytes for b in inside if b.account in described) == rest


def test_pools_are_named(example: Callable[[str], Path]) -> None:
    target = load_target("stm32n6570-dk")
    made = parse_system({**BASE, "heap": {"bytes": 1, "pool": "cpuRAM9"}}, Path("s"))
    with pytest.raises(UsageError, match=r"heap\.pool: stm32n6570-dk has flexMEM"):
        layout_system(made, target, [])
    made = parse_system({**BASE, "heap": {"bytes": 1, "pool": "octoFlash"}}, Path("s"))
    with pytest.raises(UsageError, match="octoFlash is not writable"):
        layout_system(made, target, [])
    made = parse_system({**BASE, "boot": "sd"}, Path("s"))
    with pytest.raises(UsageError, match="boot: stm32n6570-dk has lrun, xip"):
        layout_system(made, target, [])
    made = parse_system({**BASE, "heap": {"bytes": "2 MiB", "pool": "cpuRAM1"}}, Path("s"))
    with pytest.raises(PlanError, match="heap does not fit: 2097152 bytes"):
        layout_system(made, target, [])
    made = parse_system({**BASE, "code": {"bytes": "500 KiB"}}, Path("s"))
    with pytest.raises(PlanError, match="code does not fit"):
        layout_system(made, target, [])


def test_verifier_finds_faults(example: Callable[[str], Path]) -> None:
    layout = plan_description(read_system(EXAMPLE))

    def rule(name: str, **change: Any) -> str:
        blocks = tuple(
            replace(block, **change) if block.name == name else block for block in layout.blocks
        )
        with pytest.raises(PlanError) as caught:
            verify_layout(replace(layout, blocks=blocks))
        assert caught.value.code == "SYS-030"
        return str(caught.value.params["rule"])

    frame = layout.block("camera frame")
    assert "cacheable memory" in rule("camera frame", cacheable=True)
    assert "multiple of 32" in rule("camera frame", address=frame.address + 8)
    assert "multiple of 32" in rule("camera frame", nbytes=frame.nbytes - 4)
    assert "lies there too" in rule("heap", address=layout.block("uart receive ring").address)
    assert "reaches" in rule("heap", address=0x34400000)
    assert "read-only" in rule("heap", address=0x72000000)
    assert "loader works" in rule("code", address=0x34180000)
    arena = next(b for b in layout.blocks if b.account is Account.ACTIVATIONS)
    assert "no block of activations" in rule(arena.name, address=arena.address + 32)
    assert "multiple of 32" in rule(arena.name, address=arena.address + 8)


def test_alignment_of_a_linux_class_part(example: Callable[[str], Path]) -> None:
    """Weights on 128 bytes, activations on 64: target data, applied and verified."""
    target = load_target("linux-npu-generic")
    nets = networks(target, example, "image_classification", "keyword_spotting")
    made = parse_system(
        {
            "schema": 1,
            "target": target.name,
            "models": [{"file": name, "arena": "own"} for name, _ in nets],
            "buffers": [{"name": "ring", "bytes": 65}],
        },
        Path("s"),
    )
    layout = layout_system(made, target, nets)
    verify_layout(layout)
    for network in layout.networks:
        for name, buffer in network.schedule.buffers.items():
            wanted = 128 if buffer.kind is BufferKind.CONSTANT else 64
            assert network.plan.address(name) % wanted == 0, name
    assert layout.block("ring").nbytes == 128
    weights = next(block for block in layout.blocks if block.account is Account.WEIGHTS)
    moved = tuple(
        replace(block, address=block.address + 64) if block is weights else block
        for block in layout.blocks
    )
    with pytest.raises(PlanError, match="multiple of 128"):
        verify_layout(replace(layout, blocks=moved))
    with pytest.raises(UsageError) as caught:
        layout_files(layout)
    assert caught.value.code == "SYS-055"


@needs_compiler
def test_code_from_a_linked_program(tmp_path: Path) -> None:
    """`[linked]` takes the place of `[code]`: its bytes are those of the ELF's ledger."""
    (tmp_path / "a.c").write_text(
        "int d[20] = {1}; char z[100]; const int c[30] = {2};\n"
        "__attribute__((used)) void Reset_Handler(void) { d[0] += c[d[1]] + z[d[2]]; }\n"
    )
    script = linker_script([], load_target("mps3-an547"), "t")
    (tmp_path / "l.ld").write_text(script)
    subprocess.run(
        ["arm-none-eabi-gcc", "-mcpu=cortex-m55", "-nostdlib", "-nostartfiles", "a.c", "-Tl.ld",
         "-Wl,-Map=a.map", "-Wl,--no-warn-rwx-segments", "-o", "a.elf"],
        cwd=tmp_path, check=True, timeout=60,
    )  # fmt: skip
    (tmp_path / "s.toml").write_text(
        'schema = 1\ntarget = "mps3-an547"\n[linked]\nelf = "a.elf"\nmap = "a.map"\n'
    )
    layout = plan_description(read_system(tmp_path / "s.toml"))
    verify_layout(layout)
    sums = api.program_ledger(tmp_path / "a.elf", "mps3-an547", stack=0).by_account()
    stored = 80  # the initial values of d, which lie in the code's memory too
    assert layout.block("code").nbytes == sums[Account.CODE] > 0
    assert layout.block("read-only data").nbytes == sums[Account.READ_ONLY]
    assert sums[Account.READ_ONLY] >= 120 + stored
    assert layout.block("static data").nbytes >= stored + 100
    assert layout.block("static data").address == 0x20000000


ITEM = st.fixed_dictionaries(
    {
        "bytes": st.integers(0, 300_000),
        "count": st.integers(1, 4),
        "dma": st.booleans(),
    },
    optional={"pool": st.sampled_from(["cpuRAM1", "cpuRAM2", "npuRAM6", "hyperRAM"])},
)


@given(
    st.sampled_from(["lrun", "xip"]),
    st.lists(ITEM, max_size=8),
    st.sampled_from([0, 64, 1024]),
    st.booleans(),
    st.sampled_from([[], ["shared", "shared"], ["own", "own"], ["shared", "own"]]),
    st.integers(0, 300_000),
)
@settings(max_examples=40, deadline=None)
def test_any_layout_passes_the_verifier(
    boot: str, items: list[dict[str, Any]], alignment: int, cached: bool, arenas: list[str],
    code: int,
) -> None:  # fmt: skip
    document = {
        **BASE,
        "boot": boot,
        "code": {"bytes": code},
        "policy": {"dma_alignment": alignment, "cached_dma": cached},
        "buffers": [{"name": f"b{n}", **item} for n, item in enumerate(items)],
        "models": [
            {"file": "x.tflite", "name": f"n{n}", "arena": arena} for n, arena in enumerate(arenas)
        ],
    }
    made: SystemDescription = parse_system(document, Path("s.toml"))
    target = load_target("stm32n6570-dk")
    found = SCHEDULES[: len(arenas)]
    try:
        layout = layout_system(made, target, found)
    except PlanError as error:
        if error.code not in ("SYS-020", "MEM-001"):
            raise
        return
    verify_layout(layout)
    ledger = layout_ledger(layout)
    assert sum(pool.used for pool in ledger.pools) == sum(b.nbytes for b in layout.blocks)


def _schedules() -> list[tuple[str, Any]]:
    target = load_target("stm32n6570-dk")
    return networks(
        target,
        lambda name: ROOT / "examples" / name / f"{name}.tflite",
        "keyword_spotting",
        "anomaly_detection",
    )


SCHEDULES = [(f"n{n}", schedule) for n, (_, schedule) in enumerate(_schedules())]
