"""Which tensor a buffer is: descriptions of what lies there, tensors that look alike."""

from __future__ import annotations

import numpy as np
from tests.aton.chain import PLACES, RAM, copied, engine, epoch
from tests.builders import tensor

from npuforge.aton.compiled import Buffer, Compiled, Kind, Region, Step
from npuforge.graph import Graph, Node, TransposeAttrs
from npuforge.validate.program import ProgramComparison, compare_with_model
from npuforge.vocab import Contract

SCALE = (0.5, 0)


def graph() -> Graph:
    """Of x its transpose, and that of the transpose; u beside them."""
    turn = TransposeAttrs((0, 2, 1))
    tensors = [
        tensor(name, shape, quant=SCALE)
        for name, shape in (("x", (1, 4, 8)), ("t", (1, 8, 4)), ("y", (1, 4, 8)), ("u", (1, 32)))
    ]
    nodes = (
        Node("first", "transpose", ("x",), ("t",), turn, Contract.EXACT),
        Node("second", "transpose", ("t",), ("y",), turn, Contract.EXACT),
    )
    return Graph("turned", {t.name: t for t in tensors}, nodes, ("x", "u"), ("y",))


def buffer(name: str, place: str, number: int, shape: tuple[int, ...]) -> Buffer:
    kind = (8, False, False, SCALE[:1], SCALE[1:], False)
    return Buffer(name, RAM + PLACES[place], 32, number, 1, shape, "Last", *kind)


def compared(number: int, *, damage: bool = False) -> ProgramComparison:
    """A program that copies x, then u, and gives the transpose of x the epoch ``number``."""
    x, u = buffer("x", "x", 0, (1, 4, 8)), buffer("u", "v", 0, (1, 32))
    held = [buffer("x copied", "y", 2, (1, 4, 8)), buffer("turned", "y", number, (1, 4, 8))]
    held += [buffer("u copied", "z", 4, (1, 32)), buffer("again", "w", 5, (1, 4, 8))]
    epochs = [copied(2, "x", "y"), copied(4, "v", "z"), copied(5, "z" if damage else "y", "w")]
    steps = tuple(Step(Kind.HARDWARE, e.number, "", (e,)) for e in epochs)
    regions = (Region("ram", RAM, 4096),)
    network = Compiled(
        "p", "1.1.0", "", regions, (), (x, u, *held), (x, u), (held[-1],), steps, False
    )
    rng = np.random.default_rng(2)
    data = {b.name: rng.integers(0, 256, 32, np.uint8).tobytes() for b in (x, u)}
    return compare_with_model(network, graph(), data)


def test_a_description_in_an_epoch_that_writes_elsewhere() -> None:
    found = {b.buffer: b for b in compared(4).buffers}
    assert found.keys() == {"x copied", "turned", "u copied", "again"}
    assert [found["turned"].bound, found["turned"].differing] == [0.0, 0]
    assert found["again"].bound == 0.0


def test_a_description_in_an_epoch_that_does_not_run() -> None:
    found = {b.buffer: b for b in compared(3).buffers}
    assert [found["turned"].bound, found["turned"].differing] == [0.0, 0]


def test_what_reads_another_place_is_not_what_lies_there() -> None:
    found = compared(4, damage=True)
    assert not found.explained


def test_tensors_that_the_arithmetic_excludes_are_not_counted() -> None:
    """Two tensors alike in form are read in one epoch; each copy can only be one of them."""
    names = ("x", "u", "x copied", "u copied")
    places = dict(zip(names, ("x", "v", "y", "z"), strict=True))
    held = [buffer(n, places[n], 2 * (" " in n), (1, 4, 8)) for n in names]
    engines = [
        engine(f"STRENG{k}", RAM + PLACES[places[n]], 32, write=" " in n)
        for k, n in enumerate(names)
    ]
    both = epoch(2, engines, {("STRENG2", 0): "STRENG0", ("STRENG3", 0): "STRENG1"})
    step = Step(Kind.HARDWARE, 2, "", (both,))
    network = Compiled(
        "p", "1.1.0", "", (Region("ram", RAM, 4096),), (), tuple(held), tuple(held[:2]),
        tuple(held[2:]), (step,), False,
    )  # fmt: skip
    turn = TransposeAttrs((0, 2, 1))
    tensors = [tensor(n, (1, 4, 8), quant=SCALE) for n in names[:2]]
    tensors += [tensor(f"{n} turned", (1, 8, 4), quant=SCALE) for n in names[:2]]
    nodes = tuple(
        Node(n, "transpose", (n,), (f"{n} turned",), turn, Contract.EXACT) for n in names[:2]
    )
    model = Graph("two", {t.name: t for t in tensors}, nodes, names[:2], ("x turned", "u turned"))
    values = np.arange(32, dtype=np.uint8)
    data = {"x": values.tobytes(), "u": (values + (values == 5)).tobytes()}
    found = {b.buffer: b for b in compare_with_model(network, model, data).buffers}
    assert {n: (b.tensor.split()[0], b.candidates) for n, b in found.items()} == {
        "x copied": ("x", 1),
        "u copied": ("u", 1),
    }
