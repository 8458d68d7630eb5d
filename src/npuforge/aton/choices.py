"""What a compiled program decided: lowering choices and constants for the Graph path.

A convolution in a program is a chain of CONVACCs that ends in 16-bit sums, the arithmetic units
behind it (sometimes in a later epoch, across a buffer), and a kernel engine whose address lies in a
named weight buffer. Weight buffers carry their channel scales, which is what ties a layer to a node
of the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from npuforge.aton.compiled import Buffer, Compiled
from npuforge.aton.execute import memory_for
from npuforge.aton.program import Epoch, Route, Unit
from npuforge.aton.registers import UNITS, fields_of, kind_of
from npuforge.aton.simulate import run_epoch
from npuforge.aton.streams import Memory
from npuforge.errors import UsageError
from npuforge.graph import Graph, Node, is_view
from npuforge.numerics.neural_art import (
    CONTRACTS,
    CONV_OPS,
    FUNCTION_ERROR,
    FUNCTION_OPS,
    Choices,
    ConvChoice,
    ConvConstants,
    Form,
    SumConstants,
    function_table,
)

Ints = npt.NDArray[np.int64]
Peek = Callable[[int, int], bytes]
"""Address and size to constant bytes."""

AFFINE, PRODUCT = 0, 7


@dataclass(frozen=True, eq=False)
class ProgramLayer:
    """A convolution as a program computes it.

    Attributes:
        name: of its weight buffer.
        epoch: that computes the sums.
        scales: of the weights, one a channel or one in all.
        kernel: rows and columns of the accelerators' kernels.
        batch: input channels an accelerator takes at a time.
        passes: partial sums rounded to 16 bit.
        chain: accelerators that add inside a pass.
        constants: requantisation.
    """

    name: str
    epoch: int
    scales: npt.NDArray[np.float32]
    kernel: tuple[int, int]
    batch: int
    passes: int
    chain: int
    constants: ConvConstants

    @property
    def order(self) -> int:
        """Number in the compiler's names, which follow the model's order."""
        found = re.search(r"_(\d+)", self.name)
        return int(found[1]) if found else 0


@dataclass(frozen=True)
class _Place:
    """A unit in an epoch, by position of the epoch in the program."""

    at: int
    page: int


def _layer_of(name: str) -> str:
    """The layer in a buffer's name: ``Conv2D_7_`` of ``Conv2D_7_off_bias_out_3``."""
    found = re.match(r"[A-Za-z0-9]+_\d+_", name)
    return found[0] if found else ""


class _Program:
    """Epochs with the way streams take from unit to unit, across memory where they must."""

    def __init__(self, epochs: Sequence[Epoch], buffers: Sequence[Buffer], peek: Peek) -> None:
        self.epochs = epochs
        self.buffers = buffers
        self.weights = [b for b in buffers if b.parameter and b.scales]
        self.peek = peek

    def unit(self, place: _Place) -> Unit:
        return self.epochs[place.at].units[place.page]

    def behind(self, place: _Place) -> list[_Place]:
        """Units whose first port a unit feeds, straight or through a 16-bit copy."""
        found = []
        for (page, port), route in self.epochs[place.at].routes.items():
            if place.page not in route.sources or page not in self.epochs[place.at].units or port:
                continue
            listener = _Place(place.at, page)
            copies = kind_of(page) == "CONVACC" and self.unit(listener)["CTRL.SIMD"] == 0
            found += self.behind(listener) if copies else [listener]
        return found

    def following(self, place: _Place, layer: str, operations: tuple[int, ...]) -> _Place | None:
        """The arithmetic unit behind a unit: in its epoch, or behind a 16-bit buffer.

        Args:
            place: of the unit.
            layer: how the names of the layer's own buffers start.
            operations: of the arithmetic unit that is looked for.
        """
        behind = self.behind(place)
        for found in behind:
            if kind_of(found.page) == "ARITH":
                return found if self.unit(found)["CTRL.OP"] in operations else None
        if not any(self.unit(f).is_writer and self.unit(f).element_bytes == 2 for f in behind):
            return None
        for at in range(place.at + 1, len(self.epochs)):
            for reader in self.epochs[at].readers:
                if reader.element_bytes != 2 or not self.name_at(reader, at).startswith(layer):
                    continue
                for found in self.behind(_Place(at, reader.page)):
                    arith = kind_of(found.page) == "ARITH"
                    if arith and self.unit(found)["CTRL.OP"] in operations:
                        return found
        return None

    def name_at(self, engine: Unit, at: int) -> str:
        """The buffer that an engine reads in an epoch: the last one written at its address."""
        address, number = engine["ADDR.REG"], self.epochs[at].number
        held = [b for b in self.buffers if b.address <= address < b.end and b.epoch < number]
        return max(held, key=lambda b: b.epoch).name if held else ""

    def layer_before(self, place: _Place) -> str:
        """How the names of the convolution start whose result reaches a unit's first port."""
        page, seen = place.page, set[int]()
        while page not in seen:
            seen.add(page)
            source = self.epochs[place.at].source(page, 0)
            if source is None:
                return ""
            if kind_of(source.page) == "STRENG":
                return _layer_of(self.name_at(source, place.at))
            if kind_of(source.page) == "CONVACC":
                engine = self.source(_Place(place.at, source.page), 1)
                address = -1 if engine is None else engine["ADDR.REG"]
                held = (b.name for b in self.weights if b.address <= address < b.end)
                return _layer_of(next(held, ""))
            page = source.page
        return ""

    def source(self, place: _Place, port: int) -> Unit | None:
        """The unit behind a port, or None."""
        return self.epochs[place.at].source(place.page, port)


def program_layers(
    epochs: Sequence[Epoch], buffers: Sequence[Buffer], peek: Peek
) -> tuple[ProgramLayer, ...]:
    """All convolutions of a program that end in requantisation, in program order."""
    program = _Program(epochs, buffers, peek)
    found = []
    for at, epoch in enumerate(epochs):
        for page in sorted(epoch.units):
            if kind_of(page) == "CONVACC":
                layer = _layer(program, _Place(at, page))
                if layer is not None:
                    found.append(layer)
    return tuple(found)


def _layer(program: _Program, tail: _Place) -> ProgramLayer | None:
    unit = program.unit(tail)
    engine = program.source(tail, 1)
    if unit["DFORMAT.OBYTES"] != 2 or engine is None or kind_of(engine.page) != "STRENG":
        return None
    address = engine["ADDR.REG"]
    kernel = next((b for b in program.weights if b.address <= address < b.end), None)
    if kernel is None:
        return None
    constants = _constants(program, tail, kernel)
    if constants is None:
        return None
    links = _links(program, tail)
    head = program.unit(links[0])
    return ProgramLayer(
        kernel.name,
        program.epochs[tail.at].number,
        np.array(kernel.scales, np.float32),
        (unit["KFORMAT.HEIGHT"], unit["KFORMAT.WIDTH"]),
        unit["KFORMAT.BTCDEPTH"],
        max(1, head["AFILT.TOT"]) if head["CTRL.AFILTMODE"] == 3 else 1,
        len(links),
        constants,
    )


def _links(program: _Program, tail: _Place) -> list[_Place]:
    """The chain that ends in a CONVACC, head first."""
    found = [tail]
    while not program.unit(found[0])["CTRL.NOSUM"]:
        before = program.source(found[0], 2)
        if before is None or kind_of(before.page) != "CONVACC":
            break
        place = _Place(tail.at, before.page)
        if place in found:
            break
        found.insert(0, place)
    return found


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def _constants(program: _Program, tail: _Place, kernel: Buffer) -> ConvConstants | None:
    """The stages behind a chain: a gain a channel, then global gain and offset; or both in one."""
    layer = kernel.name.partition("weights")[0]
    first = program.following(tail, layer, (AFFINE, PRODUCT))
    if first is None:
        return None
    unit, outshift = program.unit(first), program.unit(tail)["DFORMAT.OUTSHIFT"]
    second = None
    if unit["CTRL.OBYTES"] != 1:
        second = program.following(first, layer, (AFFINE,))
        if second is None:
            return None
    last = unit if second is None else program.unit(second)
    entries = (len(unit.coefficients), len(last.coefficients))
    channels = max(len(kernel.scales), *entries)
    if unit["CTRL.OP"] == PRODUCT:
        gain = _streamed(program, first, channels)
    else:
        gain = _gains(unit, channels)
    if second is None:
        shift = unit["SHIFT.RES"]
        offset = _offsets(program, first, channels)
        return ConvConstants(outshift, gain, shift, 1, shift, offset, Form.MERGED)
    return ConvConstants(
        outshift,
        gain,
        unit["SHIFT.RES"],
        last.signed("COEFFAC.A"),
        last["SHIFT.RES"],
        _offsets(program, second, channels),
        Form.TWO_STAGE,
    )


def _gains(unit: Unit, channels: int) -> Ints:
    """A of each channel: from the coefficient memory, or the scalar for all."""
    values = [unit["COEFFAC.A"]] * channels
    if unit["CTRL.COEFFA"]:
        values = [unit.coefficients.get(n, (0, 0))[0] & 0xFFFF for n in range(channels)]
    return np.array([_signed(v, 16) for v in values], np.int64)


def _offsets(program: _Program, place: _Place, channels: int) -> Ints:
    """What a unit adds in each channel."""
    unit = program.unit(place)
    if unit["CTRL.COMBINEBC"]:
        values = [unit["COEFFB.B"] << 16 | unit["COEFFAC.C"]] * channels
        if unit["CTRL.COEFFB"] or unit["CTRL.COEFFC"]:
            pairs = [unit.coefficients.get(n, (0, 0)) for n in range(channels)]
            values = [pair >> 16 << 16 | third & 0xFFFF for pair, third in pairs]
        return np.array([_signed(v, 32) << unit["SHIFT.C"] for v in values], np.int64)
    constant = unit.signed("COEFFAC.C") << unit["SHIFT.C"]
    if not unit["CTRL.DUALIN"]:
        return np.full(channels, constant, np.int64)
    bias = _streamed(program, place, channels)
    return (unit.signed("COEFFB.B") * bias >> unit["SHIFT.BY"]) + constant


def _streamed(program: _Program, place: _Place, channels: int) -> Ints:
    """16-bit coefficients on port Y, one a channel: those of the first pixel of each frame."""
    engine = program.source(place, 1)
    group = _group(program, place)
    if engine is None or not group or channels % group:
        return np.zeros(channels, np.int64)
    every = (engine.pattern.starts[:, None] + engine.pattern.offsets).ravel()
    frame = every.size // (channels // group)
    picked = every.reshape(-1, frame)[:, :group].ravel()
    data = [program.peek(int(address), 2) for address in picked]
    if any(len(item) != 2 for item in data):
        return np.zeros(channels, np.int64)
    return np.frombuffer(b"".join(data), "<i2").astype(np.int64)


def _group(program: _Program, place: _Place) -> int:
    """Channels a pixel has in the stream that reaches a unit, from the accelerator before it."""
    unit = program.source(place, 0)
    while unit is not None and kind_of(unit.page) == "ARITH":
        unit = program.source(_Place(place.at, unit.page), 0)
    return unit["KFORMAT.NR"] if unit is not None and kind_of(unit.page) == "CONVACC" else 0


def program_sums(epochs: Sequence[Epoch]) -> tuple[SumConstants, ...]:
    """Constants of all additions of two tensors, in program order."""
    program, found = _Program(epochs, (), lambda address, size: b""), []
    for at, epoch in enumerate(epochs):
        for page, unit in sorted(epoch.units.items()):
            if kind_of(page) != "ARITH" or unit["CTRL.OP"] != AFFINE or not unit["CTRL.DUALIN"]:
                continue
            before = program.source(_Place(at, page), 0)
            product = before is not None and (
                kind_of(before.page) == "ARITH" and before["CTRL.OP"] == PRODUCT
            )
            if unit["CTRL.OBYTES"] != 1 or unit["CTRL.COMBINEBC"] or product:
                continue
            a, b, c = (unit.signed(name) for name in ("COEFFAC.A", "COEFFB.B", "COEFFAC.C"))
            shifts = (unit[f"SHIFT.{name}"] for name in ("AX", "BY", "C", "RES"))
            ax, by, cs, res = shifts
            found.append(SumConstants(a, ax, b, by, c, cs, res))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class ProgramTable:
    """An activation function of a program.

    Attributes:
        layer: how the names of the convolution it follows start; empty when it follows none.
        values: 256 outputs by stored input byte.
    """

    layer: str
    values: Ints


def program_tables(
    epochs: Sequence[Epoch], buffers: Sequence[Buffer] = ()
) -> tuple[ProgramTable, ...]:
    """Tables of all activation functions, in program order."""
    program = _Program(epochs, buffers, lambda address, size: b"")
    return tuple(
        ProgramTable(program.layer_before(_Place(at, page)), _table(unit))
        for at, epoch in enumerate(epochs)
        for page, unit in sorted(epoch.units.items())
        if kind_of(page) == "ACTIV" and unit["CTRL.TYPE"] == 3
    )


def _table(unit: Unit) -> Ints:
    """What a function unit makes of each byte: the unit alone between two engines."""
    ends = {
        "STRENG0": {"CTRL.LSBMODE": 1, "CTRL.SIGNEXT": 1},
        "STRENG1": {"CTRL.DIR": 1, "ADDR.REG": 256},
    }
    units = {unit.page: unit}
    for name, fields in ends.items():
        registers: dict[int, int] = {}
        whole = {"CTRL.EN": 1, "CTRL.RAW": 1, "CTRL.SIZE0": 8, "FSIZE.WIDTH": 256, "LIMIT.CNT": 1}
        for key, value in {**whole, **fields}.items():
            fields_of("STRENG")[key].put(registers, value)
        units[UNITS.index(name)] = Unit(UNITS.index(name), registers, {})
    reader, writer = (UNITS.index(name) for name in ends)
    routes = {
        (unit.page, 0): Route((reader, None), (0, 0)),
        (writer, 0): Route((unit.page, None), (0, 0)),
    }
    memory = Memory({0: np.zeros(1024, np.uint8)})
    memory.load(0, bytes(range(256)))
    run_epoch(Epoch(0, units, routes, 0), memory)
    return np.frombuffer(memory.peek(256, 256), np.int8).astype(np.int64)


@dataclass(frozen=True)
class Matched:
    """A program's decisions tied to the nodes of its model.

    Attributes:
        choices: for the Graph path.
        layers: each tied convolution: node name and layer.
        missing: convolutions of the model without a layer in the program.
    """

    choices: Choices
    layers: tuple[tuple[str, ProgramLayer], ...]
    missing: tuple[str, ...]


def match_program(
    graph: Graph,
    base: Choices,
    epochs: Sequence[Epoch],
    buffers: Sequence[Buffer],
    peek: Peek,
) -> Matched:
    """The choices of a program for a graph under the contract.

    Args:
        graph: the model the program was compiled from, under a neural_art contract.
        base: choices for what the program does not tell (kernel splits, layers not found).
        epochs: of the program.
        buffers: of the compiler's table.
        peek: constants by address.
    """
    nodes = [n for n in graph.nodes if n.op in CONV_OPS and n.contract in CONTRACTS]
    pairs, missing = _pairs(graph, nodes, program_layers(epochs, buffers, peek))
    convolutions, constants = dict(base.convolutions), dict(base.constants)
    for node, layer in pairs:
        rows, columns = convolutions[node.name].rows, convolutions[node.name].columns
        single = node.op == "depthwise_conv2d"
        convolutions[node.name] = ConvChoice(
            layer.constants.form, 1 if single else layer.passes, layer.chain, rows, columns
        )
        constants[node.name] = layer.constants
    functions = [n for n in graph.nodes if n.op in FUNCTION_OPS and n.contract in CONTRACTS]
    tables = dict(base.tables) | _tables(
        graph, functions, program_tables(epochs, buffers), {n.name: lay for n, lay in pairs}
    )
    choices = replace(base, convolutions=convolutions, constants=constants, tables=tables)
    return Matched(choices, tuple((n.name, lay) for n, lay in pairs), tuple(missing))


def _tables(
    graph: Graph,
    nodes: Sequence[Node],
    found: Sequence[ProgramTable],
    layers: Mapping[str, ProgramLayer],
) -> dict[str, Ints]:
    """Each function's table: behind the same convolution, in the same place, or the nearest."""
    makers = {name: node for node in graph.nodes for name in node.outputs}
    held: dict[str, Ints] = {}
    for n, node in enumerate(nodes):
        exact = function_table(graph, node).astype(np.int64)
        gaps = [np.abs(table.values - exact) for table in found]
        near = [i for i, gap in enumerate(gaps) if gap.max() <= FUNCTION_ERROR]
        before = makers.get(next(iter(node.input_names)))
        while before is not None and is_view(before):
            before = makers.get(next(iter(before.input_names)))
        layer = None if before is None else layers.get(before.name)
        own = [i for i in near if layer and found[i].layer == _layer_of(layer.name)]
        same = [n] if len(found) == len(nodes) and n in near else []
        picked = own or same or sorted(near, key=lambda i: int(gaps[i].sum()))
        if picked:
            held[node.name] = found[picked[0]].values
    return held


def compiled_choices(graph: Graph, base: Choices, network: Compiled) -> Matched:
    """`match_program` for a compiled network as a whole; what is missing is in the answer."""
    memory = memory_for(network)

    def peek(address: int, size: int) -> bytes:
        return memory.peek(address, size) if memory.holds(address, address + size - 1) else b""

    epochs = [epoch for step in network.steps for epoch in step.epochs]
    return match_program(graph, base, epochs, network.buffers, peek)


def match_compiled(graph: Graph, base: Choices, network: Compiled) -> Matched:
    """`compiled_choices` of a program that computes every convolution of the graph.

    Raises:
        UsageError: NUM-021, a convolution of the model is not in the program.
    """
    matched = compiled_choices(graph, base, network)
    if matched.missing:
        raise UsageError("NUM-021", program=network.name, node=matched.missing[0])
    return matched


def _pairs(
    graph: Graph, nodes: Sequence[Node], layers: Sequence[ProgramLayer]
) -> tuple[list[tuple[Node, ProgramLayer]], list[str]]:
    """Nodes and layers with the same weight scales, in the order of both."""
    waiting: dict[bytes, list[ProgramLayer]] = {}
    for layer in sorted(layers, key=lambda item: item.order):
        waiting.setdefault(layer.scales.tobytes(), []).append(layer)
    pairs, missing = [], []
    for node in nodes:
        scales = graph.tensor(node.inputs[1]).quant.scale
        left = waiting.get(scales.astype(np.float32).tobytes(), [])
        if left:
            pairs.append((node, left.pop(0)))
        else:
            missing.append(node.name)
    return pairs, missing
