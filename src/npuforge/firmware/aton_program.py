"""A compiled Neural-ART program's CPU side as C: steps, operators, caches, inputs and outputs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from npuforge.aton.compiled import CacheStep, Compiled, Kind, Operand, Step, Work
from npuforge.aton.execute import memory_for
from npuforge.aton.moves import MOVERS, extent_of, moves_of, refuse, tensor_of
from npuforge.aton.options import listed, option
from npuforge.aton.software import curve_of, kernel_of, resize_taps, softmax_axis
from npuforge.aton.streams import Memory
from npuforge.boards import CosimBoard, Toolchain, build_project, write_sources
from npuforge.boards.shared_memory import AddressMap, address_map
from npuforge.firmware.names import comment, float_literal, int_literal
from npuforge.firmware.project import runtime_folder, template_files
from npuforge.memory.linker import linker_script
from npuforge.targets import Target, load_target

CURVES = {
    "LL_SW_HARDSIGMOID": "HARD_SIGMOID",
    "LL_SW_HARDSWISH": "HARD_SWISH",
    "LL_SW_SIGMOID": "SIGMOID",
    "LL_SW_TANH": "TANH",
    "LL_SW_RELU": "RELU",
    "LL_SW_LEAKYRELU": "LEAKY_RELU",
    "LL_SW_EXP": "EXP",
    "LL_SW_SQRT": "SQRT",
    "LL_SW_ABS": "ABS",
    "LL_SW_RECIPROCAL": "RECIPROCAL",
    "LL_SW_NEG": "NEG",
    "LL_SW_LOG": "LOG",
    "LL_SW_SIN": "SIN",
    "LL_SW_COS": "COS",
    "LL_SW_SIGN": "SIGN",
    "LL_SW_ROUND": "ROUND",
    "LL_SW_FLOOR": "FLOOR",
    "LL_SW_CEIL": "CEIL",
    "LL_SW_SWISH": "SWISH",
}
PAIRS = {f"LL_SW_ARITH{name}": name for name in ("ADD", "SUB", "MUL", "DIV", "MIN", "MAX")}


@dataclass(frozen=True)
class ProgramCode:
    """Generated C of a program.

    Attributes:
        source: text of ``program.c``.
        number: identifies the program in the hand-over to the NPU.
        captures: names of the buffers CPU steps leave, in the order of the capture table.
    """

    source: str
    number: int
    captures: tuple[str, ...]


@dataclass
class _Writer:
    """Definitions collected while steps are written."""

    memory: Memory
    places: AddressMap
    lines: list[str] = field(default_factory=list)
    count: int = 0

    def define(self, kind: str, body: str, *, many: bool = False) -> str:
        name = f"item_{self.count}"
        self.count += 1
        brackets = "[]" if many else ""
        self.lines.append(f"static const {kind} {name}{brackets} = {{{body}}};")
        return name


class _Operator:
    """One CPU operator on its way to C."""

    def __init__(self, writer: _Writer, epoch: int, work: Work) -> None:
        self.writer, self.epoch, self.work = writer, epoch, work

    def operand(self, role: str) -> Operand:
        return tensor_of(self.epoch, self.work, role)

    def end(self, item: Operand, size: int) -> int:
        return item.address + extent_of(self.epoch, self.work, item, size)

    def constants(self, role: str, kind: str) -> list[float]:
        """Numbers of a constant operand; they must be in the weight image."""
        item = self.operand(role)
        size = np.dtype(kind).itemsize * max(1, item.count)
        if self.writer.memory.first_unwritten(item.address, size) is not None:
            raise refuse(self.epoch, self.work, f"{role} is not a constant")
        data = self.writer.memory.peek(item.address, size)
        return [float(value) for value in np.frombuffer(data, kind)]

    def zeros(self, role: str) -> list[int]:
        kind = "<i1" if self.operand(role).signed else "<u1"
        return [int(value) for value in self.constants(role, kind)]

    def tensor(self, role: str, *, real: bool) -> str:
        return self.literal(self.operand(role), real=real)

    def literal(self, item: Operand, *, real: bool) -> str:
        if not real and min(item.strides) == 2:
            raise refuse(self.epoch, self.work, "elements of 16 bit")
        size = 4 if real else 1
        address = self.writer.places.guest(item.address, self.end(item, size) - item.address)
        kind = "FLOAT32" if real else "INT8" if item.signed else "UINT8"
        dims = ", ".join(f"{n}u" for n in item.shape)
        strides = ", ".join(f"{n}u" for n in item.strides)
        return f"{{{address:#x}u, {{{dims}}}, {{{strides}}}, NF_ATON_{kind}}}"

    def scale(self, step: str, zero: str) -> str:
        if step not in self.work.operands:
            return "{0.0f, 0}"
        value = self.constants(step, "<f4")[0]
        held = self.zeros(zero)[0] if zero in self.work.operands else 0
        return f"{{{float_literal(value)}, {int_literal(held)}}}"

    def repeated(self, role: str, scale: str, zero: str, *, real: bool) -> str:
        """One of two operands, repeated to the output's shape, with the output."""
        x, y = self.operand(role), self.operand("output")
        if any(n not in (1, m) for n, m in zip(x.shape, y.shape, strict=True)):
            raise refuse(self.epoch, self.work, f"{x.shape} for {y.shape}")
        size = 4 if real else 1
        apart = y.address >= self.end(x, size) or self.end(y, size) <= x.address
        in_place = (x.address, x.shape, x.strides) == (y.address, y.shape, y.strides)
        if not (apart or in_place):
            raise refuse(self.epoch, self.work, "input and output overlap")
        first = self.tensor(role, real=real).rpartition("}, {")[0]
        steps = ", ".join(
            f"{0 if n == 1 else step}u" for n, step in zip(x.shape, x.strides, strict=True)
        )
        kind = "FLOAT32" if real else "INT8" if x.signed else "UINT8"
        held = f"{first}}}, {{{steps}}}, NF_ATON_{kind}}}"
        scales = ["{0.0f, 0}"] * 2 if real else [self.scale(scale, zero), self.scale("os", "ozp")]
        return f"{{{held}, {self.tensor('output', real=real)}, {scales[0]}, {scales[1]}}}"

    def map(self, real_in: bool, real_out: bool, *, shapes: bool = True) -> str:
        """Input and output of a one-to-one operator; they must not overlap by halves."""
        x, y = self.operand("input"), self.operand("output")
        if shapes and x.shape != y.shape:
            raise refuse(self.epoch, self.work, f"{x.shape} for {y.shape}")
        high, last = self.end(x, 4 if real_in else 1), self.end(y, 4 if real_out else 1)
        in_place = x.address == y.address and real_in == real_out and x.strides == y.strides
        apart = y.address >= high or last <= x.address
        if not (apart or (in_place and shapes)):
            raise refuse(self.epoch, self.work, "input and output overlap")
        ends = self.tensor("input", real=real_in), self.tensor("output", real=real_out)
        from_scale = self.scale("is", "izp") if not real_in else "{0.0f, 0}"
        to_scale = self.scale("os", "ozp") if not real_out else "{0.0f, 0}"
        return f"{{{ends[0]}, {ends[1]}, {from_scale}, {to_scale}}}"


def _dequantise(op: _Operator) -> tuple[str, str, str]:
    return "nf_aton_run_dequantize", "nf_aton_map", op.map(False, True)[1:-1]


def _quantise(op: _Operator) -> tuple[str, str, str]:
    return "nf_aton_run_quantize", "nf_aton_map", op.map(True, False)[1:-1]


def _softmax(op: _Operator) -> tuple[str, str, str]:
    real = "is" not in op.work.operands
    body = f"{op.map(real, real)}, {softmax_axis(op.work)}u"
    return "nf_aton_run_softmax", "nf_aton_softmax", body


def _resize(op: _Operator) -> tuple[str, str, str]:
    real = "is" not in op.work.operands
    x, y = op.operand("input"), op.operand("output")
    if (x.shape[0], x.shape[3]) != (y.shape[0], y.shape[3]):
        raise refuse(op.epoch, op.work, f"{x.shape} for {y.shape}")
    tables = []
    for axis in (1, 2):
        at = resize_taps(op.epoch, op.work, x.shape[axis], y.shape[axis])
        rows = ", ".join(
            f"{{{first}u, {second}u, {float(part).hex()}}}"
            for first, second, part in zip(at.first, at.second, at.part, strict=True)
        )
        tables.append(op.writer.define("nf_aton_tap", rows, many=True))
    body = f"{op.map(real, real, shapes=False)}, {tables[0]}, {tables[1]}"
    return "nf_aton_run_resize", "nf_aton_resize", body


def _function(op: _Operator) -> tuple[str, str, str]:
    kind = curve_of(op.work)
    if kind not in CURVES or "is" in op.work.operands:
        raise refuse(op.epoch, op.work, kind)
    numbers = [option(op.work, name, 0.0).hex() for name in ("alpha", "beta")]
    body = f"{op.map(True, True)}, NF_ATON_{CURVES[kind]}, {', '.join(numbers)}"
    return "nf_aton_run_function", "nf_aton_function", body


def _pair(op: _Operator) -> tuple[str, str, str]:
    kind = curve_of(op.work)
    if kind not in PAIRS:
        raise refuse(op.epoch, op.work, kind)
    real = "is" not in op.work.operands
    first = op.repeated("input", "is", "izp", real=real)
    second = op.repeated("operand", "operand_s", "operand_zp", real=real)
    return "nf_aton_run_pair", "nf_aton_pair", f"{first}, {second}, NF_ATON_{PAIRS[kind]}"


def _convolve(op: _Operator) -> tuple[str, str, str]:
    work = op.work
    if "is" not in work.operands:
        raise refuse(op.epoch, work, "float convolution")
    x, y, k = op.operand("input"), op.operand("output"), op.operand("weights")
    pads, strides = listed(work, "pads", 4, 0), listed(work, "strides", 2, 1)
    groups = int(option(work, "ngroup", 1))
    if listed(work, "dilations", 2, 1) != (1, 1) or x.shape[0] != 1:
        raise refuse(op.epoch, work, "dilation or several images")
    made, high, wide, deep = k.shape
    rows = (x.shape[1] + pads[0] + pads[2] - high) // strides[0] + 1
    columns = (x.shape[2] + pads[1] + pads[3] - wide) // strides[1] + 1
    fits = groups >= 1 and made % groups == 0 and x.shape[3] == deep * groups
    if not fits or min(pads) < 0 or y.shape != (1, rows, columns, made):
        raise refuse(op.epoch, work, f"{x.shape} with kernels {k.shape} for {y.shape}")
    steps, scale = op.constants("ws", "<f4"), op.constants("is", "<f4")[0]
    zeros = [str(int(zero)) for zero in _each(op.zeros("wzp"), made)]
    gains = [(scale * step).hex() for step in _each(steps, made)]
    gain = op.writer.define("double", ", ".join(gains), many=True)
    zero = op.writer.define("int32_t", ", ".join(zeros), many=True)
    bias = "NULL"
    if "bias" in work.operands:
        values = [int_literal(int(v)) for v in op.constants("bias", "<i4")]
        bias = op.writer.define("int32_t", ", ".join(values), many=True)
    parts = (
        op.map(False, False, shapes=False),
        op.tensor("weights", real=False),
        f"{bias}, {zero}, {gain}",
        f"{{{strides[0]}u, {strides[1]}u}}, {{{pads[0]}u, {pads[1]}u}}, {groups}u",
    )
    return "nf_aton_run_conv", "nf_aton_conv", ", ".join(parts)


def _each(values: Sequence[float], count: int) -> list[float]:
    """One value a channel: given so, or one for all."""
    return list(values) if len(values) == count else [values[0]] * count


_KERNELS: dict[str, Callable[[_Operator], tuple[str, str, str]]] = {
    "DequantizeLinear": _dequantise,
    "QuantizeLinear": _quantise,
    "Softmax": _softmax,
    "Resize": _resize,
    "Conv": _convolve,
    "HardSigmoid": _function,
    "ll_sw_forward_activ": _function,
    "ll_sw_forward_arith": _pair,
    "ll_sw_forward_eltwise_integer": _pair,
}


def _operators(writer: _Writer, epoch: int, work: Work) -> list[tuple[str, str]]:
    """Function and constant of every step a CPU operator becomes."""
    if work.kind in MOVERS:
        steps = []
        for move in moves_of(epoch, work):
            ends = (
                writer.places.guest(move.source, move.source_reach),
                writer.places.guest(move.target, move.target_reach),
            )
            numbers = [
                "{" + ", ".join(f"{n}u" for n in values) + "}"
                for values in (move.dims, move.source_strides, move.target_strides)
            ]
            body = f"{ends[0]:#x}u, {ends[1]:#x}u, {move.size}u, {', '.join(numbers)}"
            steps.append(("nf_aton_run_move", writer.define("nf_aton_move", body)))
        return steps
    kernel = kernel_of(epoch, work, _KERNELS)
    function, kind, body = kernel(_Operator(writer, epoch, work))
    return [(function, writer.define(kind, body))]


def _caches(writer: _Writer, step: Step) -> str:
    ranges = [_cache(writer.places, item) for item in (*step.before, *step.after)]
    return writer.define("nf_aton_cache", ", ".join(ranges), many=True) if ranges else "NULL"


def _cache(places: AddressMap, item: CacheStep) -> str:
    names = [n for n, on in (("CLEAN", item.clean), ("INVALIDATE", item.invalidate)) if on]
    what = " | ".join(f"NF_ATON_{name}" for name in names) or "0"
    return f"{{{places.guest(item.address, item.size):#x}u, {item.size}u, {what}}}"


def _rows(writer: _Writer, number: int, step: Step) -> list[str]:
    """Rows of the step table: one a hand-over, one a copy or operator."""
    caches = _caches(writer, step)
    if step.kind is Kind.HARDWARE:
        parts = [("NULL", "NULL")]
    else:
        parts = [pair for work in step.work for pair in _operators(writer, step.number, work)]
        parts = [(function, f"&{name}") for function, name in parts]
    rows = []
    for i, (function, constant) in enumerate(parts):
        before = len(step.before) if i == 0 else 0
        after = len(step.after) if i == len(parts) - 1 else 0
        first = caches
        if caches != "NULL" and i > 0:
            first = f"{caches} + {len(step.before)}" if after else "NULL"
        rows.append(
            f"    {{{function}, {constant}, {first}, {before}u, {after}u, {number}u}},"
            f" /* {comment(step.name)} */"
        )
    return rows


def program_code(network: Compiled, places: AddressMap) -> ProgramCode:
    """C tables of a compiled network's steps, with the addresses the emulated CPU sees.

    Raises:
        ModelError: ATN-013 an operator that is not modelled.
        ToolError: BRD-020 an address outside of the network's memories.
    """
    writer = _Writer(memory_for(network), places)
    steps: list[str] = []
    captures: list[tuple[str, str]] = []
    for number, step in enumerate(network.steps):
        rows = _rows(writer, number, step)
        if not rows:
            raise refuse(step.number, Work(str(step.kind), step.name, False, {}, (), (), {}), "")
        steps += rows
        if step.kind is Kind.HARDWARE:
            continue
        for buffer in network.written_in(step.number):
            if buffer.size:
                where = places.guest(buffer.address, buffer.size)
                row = f"    {{{len(steps) - 1}u, {where:#x}u, {buffer.size}u}},"
                captures.append((buffer.name, f"{row} /* {comment(buffer.name)} */"))
    tables = []
    for name, buffers in (("inputs", network.inputs), ("outputs", network.outputs)):
        rows = [
            f"    {{0u, {places.guest(b.address, b.size):#x}u, {b.size}u}}, /* {comment(b.name)} */"
            for b in buffers
            if b.size
        ]
        tables.append(_table(name, rows))
    tables.append(_table("captures", [row for _, row in captures]))
    body = "\n".join(
        [*writer.lines, "static const nf_aton_step steps[] = {", *steps, "};", *tables]
    )
    number = zlib.crc32(body.encode())
    source = (
        f"/* CPU side of {comment(network.name)}, generated by npuforge. */\n"
        f'#include "program.h"\n\n{body}\n'
        f"const nf_aton_program program = {{{number:#010x}u, steps, {len(steps)}u}};\n"
    )
    return ProgramCode(source, number, tuple(name for name, _ in captures))


def _table(name: str, rows: Sequence[str]) -> str:
    """A table of address ranges; C has no empty arrays, so one row without bytes ends it."""
    lines = [f"const program_range program_{name}[] = {{", *rows, "    {0u, 0u, 0u},", "};"]
    return "\n".join([*lines, f"const uint32_t program_{name}_count = {len(rows)}u;"])


def program_files(code: ProgramCode, machine: Target) -> dict[str, bytes]:
    """All files of the co-simulated CPU side's project by relative path.

    Args:
        code: from `program_code`.
        machine: the emulated machine it is linked for.
    """
    files = {
        "network/program.c": code.source.encode(),
        "board/link.ld": linker_script((), machine, "co-simulation").encode(),
        **template_files("board", machine.name),
        **template_files("cmake", "cmake"),
        **template_files("app", "cosim"),
    }
    files["CMakeLists.txt"] = files.pop("app/CMakeLists.txt")
    runtime = runtime_folder()
    for name in ("include/nf/aton.h", "src/aton.c"):
        files[f"runtime/{name}"] = (runtime / name).read_bytes()
    return files


def build_cosim(network: Compiled, folder: Path, tools: Toolchain) -> CosimBoard:
    """Write and build a network's CPU side in a folder.

    Raises:
        ModelError: ATN-013 an operator that is not modelled.
        ToolError: it does not build, or a memory has no place on the emulated machine.
    """
    places = address_map(network)
    code = program_code(network, places)
    write_sources(folder, program_files(code, load_target("mps3-an547")))
    build_project(folder, folder / "build", tools)
    image = folder / "build" / "program.elf"
    return CosimBoard(network, places, image, code.number, code.captures, tools)
