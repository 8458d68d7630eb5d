"""The machine model itself, on columns: one entry an epoch, one formula for estimate and fit.

A unit takes one element a clock from every link. Constants come from external flash at two bytes a
flash clock. Kernel groups are loaded while the previous one is used, so an epoch of n groups takes
max(streams, flash) + min(streams, flash) / n; board logs of MobileNetV2 agree within 1 % where
streams or flash decide alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from npuforge.accelerators import PlacementKind
from npuforge.cost.compiler import compiler_rules
from npuforge.cost.constants import Calibration, Constants
from npuforge.cost.epochs import EpochWork
from npuforge.cost.residence import Residence
from npuforge.targets import OperatingPoint

Column = npt.NDArray[np.float64]

FLASH_BYTES_PER_CLOCK = 2.0
"""Eight data lines, both edges."""
DEFAULT_FLASH_MHZ = 200.0
"""Of ST's board projects."""


class Bottleneck(StrEnum):
    """What an epoch waits for."""

    INPUT = "input stream"
    OUTPUT = "output stream"
    KERNEL = "kernel stream"
    FLASH = "flash"
    CPU_RAM = "cpu ram"
    EXTERNAL_RAM = "external ram"
    CONTROL = "control"
    COPY = "copy by the cpu"
    CPU = "cpu"


@dataclass(frozen=True, eq=False)
class Columns:
    """Epochs as columns: `EpochWork` by name, clocks in MHz, switches as 0 and 1, `Doubts`."""

    input: Column
    output: Column
    kernel: Column
    passes: Column
    flash_bytes: Column
    channels: Column
    streamed: Column
    drain: Column
    moved_bytes: Column
    copied: Column
    external_bytes: Column
    cpu_ram_share: Column
    cpu_clocks: Column
    hardware: Column
    hybrid: Column
    software: Column
    controller: Column
    legacy: Column
    cpu_mhz: Column
    npu_mhz: Column
    flash_mhz: Column
    doubt: Column

    @staticmethod
    def join(parts: Sequence[Columns]) -> Columns:
        """The epochs of several networks one after another."""
        return Columns(
            *(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Columns))
        )


def columns(
    works: Sequence[EpochWork],
    where: Residence,
    point: OperatingPoint,
    calibration: Calibration,
    release: str,
    controller: bool,
) -> Columns:
    """Columns of a network's epochs at an operating point."""

    def column(values: Sequence[float]) -> Column:
        return np.array(values, dtype=np.float64)

    def same(value: float) -> Column:
        return np.full(len(works), float(value))

    hardware = column([w.kind is PlacementKind.HARDWARE for w in works])
    hybrid = column([w.kind is PlacementKind.HYBRID for w in works])
    return Columns(
        input=column([w.input for w in works]),
        output=column([w.output for w in works]),
        kernel=column([w.kernel for w in works]),
        passes=column([w.passes for w in works]),
        flash_bytes=column([w.flash_bytes for w in works]),
        channels=column([w.channels for w in works]),
        streamed=column([bool(w.streamed) for w in works]),
        drain=column([w.drain for w in works]),
        moved_bytes=column([w.moved_bytes for w in works]),
        copied=column([w.copied for w in works]),
        external_bytes=column([where.external_bytes(w) for w in works]),
        cpu_ram_share=column([where.cpu_ram_share(w) for w in works]),
        cpu_clocks=column(
            [
                calibration.kernel(w.cpu_op).clocks(w.elements, w.macs)
                if w.kind not in (PlacementKind.HARDWARE, PlacementKind.HYBRID)
                else 0.0
                for w in works
            ]
        ),
        hardware=hardware,
        hybrid=hybrid,
        software=1.0 - hardware - hybrid,
        controller=same(controller),
        legacy=same(compiler_rules(release).release < (3, 0)),
        cpu_mhz=same(point.cpu_mhz),
        npu_mhz=same(point.npu_mhz),
        flash_mhz=same(point.flash_mhz or DEFAULT_FLASH_MHZ),
        doubt=column([_doubt(w, calibration) for w in works]),
    )


def _doubt(work: EpochWork, calibration: Calibration) -> float:
    doubts = calibration.doubts
    if work.kind is PlacementKind.HARDWARE:
        return doubts.hardware
    if work.kind is PlacementKind.HYBRID:
        return doubts.hybrid
    return doubts.assumed if calibration.kernel(work.cpu_op).assumed else doubts.cpu


def epoch_times(c: Columns, k: Constants) -> tuple[Column, Mapping[Bottleneck, Column]]:
    """Microseconds of every epoch, and of what takes them; streams overlap.

    Args:
        c: the epochs.
        k: constants of the machine.
    """
    held = k.drain_clocks_per_element * c.drain
    # A hybrid convolution is one in NPU units between a helper's copies.
    units = c.hardware + c.hybrid * (c.kernel > 0)
    inputs = units * (c.input + held) / c.npu_mhz
    outputs = units * (c.output + held) / c.npu_mhz
    kernels = units * c.kernel / c.npu_mhz
    flash_rate = c.flash_mhz * FLASH_BYTES_PER_CLOCK * k.flash_efficiency
    flash = units * c.flash_bytes / flash_rate
    near = np.maximum(np.maximum(inputs, outputs), kernels)
    cpu_ram = near * c.cpu_ram_share * k.cpu_ram_factor
    streams = np.maximum(near, near * (1.0 - c.cpu_ram_share) + cpu_ram)
    # External RAM has a clock of its own: its time does not follow the NPU's.
    external = c.external_bytes * k.external_clocks_per_byte / 1e3
    pipelined = np.maximum(streams, flash) + np.minimum(streams, flash) / c.passes
    # Coefficients of over 512 channels are streamed: then kernels are not loaded ahead.
    serial = np.maximum(streams, flash + k.streamed_clocks_per_element * outputs)
    hardware = np.maximum(np.where(c.streamed > 0, serial, pipelined), c.hardware * external)
    # The program lies in flash: it is fetched with the flash's clock, not the NPU's.
    program = (k.program_clocks + k.program_clocks_per_channel * c.channels) / 1e3
    program *= np.where(c.legacy > 0, k.legacy_program_factor, 1.0) * DEFAULT_FLASH_MHZ
    setup = (k.setup_cpu_clocks + k.setup_cpu_clocks_per_channel * c.channels) / c.cpu_mhz
    control = c.hardware * (
        k.epoch_clocks / c.npu_mhz + np.where(c.controller > 0, program / c.flash_mhz, setup)
    )
    control += c.hybrid * k.hybrid_cpu_clocks / c.cpu_mhz
    control += c.software * k.software_cpu_clocks / c.cpu_mhz
    # Small pieces are moved by the CPU (1920 bytes seen), larger ones by the DMA (8141).
    by_cpu = c.moved_bytes * k.hybrid_cpu_clocks_per_byte / c.cpu_mhz
    per_element = 1.0 / c.npu_mhz + k.hybrid_copy_cpu_clocks_per_element / c.cpu_mhz
    by_dma = k.hybrid_copy_cpu_clocks / c.cpu_mhz + c.copied * per_element
    copy = c.hybrid * np.where(c.copied > 0, np.minimum(by_dma, by_cpu), by_cpu)
    cpu = c.software * c.cpu_clocks / c.cpu_mhz
    total = hardware + copy + cpu + control + (1.0 - c.hardware) * external
    parts = {
        Bottleneck.INPUT: inputs,
        Bottleneck.OUTPUT: outputs,
        Bottleneck.KERNEL: kernels,
        Bottleneck.FLASH: flash,
        Bottleneck.CPU_RAM: np.where(cpu_ram > near * c.cpu_ram_share, cpu_ram, 0.0),
        Bottleneck.EXTERNAL_RAM: external,
        Bottleneck.CONTROL: control,
        Bottleneck.COPY: copy,
        Bottleneck.CPU: cpu,
    }
    return total * k.scale, {key: value * k.scale for key, value in parts.items()}
