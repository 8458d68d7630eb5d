"""Co-simulation: the CPU side of compiled programs as machine code, the NPU side simulated."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.aton.chain import with_unit
from tests.aton.networks import write_network
from tests.tools import needs_emulator
from typer.testing import CliRunner

from npuforge import api
from npuforge.artefacts.ihex import Segment
from npuforge.aton.compiled import Buffer, Compiled, Kind, Operand, Region, Step, Work
from npuforge.aton.execute import run_program
from npuforge.aton.load import load_compiled
from npuforge.boards import CosimBoard, find_toolchain
from npuforge.boards.shared_memory import AddressMap, Window, address_map
from npuforge.cli.main import app
from npuforge.errors import ModelError, ToolError
from npuforge.firmware.aton_program import build_cosim, program_code

RAM, FLASH = 0x34200000, 0x71000000
Shape = tuple[int, int, int, int]


class Bench:
    """A compiled network of CPU steps only, built operator by operator."""

    def __init__(self) -> None:
        self.constants = bytearray()
        self.buffers: list[Buffer] = []
        self.steps: list[Step] = []
        self.at = RAM

    def constant(self, data: bytes, count: int, *, signed: bool = True) -> Operand:
        self.constants += b"\0" * (-len(self.constants) % 8)
        address = FLASH + len(self.constants)
        self.constants += data
        return Operand(address, (1, 1, 1, count), (0, 0, 0, 0), signed, count)

    def scale(self, value: float, zero: int) -> tuple[Operand, Operand]:
        return self.constant(struct.pack("<f", value), 1), self.constant(struct.pack("<b", zero), 1)

    def buffer(self, shape: Shape, kind: str, epoch: int) -> tuple[Buffer, Operand]:
        size = {"f": 4}.get(kind, 1)
        strides = tuple(int(np.prod(shape[i + 1 :])) * size for i in range(4))
        count = int(np.prod(shape))
        name = f"buffer_{len(self.buffers)}"
        made = Buffer(
            name, self.at, count * size, epoch, 1, shape, "Last", 8 * size, kind == "u",
            kind == "f", (), (), False,
        )  # fmt: skip
        operand = Operand(self.at, shape, strides, kind != "u", count)  # type: ignore[arg-type]
        self.at += -(-count * size // 32) * 32
        self.buffers.append(made)
        return made, operand

    def operator(
        self,
        kind: str,
        x: tuple[Shape, str],
        y: tuple[Shape, str],
        operands: Mapping[str, Operand] | None = None,
        **options: float | str | tuple[int, ...],
    ) -> None:
        number = len(self.steps) + 1
        source, from_ = self.buffer(*x, 0)
        target, to = self.buffer(*y, number)
        held = {"input": from_, "output": to, **(operands or {})}
        work = Work(kind, f"{kind}_{number}", "is" in held, held, (source,), (target,), options)
        self.steps.append(Step(Kind.SOFTWARE, number, work.node, (), (work,)))

    def network(self) -> Compiled:
        return Compiled(
            "bench", "", "",
            (Region("ram", RAM, max(32, self.at - RAM)),),
            (Segment(FLASH, bytes(self.constants) or b"\0"),),
            tuple(self.buffers),
            tuple(b for b in self.buffers if b.epoch == 0),
            tuple(b for b in self.buffers if b.epoch),
            tuple(self.steps),
        )  # fmt: skip


def built(network: Compiled, folder: Path) -> CosimBoard:
    return build_cosim(network, folder, find_toolchain())


def every_operator() -> Bench:
    """Every CPU operator with its options, on odd shapes."""
    rng = np.random.default_rng(7)
    bench = Bench()
    s, z = bench.scale(0.043, -11)
    to_s, to_z = bench.scale(0.0627, 5)
    quantised = {"is": s, "izp": z, "os": to_s, "ozp": to_z}
    picture: Shape = (1, 5, 7, 3)
    bench.operator("DequantizeLinear", (picture, "i"), (picture, "f"), {"is": s, "izp": z})
    bench.operator("DequantizeLinear", (picture, "u"), (picture, "f"), {"is": s, "izp": z})
    for kind in "iu":
        bench.operator("QuantizeLinear", (picture, "f"), (picture, kind), {"os": s, "ozp": z})
    for axis in (1, 2, 3):
        bench.operator("Softmax", (picture, "i"), (picture, "i"), quantised, axis=axis)
        bench.operator("Softmax", (picture, "f"), (picture, "f"), axis=axis)
    for mode in ("HALF_PIXEL", "ALIGN_CORNERS", "ASYMMETRIC", "PYTORCH_HALF_PIXEL"):
        for kind, held in (("i", quantised), ("f", None)):
            ends = ((picture, kind), ((1, 9, 4, 3), kind))
            bench.operator("Resize", *ends, held, mode="RESIZE_LINEAR", coord_transf_mode=mode)
    for near in ("FLOOR", "CEIL", "ROUND_PREFER_FLOOR", "ROUND_PREFER_CEIL"):
        bench.operator(
            "Resize", (picture, "i"), ((1, 10, 14, 3), "i"), quantised,
            mode="RESIZE_NEAREST", nearest_mode=near, coord_transf_mode="HALF_PIXEL",
        )  # fmt: skip
    for curve in (
        "HARDSIGMOID", "HARDSWISH", "SIGMOID", "TANH", "RELU", "LEAKYRELU", "EXP", "SQRT", "ABS",
        "RECIPROCAL", "NEG", "LOG", "SIN", "COS", "SIGN", "ROUND", "FLOOR", "CEIL", "SWISH",
    ):  # fmt: skip
        bench.operator(
            "HardSigmoid", (picture, "f"), (picture, "f"),
            type=f"LL_SW_{curve}", alpha=0.2, beta=0.5,
        )  # fmt: skip
    operand_s, operand_zp = bench.scale(0.031, 7)
    for pair in ("ADD", "SUB", "MUL", "DIV", "MIN", "MAX"):
        for function, kind, held, other in (
            ("ll_sw_forward_arith", "f", {}, (1, 5, 1, 3)),
            ("ll_sw_forward_eltwise_integer", "i", quantised, picture),
            ("ll_sw_forward_arith", "u", quantised, (1, 1, 1, 1)),
        ):
            second = bench.buffer(other, kind, 0)[1]
            scales = {"operand_s": operand_s, "operand_zp": operand_zp} if held else {}
            bench.operator(
                "Arith", (picture, kind), (picture, kind), {**held, "operand": second, **scales},
                type=f"LL_SW_ARITH{pair}", function=function,
            )  # fmt: skip
    for groups in (1, 2):
        kernels = rng.integers(-128, 128, (4, 3, 2, 6 // groups)).astype(np.int8)
        shape = kernels.shape
        strides = tuple(int(np.prod(shape[i + 1 :])) for i in range(4))
        at = bench.constant(kernels.tobytes(), kernels.size)
        zeros = bytes([3]) if groups == 1 else bytes([0, 1, 254, 2])
        bench.operator(
            "Conv", ((1, 6, 5, 6), "i"), ((1, 3, 5, 4), "i"),
            {
                **quantised,
                "weights": replace(at, shape=shape, strides=strides),
                "ws": bench.constant(struct.pack("<4f", 2e-3, 3e-3, 4e-3, 5e-4), 4),
                "wzp": bench.constant(zeros, len(zeros)),
                "bias": bench.constant(struct.pack("<4i", 100, -2000, 3, 77), 4),
            },
            pads=(1, 0, 0, 1), strides=(2, 1), ngroup=groups,
        )  # fmt: skip
    order = (0, 3, 1, 2)
    bench.operator("Transpose", (picture, "i"), ((1, 3, 5, 7), "i"), permutation=order, bytes=1)
    bench.operator("DepthToSpace", ((1, 2, 3, 8), "f"), ((1, 4, 6, 2), "f"))
    bench.operator("SpaceToDepth", ((1, 4, 6, 2), "i"), ((1, 2, 3, 8), "i"))
    return bench


def random_data(network: Compiled, seed: int) -> dict[str, bytes]:
    rng = np.random.default_rng(seed)
    data = {}
    for buffer in network.inputs:
        if buffer.real:
            values = np.abs(rng.normal(0, 4, buffer.size // 4)) if seed % 2 else None
            values = rng.normal(0, 4, buffer.size // 4) if values is None else values
            data[buffer.name] = values.astype("<f4").tobytes()
        else:
            data[buffer.name] = rng.bytes(buffer.size)
    return data


@needs_emulator
def test_every_cpu_operator_equals_the_simulator(tmp_path: Path) -> None:
    """Integers and moved bytes equal; floats to the last bit but one (another libm)."""
    network = every_operator().network()
    board = built(network, tmp_path)
    for seed in (1, 2):
        data = random_data(network, seed)
        with np.errstate(invalid="ignore"):
            want = run_program(network, data).outputs
        got = board.run(data).outputs
        assert set(got) == {b.name for b in network.outputs}
        for step, buffer in zip(network.steps, network.outputs, strict=True):
            if buffer.real:
                ours, theirs = (np.frombuffer(d[buffer.name], "<f4") for d in (got, want))
                np.testing.assert_allclose(ours, theirs, rtol=1.3e-7, err_msg=step.name)
            else:
                assert got[buffer.name] == want[buffer.name], step.name


def test_elements_of_16_bit_are_refused_by_name() -> None:
    bench = Bench()
    s, z = bench.scale(0.5, 0)
    second = bench.buffer((1, 2, 2, 3), "i", 0)[1]
    wide = replace(second, strides=(24, 12, 6, 2))
    scales = {"is": s, "izp": z, "os": s, "ozp": z, "operand_s": s, "operand": wide}
    shape = ((1, 2, 2, 3), "i")
    bench.operator(
        "Arith", shape, shape, scales, type="LL_SW_ARITHADD", function="ll_sw_forward_arith"
    )
    network = bench.network()
    with pytest.raises(ModelError, match="16 bit"):
        program_code(network, address_map(network))


@needs_emulator
def test_a_program_runs_on_both_sides(tmp_path: Path) -> None:
    network = load_compiled(write_network(tmp_path / "net"))
    board = built(network, tmp_path / "fw")
    for values in ([-128, -3, -1, 0, 1, 2, 42, 127], [5, 4, 3, 2, 1, 0, -1, -2]):
        data = {"x": np.array(values, np.int8).tobytes()}
        run = board.run(data)
        alone = run_program(network, data, capture=True)
        assert (run.handovers, len(run.epochs)) == (1, 1)
        assert run.outputs == alone.outputs
        assert run.buffers == {"z": alone.buffers["z"]}
        assert run.epochs == alone.epochs
    other = run_program(network, {"x": bytes(8)})
    assert run.outputs != other.outputs


@needs_emulator
def test_another_programs_image_is_refused(tmp_path: Path) -> None:
    network = load_compiled(write_network(tmp_path / "net"))
    board = built(network, tmp_path / "fw")
    stale = CosimBoard(
        network, address_map(network), board._image, board._number ^ 1, ("z",), find_toolchain()
    )
    with pytest.raises(ToolError, match="BRD-022"):
        stale.run({"x": bytes(8)})


@needs_emulator
def test_a_program_the_chip_would_hang_on_ends_with_its_reason(tmp_path: Path) -> None:
    network = load_compiled(write_network(tmp_path / "net"))
    starved = with_unit(network, 2, "STRENG1", LIMIT__CNT=2)
    with pytest.raises(ModelError, match="ATN-006"):
        built(starved, tmp_path / "fw").run({"x": bytes(8)})


def test_what_the_cpu_side_cannot_do_is_refused() -> None:
    bench = Bench()
    bench.operator("Sort", ((1, 1, 1, 4), "i"), ((1, 1, 1, 4), "i"))
    network = bench.network()
    with pytest.raises(ModelError, match=r"ATN-013.*Sort_1"):
        program_code(network, address_map(network))
    bench = Bench()
    s, z = bench.scale(1.0, 0)
    bench.operator(
        "DequantizeLinear", ((1, 1, 1, 4), "i"), ((1, 1, 1, 4), "f"), {"is": s, "izp": z}
    )
    work = bench.steps[0].work[0]
    over = replace(work.operands["output"], address=work.operands["input"].address)
    moved = replace(work, operands={**work.operands, "output": over})
    network = replace(bench.network(), steps=(replace(bench.steps[0], work=(moved,)),))
    with pytest.raises(ModelError, match="overlap"):
        program_code(network, address_map(network))


def test_memories_find_their_place_in_the_shared_ram() -> None:
    network = every_operator().network()
    places = address_map(network)
    spans = sorted((w.guest, w.guest + w.high - w.low) for w in places.windows)
    assert all(low[1] <= high[0] for low, high in itertools.pairwise(spans))
    assert spans[0][0] >= 0x60010000
    assert places.guest(FLASH) == FLASH
    assert places.guest(RAM + 5) == places.guest(RAM) + 5 != RAM + 5
    with pytest.raises(ToolError, match="BRD-020"):
        places.guest(0x10)
    with pytest.raises(ToolError, match="BRD-020"):
        AddressMap((Window(16, 32, 0x60100000),)).guest(31, 2)
    huge = replace(network, regions=(Region("a", 0x100, 0x7FFF0000), Region("b", 0x90000000, 64)))
    with pytest.raises(ToolError, match="BRD-021"):
        address_map(huge)


@needs_emulator
def test_the_verb(tmp_path: Path) -> None:
    folder = write_network(tmp_path / "net")
    result = CliRunner().invoke(app, ["aton", "cosim", str(folder), "-o", str(tmp_path / "fw")])
    assert result.exit_code == 0, result.output
    assert "0 bytes differ" in " ".join(result.output.split())
    assert (tmp_path / "fw" / "network" / "program.c").is_file()


@needs_emulator
@pytest.mark.shared
@pytest.mark.parametrize(
    "name",
    ["mobilenet_v1_025_96", "movenet_lightning_192", "deeplab_v3_mnv2_320", "yolox_nano_480"],
)
def test_published_programs(shared: Path, name: str) -> None:
    document = api.aton_cosimulate(shared / "aton" / name, seed=3)
    assert document["differences"] == 0
    assert document["handovers"] >= 1
    assert {b["kind"] for b in document["buffers"]} == {"cpu step", "output"}
