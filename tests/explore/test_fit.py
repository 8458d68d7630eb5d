"""A network in what it is given: as it is, in stripes, or refused with the least that was found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from npuforge import api
from npuforge.boards import HostBoard
from npuforge.cli.main import app
from npuforge.errors import PlanError, UsageError
from npuforge.explore.fit import fit_schedule, limited, on_chip, on_the_chip
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory, verify_plan
from npuforge.numerics import random_inputs
from npuforge.targets import Use, load_target


def test_what_fits_stays_as_it_is(example: Callable[[str], Path]) -> None:
    board = load_target("stm32n6570-dk")
    graph = load_model(example("image_classification"))
    schedule = lower(graph, map_graph(graph, board), board)
    fitted = fit_schedule(schedule, board)
    assert fitted.schedule is schedule
    assert fitted.tiling is None
    assert fit_schedule(schedule, board, fitted.need).schedule is schedule


def test_stripes_before_memory_outside_of_the_chip(example: Callable[[str], Path]) -> None:
    board = load_target("stm32n6570-dk")
    graph = load_model(example("image_classification"))
    schedule = lower(graph, map_graph(graph, board), board)
    need = plan_memory(schedule, board).lower_bound
    tight = limited(board, need * 2 // 3)
    assert sum(p.size for p in on_chip(tight).pools_for(Use.ACTIVATIONS)) == need * 2 // 3
    whole = fit_schedule(schedule, tight, tiling=False)
    assert not on_the_chip(whole.plan, tight)
    fitted = fit_schedule(schedule, tight)
    assert fitted.tiling is not None
    assert on_the_chip(fitted.plan, tight)
    verify_plan(fitted.schedule, fitted.plan, tight)
    # every tensor, those that exist row by row too
    sample = random_inputs(graph, np.random.default_rng(4))
    want = HostBoard(graph, whole.schedule, whole.plan).run(sample, capture=True).tensors
    got = HostBoard(graph, fitted.schedule, fitted.plan).run(sample, capture=True).tensors
    assert fitted.schedule.pieces
    assert set(got) == set(want)
    for name, values in want.items():
        assert np.array_equal(got[name], values), name


def test_a_limit_that_nothing_meets(example: Callable[[str], Path]) -> None:
    board = load_target("mps3-an547")
    graph = load_model(example("image_classification"))
    schedule = lower(graph, map_graph(graph, board), board)
    with pytest.raises(PlanError, match="MEM-021") as caught:
        fit_schedule(schedule, board, 4096)
    least = int(str(caught.value.params["need"]))
    assert fit_schedule(schedule, board, least).plan.activation_bytes <= least
    with pytest.raises(PlanError, match="MEM-021"):
        fit_schedule(schedule, board, least, tiling=False)


def test_command_line(example: Callable[[str], Path]) -> None:
    model = str(example("image_classification"))
    told = CliRunner().invoke(app, ["plan", "fit", model, "-t", "stm32n6570-dk"])
    assert "ST's compiler is predicted to fill" in told.output
    shown = CliRunner().invoke(app, ["plan", "fit", model, "-t", "stm32n6570-dk", "--json"])
    banks = json.loads(shown.stdout)["st_compiler"]
    assert banks["inside"] == sum(banks["banks"].values()) > 0
    assert (banks["outside"], banks["unplaced"]) == (0, 0)
    assert f"predicted to fill {banks['inside']} bytes" in told.output
    call = ["plan", "fit", model, "--json", "--activations", "30KiB"]
    shown = CliRunner().invoke(app, call)
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.stdout)
    assert document["fits"]
    assert document["model"]["activation_bytes"] <= 30 << 10
    stripes = document["model"]["tiling"]
    assert stripes["bytes_before"] == 49152
    assert stripes["kernel_calls_added"] > 0
    assert stripes["added_ms"] > 0
    assert stripes["macs_recomputed"] == 0
    assert all(run["steps"] >= 2 and run["stripes"] >= 2 for run in stripes["runs"])
    shown = CliRunner().invoke(app, [*call, "--no-tiling"])
    assert shown.exit_code == 1
    document = json.loads(shown.stdout)
    assert document["model"] is None
    assert document["shortfall"]["missing"] == 49152 - (30 << 10)
    assert document["shortfall"]["remedies"][0]["kind"] == "tiling"
    plain = CliRunner().invoke(app, [*(c for c in call if c != "--json"), "--no-tiling"])
    assert "18432 are missing" in plain.output
    assert "computed in stripes" in CliRunner().invoke(app, call[:3] + call[4:]).output


def test_every_tensor_of_a_tiled_network_is_validated(example: Callable[[str], Path]) -> None:
    pytest.importorskip("ai_edge_litert")
    model = example("image_classification")
    checks = [
        api.validate_model(model, random_samples=1, activations=size)[1].checks[0]
        for size in (None, "30 KiB")
    ]
    counts = [len(c.comparison.tensors) if c.comparison else 0 for c in checks]
    assert counts[0] == counts[1] > 0
    assert not any(check.comparison and check.comparison.mismatches for check in checks)


@pytest.mark.parametrize("size", ["", "30 XB", "0", "-4"])
def test_no_number_of_bytes(size: str) -> None:
    with pytest.raises(UsageError, match="MEM-022"):
        api.analyze_model("x.tflite", "mps3-an547", activations=size)
