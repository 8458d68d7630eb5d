"""Epochs: what shares a configuration of the NPU, on small graphs and on compiled networks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.passes.patterns import PATTERNS, Pattern

from npuforge.accelerators.neural_art.epochs import ACTIV, ARITH, CONVACC, POOL, Epoch, epochs
from npuforge.accelerators.neural_art.lowering import slices
from npuforge.accelerators.neural_art.operations import Part, convolution, operations
from npuforge.accelerators.neural_art.placement import place_node
from npuforge.accelerators.protocol import PlacementKind
from npuforge.artefacts.ec_blob import read_blob
from npuforge.aton import epochs_of
from npuforge.aton.registers import kind_of
from npuforge.errors import UsageError
from npuforge.graph import Graph, Node, Quantization, Tensor
from npuforge.graph import attrs as at
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu
from npuforge.vocab import DType

ROOT = Path(__file__).parents[2]


class Net:
    """Builds quantised graphs one node at a time."""

    def __init__(self, shape: tuple[int, ...], zero: int = -128) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.first = self.tensor("x", shape, zero)

    def tensor(self, name: str, shape: tuple[int, ...], zero: int = -128) -> str:
        quant = Quantization.per_tensor(0.1, zero)
        self.tensors[name] = Tensor(name, shape, DType.INT8, quant)
        return name

    def constant(self, shape: tuple[int, ...]) -> str:
        name = f"w{len(self.tensors)}"
        quant = Quantization.per_channel(np.full(shape[0], 0.1), 0)
        self.tensors[name] = Tensor(name, shape, DType.INT8, quant, np.zeros(shape, np.int8))
        return name

    def node(self, op: str, inputs: list[str], shape: tuple[int, ...], attrs: at.Attrs,
             zero: int = -128) -> str:  # fmt: skip
        name = f"n{len(self.nodes)}"
        out = self.tensor(f"{name}.out", shape, zero)
        self.nodes.append(Node(name, op, tuple(inputs), (out,), attrs))
        return out

    def conv(self, source: str, outputs: int, kernel: int = 1, stride: int = 1, zero: int = -128,
             activation: at.Activation = at.Activation.NONE) -> str:  # fmt: skip
        _, height, width, channels = self.tensors[source].shape
        weights = self.constant((outputs, kernel, kernel, channels))
        pad = (kernel - 1) // 2
        attrs = at.ConvAttrs(stride=(stride, stride), padding=(pad,) * 4, activation=activation)
        shape = (1, -(-height // stride), -(-width // stride), outputs)
        return self.node("conv2d", [source, weights], shape, attrs, zero)

    def depthwise(self, source: str, zero: int = -128) -> str:
        shape = self.tensors[source].shape
        weights = self.constant((1, 3, 3, shape[-1]))
        return self.node(
            "depthwise_conv2d", [source, weights], shape, at.ConvAttrs(padding=(1,) * 4), zero
        )

    def add(self, a: str, b: str, zero: int = -128) -> str:
        return self.node("add", [a, b], self.tensors[a].shape, at.ElementwiseAttrs(), zero)

    def graph(self, *outputs: str) -> Graph:
        return Graph("net", self.tensors, tuple(self.nodes), (self.first,), outputs)


def _epochs(graph: Graph, **options: bool) -> tuple[Epoch, ...]:
    return epochs(graph, [place_node(graph, node) for node in graph.nodes], **options)


def _parts(found: tuple[Epoch, ...]) -> list[list[str]]:
    return [[f"{op.node}.{op.part.value}" for op in epoch.operations] for epoch in found]


def test_shift_to_unsigned_ends_the_chain_before_a_wide_convolution() -> None:
    net = Net((1, 24, 24, 32))
    out = net.conv(net.conv(net.first, 32), 32)
    assert _parts(_epochs(net.graph(out))) == [
        ["n0.shift"],
        ["n0.conv", "n0.scale", "n0.offset", "n1.shift"],
        ["n1.conv", "n1.scale", "n1.offset"],
    ]


def test_depthwise_feeds_a_narrow_pointwise_until_the_units_run_out() -> None:
    net = Net((1, 48, 48, 8))
    out = net.conv(net.depthwise(net.first), 16)
    assert _parts(_epochs(net.graph(out)))[1:] == [
        ["n0.conv", "n0.scale", "n0.offset", "n1.shift", "n1.conv", "n1.scale"],
        ["n1.offset"],
    ]


def test_signed_zero_point_needs_no_shift() -> None:
    net = Net((1, 24, 24, 16), zero=3)
    assert _parts(_epochs(net.graph(net.conv(net.first, 64, zero=5)))) == [
        ["n0.conv", "n0.scale", "n0.offset"]
    ]


def test_relu_of_tflite_uses_an_activation_unit_and_add_follows_the_convolution() -> None:
    net = Net((1, 24, 24, 16), zero=3)
    made = net.conv(net.first, 16, zero=5, activation=at.Activation.RELU)
    out = net.add(made, net.first, zero=5)
    assert _parts(_epochs(net.graph(out))) == [
        ["n0.conv", "n0.scale", "n0.offset", "n0.activation", "n1.arith"]
    ]


def test_second_reader_of_a_stream_reads_memory() -> None:
    net = Net((1, 24, 24, 16), zero=3)
    made = net.conv(net.first, 32)
    short, long = net.conv(made, 16), net.conv(net.conv(made, 16), 16)
    for epoch in _epochs(net.graph(short, long)):
        shifts = [op for op in epoch.operations if op.part is Part.SHIFT]
        local = {op.writes for op in epoch.operations}
        fed = [op for op in shifts if op.reads[0] in local]
        assert len(fed) <= 1


def test_pooling_behind_a_convolution_as_on_boards() -> None:
    """3x3 with a pool is one epoch in published board logs; 1x1 with a pool is two."""
    for kernel, count in ((3, 1), (1, 2)):
        net = Net((1, 64, 64, 3), zero=3)
        made = net.conv(net.first, 32, kernel)
        out = net.node("mean", [made], (1, 32), at.ReduceAttrs((1, 2)))
        assert len(_epochs(net.graph(out), merged=True)) == count, kernel


def test_copy_makes_up_a_concat_alone() -> None:
    net = Net((1, 24, 24, 16), zero=3)
    pieces = [net.conv(net.first, 16), net.conv(net.first, 16)]
    out = net.node("concat", pieces, (1, 24, 24, 32), at.ConcatAttrs(3))
    assert _parts(_epochs(net.graph(net.conv(out, 32))))[1:3] == [["n2.copy"], ["n3.shift"]]


def test_nearest_resize_is_a_copy_and_a_helper() -> None:
    net = Net((1, 4, 4, 8))
    attrs = at.ResizeAttrs((8, 8), at.ResizeMode.NEAREST, at.CoordinateMode.ASYMMETRIC)
    found = _epochs(net.graph(net.node("resize", [net.first], (1, 8, 8, 8), attrs)))
    assert [e.kind for e in found] == [PlacementKind.HARDWARE, PlacementKind.HYBRID]


def test_large_pool_becomes_small_ones_two_an_epoch() -> None:
    net = Net((1, 15, 15, 128))
    attrs = at.PoolAttrs((13, 13), padding=(6,) * 4)
    found = _epochs(net.graph(net.node("max_pool2d", [net.first], (1, 15, 15, 128), attrs)))
    assert [sum(op.pool for op in e.operations) for e in found] == [2, 2, 2]


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(("conv", "depthwise", "wide", "add")), min_size=1, max_size=12),
    st.sampled_from((4, 8, 16, 24, 64, 160)),
    st.sampled_from((3, 12, 60)),
    st.booleans(),
)
def test_every_operation_runs_once_in_order_within_the_units(
    steps: list[str], channels: int, size: int, merged: bool
) -> None:  # fmt: skip
    net = Net((1, size, size, channels))
    value, earlier = net.first, net.first
    for step in steps:
        before = value
        if step == "add" and net.tensors[earlier].shape == net.tensors[value].shape:
            value = net.add(value, earlier)
        elif step == "depthwise":
            value = net.depthwise(value)
        else:
            value = net.conv(value, channels, zero=7 if step == "wide" else -128)
        earlier = before
    graph = net.graph(value)
    placements = [place_node(graph, node) for node in graph.nodes]
    found = epochs(graph, placements, merged=merged)
    wanted = [op.writes for op in operations(graph, placements, merged=merged)]
    assert sorted(op.writes for e in found for op in e.operations) == sorted(wanted)
    done = {net.first}
    for epoch in found:
        for op in epoch.operations:
            assert set(op.reads) <= done
            done.add(op.writes)
        for limit, used in (
            (ARITH, sum(op.arith for op in epoch.operations)),
            (ACTIV, sum(op.activ for op in epoch.operations)),
            (POOL, sum(op.pool for op in epoch.operations)),
            (CONVACC, sum(op.convacc for op in epoch.operations)),
        ):
            assert used <= limit


@given(st.integers(1, 2048), st.sampled_from((16, 24, 128)))
def test_slices_divide_the_channels(channels: int, batch: int) -> None:
    passes, chain = slices(channels, batch)
    assert channels % (passes * chain) == 0
    assert 1 <= chain <= 4


def test_newer_releases_merge_scale_and_offset() -> None:
    net = Net((1, 24, 24, 32))
    graph = net.graph(net.conv(net.first, 32))
    old, new = (map_to_npu(graph, release=release).epochs[-1] for release in ("2.2.0-20266", "4.0"))
    assert [op.part.value for op in old.operations] == ["conv", "scale", "offset"]
    assert [op.part.value for op in new.operations] == ["conv", "offset"]
    with pytest.raises(UsageError):
        map_to_npu(graph, release="newest")


def test_gated_activation_is_one_operation_in_newer_releases() -> None:
    net = Net((1, 24, 24, 16), zero=3)
    made = net.conv(net.first, 16, zero=5)
    gate = net.node("logistic", [made], (1, 24, 24, 16), at.NO_ATTRS)
    out = net.node("mul", [made, gate], (1, 24, 24, 16), at.ElementwiseAttrs(), 9)
    graph = net.graph(out)
    (only,) = map_to_npu(graph, release="4.0").epochs
    assert [op.part.value for op in only.operations] == ["conv", "offset", "activation"]
    assert len(map_to_npu(graph, release="2.2").epochs) > 1


def test_user_choices_change_the_epochs() -> None:
    net = Net((1, 24, 24, 32))
    graph = net.graph(net.conv(net.conv(net.first, 32), 32))
    free, forced = map_to_npu(graph), map_to_npu(graph, cpu=["n0"])
    assert [e.kind for e in forced.epochs].count(PlacementKind.CPU_INTEGER) == 1
    assert (free.hardware_epochs, forced.hardware_epochs) == (3, 2)


# Epochs of the compiled network, and how many of them are predicted operation by operation.
EXACT = {
    "mobilenet_v1_025_96": (33, 33),
    "movenet_lightning_192": (73, 73),
    # Heads and pyramid levels side by side are packed in another way.
    "yolox_nano_480": (227, 211),
    # Four parallel branches with dilated convolutions are ordered in another way.
    "deeplab_v3_mnv2_320": (65, 52),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", sorted(EXACT))
def test_compiled_networks(shared: Path, name: str) -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from compiled import NETWORKS, compiled_epochs
    finally:
        sys.path.pop(0)
    model, integer_io = NETWORKS[name]
    graph = load_model(shared / "models" / model)
    npu = map_to_npu(graph, integer_io=integer_io, release="2.1")
    ops = {op.writes: op for op in operations(graph, npu.placements)}
    truth = compiled_epochs(shared / "aton" / name, graph, tuple(ops.values()))
    predicted = {frozenset(op.writes for op in epoch.operations) for epoch in npu.epochs}
    same = sum(epoch.made in predicted and not epoch.unknown for epoch in truth)
    assert (len(truth), same) >= EXACT[name]
    assert len(truth) == EXACT[name][0]
    # Units in the program itself, independent of how buffers are named.
    programs = {
        epoch.number: epoch
        for path in (shared / "aton" / name).glob("ec_blob_*.bin")
        for epoch in epochs_of(read_blob(path.read_bytes()))
    }
    agree = 0
    for epoch in truth:
        if epoch.number in programs:
            kinds = [kind_of(page) for page in programs[epoch.number].units]
            made = [ops[name] for name in epoch.made]
            agree += (
                kinds.count("ARITH") == sum(op.arith for op in made)
                and kinds.count("POOL") == sum(op.pool for op in made)
                and (kinds.count("CONVACC") > 0) == any(op.convacc for op in made)
            )
    assert agree >= 0.97 * len(programs)


@pytest.mark.shared
def test_chain_lengths_of_movenet(shared: Path) -> None:
    graph = load_model(shared / "models" / "st_movenet_lightning_heatmaps_192_int8_pc.tflite")
    wide = [
        convolution(graph, node).chain
        for node in graph.nodes
        if node.op == "conv2d" and graph.tensor(node.inputs[1]).shape[1:] == (1, 1, 576)
    ]
    assert wide == [3, 3, 3]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: f"{p.code}-{p.make.__name__}")
@pytest.mark.parametrize("merged", [False, True])
def test_every_operation_runs_exactly_once(pattern: Pattern, merged: bool) -> None:
    graph = pattern.make()
    placements = [place_node(graph, node) for node in graph.nodes]
    ran = [op.writes for e in epochs(graph, placements, merged=merged) for op in e.operations]
    assert sorted(ran) == sorted(op.writes for op in operations(graph, placements, merged=merged))


def test_an_image_joined_with_itself_is_read_once() -> None:
    """Twelve doublings in a row: with a reader counted twice there would be thousands of epochs."""
    net = Net((1, 4, 4, 8))
    source = net.first
    for step in range(12):
        source = net.node("concat", [source, source], (1, 4, 4, 8 << (step + 1)), at.ConcatAttrs(3))
    graph = net.graph(source)
    placements = [place_node(graph, node) for node in graph.nodes]
    assert len(epochs(graph, placements)) == 12
