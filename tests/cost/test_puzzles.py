"""Published timings that puzzled people, explained by the model's numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.builders import tensor

from npuforge.cost import Bottleneck, NpuCost, npu_cost
from npuforge.graph import Graph, Node
from npuforge.graph.attrs import ConvAttrs, FullyConnectedAttrs, ReduceAttrs
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu
from npuforge.targets import OperatingPoint
from npuforge.vocab import DType

BOARD = OperatingPoint("overdrive", 800.0, 1000.0, flash_mhz=200.0)
STUDIO = OperatingPoint("ai studio", 600.0, 800.0, flash_mhz=50.0)
"""Generated project at nominal clocks whose flash delivers 99 of 397 MB/s."""


def averaged(kernel: int, count: int, size: int = 64) -> Graph:
    """A convolution of 3 channels with a global average behind it."""
    weights = (count, kernel, kernel, 3)
    pad = kernel // 2
    tensors = [
        tensor("x", (1, size, size, 3), quant=(0.1, -1)),
        tensor("w", weights, data=np.ones(weights)),
        tensor("b", (count,), DType.INT32, data=np.zeros(count)),
        tensor("y", (1, size, size, count), quant=(0.1, -128)),
        tensor("z", (1, count), quant=(0.1, -128)),
    ]
    nodes = (
        Node("y", "conv2d", ("x", "w", "b"), ("y",), ConvAttrs(padding=(pad, pad, pad, pad))),
        Node("z", "mean", ("y",), ("z",), ReduceAttrs((1, 2))),
    )
    return Graph("averaged", {t.name: t for t in tensors}, nodes, ("x",), ("z",))


def timed(graph: Graph, point: OperatingPoint, release: str, controller: bool = False) -> NpuCost:
    placements = map_to_npu(graph, integer_io=True).placements
    return npu_cost(graph, placements, point, release=release, controller=controller)


def test_a_1x1_layer_takes_twice_as_long_because_the_average_got_its_own_epoch() -> None:
    """0.146 and 0.153 ms under release 2.2, 0.288 ms under 4.0, the same file and board clocks."""
    old, new = (timed(averaged(1, 32), BOARD, release) for release in ("2.2", "4.0"))
    assert (len(old.epochs), len(new.epochs)) == (1, 2)
    assert old.ms == pytest.approx(0.150, rel=0.08)
    assert new.ms == pytest.approx(0.288, rel=0.08)
    assert new.epochs[1].op == "mean"


def test_a_3x3_layer_keeps_its_average_in_the_same_epoch() -> None:
    """0.155 ms under both releases."""
    old, new = (timed(averaged(3, 32), BOARD, release) for release in ("2.2", "4.0"))
    assert len(old.epochs) == len(new.epochs) == 1
    assert new.ms == old.ms == pytest.approx(0.155, rel=0.08)


def test_3x3_and_5x5_of_three_channels_take_equal_time() -> None:
    """0.147 to 0.155 and 0.154 to 0.161 ms: one output a clock, 131072 of them, binds both."""
    three, five = (timed(averaged(kernel, 32), BOARD, "2.2") for kernel in (3, 5))
    assert five.epochs[0].macs > 2.7 * three.epochs[0].macs
    for cost in (three, five):
        assert cost.epochs[0].bottleneck is Bottleneck.OUTPUT
    assert five.ms == pytest.approx(three.ms, rel=0.02)


def test_a_classifier_shows_the_flash_clock() -> None:
    """1000 x 1280 weights: 3.23 ms on one board, 12.9 ms in the generated project."""
    shape = (1000, 1280)
    tensors = [
        tensor("x", (1, 1280), quant=(0.1, -128)),
        tensor("w", shape, data=np.ones(shape)),
        tensor("y", (1, 1000), quant=(0.1, 0)),
    ]
    node = Node("y", "fully_connected", ("x", "w"), ("y",), FullyConnectedAttrs())
    graph = Graph("classifier", {t.name: t for t in tensors}, (node,), ("x",), ("y",))
    fast, slow = timed(graph, BOARD, "2.2"), timed(graph, STUDIO, "4.0", controller=True)
    assert fast.ms == pytest.approx(3.236, rel=0.06)
    assert slow.ms == pytest.approx(12.934, rel=0.06)
    assert {cost.epochs[0].bottleneck for cost in (fast, slow)} == {Bottleneck.FLASH}


def test_float_convolutions_cost_seconds() -> None:
    """3.6 s instead of 20 ms: a network of 300 million MAC that stayed float runs on the CPU."""
    size, channels = 32, 181
    shape = (channels, 3, 3, channels)
    kinds = {}
    for name, dtype in (("int8", DType.INT8), ("float", DType.FLOAT32)):
        quant = {} if dtype.is_float else {"quant": (0.1, -128)}
        tensors = [
            tensor("x", (1, size, size, channels), dtype, **quant),
            tensor("w", shape, dtype, data=np.ones(shape)),
            tensor("y", (1, size, size, channels), dtype, **quant),
        ]
        node = Node("y", "conv2d", ("x", "w"), ("y",), ConvAttrs(padding=(1, 1, 1, 1)))
        kinds[name] = timed(
            Graph(name, {t.name: t for t in tensors}, (node,), ("x",), ("y",)), BOARD, "4.0"
        )
    assert kinds["int8"].epochs[0].macs == pytest.approx(300e6, rel=0.02)
    assert kinds["int8"].ms < 20
    assert 2_500 < kinds["float"].ms < 6_500
    assert kinds["float"].epochs[0].bottleneck is Bottleneck.CPU


@pytest.mark.shared
def test_mobilenet_takes_20_ms_on_one_board_and_49_in_a_generated_project(shared: Path) -> None:
    """20.692 ms (release 2.2) against 49.337 ms (4.0.1, nominal clocks, slow flash)."""
    graph = load_model(shared / "models/mobilenet_v2_224_int8.onnx")
    board = timed(graph, BOARD, "2.2")
    studio = timed(graph, STUDIO, "4.0.1", controller=True)
    assert board.ms == pytest.approx(20.692, rel=0.12)
    assert studio.ms == pytest.approx(49.337, rel=0.12)
    # Of the difference, the flash clock makes most.
    only_clocks = timed(graph, replace(STUDIO, flash_mhz=200.0), "4.0.1", controller=True)
    assert (studio.ms - only_clocks.ms) > 0.6 * (studio.ms - board.ms)
