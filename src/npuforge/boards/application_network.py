"""A network as an application on the virtual board sees it, and its generated table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from npuforge.artefacts.network_c import USER_IO
from npuforge.aton.compiled import Buffer, Compiled, Kind
from npuforge.aton.execute import memory_for, memory_spans, run_program
from npuforge.boards.host import HostBoard
from npuforge.graph import NUMPY_TYPES, Graph
from npuforge.lowering import Schedule
from npuforge.memory import Plan
from npuforge.vocab import DType

_PAGE = 4096


@dataclass(frozen=True)
class BoardBuffer:
    """An input or output.

    Attributes:
        name: of the tensor or buffer.
        address: on the part.
        size: bytes.
        shape: as it lies in memory.
        element: LL_ATON's word for the element type, for example ``INT8``.
        scale: quantisation step; 0 for raw numbers.
        zero_point: stored value of real zero.
        by_cpu: an output that the driver's CPU code writes last; its lines count as cleaned.
        in_npu_cache: an input in a pool that the NPU's own cache may hold.
        user: the network was compiled without this buffer; the application binds one.
        channel_first: of `shape`, from three axes on.
    """

    name: str
    address: int
    size: int
    shape: tuple[int, ...]
    element: str
    scale: float = 0.0
    zero_point: int = 0
    by_cpu: bool = False
    in_npu_cache: bool = False
    user: bool = False
    channel_first: bool = False


@dataclass(frozen=True, eq=False)
class BoardNetwork:
    """What the board needs of a network.

    Attributes:
        inputs: in the application's order.
        outputs: in the application's order.
        scratch: address ranges (first, end) that a run writes beside its outputs.
        memories: name, first and end address of the memories it needs.
        run: one inference, from bytes to bytes.
    """

    inputs: tuple[BoardBuffer, ...]
    outputs: tuple[BoardBuffer, ...]
    scratch: tuple[tuple[int, int], ...]
    memories: tuple[tuple[str, int, int], ...]
    run: Callable[[Sequence[bytes]], Sequence[bytes]]

    @property
    def buffers(self) -> tuple[BoardBuffer, ...]:
        """Inputs and outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def input_sizes(self) -> tuple[int, ...]:
        """Bytes of each input."""
        return tuple(b.size for b in self.inputs)


def compiled_network(network: Compiled) -> BoardNetwork:
    """A compiled Neural-ART program; its numbers come from the simulator."""
    inputs = [b for b in network.inputs if b.size]
    outputs = [b for b in network.outputs if b.size]
    software = {s.number for s in network.steps if s.kind is Kind.SOFTWARE}
    cacheable = [r for r in network.regions if r.cacheable]
    own = {b.name for b in (*inputs, *outputs)}
    memory = memory_for(network)

    def describe(buffer: Buffer) -> BoardBuffer:
        return BoardBuffer(
            name=buffer.name,
            address=buffer.address,
            size=buffer.size,
            shape=buffer.memory_shape,
            element="FLOAT" if buffer.real else f"{'U' * buffer.unsigned}INT{buffer.bits}",
            scale=buffer.scales[0] if buffer.scales else 0.0,
            zero_point=buffer.offsets[0] if buffer.offsets else 0,
            by_cpu=buffer.epoch in software,
            in_npu_cache=any(r.address <= buffer.address < r.end for r in cacheable),
            user=buffer.address >= USER_IO,
            channel_first=buffer.channel == "First",
        )

    def run(data: Sequence[bytes]) -> list[bytes]:
        named = {b.name: raw for b, raw in zip(inputs, data, strict=True)}
        done = run_program(network, named, memory=memory, check=False)
        return [done.outputs[b.name] for b in outputs]

    return BoardNetwork(
        inputs=tuple(map(describe, inputs)),
        outputs=tuple(map(describe, outputs)),
        scratch=_joined(
            (b.address, b.end)
            for b in network.buffers
            if b.size
            and not b.parameter
            and b.name not in own
            and b.epoch not in software
            and b.address < USER_IO
        ),
        memories=tuple(
            (_name(network, low), low, high) for low, high in memory_spans(network) if low < USER_IO
        ),
        run=run,
    )


def _name(network: Compiled, low: int) -> str:
    inside = (r.name for r in network.regions if r.address <= low < r.end)
    return next(inside, "memory").replace(" ", "_")


def planned_network(graph: Graph, schedule: Schedule, plan: Plan) -> BoardNetwork:
    """A model file at the addresses of its memory plan; every output counts as the NPU's."""
    host = HostBoard(graph, schedule, plan)

    def describe(name: str) -> BoardBuffer:
        tensor, place = graph.tensors[name], schedule.tensors[name]
        quant = tensor.quantization
        return BoardBuffer(
            name=name,
            address=plan.address(place.buffer) + place.offset,
            size=tensor.nbytes,
            shape=tensor.shape,
            element="FLOAT" if tensor.dtype is DType.FLOAT32 else tensor.dtype.value.upper(),
            scale=float(quant.scale.flat[0]) if quant is not None else 0.0,
            zero_point=int(quant.zero_point.flat[0]) if quant is not None else 0,
        )

    def run(data: Sequence[bytes]) -> list[bytes]:
        named = {}
        for name, raw in zip(graph.inputs, data, strict=True):
            tensor = graph.tensors[name]
            named[name] = np.frombuffer(raw, NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape)
        done = host.run(named)
        return [done.outputs[name].tobytes() for name in graph.outputs]

    return BoardNetwork(
        inputs=tuple(map(describe, graph.inputs)),
        outputs=tuple(map(describe, graph.outputs)),
        scratch=tuple((r.base, r.base + r.used) for r in plan.regions),
        memories=tuple((r.name.replace(" ", "_"), r.base, r.base + r.used) for r in plan.regions),
        run=run,
    )


def _joined(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


# -- the table


def tables(
    networks: Mapping[str, BoardNetwork], uncached: Mapping[str, bool], *, user_buffers: bool
) -> str:
    """C source with the networks, their memories and the sections without cache.

    Args:
        networks: by name.
        uncached: such sections of the application; True: in tightly coupled memory.
        user_buffers: inputs and outputs are bound by the application.
    """
    lines = ['#include "board.h"', ""]
    memories = _whole_pages([m for n in networks.values() for m in n.memories])
    lines += _spans("vb_memories", memories)
    lines += [f"const uint32_t vb_memory_count = {len(memories)};"]
    for number, section in enumerate(uncached):
        edges = f"__start_app_uncached_{number}[], __stop_app_uncached_{number}[]"
        lines.append(f"extern uint8_t {edges}; /* {_plain(section)} */")
    lines.append("const vb_section vb_uncached_sections[] = {")
    for number, (section, coupled) in enumerate(uncached.items()):
        place = f"app_uncached_{number}"
        span = f"(uintptr_t)__start_{place}, (uintptr_t)__stop_{place}"
        lines.append(f"    {{{{{_quoted(section)}, {span}}}, {int(coupled)}}},")
    lines += ["    {{NULL, 0, 0}, 0}};", f"const uint32_t vb_uncached_count = {len(uncached)};"]
    for number, (name, network) in enumerate(networks.items()):
        lines += _network(name, number, network, user_buffers)
    listed = ", ".join(f"&npuforge_network_{name}" for name in networks)
    lines.append(f"npuforge_network *const vb_networks[] = {{{listed}}};")
    lines.append(f"const uint32_t vb_network_count = {len(networks)};")
    return "\n".join(lines) + "\n"


def _whole_pages(memories: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Memories in whole pages of the host, those that meet as one."""
    joined: list[tuple[str, int, int]] = []
    for name, low, high in sorted(memories, key=lambda m: m[1]):
        low, high = low // _PAGE * _PAGE, -(-high // _PAGE) * _PAGE
        if joined and low < joined[-1][2]:
            first, base, end = joined[-1]
            joined[-1] = (first, base, max(end, high))
        else:
            joined.append((name, low, high))
    return joined


def _spans(name: str, spans: Sequence[tuple[str, int, int]]) -> list[str]:
    rows = [f"    {{{_quoted(n)}, {low:#x}u, {high:#x}u}}," for n, low, high in spans]
    return [f"const vb_span {name}[] = {{", *rows, "    {NULL, 0, 0}};"]


def _network(name: str, number: int, network: BoardNetwork, user: bool) -> list[str]:
    lines = [""]
    for role, buffers in (("inputs", network.inputs), ("outputs", network.outputs)):
        for i, buffer in enumerate(buffers):
            dims = ", ".join(map(str, buffer.shape)) or "1"
            head = f"{role}_{number}_{i}"
            lines += [
                f"static const uint32_t {head}_shape[] = {{{dims}}};",
                f"static const float {head}_scale[] = {{{float(buffer.scale)!r}f}};",
                f"static const int16_t {head}_offset[] = {{{buffer.zero_point}}};",
            ]
        lines.append(f"static const LL_Buffer_InfoTypeDef {role}_{number}[] = {{")
        lines += [_buffer(f"{role}_{number}_{i}", b, user or b.user) for i, b in enumerate(buffers)]
        lines.append("    {0}};")
    scratch = [(f"scratch{i}", low, high) for i, (low, high) in enumerate(network.scratch)]
    lines += ["static " + row if row.startswith("const") else row
              for row in _spans(f"scratch_{number}", scratch)]  # fmt: skip
    by_cpu = ", ".join(str(int(b.by_cpu)) for b in network.outputs) or "0"
    cached = ", ".join(str(int(b.in_npu_cache)) for b in network.inputs) or "0"
    lines += [
        f"static const uint8_t by_cpu_{number}[] = {{{by_cpu}}}, cached_{number}[] = {{{cached}}};",
        f"npuforge_network npuforge_network_{name} = {{",
        f"    .inputs = inputs_{number}, .outputs = outputs_{number},",
        f"    .input_count = {len(network.inputs)}, .output_count = {len(network.outputs)},",
        f"    .scratch = scratch_{number}, .scratch_count = {len(scratch)},",
        f"    .output_by_cpu = by_cpu_{number}, .input_in_cache = cached_{number},",
        f"    .number = {number}}};",
        f"LL_ATON_DECLARE_NAMED_NN_PROTOS({name});",
    ]
    lines += [
        f"const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_{name}(void)",
        "{ static const EpochBlock_ItemTypeDef all[2] = {{EpochBlock_Flags_pure_hw, 1, 1}};",
        "  return all; }",
    ]
    for role, other in (("Input", "inputs"), ("Output", "outputs"), ("Internal", "")):
        result = f"{other}_{number}" if other else f"&inputs_{number}[{len(network.inputs)}]"
        lines.append(
            f"const LL_Buffer_InfoTypeDef *LL_ATON_{role}_Buffers_Info_{name}(void) "
            f"{{ return {result}; }}"
        )
    for output, role in enumerate(("Input", "Output")):
        array = "bound_outputs" if output else "bound_inputs"
        count = len(network.outputs if output else network.inputs)
        lines += [
            f"LL_ATON_User_IO_Result_t LL_ATON_Set_User_{role}_Buffer_{name}(uint32_t i, void *b,",
            "                                                             uint32_t bytes)",
            f"{{ return vb_bind(&npuforge_network_{name}, {output}, i, b, bytes, HERE); }}",
            f"void *LL_ATON_Get_User_{role}_Buffer_{name}(uint32_t i)",
            f"{{ return i < {count}u ? npuforge_network_{name}.{array}[i] : NULL; }}",
        ]
    return lines


def _buffer(head: str, b: BoardBuffer, user: bool) -> str:
    bits = (
        32 if b.element == "FLOAT" else 8 if b.element == "BOOL" else int(b.element.strip("UINT"))
    )
    place = "0" if user else f"{b.address:#x}u"
    return (
        f"    {{.name = {_quoted(b.name)}, .addr_base = {{.i = {place}}}, .offset_end = {b.size}u, "
        f".offset_limit = {b.size + 64}u, .is_user_allocated = {int(user)}, .batch = 1, "
        f".mem_shape = {head}_shape, .mem_ndims = {len(b.shape)}, .chpos = CHPos_Last, "
        f".type = DataType_{b.element}, .nbits = {bits}, .ndims = {len(b.shape)}, "
        f".shape = {head}_shape, .scale = {head}_scale, .offset = {head}_offset}},"
    )


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in "._-/" else "_" for c in text)


def _quoted(text: str) -> str:
    return '"' + _plain(text) + '"'
