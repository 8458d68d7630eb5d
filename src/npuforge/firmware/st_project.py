"""The project around a network that ST's compiler made: its code behind the safe runtime.

ST's runtime and the generated code stay where they are: CMake is given their folders. The runtime
owns the inputs and outputs at the addresses of the generated code, cleans and invalidates them as
the NPU's, and runs the network by LL_ATON's life cycle. Calls and their order: reference of
LL_ATON in ST's published middleware.
"""

from __future__ import annotations

import zlib
from pathlib import Path

from npuforge.aton.compiled import Buffer, Compiled
from npuforge.errors import PlanError
from npuforge.firmware.names import comment, float_literal, string_literal
from npuforge.firmware.project import SMALL_SOURCES, rendered, runtime_folder, template_files
from npuforge.firmware.stm32n6 import LOADERS, board_support
from npuforge.memory.layout import SystemLayout, layout_system
from npuforge.memory.linker import LinkSection
from npuforge.memory.spans import aligned
from npuforge.memory.system import SystemDescription
from npuforge.memory.writers.link_script import code_room, data_room
from npuforge.targets import Target

_INTEGERS = {(8, False): "NF_INT8", (8, True): "NF_UINT8", (16, False): "NF_INT16",
             (32, False): "NF_INT32", (64, False): "NF_INT64"}  # fmt: skip


def st_network_source(name: str, network: Compiled, line: int) -> str:
    """The C table of a compiled network: inputs, outputs and weights where the compiler put them.

    Args:
        name: C name given to the compiler; its generated code declares the instance by it.
        network: as read from the generated code.
        line: bytes of a line of the processor's cache.

    Raises:
        PlanError: FST-001: an element type that the runtime does not know.
    """
    inputs = [buffer for buffer in network.inputs if buffer.size]
    outputs = [buffer for buffer in network.outputs if buffer.size]
    image = max(network.images, key=lambda item: len(item.data), default=None)
    weights = (image.address, image.data) if image is not None else (0, b"")
    spaces = [f"(uint8_t *){weights[0]:#010x}u"]
    sizes = [len(weights[1])]
    rows = []
    for index, buffer in enumerate((*inputs, *outputs)):
        # the compiler aligns to less than a line; what shares the line is the network's own
        first = buffer.address & -line
        spaces.append(f"(uint8_t *){first:#010x}u")
        sizes.append(aligned(buffer.end, line) - first)
        rows.append(_io_row(buffer, index + 1, buffer.address - first))
    build = zlib.crc32("\n".join([*spaces, *rows]).encode(), zlib.crc32(weights[1]))
    return rendered(
        "st/network.c.j2",
        name=name,
        title=comment(network.name),
        label=string_literal(name),
        spaces=spaces,
        sizes=sizes,
        inputs=rows[: len(inputs)],
        outputs=rows[len(inputs) :],
        crc=f"{zlib.crc32(weights[1]):#010x}u",
        build=f"{build:#010x}u",
    ).decode()


def _io_row(buffer: Buffer, space: int, offset: int) -> str:
    kind = "NF_FLOAT32" if buffer.real else _INTEGERS.get((buffer.bits, buffer.unsigned))
    if kind is None:
        raise PlanError("FST-001", name=buffer.name, bits=buffer.bits)
    dims = buffer.memory_shape[-8:] or (buffer.size,)
    scale = float_literal(buffer.scales[0]) if buffer.scales else "0.0f"
    zero = buffer.offsets[0] if buffer.offsets else 0
    return (
        f"{{{string_literal(buffer.name)}, {kind}, {space}u, {len(dims)}u, "
        f"{offset}u, {buffer.size}u, "
        f"{{{', '.join(map(str, dims))}}}, {scale}, {zero}}}"
    )


def _sections(network: Compiled, target: Target) -> list[LinkSection]:
    """What the network takes of each memory: nothing else may be given out there."""
    taken: dict[str, int] = {}
    for buffer in network.buffers:
        pool = target.pool_at(buffer.address)
        if pool is not None and buffer.size and not buffer.parameter:
            taken[pool.name] = max(taken.get(pool.name, 0), buffer.end)
    return [
        LinkSection(
            f".st_{name}", name, target.pool(name).base, end - target.pool(name).base, False
        )
        for name, end in taken.items()
    ]


def st_layout(target: Target, title: str) -> SystemLayout:
    """The program of the board alone: what ST's compiler places is not linked.

    Raises:
        PlanError: something does not fit.
    """
    return layout_system(SystemDescription(Path(title), title, target.name), target, ())


def st_project(
    name: str, network: Compiled, target: Target, clock: str, source: str
) -> dict[str, bytes]:
    """All files of the project, by relative path.

    Args:
        name: C name given to the compiler.
        network: as read from the generated code.
        target: the board.
        clock: operating point.
        source: file name of the generated code.

    Raises:
        PlanError: FST-001, FST-002: a buffer where the program lies; or something does not fit.
    """
    layout = st_layout(target, name)
    _check_apart(network, layout)
    sections = _sections(network, target)
    used = [section.pool for section in sections]
    if any(image.address >= 0x90000000 for image in network.images) and "hyperRAM" not in used:
        used.append("hyperRAM")
    files = {
        **board_support(layout, sections, used, clock),
        "st/network.c": st_network_source(name, network, target.cache_line).encode(),
        **template_files("board", "stm32n6"),
        **template_files("cmake", "cmake"),
        **template_files("st", "st_port"),
    }
    runtime = runtime_folder()
    for path in sorted((runtime / "include" / "nf").glob("*.h")):
        files[f"runtime/include/nf/{path.name}"] = path.read_bytes()
    for path in sorted((runtime / "src").glob("*.[ch]")):
        if path.suffix == ".h" or path.stem in SMALL_SOURCES:
            files[f"runtime/src/{path.name}"] = path.read_bytes()
    values = {
        "name": name, "source": source, "target": target, "version_of": network.version,
        "sources": SMALL_SOURCES, "images": network.images, "loader": LOADERS[target.name],
        "psram": "hyperRAM" in used, "slot": layout.boot.stored,
    }  # fmt: skip
    for file in ("CMakeLists.txt", "CMakePresets.json", "README.md"):
        files[file] = rendered(f"st/{file}.j2", **values)
    return files


def _check_apart(network: Compiled, layout: SystemLayout) -> None:
    stack = layout.block("main stack")
    rooms = {
        "code": code_room(layout),
        "data": data_room(layout),
        "stack": (stack.address, stack.end),
    }
    for buffer in network.buffers:
        for name, (start, end) in rooms.items():
            if buffer.size and buffer.address < end and start < buffer.end:
                raise PlanError(
                    "FST-002", name=buffer.name, at=f"{buffer.address:#010x}", other=name
                )
