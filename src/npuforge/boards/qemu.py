"""An emulated Cortex-M55: the generated firmware run in QEMU's machine mps3-an547.

Samples go in and results come back through files (semihosting). Instruction counts come from
QEMU's deterministic instruction counter; they are instructions, never time.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from npuforge.boards.host import RunResult
from npuforge.boards.toolchain import Toolchain, run_tool
from npuforge.errors import ToolError
from npuforge.graph import NUMPY_TYPES, Array, Graph
from npuforge.lowering import Schedule, TensorPlace
from npuforge.numerics import check_input

_MAGIC = 0x4E464956
_OUTPUTS, _CAPTURE, _COUNT = 0, 1, 2
_EXIT_FAULT = 99
# one instruction advances virtual time by 32 ns and SysTick counts at 32 MHz
_ICOUNT_SHIFT = 5
_TICKS_PER_INSTRUCTION = 32e-9 * 32e6


def machine_command(tools: Toolchain, image: Path, machine: str = "mps3-an547") -> list[str]:
    """QEMU's command line for an image that uses semihosting; files are in its working folder."""
    return [
        tools.qemu,
        "-M",
        machine,
        "-display",
        "none",
        "-monitor",
        "none",
        "-serial",
        "none",
        "-semihosting-config",
        "enable=on,target=native",
        "-kernel",
        str(image.resolve()),
    ]


def check_exit(image: str, code: int, output: str) -> None:
    """Raise ToolError BRD-010 for a processor fault and BRD-011 for any other exit code but 0."""
    if code == _EXIT_FAULT:
        raise ToolError("BRD-010", image=image, detail=output)
    if code != 0:
        raise ToolError("BRD-011", image=image, code=code, detail=output)


class QemuBoard:
    """One network of a built firmware project.

    Args:
        build: folder with validate.elf and known_answer.elf.
        number: position of the network in the project.
        order: the tensors the firmware captures, in its order.
    """

    name = "qemu mps3-an547"

    def __init__(
        self,
        graph: Graph,
        schedule: Schedule,
        order: Sequence[tuple[str, TensorPlace]],
        build: Path,
        number: int,
        tools: Toolchain,
    ) -> None:
        self._graph = graph
        self._schedule = schedule
        self._order = order
        self._build = build
        self._number = number
        self._tools = tools

    def run(
        self, samples: Sequence[Mapping[str, Array]], *, capture: bool = False
    ) -> list[RunResult]:
        """Run samples; with `capture`, every tensor of every sample comes back.

        Raises:
            UsageError: an input is missing or has another shape or type.
            ToolError: the firmware faults, hangs or does not answer.
        """
        raw = self._exchange(samples, _CAPTURE if capture else _OUTPUTS)
        names = [name for name, _ in self._order] if capture else list(self._graph.outputs)
        results = []
        at = 0
        for _ in samples:
            tensors: dict[str, Array] = {}
            for name in names:
                tensor = self._graph.tensors[name]
                part = raw[at : at + tensor.nbytes]
                at += tensor.nbytes
                if len(part) != tensor.nbytes:
                    raise ToolError("BRD-012", want=at, got=len(raw))
                values = np.frombuffer(part, NUMPY_TYPES[tensor.dtype]).reshape(tensor.shape)
                tensors[name] = values
            outputs = {n: tensors[n] for n in self._graph.outputs if n in tensors}
            results.append(RunResult(outputs, tensors if capture else {}))
        return results

    def count_instructions(self, sample: Mapping[str, Array]) -> tuple[int, ...]:
        """Instructions of each step for one sample."""
        raw = self._exchange([sample], _COUNT)
        steps = len(self._schedule.steps)
        if len(raw) != 8 * steps:
            raise ToolError("BRD-012", want=8 * steps, got=len(raw))
        ticks = struct.unpack(f"<{steps}Q", raw)
        return tuple(round(t / _TICKS_PER_INSTRUCTION) for t in ticks)

    def known_answer(self) -> str:
        """Run the built-in known-answer test of all networks; returns what it printed.

        Raises:
            ToolError: an output differs, or the firmware faults or hangs.
        """
        with tempfile.TemporaryDirectory(prefix="npuforge-") as folder:
            return self._start("known_answer.elf", Path(folder), count=False)

    def run_image(
        self, folder: Path, image: str, sample: Mapping[str, Array], result: str
    ) -> bytes:
        """Run another image of the same network on one sample and return a file it leaves.

        Args:
            folder: holds the image; the program works in it.
            image: a program that takes its input as validate.elf does.
            sample: the input.
            result: file it leaves.

        Raises:
            ToolError: the program faults, hangs or leaves no such file.
        """
        (folder / "nf_in.bin").write_bytes(self._input_file([sample], _OUTPUTS))
        self._start(str(folder / image), folder, count=False)
        path = folder / result
        if not path.is_file():
            raise ToolError("BRD-012", want=1, got=0)
        return path.read_bytes()

    def _input_file(self, samples: Sequence[Mapping[str, Array]], mode: int) -> bytes:
        parts = [struct.pack("<4I", _MAGIC, self._number, len(samples), mode)]
        for sample in samples:
            for name in self._graph.inputs:
                value = sample.get(name)
                check_input(self._graph.tensors[name], value)
                assert value is not None
                parts.append(np.ascontiguousarray(value).tobytes())
        return b"".join(parts)

    def _exchange(self, samples: Sequence[Mapping[str, Array]], mode: int) -> bytes:
        with tempfile.TemporaryDirectory(prefix="npuforge-") as name:
            folder = Path(name)
            (folder / "nf_in.bin").write_bytes(self._input_file(samples, mode))
            self._start("validate.elf", folder, count=mode == _COUNT, samples=len(samples))
            return (folder / "nf_out.bin").read_bytes()

    def _start(self, image: str, folder: Path, *, count: bool, samples: int = 1) -> str:
        command = machine_command(self._tools, self._build / image)
        if count:
            command += ["-icount", f"shift={_ICOUNT_SHIFT}"]
        # emulation does far over ten million multiply-accumulates a second
        seconds = 60 + samples * self._schedule.macs / 5e6
        result = run_tool(command, seconds, folder)
        output = (result.stdout + result.stderr).strip()
        check_exit(image, result.returncode, output)
        return output
