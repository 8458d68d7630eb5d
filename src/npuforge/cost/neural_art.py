"""Time of a network on Neural-ART, epoch by epoch: the slowest stream decides.

One node is one epoch here. Weights are taken to lie in external octal flash and activations in
NPU RAM; spills, the NPU cache and fused epochs are not modelled. Stream rates and clocks are from
per-epoch board logs and compiled networks; the constants are in `calibration.toml`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache
from importlib.resources import files

from npuforge.accelerators import PlacementKind
from npuforge.accelerators.neural_art.placement import NpuPlacement, kernel_parts
from npuforge.graph import Graph, Node, macs
from npuforge.graph import attrs as at
from npuforge.targets import OperatingPoint

CHAIN = 4
"""CONVACC units that can be chained."""
DENSE_BLOCK = 8
"""Channels a depthwise convolution is expanded to."""
MAX_KERNELS = 24
"""Kernels of a 1x1 pass."""
FLASH_REFERENCE = 5.0
"""NPU clocks for one flash clock where the flash rate was measured (1000 and 200 MHz)."""


class Bottleneck(StrEnum):
    """What an epoch waits for."""

    INPUT = "input stream"
    OUTPUT = "output stream"
    KERNEL = "kernel stream"
    FLASH = "flash"
    CONTROL = "control"
    CPU = "cpu"


@dataclass(frozen=True)
class Calibration:
    """Free constants of the model; units are in the names, `cpu` marks Cortex-M clocks."""

    flash_clocks_per_byte: float
    epoch_clocks: float
    hybrid_clocks_per_byte: float
    software_cpu_clocks: float
    software_cpu_clocks_per_element: float
    interval_low: float
    interval_high: float


@dataclass(frozen=True)
class EpochCost:
    """Time of one epoch.

    Attributes:
        node: graph node.
        op: its operator.
        ms: milliseconds.
        bottleneck: what it waits for.
        macs: multiply-accumulates.
        wide: the input's zero point forces 16x8-bit mode.
    """

    node: str
    op: str
    ms: float
    bottleneck: Bottleneck
    macs: int
    wide: bool


@dataclass(frozen=True)
class NpuCost:
    """Time of one inference, and its epochs in execution order.

    Attributes:
        epochs: in execution order.
        calibration: the constants that were used.
    """

    epochs: tuple[EpochCost, ...]
    calibration: Calibration

    @property
    def ms(self) -> float:
        """Milliseconds of one inference."""
        return sum(epoch.ms for epoch in self.epochs)

    @property
    def interval(self) -> tuple[float, float]:
        """Milliseconds between which 80 % of published board figures fell (see calibration)."""
        return self.ms * self.calibration.interval_low, self.ms * self.calibration.interval_high


@cache
def load_calibration() -> Calibration:
    """The constants that come with npuforge."""
    text = files("npuforge.cost").joinpath("calibration.toml").read_text(encoding="utf-8")
    values = tomllib.loads(text)
    return Calibration(**{f.name: float(values[f.name]) for f in fields(Calibration)})


def npu_cost(
    graph: Graph,
    placements: Sequence[NpuPlacement],
    point: OperatingPoint,
    calibration: Calibration | None = None,
) -> NpuCost:
    """Time of every epoch at an operating point.

    Args:
        graph: the network.
        placements: one a node, as `map_to_npu` gives them.
        point: clocks; without a flash clock 200 MHz is assumed.
        calibration: constants; default: `load_calibration()`.
    """
    constants = calibration or load_calibration()
    epochs = []
    for node, placement in zip(graph.nodes, placements, strict=True):
        if placement.kind is not PlacementKind.VIEW:
            epochs.append(_epoch(graph, node, placement.kind, point, constants))
    return NpuCost(tuple(epochs), constants)


def _epoch(
    graph: Graph, node: Node, kind: PlacementKind, point: OperatingPoint, constants: Calibration
) -> EpochCost:
    held = [t for t in graph.input_tensors(node) if t is not None and not t.is_constant]
    outputs = graph.output_tensors(node)
    out = sum(t.size for t in outputs)
    largest = max([out, *(t.size for t in held)])
    work, wide = macs(graph, node), _is_wide(graph, node)
    if kind not in (PlacementKind.HARDWARE, PlacementKind.HYBRID):
        clocks = constants.software_cpu_clocks
        clocks += constants.software_cpu_clocks_per_element * largest + work
        return EpochCost(
            node.name, node.op, clocks / point.cpu_mhz / 1e3, Bottleneck.CPU, work, wide
        )
    streams = _streams(graph, node, wide)
    if streams is None:
        streams = {Bottleneck.INPUT: float(largest), Bottleneck.OUTPUT: float(out)}
    ratio = point.npu_mhz / (point.flash_mhz or 200.0) / FLASH_REFERENCE
    streams[Bottleneck.FLASH] = _weight_bytes(graph, node) * constants.flash_clocks_per_byte * ratio
    if kind is PlacementKind.HYBRID:
        moved = sum(t.nbytes for t in (*held, *outputs))
        streams[Bottleneck.OUTPUT] = max(
            streams[Bottleneck.OUTPUT], moved * constants.hybrid_clocks_per_byte
        )
    streams[Bottleneck.CONTROL] = constants.epoch_clocks
    worst = max(streams, key=lambda key: streams[key])
    clocks = constants.epoch_clocks + max(
        value for key, value in streams.items() if key is not Bottleneck.CONTROL
    )
    return EpochCost(node.name, node.op, clocks / point.npu_mhz / 1e3, worst, work, wide)


def _is_wide(graph: Graph, node: Node) -> bool:
    """Zero points other than -128 and 0 need 16x8-bit mode."""
    if node.op not in ("conv2d", "depthwise_conv2d", "fully_connected"):
        return False
    source = graph.tensor(node.inputs[0]).quantization
    return source is not None and source.z not in (-128, 0)


def _weight_bytes(graph: Graph, node: Node) -> int:
    constants = [t for t in graph.input_tensors(node) if t is not None and t.is_constant]
    total = sum(t.nbytes for t in constants)
    if node.op == "depthwise_conv2d":
        total += (DENSE_BLOCK - 1) * graph.tensor(node.inputs[1]).nbytes
    return total


def _streams(graph: Graph, node: Node, wide: bool) -> dict[Bottleneck, float] | None:
    """Clocks of the streams of a convolution; None for other operators.

    max(input re-reads / (units * depth), outputs, kernel bytes / depth): the formula that
    reproduces 177 of 198 convolution epochs in the compiler's reports.
    """
    if node.op == "fully_connected":
        outputs, inputs = graph.tensor(node.inputs[1]).shape
        return {
            Bottleneck.INPUT: inputs * outputs / MAX_KERNELS,
            Bottleneck.OUTPUT: float(outputs),
            Bottleneck.KERNEL: inputs * outputs / (1 if wide else 3),
        }
    if node.op not in ("conv2d", "depthwise_conv2d") or not isinstance(node.attrs, at.ConvAttrs):
        return None
    weights = graph.tensor(node.inputs[1]).shape
    _, height, width, channels = graph.tensor(node.inputs[0]).shape
    out = graph.output_tensors(node)[0]
    count = out.shape[-1]
    kernel = (weights[1], weights[2])
    parts = len(kernel_parts(kernel, node.attrs.stride[1]))
    if node.op == "depthwise_conv2d":
        return {
            Bottleneck.INPUT: float(height * width * channels * (2 if wide else 1) * parts),
            Bottleneck.OUTPUT: float(out.size * parts),
            Bottleneck.KERNEL: float(count * DENSE_BLOCK * math.prod(kernel)),
        }
    grouped = channels // node.attrs.groups
    depth = 1
    if kernel == (1, 1):
        passes = next(n for n in range(MAX_KERNELS, 0, -1) if count % n == 0)
        depth = 1 if wide or grouped < 3 else 3
    else:
        passes = 4 if wide else 8
    # The parts of a split kernel run on units of their own.
    units = min(CHAIN, parts * max(1, grouped // DENSE_BLOCK))
    reads = height * width * math.ceil(count / passes) * grouped
    return {
        Bottleneck.INPUT: reads * parts / (units * depth),
        # One output a clock: the parts of a split kernel are added on their way out.
        Bottleneck.OUTPUT: float(out.size),
        Bottleneck.KERNEL: count * grouped * math.prod(kernel) / depth,
    }
