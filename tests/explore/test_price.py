"""The price of a quantised network on a board."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.quantize.networks import Net, write_samples

from npuforge.explore.price import TargetPrice
from npuforge.graph import Graph
from npuforge.quantize import (
    Precision,
    RangeMethod,
    Scheme,
    ZeroPoints,
    calibrate,
    prepared,
    quantize_graph,
)
from npuforge.targets import load_target
from npuforge.tasks import open_dataset
from npuforge.vocab import Activation


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    """One network in four schemes; large enough that the convolution units decide the time."""
    net = Net((1, 48, 48, 16))
    a = net.conv("x", 64, act=Activation.NONE)
    b = net.conv(a, 64, act=Activation.NONE)
    graph = prepared(net.graph(net.conv(b, 64, act=Activation.NONE)))
    folder = tmp_path_factory.mktemp("price")
    data = open_dataset([write_samples(graph, folder / "d.npz", 2)], graph)
    seen = calibrate(graph, data)
    float_layer = {graph.nodes[1].name: Precision.FLOAT}
    plain = Scheme(method=RangeMethod.MINMAX)
    schemes = {
        "free": plain,
        "npu": replace(plain, zero_points=ZeroPoints.NPU),
        "float": replace(plain, layers=float_layer),
        "wide": replace(plain, layers={graph.nodes[1].name: Precision.INT16}),
    }
    return {k: quantize_graph(graph, seen.ranges(graph, s), s).graph for k, s in schemes.items()}


def test_zero_points_and_precisions_have_a_price(made: dict[str, Graph]) -> None:
    board = load_target("stm32n6570-dk")
    price = TargetPrice(board, board.operating_points["nominal"])
    found = {key: price(graph) for key, graph in made.items()}
    assert all(item.fits for item in found.values())
    assert found["npu"].narrow_share == pytest.approx(1.0)
    assert (found["free"].narrow_share or 0) < 0.5
    times = {key: item.ms or 0 for key, item in found.items()}
    assert times["npu"] < times["free"] < times["float"]
    assert times["free"] < times["wide"]
    assert found["float"].weight_bytes > found["free"].weight_bytes
    fast = TargetPrice(board, board.operating_points["overdrive"])(made["npu"])
    assert (fast.ms or 9) < times["npu"]


def test_without_a_neural_art_there_is_no_time(made: dict[str, Graph]) -> None:
    board = load_target("mps3-an547")
    price = TargetPrice(board, board.operating_points["nominal"])(made["free"])
    assert (price.ms, price.narrow_share) == (None, None)
    assert (price.activation_bytes or 0) >= 48 * 48 * 64
    tiny = replace(board, pools=tuple(replace(p, size=4096) for p in board.pools))
    small = TargetPrice(tiny, board.operating_points["nominal"])(made["free"])
    assert not small.fits
    assert small.why


def test_what_does_not_fit_is_said(made: dict[str, Graph]) -> None:
    board = load_target("stm32n6570-dk")
    tiny = replace(board, pools=tuple(replace(p, size=4096) for p in board.pools))
    price = TargetPrice(tiny, board.operating_points["nominal"])(made["free"])
    assert not price.fits
    assert board.name in price.why
