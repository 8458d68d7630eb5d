"""Epoch times against cycles that others measured on an STM32N6, and the model's own laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.builders import single, tensor

from npuforge.accelerators import PlacementKind
from npuforge.cost import Bottleneck, EpochCost, load_calibration, npu_cost
from npuforge.graph import Graph
from npuforge.graph.attrs import (
    ConcatAttrs,
    ConvAttrs,
    CoordinateMode,
    ResizeAttrs,
    ResizeMode,
    TransposeAttrs,
)
from npuforge.mapping import map_to_npu
from npuforge.targets import OperatingPoint
from npuforge.vocab import DType

POINT = OperatingPoint("overdrive", 800.0, 1000.0, flash_mhz=200.0)


def convolution(
    size: int, channels: int, count: int, kernel: int, zero: int = -1, op: str = "conv2d"
) -> Graph:
    pad = kernel // 2
    shape = (1, kernel, kernel, count) if op != "conv2d" else (count, kernel, kernel, channels)
    return single(
        op,
        [
            tensor("x", (1, size, size, channels), quant=(0.1, zero)),
            tensor("w", shape, data=np.ones(shape)),
            tensor("b", (count,), DType.INT32, data=np.zeros(count)),
        ],
        [tensor("y", (1, size, size, count), quant=(0.1, -128))],
        ConvAttrs(padding=(pad, pad, pad, pad)),
    )


def epoch(graph: Graph, point: OperatingPoint = POINT, release: str = "3.0") -> EpochCost:
    (only,) = npu_cost(graph, map_to_npu(graph).placements, point, release=release).epochs
    return only


@pytest.mark.parametrize(
    ("count", "kernel", "clocks"),
    # NPU clocks of single-layer networks on a board, 64 x 64 x 3 input (Magnus3327's benchmarks).
    [(16, 3, 67_255), (32, 3, 133_650), (64, 3, 266_225), (32, 1, 132_172), (32, 5, 135_041)],
)
def test_single_layers_take_the_measured_time(count: int, kernel: int, clocks: int) -> None:
    found = epoch(convolution(64, 3, count, kernel))
    assert found.ms == pytest.approx(clocks / 1e6, rel=0.05)
    assert found.bottleneck is Bottleneck.OUTPUT


def test_a_5x5_kernel_costs_no_more_than_3x3_when_outputs_bind() -> None:
    five, three = (epoch(convolution(64, 3, 32, size)) for size in (5, 3))
    assert five.parts[Bottleneck.OUTPUT] == three.parts[Bottleneck.OUTPUT]
    assert five.ms == pytest.approx(three.ms, rel=0.01)


def test_an_odd_zero_point_halves_a_compute_bound_convolution() -> None:
    fast, slow = (epoch(convolution(64, 256, 32, 3, zero)) for zero in (-128, -127))
    assert (fast.wide, slow.wide) == (False, True)
    assert slow.parts[Bottleneck.INPUT] / fast.parts[Bottleneck.INPUT] == pytest.approx(2.0)
    assert slow.bottleneck is Bottleneck.INPUT


def test_depthwise_weights_are_dense_blocks_before_release_3() -> None:
    graph = convolution(4, 512, 512, 3, -128, "depthwise_conv2d")
    old, new = (epoch(graph, release=release) for release in ("2.2.0-20266", "3.0"))
    assert old.flash_bytes == 512 * 9 * 8
    assert new.flash_bytes == 512 * 9
    assert old.bottleneck is Bottleneck.FLASH
    rate = 200 * 2 * load_calibration().constants.flash_efficiency
    assert old.parts[Bottleneck.FLASH] == pytest.approx(
        old.flash_bytes / rate / 1e3 * load_calibration().constants.scale
    )


def test_a_slower_flash_slows_only_what_waits_for_it() -> None:
    slow = replace(POINT, flash_mhz=50.0)
    bound, other = convolution(4, 256, 256, 3, -128), convolution(64, 3, 32, 3)
    assert epoch(bound, slow).ms / epoch(bound).ms == pytest.approx(4.0, rel=0.05)
    streams = [epoch(other, point).parts[Bottleneck.OUTPUT] for point in (slow, POINT)]
    assert streams[0] == streams[1]
    assert epoch(other, slow).ms / epoch(other).ms < 1.1


def test_the_interval_holds_the_estimate() -> None:
    graph = convolution(64, 3, 32, 3)
    cost = npu_cost(graph, map_to_npu(graph).placements, POINT)
    low, high = cost.interval
    assert 0 < low < cost.ms < high


def hybrid(op: str, size: int, channels: int) -> EpochCost:
    """A channel concat of unequal pieces, or a transpose of the same size."""
    whole = (1, size, size, 3 * channels)
    if op == "concat":
        pieces = [tensor("a", (*whole[:3], channels)), tensor("b", (*whole[:3], 2 * channels))]
        graph = single(op, pieces, [tensor("y", whole)], ConcatAttrs(3))
    else:
        out = tensor("y", (1, size, 3 * channels, size))
        graph = single(op, [tensor("a", whole)], [out], TransposeAttrs((0, 1, 3, 2)))
    studio = OperatingPoint("studio", 600.0, 800.0, flash_mhz=50.0)
    found = epoch(graph, studio)
    assert found.kind is PlacementKind.HYBRID
    return found


@pytest.mark.parametrize(
    ("size", "channels", "milliseconds"),
    # Hybrid epochs with the epochs inside them, board log of YOLOv8n at 224 x 224 (Magnus3327's
    # benchmarks): concats of 75264 and 150528 elements.
    [(14, 128, 0.219), (28, 64, 0.366)],
)
def test_concats_take_the_measured_time(size: int, channels: int, milliseconds: float) -> None:
    assert hybrid("concat", size, channels).ms == pytest.approx(milliseconds, rel=0.2)


def test_a_transpose_by_the_cpu_costs_more_than_a_copy_by_the_npu() -> None:
    assert hybrid("transpose", 28, 64).ms > 3 * hybrid("concat", 28, 64).ms
    assert hybrid("transpose", 28, 64).bottleneck is Bottleneck.COPY


def test_an_estimate_is_the_surer_the_more_of_it_the_npu_does() -> None:
    def width(graph: Graph) -> float:
        low, high = npu_cost(graph, map_to_npu(graph).placements, POINT).interval
        return high / low

    assumed = single(
        "resize", [tensor("x", (1, 8, 8, 4))], [tensor("y", (1, 16, 16, 4))],
        ResizeAttrs((16, 16), ResizeMode.BILINEAR, CoordinateMode.HALF_PIXEL),
    )  # fmt: skip
    assert width(convolution(64, 3, 32, 3)) < 1.3 < width(assumed)
