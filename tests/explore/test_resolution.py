"""A network for another image size against the same network published at that size."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.passes.patterns import PATTERNS, Net, Pattern

from npuforge.cost import npu_cost
from npuforge.errors import UsageError
from npuforge.explore import resolution
from npuforge.explore.resolution import at_resolution, parse_size
from npuforge.explore.search import explore
from npuforge.graph import Graph, macs, verify
from npuforge.graph import attrs as at
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu
from npuforge.targets import OperatingPoint, load_target

ROOT = Path(__file__).parents[2]
CLASSIFIER = ROOT / "examples/image_classification/image_classification.tflite"
POINT = OperatingPoint("board", 800.0, 1000.0, flash_mhz=200.0)

PUBLISHED = [
    *(("yolov8n_{}_quant_pc_uf_od_coco-person.tflite", 256, size) for size in (192, 320, 416)),
    ("yolov8n_{}_quant_pc_ii_seg_coco-st.tflite", 256, 320),
    *(
        (f"zoo2__food-101__{name}.tflite", *pair)
        for name in ("mobilenet_v2_0.35_{}_fft_int8", "squeezenetv1.1_{}_tfs_int8",
                     "st_efficientnet_lc_v1_{}_tfs_int8", "fdmobilenet_0.25_{}_tfs_int8",
                     "st_fdmobilenet_v1_{}_tfs_int8")
        for pair in ((128, 224), (224, 128))
    ),
    ("zoo2__flowers__mobilenet_v1_0.25_{}_fft_int8.tflite", 96, 224),
    ("zoo2__coco_2017_person__st_yolo_lc_v1_{}_int8.tflite", 256, 192),
    ("zoo2__coco_2017_person__ssd_mobilenet_v2_fpnlite_035_{}_int8.tflite", 256, 416),
]  # fmt: skip


def shapes(graph: Graph) -> list[tuple[int, ...]]:
    return [graph.tensor(name).shape for node in graph.nodes for name in node.outputs]


def work(graph: Graph) -> int:
    return sum(macs(graph, node) for node in graph.nodes)


@pytest.mark.shared
@pytest.mark.parametrize(("name", "own", "other"), PUBLISHED)
def test_published_networks_at_another_size(shared: Path, name: str, own: int, other: int) -> None:
    made = at_resolution(load_model(shared / "models" / name.format(own)), other, other)
    true = load_model(shared / "models" / name.format(other))
    verify(made)
    assert shapes(made) == shapes(true)
    assert work(made) == work(true)
    times = [npu_cost(g, map_to_npu(g).placements, POINT).ms for g in (made, true)]
    # Zero points of a retrained network differ, and with them the width of a convolution.
    assert times[0] == pytest.approx(times[1], rel=0.02)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12))
def test_there_and_back_again(rows: int, columns: int) -> None:
    graph = load_model(CLASSIFIER)
    height, width = graph.tensor(graph.inputs[0]).shape[1:3]
    made = at_resolution(graph, 32 * rows, 32 * columns)
    verify(made)
    back = at_resolution(made, height, width)
    assert shapes(back) == shapes(graph)
    assert work(made) >= work(graph) * rows * columns * 32 * 32 / (height * width) * 0.98 - 1e5


def test_the_same_size_is_the_same_graph() -> None:
    graph = load_model(CLASSIFIER)
    height, width = graph.tensor(graph.inputs[0]).shape[1:3]
    assert at_resolution(graph, height, width) is graph


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: p.make.__name__)
def test_patterns_follow_or_are_refused(pattern: Pattern) -> None:
    """Only networks of several inputs, or of none that is an image, are refused."""
    graph = pattern.make()
    source = graph.tensor(graph.inputs[0]).shape
    if len(source) != 4 or len(graph.inputs) > 1:
        with pytest.raises(UsageError, match="CST-008"):
            at_resolution(graph, 64, 64)
    else:
        verify(at_resolution(graph, 2 * source[1], 2 * source[2]))


def test_weights_that_depend_on_the_size_are_refused() -> None:
    net = Net()
    flat = net.move("reshape", net.conv(net.input(1, 8, 8, 4), 8), at.ReshapeAttrs((1, 512)))
    weights = net.const([[1] * 512] * 10, (0.1, 0))
    graph = net.graph(net.op("fully_connected", [flat, weights], at.FullyConnectedAttrs()))
    with pytest.raises(UsageError, match="CST-008"):
        at_resolution(graph, 16, 16)


@pytest.mark.parametrize("size", [(0, 32), (32, 5000)])
def test_impossible_sizes_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="CST-008"):
        at_resolution(load_model(CLASSIFIER), *size)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.data())
def test_runs_hold_the_same_elements(old: list[int], data: st.DataObject) -> None:
    factors = [f for n in old for f in ([n] if n < 4 or n % 2 else [n // 2, 2])]
    cut = data.draw(st.integers(1, len(factors)))
    shape = (math.prod(factors[:cut]), *factors[cut:])
    runs = list(resolution._runs(tuple(old), shape))
    for own, made in runs:
        assert math.prod(old[i] for i in own) == math.prod(shape[i] for i in made)


def test_sizes_are_read() -> None:
    assert parse_size("192") == (192, 192)
    assert parse_size(" 256x320 ") == (256, 320)
    for text in ("", "x", "-3", "12x", "1e3", "99999"):
        with pytest.raises(UsageError, match="CST-009"):
            parse_size(text)


def test_each_size_has_a_front_of_its_own() -> None:
    graph, target = load_model(CLASSIFIER), load_target("stm32n6570-dk")
    found = explore(graph, target, points=[POINT], sizes=[(32, 32), (64, 64)])
    alone = [explore(graph, target, points=[POINT], sizes=[size]) for size in ((32, 32), (64, 64))]
    assert found.front == alone[0].front + alone[1].front
    assert {c.size for c in found.front} == {(32, 32), (64, 64)}
    fastest = [min(c.cost.ms for c in one.front) for one in alone]
    assert fastest[0] < fastest[1]


def test_channels_first_images_grow_in_rows_and_columns() -> None:
    net = Net()
    image = net.move("transpose", net.input(1, 3, 16, 24), at.TransposeAttrs((0, 2, 3, 1)))
    graph = net.graph(net.conv(image, 8, (3, 3), stride=(2, 2), padding=(0, 1, 0, 1)))
    made = at_resolution(graph, 32, 64)
    verify(made)
    assert shapes(made) == [(1, 32, 64, 3), (1, 16, 32, 8)]
