"""The boards room: run something somewhere - host, emulator, serial."""

from npuforge.boards.cosim import CosimBoard, CosimRun
from npuforge.boards.host import HostBoard, RunResult, placed_steps
from npuforge.boards.qemu import QemuBoard
from npuforge.boards.toolchain import (
    Toolchain,
    build_project,
    compile_runtime,
    find_toolchain,
    link_board,
    missing_tools,
    write_sources,
)

__all__ = [
    "CosimBoard",
    "CosimRun",
    "HostBoard",
    "QemuBoard",
    "RunResult",
    "Toolchain",
    "build_project",
    "compile_runtime",
    "find_toolchain",
    "link_board",
    "missing_tools",
    "placed_steps",
    "write_sources",
]
