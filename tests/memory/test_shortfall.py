"""Why a network does not fit, against brute force, and remedies that keep what they promise."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from npuforge.cli.main import app
from npuforge.explore.fit import on_chip
from npuforge.explore.shortfall import diagnose
from npuforge.explore.tiling import tile_least
from npuforge.graph import Graph
from npuforge.importers import load_model
from npuforge.lowering import Schedule, lower
from npuforge.mapping import map_graph
from npuforge.memory.shortfall import Alive, find_shortfall, smallest_conflict
from npuforge.targets import Target, Use, load_target

ROOT = Path(__file__).parents[2]


@given(
    st.lists(
        st.tuples(st.integers(1, 50), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8
    ),
    st.integers(1, 150),
)
@settings(max_examples=200, deadline=None)
def test_no_smaller_set_conflicts(spans: list[tuple[int, int, int]], capacity: int) -> None:
    alive = [Alive(f"b{n}", size, min(a, b), max(a, b)) for n, (size, a, b) in enumerate(spans)]
    per_step = {s: [b for b in alive if b.first <= s <= b.last] for s in range(7)}
    found, at = smallest_conflict(per_step, capacity)
    sizes = [
        len(chosen)
        for count in range(1, len(alive) + 1)
        for chosen in itertools.combinations(alive, count)
        if sum(b.nbytes for b in chosen) > capacity
        and all(
            a.first <= b.last and b.first <= a.last for a, b in itertools.combinations(chosen, 2)
        )
    ]
    assert len(found) == min(sizes, default=0)
    if found:
        assert sum(b.nbytes for b in found) > capacity
        assert all(b.first <= at <= b.last for b in found)


def shrunk(target: Target, nbytes: int) -> Target:
    """A board with one small activation memory on the chip."""
    first = next(p for p in target.pools_for(Use.ACTIVATIONS) if not p.external)
    kept = tuple(
        replace(pool, size=nbytes) if pool.name == first.name else pool
        for pool in target.pools
        if pool.use is not Use.ACTIVATIONS or pool.external or pool.name == first.name
    )
    return replace(target, pools=kept)


def network(path: Path, target: Target) -> tuple[Graph, Schedule]:
    graph = load_model(path)
    return graph, lower(graph, map_graph(graph, target), target)


def test_remedies_do_what_they_say(example: Callable[[str], Path]) -> None:
    board = load_target("stm32n6570-dk")
    graph, schedule = network(example("image_classification"), board)
    need = find_shortfall(schedule, 0).need
    assert diagnose("x", graph, schedule, shrunk(board, need)) is None
    for nbytes in (need - 32, need * 3 // 4, need // 2):
        target = shrunk(board, nbytes)
        found = diagnose("x", graph, schedule, target)
        assert found is not None
        assert found.shortfall.missing == need - nbytes
        together = found.shortfall.together
        assert sum(b.nbytes for b in together) > nbytes
        assert sum(b.nbytes for b in together[:-1]) <= nbytes
        fitting = [remedy for remedy in found.remedies if remedy.fits]
        assert fitting == list(found.remedies[: len(fitting)])
        for remedy in fitting:
            assert remedy.planned <= nbytes or remedy.kind == "pool"
        spill = next(remedy for remedy in found.remedies if remedy.kind == "spill")
        assert spill.outside >= found.shortfall.missing
        assert spill.ms is not None
        assert spill.before_ms is not None
        assert spill.ms >= spill.before_ms
    small = on_chip(shrunk(board, need // 2))
    found = diagnose("x", graph, schedule, small)
    assert found is not None
    assert "spill" not in {remedy.kind for remedy in found.remedies}


def test_remedies_together(example: Callable[[str], Path]) -> None:
    """Below what stripes reach: a smaller input in stripes, larger than a smaller input alone."""
    board = load_target("stm32n6570-dk")
    graph, schedule = network(example("image_classification"), board)
    least = tile_least(schedule)
    assert least is not None
    assert least.after > 16 << 10
    target = on_chip(shrunk(board, (least.after - 1) // 32 * 32))
    found = diagnose("x", graph, schedule, target)
    assert found is not None
    assert not found.helps("tiling", "order", "order + tiling")
    by_kind = {r.kind: r for r in found.remedies if r.fits}
    joint, alone = by_kind["resolution + tiling"], by_kind["resolution"]
    assert joint.planned < least.after
    assert float(joint.detail.split()[0]) > float(alone.detail.split()[0])
    assert alone.ms is not None
    assert alone.before_ms is not None
    assert alone.added_ms is not None
    assert 0 < alone.ms < alone.before_ms
    assert alone.added_ms == alone.ms - alone.before_ms
    assert joint.added_ms is not None
    assert joint.added_ms > alone.added_ms
    # where stripes alone are enough, nothing is combined
    enough = diagnose("x", graph, schedule, on_chip(shrunk(board, least.after + 4096)))
    assert enough is not None
    assert enough.helps("tiling")
    assert not any("+" in remedy.kind for remedy in enough.remedies)


def test_remedies_by_time(example: Callable[[str], Path]) -> None:
    board = load_target("stm32n6570-dk")
    graph, schedule = network(example("visual_wake_words"), board)
    for nbytes in (128 << 10, 96 << 10, 64 << 10):
        found = diagnose("x", graph, schedule, shrunk(board, nbytes))
        assert found is not None
        fitting = [r for r in found.remedies if r.fits]
        assert fitting == list(found.remedies[: len(fitting)])
        inside = [r for r in fitting if not r.outside]
        assert inside == fitting[: len(inside)]
        changing = ["resolution" in r.kind or "integers" in r.kind for r in inside]
        assert changing == sorted(changing)
        for group in (False, True):
            times = [r.added_ms for r, c in zip(inside, changing, strict=True) if c is group]
            known = [t for t in times if t is not None]
            assert known == times[: len(known)]
            assert known == sorted(known)


def test_command_line(tmp_path: Path) -> None:
    model = ROOT / "examples" / "visual_wake_words" / "visual_wake_words.tflite"
    pools = {"cpuRAM2": 1024, "npuRAM3": 448, "npuRAM4": 448, "npuRAM5": 448, "npuRAM6": 316}
    lines = ["schema = 1", 'target = "BOARD"', "[[models]]", f'file = "{model.as_posix()}"']
    lines.append("tiling = false")
    for pool, size in pools.items():
        lines += ["[[buffers]]", f'name = "in {pool}"', f'bytes = "{size} KiB"', f'pool = "{pool}"']
    text = "\n".join(lines) + "\n"
    for board, code in (("nucleo-n657x0-q", "MEM-001"), ("stm32n6570-dk", None)):
        path = tmp_path / f"{board}.toml"
        path.write_text(text.replace("BOARD", board), encoding="utf-8")
        shown = CliRunner().invoke(app, ["plan", "fit", str(path), "--json"])
        assert shown.exit_code == 1
        document = json.loads(shown.stdout)
        assert (document["error"] or "").partition(":")[0] == (code or "")
        (entry,) = document["shortfalls"]
        assert entry["missing"] == 138240 - 132 * 1024
        assert entry["peak_node"] == "input_1_int8"
        assert entry["peak_epoch"] == 0
        kinds = [remedy["kind"] for remedy in entry["remedies"]]
        assert ("spill" in kinds) == (board == "stm32n6570-dk")
        stripes = next(remedy for remedy in entry["remedies"] if remedy["kind"] == "tiling")
        assert stripes["fits"]
        assert stripes["planned"] <= 132 * 1024
        assert stripes["added_ms"] > 0
        plain = CliRunner().invoke(app, ["plan", "fit", str(path)])
        assert "3072 are missing" in plain.output
        path.write_text(path.read_text("utf-8").replace("tiling = false", ""), encoding="utf-8")
        shown = CliRunner().invoke(app, ["plan", "fit", str(path), "--json"])
        document = json.loads(shown.stdout)
        assert (document["error"], document["shortfalls"]) == (None, [])
        (net,) = document["networks"]
        assert net["activations"] == stripes["planned"]
        assert net["tiling"]["bytes_before"] == 138240
        assert net["tiling"]["macs_recomputed"] == 0


def test_memory_of_the_system_helps(example: Callable[[str], Path]) -> None:
    board = load_target("stm32n6570-dk")
    graph, schedule = network(example("visual_wake_words"), board)
    found = diagnose("x", graph, schedule, shrunk(board, 64 << 10))
    assert found is not None
    pool = next(remedy for remedy in found.remedies if remedy.kind == "pool")
    smallest = min(p.size for p in board.pools_for(Use.SYSTEM) if p.size >= 138240 - (64 << 10))
    assert pool.fits
    assert str(smallest) in pool.detail
    assert pool.planned == 138240
