"""A compiled program against the network it came from, buffer by buffer.

Every epoch is fed with the reference's own tensors: after a buffer is compared it is replaced by
the reference tensor, so that differences do not add up from layer to layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from npuforge.aton.compiled import Buffer, Compiled
from npuforge.aton.execute import ProgramRun, memory_for, run_program
from npuforge.aton.program import Epoch
from npuforge.aton.registers import kind_of
from npuforge.aton.streams import Memory, read_stream
from npuforge.errors import ModelError, UsageError
from npuforge.graph import NUMPY_TYPES, Array, Graph, Tensor
from npuforge.numerics import Executor

_NEAR = 1e-5
"""Largest relative difference of two scales that are the same number written differently."""
_COARSE = 512
"""Multipliers below this are rounded by more than a thousandth: a quarter step of 255."""
_PLAUSIBLE = 8.0
"""Mean difference in steps above which a counterpart is not put in place of the buffer."""


@dataclass(frozen=True)
class BufferComparison:
    """One buffer against its counterpart.

    Attributes:
        buffer: name.
        epoch: that wrote it.
        tensor: counterpart in the network.
        values: numbers compared.
        differing: how many differ.
        largest: largest difference in quantisation steps (floats: absolute).
        saturated: values of 16 or 24 bit that met their limit on the way, in this epoch.
        causes: what else in the epoch rounds more than once: ``fused`` (two layers in one epoch,
            the tensor between them never in memory), ``passes`` (16-bit partial sums), ``table``
            (function table), ``gain`` (a per-channel multiplier of few bits, stored below 512),
            ``cpu`` (CPU kernel by its real-valued definition); also those of the epochs that wrote
            its inputs where these have no counterpart.
        candidates: tensors of the same size, shape, scale and zero point.
    """

    buffer: str
    epoch: int
    tensor: str
    values: int
    differing: int
    largest: float
    saturated: int
    causes: tuple[str, ...]
    candidates: int


@dataclass(frozen=True)
class ProgramComparison:
    """All buffers with a counterpart, in execution order.

    Attributes:
        buffers: compared ones.
        unmatched: buffers whose tensor does not exist in the network (16-bit sums, copies): checked
            only through the buffers computed from them.
        run: the run itself.
    """

    buffers: tuple[BufferComparison, ...]
    unmatched: tuple[str, ...]
    run: ProgramRun

    @property
    def explained(self) -> bool:
        """Whether every difference above one step has a stated cause."""
        return all(b.largest <= 1 or b.saturated or b.causes for b in self.buffers)


def _groups(buffer: Buffer) -> tuple[int, int, int, int] | None:
    """(groups, height, width, channels of a group) of a buffer in channel groups.

    The group is ``batch`` where that divides the channels: the shape in memory may state another.
    """
    shape = buffer.memory_shape
    if buffer.channel != "Mixed" or len(shape) != 5 or shape[0] != 1:
        return None
    channels = shape[1] * shape[4]
    batch = buffer.batch if buffer.batch and channels % buffer.batch == 0 else shape[4]
    return channels // batch, shape[2], shape[3], batch


def logical(buffer: Buffer, data: bytes) -> NDArray[np.generic] | None:
    """Values of a buffer as (height, width, channels) or as they lie; None when sizes differ."""
    kinds = {8: "u1" if buffer.unsigned else "i1", 16: "<i2", 32: "<f4" if buffer.real else "<i4"}
    if buffer.bits not in kinds:
        return None
    shape = buffer.memory_shape
    values = np.frombuffer(data, kinds[buffer.bits])
    if not shape or int(np.prod(shape)) != values.size:
        return None
    if groups := _groups(buffer):
        return values.reshape(groups).transpose(1, 2, 0, 3).reshape(*groups[1:3], -1)
    return values.reshape(shape)


def physical(buffer: Buffer, values: NDArray[np.generic]) -> bytes:
    """Inverse of `logical`."""
    if groups := _groups(buffer):
        count, rows, columns, batch = groups
        values = values.reshape(rows, columns, count, batch).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(values).tobytes()


def _sides(shape: tuple[int, ...]) -> list[int]:
    return sorted(n for n in shape if n != 1)


@dataclass(frozen=True)
class _Counterpart:
    """A tensor of the reference and its values in the order of the buffer."""

    name: str
    steps: NDArray[np.float64]


class _References:
    """Reference tensors, found by size, shape, scale and zero point."""

    def __init__(self, graph: Graph, tensors: Mapping[str, Array]) -> None:
        self.by_size: dict[int, list[tuple[Tensor, Array]]] = {}
        for name, values in tensors.items():
            self.by_size.setdefault(values.size, []).append((graph.tensor(name), values))

    def candidates(self, buffer: Buffer, shape: tuple[int, ...]) -> list[_Counterpart]:
        found = []
        count = int(np.prod(shape))
        for tensor, values in self.by_size.get(count, ()):
            if not _alike(buffer, tensor) or _sides(tensor.shape) != _sides(shape):
                continue
            zero = 0.0
            if not buffer.real and tensor.quantization is not None:
                zero = float(tensor.quantization.zero_point[0])
            for view in _orders(values, shape):
                found.append(_Counterpart(tensor.name, view.astype(np.float64) - zero))
        return found


def _alike(buffer: Buffer, tensor: Tensor) -> bool:
    if buffer.real:
        return tensor.dtype.is_float
    held = tensor.quantization
    if held is None or held.scale.size != 1 or len(buffer.scales) != 1 or buffer.bits != 8:
        return False
    scale = float(held.scale[0])
    zero, offset = int(held.zero_point[0]), buffer.offsets[0] if buffer.offsets else 0
    return abs(scale - buffer.scales[0]) <= _NEAR * scale and (offset - zero) % 128 == 0


def _orders(values: Array, shape: tuple[int, ...]) -> list[Array]:
    """A tensor in the order of the buffer; also with channels moved when shapes say so."""
    if values.ndim != 4:
        return [values.reshape(shape)]
    core = tuple(n for n in shape if n != 1)
    found: list[Array] = []
    for order in ((0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2)):
        view = values.transpose(order)
        if tuple(n for n in view.shape if n != 1) == core:
            flat = np.ascontiguousarray(view).reshape(shape)
            if not any(np.array_equal(flat, other) for other in found):
                found.append(flat)
    return found


def _causes(epoch: Epoch | None) -> tuple[str, ...]:
    """Why an epoch may differ by more than one step without saturating."""
    if epoch is None:
        return ("cpu",)
    found = []
    for (page, port), route in epoch.routes.items():
        unit = epoch.units.get(page)
        if unit is None or kind_of(page) != "CONVACC":
            continue
        if port == 0 and route.source is not None and kind_of(route.source) != "STRENG":
            found.append("fused")
        if port == 2 and not unit["CTRL.NOSUM"] and unit["CTRL.AFILTMODE"] == 3:
            found.append("passes")
    if any(
        kind_of(page) == "ARITH" and u["CTRL.DUALIN"] and u["INSHIFTER.FBYTESX"] == 1
        for page, u in epoch.units.items()
    ) and any(kind_of(page) == "CONVACC" for page in epoch.units):
        found.append("fused")
    if any(kind_of(page) == "ACTIV" and u["CTRL.TYPE"] == 3 for page, u in epoch.units.items()):
        found.append("table")
    return tuple(dict.fromkeys(found))


def _gains(epoch: Epoch | None, constants: Memory) -> tuple[str, ...]:
    """``gain`` when a per-channel multiplier, in coefficients or streamed, has few bits."""
    for unit in epoch.units.values() if epoch is not None else ():
        if epoch is None or kind_of(unit.page) != "ARITH" or unit["CTRL.OBYTES"] != 2:
            continue
        factors = np.zeros(0, np.int32)
        if unit["CTRL.OP"] == 0 and unit["CTRL.COEFFA"] and not unit["CTRL.DUALIN"]:
            held = unit.table.reshape(-1, 3)[: max(unit.coefficients, default=-1) + 1, 0]
            factors = held.astype(np.int16).astype(np.int32)
        elif unit["CTRL.OP"] == 7:
            factors = _streamed(epoch, unit.page, constants)
        factors = np.abs(factors[factors != 0])
        if factors.size and int(factors.min()) < _COARSE:
            return ("gain",)
    return ()


def _streamed(epoch: Epoch, page: int, constants: Memory) -> NDArray[np.int32]:
    """The constants an engine brings to an ARITH's second port; empty when they are none."""
    source = epoch.source(page, 1)
    if source is None or kind_of(source.page) != "STRENG":
        return np.zeros(0, np.int32)
    low, high = source.pattern.low, source.pattern.high
    if not constants.holds(low, high) or constants.first_unwritten(low, high - low) is not None:
        return np.zeros(0, np.int32)
    return read_stream(constants, epoch.number, source).values.reshape(-1)


def _covered(epoch: Epoch | None, buffer: Buffer) -> bool:
    """Whether the epoch's engines write the buffer from end to end."""
    if epoch is None:
        return True
    spans = sorted((u.pattern.low, u.pattern.high + 1) for u in epoch.writers)
    at = buffer.address
    for low, high in spans:
        if low <= at < high:
            at = high
    return at >= buffer.end


class _Session:
    """A comparison while the program runs."""

    def __init__(self, network: Compiled, references: _References) -> None:
        self.network, self.references = network, references
        self.epochs = {e.number: e for step in network.steps for e in step.epochs}
        self.work = {step.number: step.work for step in network.steps if step.work}
        self.found: list[tuple[BufferComparison, tuple[int, ...]]] = []
        self.unmatched: list[str] = []
        self.open: list[tuple[Buffer, tuple[str, ...], tuple[int, ...]]] = []
        self.seen: set[tuple[str, int]] = set()
        self.constants = memory_for(network)

    def after(self, number: int, memory: Memory) -> None:
        """Compare what an epoch wrote; put the reference in its place."""
        epoch = self.epochs.get(number)
        causes, numbers = self.behind(number)
        for buffer in self.network.written_in(number):
            place = (buffer.name, buffer.address)
            if not buffer.size or place in self.seen or buffer.name.startswith("SCRATCH"):
                continue
            self.open = [
                entry
                for entry in self.open
                if not (entry[0].address < buffer.end and buffer.address < entry[0].end)
            ]
            if _covered(epoch, buffer):
                self.seen.add(place)
                self.compare(buffer, causes, numbers, memory)

    def behind(self, number: int) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Causes of an epoch and of the uncompared ones it reads from; their numbers."""
        epoch = self.epochs.get(number)
        causes, numbers = [*_causes(epoch), *_gains(epoch, self.constants)], [number]
        spans = [(u.pattern.low, u.pattern.high + 1) for u in epoch.readers] if epoch else []
        for work in self.work.get(number, ()):
            spans += [(o.address, o.address + max(1, o.count)) for o in work.operands.values()]
            spans += [(b.address, b.end) for b in work.inputs]
        for buffer, held, before in self.open:
            if any(low < buffer.end and buffer.address < high for low, high in spans):
                causes += held
                numbers += before
        return tuple(dict.fromkeys(causes)), tuple(dict.fromkeys(numbers))

    def compare(
        self, buffer: Buffer, causes: tuple[str, ...], numbers: tuple[int, ...], memory: Memory
    ) -> None:
        if not memory.holds(buffer.address, buffer.end - 1):
            return
        values = logical(buffer, memory.peek(buffer.address, buffer.size))
        offset = 0 if buffer.real or not buffer.offsets else buffer.offsets[0]
        ranked = []
        if values is not None:
            held = values.astype(np.float64) - offset
            for item in self.references.candidates(buffer, values.shape):
                gap = np.abs(held - item.steps)
                ranked.append((float(gap.mean()), item, gap))
        ranked.sort(key=lambda entry: entry[0])
        if values is None or not ranked or (ranked[0][0] > _PLAUSIBLE and not buffer.real):
            self.unmatched.append(buffer.name)
            self.open.append((buffer, causes, numbers))
            return
        _, best, gap = ranked[0]
        comparison = BufferComparison(
            buffer=buffer.name,
            epoch=buffer.epoch,
            tensor=best.name,
            values=gap.size,
            differing=int(np.count_nonzero(gap)),
            largest=float(gap.max(initial=0.0)),
            saturated=0,
            causes=causes,
            candidates=len(ranked),
        )
        self.found.append((comparison, numbers))
        stored = (best.steps + offset).astype(values.dtype)
        memory.load(buffer.address, physical(buffer, stored))


def compare_program(
    network: Compiled,
    inputs: Mapping[str, bytes],
    graph: Graph,
    tensors: Mapping[str, Array],
    *,
    memory: Memory | None = None,
) -> ProgramComparison:
    """Run a program with the reference's tensors as inputs of every epoch and compare.

    Args:
        network: compiled program.
        inputs: bytes of its input buffers.
        graph: the network it came from.
        tensors: every tensor of a reference run on the same inputs.
        memory: to run on; a fresh image by default.

    Raises:
        ModelError: see `run_program`.
    """
    session = _Session(network, _References(graph, tensors))
    run = run_program(network, inputs, memory=memory, after=session.after)
    met: dict[int, int] = {}
    for profile in run.epochs:
        for item in profile.saturations:
            if item.bits > 8:
                met[profile.number] = met.get(profile.number, 0) + item.count
    buffers = tuple(
        replace(entry, saturated=sum(met.get(number, 0) for number in numbers))
        for entry, numbers in session.found
    )
    return ProgramComparison(buffers, tuple(session.unmatched), run)


def input_bytes(buffer: Buffer, values: NDArray[np.generic]) -> bytes:
    """An array as the bytes of an input buffer.

    Integer arrays are stored as they are (two's complement or unsigned, whichever the buffer has);
    real numbers are quantised with the buffer's scale and zero point. Channels-first arrays are
    turned when only that fits the shape in memory.

    Raises:
        ModelError: ATN-014 when size or type does not fit.
    """
    shape = tuple(n for n in buffer.memory_shape if n != 1)
    if values.ndim == 4 and tuple(n for n in values.shape if n != 1) != shape:
        turned = values.transpose(0, 2, 3, 1)
        if tuple(n for n in turned.shape if n != 1) == shape:
            values = turned
    if buffer.real:
        data = values.astype("<f4").tobytes()
    elif values.dtype.kind == "f":
        if not buffer.scales:
            raise ModelError("ATN-014", buffer=buffer.name, reason="no scale for real numbers")
        low, high = (0, 255) if buffer.unsigned else (-128, 127)
        zero = buffer.offsets[0] if buffer.offsets else 0
        steps = np.rint(values.astype(np.float64) / buffer.scales[0]) + zero
        data = np.clip(steps, low, high).astype(np.int16).astype(np.uint8).tobytes()
    else:
        data = values.astype(f"<i{max(1, buffer.bits // 8)}", casting="unsafe").tobytes()
    if len(data) != buffer.size:
        reason = f"{values.dtype} {values.shape} is {len(data)} bytes, the buffer has {buffer.size}"
        raise ModelError("ATN-014", buffer=buffer.name, reason=reason)
    return data


def model_input(buffer: Buffer, tensor: Tensor, data: bytes) -> Array:
    """The same input as the network takes it: steps turned from the buffer's zero point.

    Raises:
        ModelError: ATN-014 when buffer and network input do not belong together.
    """
    kinds = {8: "u1" if buffer.unsigned else "i1", 32: "<f4"}
    values = np.frombuffer(data, kinds.get(buffer.bits, "u1"))
    if values.size != tensor.size:
        reason = f"{values.size} values, the network's input {tensor.name} has {tensor.size}"
        raise ModelError("ATN-014", buffer=buffer.name, reason=reason)
    zero = buffer.offsets[0] if buffer.offsets else 0
    wanted = np.dtype(NUMPY_TYPES[tensor.dtype])
    if buffer.real:
        made = values.astype(np.float64)
    elif tensor.dtype.is_float:
        made = (values.astype(np.float64) - zero) * (buffer.scales[0] if buffer.scales else 1.0)
    else:
        held = tensor.quantization
        made = values.astype(np.float64) - zero + (int(held.zero_point[0]) if held else zero)
    if len(tensor.shape) == 4 and tensor.shape[1] < tensor.shape[3] and not buffer.real:
        n, c, h, w = tensor.shape
        if tuple(k for k in buffer.memory_shape if k != 1) == tuple(
            k for k in (n, h, w, c) if k != 1
        ):
            made = made.reshape(n, h, w, c).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(made.reshape(tensor.shape)).astype(wanted)


def reference_tensors(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Every tensor of the network by its own contract, for these inputs."""
    executor = Executor(graph, capture=True)
    executor.run(inputs)
    return executor.read([*executor.activations(), *graph.inputs])


def compare_with_model(
    network: Compiled, graph: Graph, inputs: Mapping[str, bytes], *, memory: Memory | None = None
) -> ProgramComparison:
    """Compare a program with its network on the bytes of its input buffers.

    Raises:
        ModelError: ATN-014 when program and network take different inputs; see `run_program`.
    """
    if len(network.inputs) != len(graph.inputs):
        reason = f"{len(network.inputs)} inputs, the network has {len(graph.inputs)}"
        raise ModelError("ATN-014", buffer=network.name, reason=reason)
    arrays = {
        name: model_input(buffer, graph.tensor(name), inputs[buffer.name])
        for buffer, name in zip(network.inputs, graph.inputs, strict=True)
    }
    tensors = reference_tensors(graph, arrays)
    return compare_program(network, inputs, graph, tensors, memory=memory)


def buffer_arrays(network: Compiled, run: ProgramRun) -> dict[str, Array]:
    """Captured buffers and outputs of a run as arrays by name, in logical order where known."""
    held = {buffer.name: buffer for buffer in (*network.buffers, *network.outputs)}
    found: dict[str, Array] = {}
    for name, data in {**run.buffers, **run.outputs}.items():
        values = logical(held[name], data)
        found[name] = np.frombuffer(data, np.uint8) if values is None else np.array(values)
    return found


def program_inputs(network: Compiled, inputs: Sequence[Path], seed: int) -> dict[str, bytes]:
    """Bytes of every input buffer from .npy files, or random ones when none are given.

    Raises:
        UsageError: ATN-015 another number of files than inputs, ATN-009 a file that is no array.
        ModelError: ATN-014 an array that does not fit its buffer.
    """
    if not inputs:
        rng = np.random.default_rng(seed)
        return {b.name: _random_bytes(b, rng) for b in network.inputs}
    if len(inputs) != len(network.inputs):
        raise UsageError("ATN-015", given=len(inputs), wanted=len(network.inputs))
    made = {}
    for buffer, path in zip(network.inputs, inputs, strict=True):
        try:
            values = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UsageError("ATN-009", path=path, reason=str(error)) from None
        made[buffer.name] = input_bytes(buffer, values)
    return made


def _random_bytes(buffer: Buffer, rng: np.random.Generator) -> bytes:
    if buffer.real:
        return rng.uniform(-1, 1, buffer.size // 4).astype("<f4").tobytes()
    return rng.integers(0, 256, buffer.size, np.uint8).tobytes()
