"""Choices read from programs: a hand-made layer through both paths, compiled networks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.builders import single, tensor

from npuforge import api
from npuforge.accelerators.neural_art.lowering import default_choices
from npuforge.aton import Epoch, Memory, Route, Unit, run_epoch
from npuforge.aton.choices import match_compiled, match_program, program_layers, program_sums
from npuforge.aton.compiled import Buffer
from npuforge.aton.load import load_compiled
from npuforge.aton.registers import UNITS, fields_of, kind_of
from npuforge.errors import UsageError
from npuforge.graph import ConvAttrs, Graph, Quantization
from npuforge.numerics import random_inputs
from npuforge.numerics.neural_art import (
    ConvConstants,
    NeuralArtExecutor,
    SumConstants,
    node_constants,
    with_neural_art,
)
from npuforge.validate.buffers import input_bytes, model_input
from npuforge.validate.program import compare_program
from npuforge.vocab import Contract, DType

BASE, WEIGHTS = 0x34000000, 0x70380000
HEIGHT, WIDTH, OUTPUTS, BATCH, PASSES, CHAIN = 2, 3, 4, 3, 2, 2
CHANNELS = BATCH * PASSES * CHAIN


def unit(
    name: str, coefficients: Mapping[int, tuple[int, int]] | None = None, **fields: int
) -> Unit:
    """A unit by REGISTER_FIELD names; ADDR, FOFFSET and the like are whole registers."""
    page = UNITS.index(name)
    known = fields_of(kind_of(page))
    registers: dict[int, int] = {}
    for key, value in {"CTRL_EN": 1, **fields}.items():
        known[key.replace("_", ".", 1)].put(registers, value)
    return Unit(page, registers, coefficients or {})


def model() -> Graph:
    rng = np.random.default_rng(3)
    scale = np.array([0.01, 0.013, 0.007, 0.02], np.float32)
    weights = rng.integers(-60, 128, (OUTPUTS, 1, 1, CHANNELS))
    bias = rng.integers(-2000, 2000, OUTPUTS)
    x = tensor("x", (1, HEIGHT, WIDTH, CHANNELS), quant=(0.05, -7))
    w = tensor("w", weights.shape, quant=Quantization.per_channel(scale, 0), data=weights)
    scales = Quantization.per_channel(scale * np.float32(0.05), 0)
    b = tensor("b", (OUTPUTS,), DType.INT32, scales, bias)
    y = tensor("y", (1, HEIGHT, WIDTH, OUTPUTS), quant=(0.4, 4))
    return with_neural_art(single("conv2d", [x, w, b], [y], ConvAttrs()), Contract.NEURAL_ART)


def coefficients(c: ConvConstants, offset: bool) -> dict[int, tuple[int, int]]:
    """Entries of a coefficient memory: gains, or offsets as B << 16 | C."""
    if not offset:
        return {n: (int(a) & 0xFFFF, 0) for n, a in enumerate(c.gain)}
    words = [int(v) & 0xFFFFFFFF for v in c.offset]
    return {n: (word & 0xFFFF0000, word & 0xFFFF) for n, word in enumerate(words)}


def accelerator(n: int, c: ConvConstants, link: int) -> Unit:
    """Link of a chain of two that runs over two passes, signed zero point."""
    last = link == CHAIN - 1
    loop = {"CTRL_AFILTMODE": 3, "AFILT_TOT": PASSES, "AFILT_FIRST": 1, "AFILT_LAST": PASSES - 1}
    return unit(
        f"CONVACC{n}",
        CTRL_SIMD=2, KFORMAT_WIDTH=1, KFORMAT_HEIGHT=1, KFORMAT_BTCDEPTH=BATCH,
        KFORMAT_NR=OUTPUTS, SAMPLE_HSTRD=1, SAMPLE_VSTRD=1, FSUB_FSUB=-7,
        DFORMAT_FBYTES=2, DFORMAT_ROUND=1, DFORMAT_SAT=1, DFORMAT_OBYTES=2 if last else 3,
        DFORMAT_OUTSHIFT=c.outshift if last else 0, DFORMAT_INSHIFT=0 if link else c.outshift,
        FFORMAT_WIDTH=WIDTH * BATCH, FFORMAT_HEIGHT=HEIGHT, FHCROP_RIGHT=0xFFFF,
        FVCROP_BOTTOM=0xFFFF, KFILT_TOT=CHAIN * OUTPUTS, KFILT_FIRST=link * OUTPUTS,
        KFILT_LAST=link * OUTPUTS + OUTPUTS - 1, **({} if link else loop),
    )  # fmt: skip


def epoch(c: ConvConstants) -> Epoch:
    """Readers of two channel slices each, kernels broadcast to both, requantisation, writer."""
    plain = {"CTRL_SIZE0": 8}
    vector = {
        **{"INCCNT_INCVAL": 0, "INCOFFSET_VAL": 1, "CTRL_CNT1": 1},
        **{"RSTCNT1_RSTCNT": OUTPUTS - 1, "ADDROFFSET_OFFSET1": -(OUTPUTS - 1)},
    }
    stage = {"CTRL_ROUND": 1, "CTRL_SAT": 1, "INSHIFTER_FBYTESX": 2}
    raster = {
        **{"FSIZE_WIDTH": WIDTH, "FSIZE_HEIGHT": HEIGHT, "DEPTH_SIZE": BATCH},
        **{"DEPTH_OFFSET": CHANNELS, "STRD_LOFF": WIDTH * CHANNELS, "LIMIT_CNT": PASSES},
        **{"FOFFSET_REG": BATCH * CHAIN, "CTRL_LSBMODE": 1, "CTRL_SIGNEXT": 1},
    }
    units = [
        unit("STRENG0", ADDR_REG=BASE, **plain, **raster),
        unit("STRENG1", ADDR_REG=BASE + BATCH, **plain, **raster),
        unit("STRENG2", ADDR_REG=WEIGHTS, CTRL_RAW=1, **plain, FSIZE_WIDTH=CHANNELS * OUTPUTS,
             LIMIT_CNT=1),
        unit("STRENG3", ADDR_REG=BASE + 0x400, CTRL_RAW=1, CTRL_DIR=1, **plain,
             FSIZE_WIDTH=HEIGHT * WIDTH * OUTPUTS, LIMIT_CNT=1),
        accelerator(1, c, 0),
        accelerator(0, c, 1),
        unit("ARITH1", coefficients(c, False), CTRL_COEFFA=1, COEFFAC_A=1, CTRL_OBYTES=2,
             SHIFT_RES=c.gain_shift, **stage, **vector),
        unit("ARITH0", coefficients(c, True), CTRL_COEFFB=1, CTRL_COEFFC=1, CTRL_COMBINEBC=1,
             COEFFAC_A=c.global_gain, CTRL_OBYTES=1, SHIFT_RES=c.global_shift, **stage, **vector),
    ]  # fmt: skip
    wires = [
        ("CONVACC1", 0, "STRENG0"), ("CONVACC0", 0, "STRENG1"), ("CONVACC1", 1, "STRENG2"),
        ("CONVACC0", 1, "STRENG2"), ("CONVACC1", 2, "CONVACC0"), ("CONVACC0", 2, "CONVACC1"),
        ("ARITH0", 0, "ARITH1"), ("STRENG3", 0, "ARITH0"),
    ]  # fmt: skip
    page = UNITS.index
    routes = {(page(to), port): Route((page(of), None), (0, 0)) for to, port, of in wires}
    # the sum of the first pass goes only back into the chain
    routes[page("ARITH1"), 0] = Route((None, page("CONVACC0")), (1, 1))
    return Epoch(1, {u.page: u for u in units}, routes, 0)


def kernels(graph: Graph) -> bytes:
    """Weights in the order of the passes: slice by slice, one kernel after another."""
    w = graph.tensors["w"].array.reshape(OUTPUTS, PASSES * CHAIN, BATCH)
    return np.ascontiguousarray(w.transpose(1, 0, 2)).astype(np.int8).tobytes()


def names(graph: Graph) -> list[Buffer]:
    scales = tuple(float(s) for s in graph.tensors["w"].quant.scale)
    kernels = ("Conv2D_7_weights", WEIGHTS, CHANNELS * OUTPUTS, 0)
    return [Buffer(*kernels, BATCH, (), "UNDEFINED", 8, False, False, scales, (), True)]


def test_simulated_epoch_equals_the_graph_path() -> None:
    graph = model()
    node = graph.nodes[0]
    c = node_constants(graph, node)
    assert c.outshift > 0
    data = kernels(graph)
    x = np.random.default_rng(1).integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)
    # other constants than the model's, to see that they are taken from the program
    changed = ConvConstants(
        c.outshift + 2, c.gain + 5, c.gain_shift - 1, c.global_gain - 3, c.global_shift,
        c.offset + 70_000, c.form,
    )  # fmt: skip
    for constants in (c, changed):
        built = epoch(constants)
        memory = Memory(
            {BASE: np.zeros(4096, np.uint8), WEIGHTS: np.zeros(len(data) + 64, np.uint8)}
        )
        memory.load(BASE, x.tobytes())
        memory.load(WEIGHTS, data)
        run_epoch(built, memory)
        stored = memory.peek(BASE + 0x400, HEIGHT * WIDTH * OUTPUTS)
        matched = match_program(
            graph, default_choices(graph), [built], names(graph), lambda address, size: b""
        )
        assert not matched.missing
        choice = matched.choices.convolutions[node.name]
        assert (choice.passes, choice.chain) == (PASSES, CHAIN)
        found = NeuralArtExecutor(graph, matched.choices).run({"x": x})["y"]
        np.testing.assert_array_equal(np.frombuffer(stored, np.int8), found.ravel())
        assert np.ptp(found) > 40


def test_constants_come_back_as_they_were_written() -> None:
    graph = model()
    c = node_constants(graph, graph.nodes[0])
    (layer,) = program_layers([epoch(c)], names(graph), lambda address, size: b"")
    assert (layer.batch, layer.kernel, layer.order) == (BATCH, (1, 1), 7)
    found = layer.constants
    stages = ("outshift", "gain_shift", "global_gain", "global_shift", "form")
    assert all(getattr(found, name) == getattr(c, name) for name in stages)
    np.testing.assert_array_equal(found.gain, c.gain)
    np.testing.assert_array_equal(found.offset, c.offset)


def test_additions_are_told_from_requantisation() -> None:
    wanted = SumConstants(29123, 0, 23880, 1, -700, 6, 15)
    adder = unit(
        "ARITH2", CTRL_DUALIN=1, CTRL_OBYTES=1, COEFFAC_A=wanted.a, COEFFB_B=wanted.b,
        COEFFAC_C=wanted.c, SHIFT_BY=wanted.by, SHIFT_C=wanted.cs, SHIFT_RES=wanted.shift,
    )  # fmt: skip
    ends = [unit(f"STRENG{n}", ADDR_REG=BASE) for n in (0, 1)]
    page = UNITS.index
    routes = {
        (page("ARITH2"), port): Route((page(f"STRENG{port}"), None), (0, 0)) for port in (0, 1)
    }
    alone = Epoch(1, {u.page: u for u in (*ends, adder)}, routes, 0)
    graph = model()
    layer = epoch(node_constants(graph, graph.nodes[0]))
    assert program_sums([layer, alone]) == (wanted,)


@pytest.mark.shared
def test_constants_of_compiled_networks(shared: Path) -> None:
    """The smallest of the compiled networks; `benchmarks/requant_constants.py` takes all."""
    network = load_compiled(shared / "aton" / "mobilenet_v1_025_96")
    graph = api.load_graph(shared / "models" / network.model, "neural_art")
    matched = match_compiled(graph, default_choices(graph), network)
    nodes = {node.name: node for node in graph.nodes}
    assert (len(matched.layers), matched.missing) == (28, ())
    gains = offsets = 0
    for name, layer in matched.layers:
        ours, theirs = node_constants(graph, nodes[name]), layer.constants
        assert ours.outshift == theirs.outshift
        assert (ours.gain_shift, ours.global_gain) == (theirs.gain_shift, theirs.global_gain)
        gains += int(np.count_nonzero(ours.gain != theirs.gain))
        offsets += int(np.count_nonzero(ours.offset != theirs.offset))
    assert (gains, offsets) == (1, 0)


@pytest.mark.shared
def test_program_path_equals_the_graph_path(shared: Path) -> None:
    """Every buffer of a whole program; `benchmarks/compiled_networks.py` takes all."""
    folder = shared / "aton" / "mobilenet_v1_025_96"
    network = load_compiled(folder)
    graph = api.load_graph(shared / "models" / network.model, "neural_art")
    executor = NeuralArtExecutor(graph, api.chip_choices(graph, folder))
    values = random_inputs(graph, np.random.default_rng(7))
    (buffer,), (name,) = network.inputs, graph.inputs
    data = {buffer.name: input_bytes(buffer, values[name])}
    same = {name: model_input(buffer, graph.tensor(name), data[buffer.name])}
    executor.run(same)
    tensors = {**executor.read(executor.activations()), **same}
    found = compare_program(network, data, graph, tensors)
    assert len(found.buffers) == 34  # the transpose of the input, which moves nothing, among them
    assert [b.buffer for b in found.buffers if b.differing] == []


@pytest.mark.shared
def test_another_models_program_is_refused(shared: Path) -> None:
    folder = shared / "aton" / "mobilenet_v1_025_96"
    with pytest.raises(UsageError) as caught:
        match_compiled(model(), default_choices(model()), load_compiled(folder))
    assert caught.value.code == "NUM-021"


def test_a_program_needs_the_chips_contract(tmp_path: Path) -> None:
    graph = single("relu", [tensor("x", (1, 4))], [tensor("y", (1, 4))])
    with pytest.raises(UsageError) as caught:
        api.make_executor(graph, program=tmp_path)
    assert caught.value.code == "NUM-022"
