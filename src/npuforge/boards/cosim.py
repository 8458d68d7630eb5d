"""An emulated Cortex-M55 and the Neural-ART simulator over shared memory: co-simulation.

QEMU runs the CPU side of a compiled program as machine code; each hand-over to the NPU is a word
in a mailbox, served here by the simulator on the same bytes. Time in it means nothing. QEMU needs a
file as its memory, shared with this process: tried on Linux.
"""

from __future__ import annotations

import mmap
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from npuforge.aton.compiled import Buffer, Compiled, Kind
from npuforge.aton.execute import memory_for
from npuforge.aton.simulate import EpochRun, run_epoch
from npuforge.aton.streams import Memory
from npuforge.boards.qemu import check_exit, machine_command
from npuforge.boards.shared_memory import DDR_BASE, DDR_BYTES, MAILBOX_BYTES, AddressMap
from npuforge.boards.toolchain import Toolchain
from npuforge.errors import NpuforgeError, ToolError

_MAGIC = 0x4E464D42
_WORD_MAGIC, _WORD_PROGRAM, _WORD_MADE, _WORD_WANTED, _WORD_SERVED, _WORD_STATUS = range(6)
_STATUS_FAILED = 1
_END_SECONDS = 30.0
_STALL_SECONDS = 120.0
"""Longest time without a hand-over: the slowest CPU step is far below on a loaded machine."""
_POLL_SECONDS = 2e-4


@dataclass(frozen=True)
class CosimRun:
    """A finished co-simulation.

    Attributes:
        epochs: profile of every hardware epoch, in order.
        buffers: bytes of the buffers CPU steps wrote, right after them.
        outputs: bytes of the network's outputs at the end.
        handovers: how often the CPU called the NPU.
    """

    epochs: tuple[EpochRun, ...]
    buffers: Mapping[str, bytes]
    outputs: Mapping[str, bytes]
    handovers: int


class CosimBoard:
    """A compiled network whose CPU side is built for the emulated machine.

    Args:
        network: the program.
        places: where its memories lie on the emulated machine.
        image: the built ELF.
        number: of the program, as generated with the image.
        captures: names of captured buffers, as generated with the image.
        tools: with the emulator.
    """

    name = "qemu mps3-an547 + simulated Neural-ART"

    def __init__(
        self,
        network: Compiled,
        places: AddressMap,
        image: Path,
        number: int,
        captures: Sequence[str],
        tools: Toolchain,
    ) -> None:
        self._network = network
        self._places = places
        self._image = image
        self._number = number
        self._captures = tuple(captures)
        self._tools = tools

    def run(self, inputs: Mapping[str, bytes]) -> CosimRun:
        """One inference.

        Raises:
            ModelError: what the program does that hardware would not survive, by epoch and unit.
            ToolError: the firmware faults, hangs, belongs to another program or does not answer.
        """
        with tempfile.TemporaryDirectory(prefix="npuforge-") as name:
            folder = Path(name)
            held = [b for b in self._network.inputs if b.size]
            (folder / "nf_in.bin").write_bytes(b"".join(inputs[b.name] for b in held))
            with _shared(folder / "ddr.bin") as ddr:
                memory = self._memory(ddr)
                epochs = self._serve(folder, ddr, memory)
                del memory, ddr
            return self._result((folder / "nf_out.bin").read_bytes(), epochs)

    def _memory(self, ddr: NDArray[np.uint8]) -> Memory:
        regions = {}
        for window in self._places.windows:
            start = window.guest - DDR_BASE
            regions[window.low] = ddr[start : start + window.high - window.low]
        return memory_for(self._network, regions)

    def _serve(
        self, folder: Path, ddr: NDArray[np.uint8], memory: Memory
    ) -> list[tuple[EpochRun, ...]]:
        """Serve hand-overs until the emulated program ends; the runs of each."""
        command = [
            *machine_command(self._tools, self._image, machine="mps3-an547,memory-backend=ddr"),
            "-object",
            f"memory-backend-file,id=ddr,size=2G,mem-path={folder / 'ddr.bin'},share=on",
        ]
        words = ddr[:MAILBOX_BYTES].view("<u4")
        runs: list[tuple[EpochRun, ...]] = []
        log = folder / "qemu.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
            try:
                limit = time.monotonic() + _STALL_SECONDS
                while process.poll() is None:
                    if int(words[_WORD_MADE]) == len(runs):
                        if time.monotonic() > limit:
                            raise ToolError("BRD-023", served=len(runs), seconds=_STALL_SECONDS)
                        time.sleep(_POLL_SECONDS)
                        continue
                    try:
                        runs.append(self._hand_over(words, memory))
                    except NpuforgeError:
                        # the firmware ends by its own error path
                        words[_WORD_STATUS] = _STATUS_FAILED
                        words[_WORD_SERVED] = words[_WORD_MADE]
                        process.wait(_END_SECONDS)
                        raise
                    words[_WORD_SERVED] = len(runs)
                    limit = time.monotonic() + _STALL_SECONDS
            finally:
                process.kill()
                process.wait()
        said = log.read_text("utf-8", "replace").strip()
        check_exit(self._image.name, process.returncode, said)
        return runs

    def _hand_over(self, words: NDArray[np.uint32], memory: Memory) -> tuple[EpochRun, ...]:
        number, steps = int(words[_WORD_WANTED]), self._network.steps
        magic, program = int(words[_WORD_MAGIC]), int(words[_WORD_PROGRAM])
        known = number < len(steps) and steps[number].kind is Kind.HARDWARE
        if magic != _MAGIC or program != self._number or not known:
            raise ToolError("BRD-022", number=number, program=hex(program), want=hex(self._number))
        # bytes the CPU wrote are not marked here: whether they were written is `aton run`'s check
        done = tuple(run_epoch(epoch, memory, check=False) for epoch in steps[number].epochs)
        words[_WORD_STATUS] = 0
        return done

    def _result(self, raw: bytes, runs: Sequence[tuple[EpochRun, ...]]) -> CosimRun:
        by_name = {b.name: b for b in self._network.buffers}
        outputs = [b for b in self._network.outputs if b.size]
        order = [*(by_name[name] for name in self._captures), *outputs]
        want = sum(b.size for b in order)
        if len(raw) != want:
            raise ToolError("BRD-012", want=want, got=len(raw))
        parts = _parts(raw, order)
        count = len(self._captures)
        return CosimRun(
            epochs=tuple(run for done in runs for run in done),
            buffers=dict(parts[:count]),
            outputs=dict(parts[count:]),
            handovers=len(runs),
        )


def _parts(raw: bytes, order: Sequence[Buffer]) -> list[tuple[str, bytes]]:
    parts, at = [], 0
    for buffer in order:
        parts.append((buffer.name, raw[at : at + buffer.size]))
        at += buffer.size
    return parts


@contextmanager
def _shared(path: Path) -> Iterator[NDArray[np.uint8]]:
    """A sparse file of the size of the machine's DDR, mapped."""
    with path.open("w+b") as file:
        file.truncate(DDR_BYTES)
        mapped = mmap.mmap(file.fileno(), DDR_BYTES)
        yield np.frombuffer(mapped, np.uint8)
