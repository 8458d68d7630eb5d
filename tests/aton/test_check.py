"""Program checks: silent on sound programs, every injected fault found and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.aton import chain as c
from tests.aton.chain import PLACES, RAM, chain
from tests.aton.networks import PROGRAM, write_network
from typer.testing import CliRunner

from npuforge import api
from npuforge.aton.check import check_program
from npuforge.aton.compiled import Compiled
from npuforge.aton.diff import diff_programs
from npuforge.aton.execute import run_program
from npuforge.aton.load import load_compiled
from npuforge.aton.program import Epoch, Route
from npuforge.aton.registers import UNITS
from npuforge.cli.main import app
from npuforge.errors import ModelError, UsageError
from npuforge.vocab import Severity

PAGE = UNITS.index
X = np.random.default_rng(4).integers(-128, 128, 32).astype(np.int8)


def over(network: Compiled) -> Compiled:
    """z on top of y, buffer table and all: epoch 6 still wants y."""
    moved = c.with_unit(network, 2, "STRENG5", ADDR__REG=RAM + PLACES["y"])
    moved = c.with_unit(moved, 3, "STRENG6", ADDR__REG=RAM + PLACES["y"])
    buffers = tuple(
        replace(b, address=RAM + PLACES["y"] + 16) if b.name == "z" else b for b in network.buffers
    )
    moved = c.with_unit(moved, 2, "STRENG5", ADDR__REG=RAM + PLACES["y"] + 16)
    moved = c.with_unit(moved, 3, "STRENG6", ADDR__REG=RAM + PLACES["y"] + 16)
    return replace(moved, buffers=buffers)


def reordered(network: Compiled) -> Compiled:
    first, *rest = network.steps
    one, two, three = first.epochs
    return replace(network, steps=(replace(first, epochs=(two, one, three)), *rest))


def uncached(network: Compiled, step: int) -> Compiled:
    steps = list(network.steps)
    steps[step] = replace(steps[step], before=(), after=())
    return replace(network, steps=tuple(steps))


def second_writer(network: Compiled) -> Compiled:
    old = c.epoch_of(network, 1)
    twin = c.engine("STRENG8", RAM + PLACES["y"], 32, write=True)
    routes = {**old.routes, (PAGE("STRENG8"), 0): Route((PAGE("ARITH0"), None), (0, 0))}
    return c.with_epoch(network, 1, Epoch(1, {**old.units, twin.page: twin}, routes, -1))


def activation_first(network: Compiled) -> Compiled:
    old = c.epoch_of(network, 1)
    made = c.unit("ACTIV0", CTRL__TYPE=2, CTRL__FBYTES=1, CTRL__OBYTES=1)
    routes = {
        **old.routes,
        (PAGE("ACTIV0"), 0): Route((PAGE("STRENG0"), None), (0, 0)),
        (PAGE("CONVACC0"), 0): Route((PAGE("ACTIV0"), None), (0, 0)),
    }
    return c.with_epoch(network, 1, Epoch(1, {**old.units, made.page: made}, routes, -1))


def to(source: str, second: str | None = None) -> Route:
    return Route((PAGE(source), PAGE(second) if second else None), (1, 1) if second else (0, 0))


Fault = Callable[[Compiled], Compiled]
FAULTS: dict[str, tuple[Fault, str, int]] = {
    "reader one line late": (
        lambda n: c.with_unit(n, 2, "STRENG4", ADDR__REG=RAM + PLACES["y"] + 8),
        "ATC-012",
        2,
    ),
    "writer one line late": (
        lambda n: c.with_unit(n, 1, "STRENG1", ADDR__REG=RAM + PLACES["y"] + 8),
        "ATC-015",
        1,
    ),
    "swapped route": (lambda n: c.with_route(n, 1, "STRENG1", 0, to("CONVACC0")), "ATC-006", 1),
    "wrong batch": (lambda n: c.with_unit(n, 1, "CONVACC0", KFORMAT__BTCDEPTH=1), "ATC-010", 1),
    "missing writer": (lambda n: c.without_unit(n, 1, "STRENG1"), "ATC-012", 2),
    "overlapping buffers": (over, "ATC-017", 6),
    "missing invalidate": (lambda n: uncached(n, 0), "ATC-019", 4),
    "missing clean": (lambda n: uncached(n, 1), "ATC-018", 5),
    "unrouted port": (lambda n: c.with_route(n, 2, "ARITH1", 1, None), "ATC-005", 2),
    "two sources on a port": (
        lambda n: c.with_route(n, 2, "ARITH1", 1, to("STRENG4", "STRENG3")),
        "ATC-002",
        2,
    ),
    "unit not enabled": (lambda n: c.without_unit(n, 1, "ARITH0"), "ATC-001", 1),
    "source is a writer": (lambda n: c.with_route(n, 3, "POOL0", 0, to("STRENG7")), "ATC-003", 3),
    "activation before convolution": (activation_first, "ATC-004", 1),
    "too many kernels": (lambda n: c.with_unit(n, 1, "CONVACC0", KFORMAT__NR=30), "ATC-007", 1),
    "stride zero": (lambda n: c.with_unit(n, 1, "CONVACC0", SAMPLE__HSTRD=0), "ATC-007", 1),
    "writer starves": (lambda n: c.with_count(n, 1, "STRENG1", 33), "ATC-010", 1),
    "stream never drains": (lambda n: c.with_count(n, 3, "STRENG7", 7), "ATC-010", 3),
    "no frames": (lambda n: c.with_unit(n, 2, "STRENG5", LIMIT__CNT=0), "ATC-010", 2),
    "kernels missing": (lambda n: c.with_count(n, 1, "STRENG2", 18), "ATC-010", 1),
    "operands of different length": (lambda n: c.with_count(n, 2, "STRENG4", 16), "ATC-010", 2),
    "frames dropped": (
        lambda n: c.with_route(n, 2, "STRENG5", 0, Route((None, PAGE("ARITH1")), (1, 1))),
        "ATC-010",
        2,
    ),
    "write outside the pools": (
        lambda n: c.with_unit(n, 3, "STRENG7", ADDR__REG=RAM + 4092),
        "ATC-011",
        3,
    ),
    "write into the weights": (
        lambda n: c.with_unit(n, 3, "STRENG7", ADDR__REG=c.FLASH),
        "ATC-014",
        3,
    ),
    "two writers on the same bytes": (second_writer, "ATC-008", 1),
    "writer overtakes a reader": (
        lambda n: c.with_unit(n, 2, "STRENG5", ADDR__REG=RAM + 4),
        "ATC-009",
        2,
    ),
    "epochs swapped": (reordered, "ATC-012", 2),
    "second operand read in vain": (
        lambda n: c.with_unit(
            n, 2, "STRENG4", LIMIT__CNT=3, FOFFSET__REG=0, CTRL__LSBMODE=1, CTRL__SIGNEXT=1
        ),
        "ATC-021",
        2,
    ),
    "unknown operation": (lambda n: c.with_unit(n, 2, "ARITH1", CTRL__OP=1), "ATC-013", 2),
}


def test_the_program_computes_what_it_should() -> None:
    assert check_program(chain()) == ()
    run = run_program(chain(), {"x": X.tobytes()}, capture=True)
    x = X.reshape(4, 4, 2).astype(np.int64)
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    weights = np.frombuffer(c.WEIGHTS, np.int8).reshape(2, 3, 3, 2).astype(np.int64)
    y = np.zeros((4, 4, 2), np.int64)
    for i in range(4):
        for j in range(4):
            y[i, j] = (weights * padded[i : i + 3, j : j + 3]).sum(axis=(1, 2, 3))

    def rounded(value: np.ndarray, shift: int) -> np.ndarray:
        return (np.sign(value) * ((np.abs(value) + (1 << shift - 1)) >> shift)).astype(np.int64)

    y = np.clip(rounded(3 * rounded(y, 2), 4), -128, 127)
    z = np.clip(x + y, -128, 127)
    p = z.reshape(2, 2, 2, 2, 2).max(axis=(1, 3))
    for name, wanted in (("y", y), ("z", z), ("p", p)):
        assert np.frombuffer(run.buffers[name], np.int8).tolist() == wanted.ravel().tolist()
    assert np.frombuffer(run.outputs["v"], "<f4").tolist() == (p.ravel() * 0.5).tolist()
    assert run.outputs["w"] == run.buffers["y"]


@pytest.mark.parametrize("name", FAULTS)
def test_injected_faults_are_named(name: str) -> None:
    inject, code, epoch = FAULTS[name]
    found = check_program(inject(chain()))
    assert (code, epoch) in {(item.code, item.epoch) for item in found}, [
        item.message for item in found
    ]
    for item in found:
        assert str(item.epoch) in item.message
        assert item.hint


@pytest.mark.parametrize(
    ("unit", "epoch", "fields"),
    [
        ("CONVACC0", 1, {"DFORMAT__OUTSHIFT": 3}),
        ("CONVACC0", 1, {"FSUB__FSUB": 1}),
        ("ARITH0", 1, {"CTRL__ROUND": 0}),
        ("POOL0", 3, {"CTRL__TYPE": 2}),
    ],
)
def test_wrong_numbers_are_found_by_a_run(unit: str, epoch: int, fields: dict[str, int]) -> None:
    """A sound program with a wrong constant passes the checks; its run and a diff show it."""
    wrong = c.with_unit(chain(), epoch, unit, **fields)
    assert not [f for f in check_program(wrong) if f.severity is Severity.ERROR]
    runs = [run_program(network, {"x": X.tobytes()}) for network in (chain(), wrong)]
    assert runs[0].outputs != runs[1].outputs
    (difference,) = diff_programs(chain(), wrong)
    assert (difference.epoch, difference.unit) == (epoch, unit)


def test_a_reader_goes_past_its_buffer() -> None:
    """Into the next one, which is written and alive: nothing else is wrong there."""
    network = chain()
    buffers = tuple(
        replace(b, address=RAM + PLACES["y"] + 32) if b.name == "z" else b for b in network.buffers
    )
    moved = c.with_unit(network, 2, "STRENG5", ADDR__REG=RAM + PLACES["y"] + 32)
    moved = c.with_unit(moved, 3, "STRENG6", ADDR__REG=RAM + PLACES["y"] + 32)
    sound = replace(moved, buffers=buffers)
    assert not check_program(sound)
    late = c.with_unit(sound, 6, "STRENG0", ADDR__REG=RAM + PLACES["y"] + 8)
    assert [(f.code, f.epoch) for f in check_program(late)] == [("ATC-022", 6)]


def test_what_nobody_takes_changes_nothing() -> None:
    """An epoch ends with its writers: a second operand may hold more than is taken."""
    surplus = FAULTS["second operand read in vain"][0](chain())
    assert {f.severity for f in check_program(surplus)} == {Severity.WARNING}
    runs = [run_program(network, {"x": X.tobytes()}) for network in (chain(), surplus)]
    assert runs[0].outputs == runs[1].outputs
    assert [r.surplus for r in runs[1].epochs] == [(), (("STRENG4", 64),), (), (), ()]


def test_an_input_is_fresh_in_every_inference() -> None:
    """The CPU reads the input, the NPU reuses its bytes: the application fills it anew."""
    network = chain()
    cpu = network.steps[1]
    work = cpu.work[0]
    early = replace(work, operands={**work.operands, "input": replace(
        work.operands["input"], address=RAM)})  # fmt: skip
    first = replace(cpu, number=1, work=(early,))
    reuse = c.copied(7, "y", "x")
    steps = (first, network.steps[0], replace(network.steps[2], epochs=(reuse,)))
    moved = replace(network, steps=steps)
    assert not [f for f in check_program(moved) if f.code == "ATC-019"]
    assert [f for f in check_program(replace(moved, inputs=())) if f.code == "ATC-019"]


def test_a_diff_names_what_moved() -> None:
    assert diff_programs(chain(), chain()) == ()
    found = diff_programs(chain(), over(chain()))
    assert {(d.epoch, d.unit, d.what) for d in found} == {
        (2, "STRENG5", "ADDR.REG"),
        (3, "STRENG6", "ADDR.REG"),
        (-1, "z", "place"),
    }
    lost = c.without_unit(chain(), 1, "ARITH0")
    assert [(d.unit, d.what, d.second) for d in diff_programs(chain(), lost)] == [
        ("ARITH0", "enabled", "off")
    ]


def test_faults_stop_a_run() -> None:
    for name in ("writer starves", "kernels missing", "write outside the pools", "epochs swapped"):
        with pytest.raises(ModelError):
            run_program(FAULTS[name][0](chain()), {"x": X.tobytes()})


def test_the_interface(tmp_path: Path) -> None:
    good = write_network(tmp_path / "good")
    bad = write_network(
        tmp_path / "bad", program=PROGRAM.replace("STRENG1.FSIZE 0x8", "STRENG1.FSIZE 0x9")
    )
    assert api.aton_check(good)["findings"] == []
    document = api.aton_check(bad)
    assert document["errors"]
    assert "ATC-010" in {finding["code"] for finding in document["findings"]}
    (difference,) = api.aton_diff(good, bad)["differences"]
    assert (difference["epoch"], difference["unit"]) == (2, "STRENG1")
    with pytest.raises(UsageError):
        api.aton_diff(good, None)
    runner = CliRunner()
    for arguments, code in (
        (("check", good), 0),
        (("check", bad), 1),
        (("diff", good, "--with", bad), 1),
        (("trace", good, "--json"), 0),
        (("show", good), 0),
        (("run", good), 0),
    ):
        result = runner.invoke(app, ["aton", *map(str, arguments)])
        assert result.exit_code == code, result.output


@pytest.mark.shared
@pytest.mark.parametrize("name", ["mobilenet_v1_025_96", "movenet_lightning_192"])
def test_compiled_networks_have_no_findings(shared: Path, name: str) -> None:
    assert check_program(load_compiled(shared / "aton" / name)) == ()
