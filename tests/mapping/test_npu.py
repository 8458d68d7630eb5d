"""Placement on Neural-ART: each rule fires where it must, and compiled networks agree."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.builders import single, tensor

from npuforge.accelerators.neural_art.placement import RULES, kernel_parts, place_node
from npuforge.accelerators.protocol import PlacementKind
from npuforge.errors import UsageError
from npuforge.graph import Graph, Node
from npuforge.graph import attrs as at
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu
from npuforge.messages import catalogue
from npuforge.vocab import DType


def _t(name: str, *shape: int, dtype: DType = DType.INT8, data: object = None) -> object:
    return tensor(name, shape, dtype, data=data)


def _one(op: str, ins: list[object], out: object, attrs: at.Attrs | None = None) -> Graph:
    return single(op, ins, [out], attrs or at.NO_ATTRS)  # type: ignore[list-item,arg-type]


def _conv(k: int, dilation: int = 1, stride: int = 1) -> Graph:
    weights = tensor("w", (8, k, k, 8), data=[0] * (64 * k * k))
    attrs = at.ConvAttrs(stride=(stride, stride), dilation=(dilation, dilation))
    return _one("conv2d", [_t("x", 1, 32, 32, 8), weights], _t("y", 1, 32, 32, 8), attrs)


def _resize(mode: at.ResizeMode) -> Graph:
    attrs = at.ResizeAttrs((8, 8), mode, at.CoordinateMode.HALF_PIXEL)
    return _one("resize", [_t("x", 1, 4, 4, 8)], _t("y", 1, 8, 8, 8), attrs)


def _concat(*channels: int) -> Graph:
    parts = [_t(f"x{i}", 1, 4, 4, c) for i, c in enumerate(channels)]
    return _one("concat", parts, _t("y", 1, 4, 4, sum(channels)), at.ConcatAttrs(3))


def _mean(axes: tuple[int, ...]) -> Graph:
    return _one("mean", [_t("x", 1, 4, 4, 8)], _t("y", 1, 8), at.ReduceAttrs(axes))


def _binary(op: str, constant: bool) -> Graph:
    other = tensor("o", (1, 4, 4, 8), data=[1] * 128 if constant else None)
    return _one(op, [_t("x", 1, 4, 4, 8), other], _t("y", 1, 4, 4, 8), at.ElementwiseAttrs())


def _unary(op: str, *shape: int, dtype: DType = DType.INT8) -> Graph:
    return _one(op, [_t("x", *shape, dtype=dtype)], _t("y", *shape, dtype=dtype))


def _prelu(constant: bool) -> Graph:
    slope = tensor("a", (8,), data=[1] * 8 if constant else None)
    return _one("prelu", [_t("x", 1, 8), slope], _t("y", 1, 8))


def _pointwise(channels: int, size: int = 4) -> Graph:
    weights = tensor("w", (8, 1, 1, channels), data=[0] * 8 * channels)
    ins = [_t("x", 1, size, size, channels), weights]
    return _one("conv2d", ins, _t("y", 1, size, size, 8), at.ConvAttrs())


def _pad(after: tuple[int, ...], scaled: bool = False) -> Graph:
    out = tuple(size + more for size, more in zip((1, 8, 8, 8), after, strict=True))
    attrs = at.PadAttrs((0, 0, 0, 0), after)
    if not scaled:
        return _one("pad", [_t("x", 1, 8, 8, 8)], _t("y", *out), attrs)
    tensors = {
        name: tensor(name, shape) for name, shape in (("x", (1, 8, 8, 8)), ("y", out), ("z", out))
    }
    nodes = (Node("n", "pad", ("x",), ("y",), attrs), Node("q", "quantize", ("y",), ("z",)))
    return Graph("g", tensors, nodes, ("x",), ("z",))


def _float_output(*perm: int) -> Graph:
    out = tuple((1, 4, 8)[i] for i in perm)
    ins = [_t("x", 1, 4, 8, dtype=DType.FLOAT32)]
    return _one("transpose", ins, _t("y", *out, dtype=DType.FLOAT32), at.TransposeAttrs(perm))


def _matmul(constant: bool) -> Graph:
    other = tensor("o", (8, 8), data=[1] * 64 if constant else None)
    return _one("matmul", [_t("x", 8, 8), other], _t("y", 8, 8), at.MatMulAttrs())


def _transpose(*perm: int) -> Graph:
    out = tuple((2, 4, 4, 4)[i] for i in perm)
    return _one("transpose", [_t("x", 2, 4, 4, 4)], _t("y", *out), at.TransposeAttrs(perm))


def _slice(*shape: int) -> Graph:
    count = (*shape[:-1], shape[-1] // 2)
    attrs = at.SliceAttrs((0,) * len(shape), count, (1,) * len(shape))
    return _one("slice", [_t("x", *shape)], _t("y", *count), attrs)


def _up(dtype: DType) -> Graph:
    weights = tensor("w", (8, 2, 2, 8), dtype, data=[0] * 256)
    ins = [_t("x", 1, 4, 4, 8, dtype=dtype), weights]
    return _one(
        "transpose_conv2d", ins, _t("y", 1, 8, 8, 8, dtype=dtype), at.TransposeConvAttrs((2, 2))
    )


def _global_depthwise(size: int) -> Graph:
    weights = tensor("w", (1, size, size, 8), data=[0] * 8 * size * size)
    ins = [_t("x", 1, size, size, 8), weights]
    return _one("depthwise_conv2d", ins, _t("y", 1, 1, 1, 8), at.ConvAttrs())


def _attention(heads: int) -> Graph:
    ins = [_t("x", 1, heads, 4, 8), _t("k", 1, heads, 8, 4)]
    return _one("matmul", ins, _t("y", 1, heads, 4, 4), at.MatMulAttrs())


def _affine(closed: bool) -> Graph:
    """Float product with a constant behind a dequantize; closed by a quantize or an output."""
    tensors = [
        *(_t("a", 1, 8), _t("b", 1, 8)),
        *(_t(name, 1, 8, dtype=DType.FLOAT32) for name in ("f", "g")),
        tensor("c", (8,), DType.FLOAT32, data=[2] * 8),
    ]
    nodes = [
        Node("mul", "mul", ("f", "c"), ("g",), at.ElementwiseAttrs()),
        Node("dq", "dequantize", ("a",), ("f",)),
        Node("q", "quantize", ("g",), ("b",)),
    ]
    return Graph(
        "g", {t.name: t for t in tensors}, tuple(nodes[: 3 if closed else 2]),  # type: ignore[attr-defined,misc]
        ("a",), ("b" if closed else "g",),
    )  # fmt: skip


_FLOAT = DType.FLOAT32
_Q = _t("x", 1, 8)
CASES: dict[str, tuple[Graph, Graph]] = {
    "MAP-npu-view": (
        _one("reshape", [_t("x", 1, 8)], _t("y", 8), at.ReshapeAttrs((8,))),
        _unary("relu", 1, 8),
    ),
    "MAP-npu-float-io": (
        _one("dequantize", [_Q], _t("y", 1, 8, dtype=_FLOAT)),
        _one("quantize", [_t("x", 1, 8, dtype=DType.UINT8)], _t("y", 1, 8)),
    ),
    "MAP-npu-float": (_unary("relu", 1, 8, dtype=_FLOAT), _unary("relu", 1, 8)),
    "MAP-npu-cpu-kernel": (_unary("l2_normalization", 1, 8), _unary("relu", 1, 8)),
    "MAP-npu-dtype": (_unary("relu", 1, 8, dtype=DType.UINT8), _unary("relu", 1, 8)),
    "MAP-npu-rank": (_unary("relu", 1, 2, 2, 2, 2), _unary("relu", 1, 2, 2, 2)),
    "MAP-npu-dim": (_unary("relu", 1, 65_536), _unary("relu", 1, 65_535)),
    "MAP-npu-operand": (_matmul(False), _matmul(True)),
    "MAP-npu-softmax": (
        _one("softmax", [_t("x", 1, 8)], _t("y", 1, 8), at.SoftmaxAttrs(1)),
        _unary("logistic", 1, 8),
    ),
    "MAP-npu-bilinear": (_resize(at.ResizeMode.BILINEAR), _resize(at.ResizeMode.NEAREST)),
    "MAP-npu-nearest": (_resize(at.ResizeMode.NEAREST), _resize(at.ResizeMode.BILINEAR)),
    "MAP-npu-concat": (_concat(8, 16), _concat(16, 16)),
    "MAP-npu-dilation": (_conv(3, dilation=2), _conv(3)),
    "MAP-npu-transpose": (_transpose(0, 2, 1, 3), _transpose(0, 3, 1, 2)),
    "MAP-npu-slice": (_slice(1, 8, 8), _slice(1, 4, 8, 8)),
    "MAP-npu-transpose-conv": (_up(DType.INT8), _up(DType.FLOAT32)),
    "MAP-npu-depthwise-split": (_global_depthwise(7), _global_depthwise(6)),
    "MAP-npu-heads": (_attention(2), _attention(1)),
    "MAP-npu-island": (_affine(True), _affine(False)),
    "MAP-npu-div": (_binary("div", False), _binary("div", True)),
    "MAP-npu-power": (_binary("power", False), _binary("power", True)),
    "MAP-npu-prelu": (_prelu(constant=False), _prelu(constant=True)),
    "MAP-npu-one-value": (_pointwise(1, size=1), _pointwise(2, size=1)),
    "MAP-npu-prime-channels": (_pointwise(257), _pointwise(256)),
    "MAP-npu-stride": (_conv(3, stride=3), _conv(3, stride=2)),
    "MAP-npu-scaled-channel-pad": (_pad((0, 0, 0, 4), scaled=True), _pad((0, 0, 0, 4))),
    "MAP-npu-channel-pad": (_pad((0, 0, 0, 4)), _pad((0, 1, 1, 0))),
    "MAP-npu-border-transpose": (_float_output(0, 2, 1), _float_output(1, 0, 2)),
    "MAP-npu-reduce": (_mean((3,)), _mean((1, 2))),
    "MAP-npu-unlisted": (_unary("softplus", 1, 8), _unary("tanh", 1, 8)),
    "MAP-npu-split": (_conv(5), _conv(3)),
    "MAP-npu-hardware": (_conv(3), _conv(5)),
}


def _rule(graph: Graph) -> str:
    return place_node(graph, graph.nodes[0]).rule


@pytest.mark.parametrize("code", sorted({rule.code for rule in RULES} - {"MAP-npu-resize-mode"}))
def test_rule_fires_and_does_not(code: str) -> None:
    fires, quiet = CASES[code]
    assert _rule(fires) == code
    assert _rule(quiet) != code


@pytest.mark.parametrize(
    ("rows", "last", "axis", "helper"),
    [((8, 4), 4, 1, True), ((8, 8), 4, 1, False), ((8, 4), 1, 1, False), ((8, 8), 4, 2, False)],
)
def test_joined_heads(rows: tuple[int, ...], last: int, axis: int, helper: bool) -> None:
    """Boxes of several maps [1, n, 4] are joined by a C helper, unless all have as many."""
    parts = [_t(f"x{i}", 1, count, last) for i, count in enumerate(rows)]
    out = _t("y", 1, sum(rows), last) if axis == 1 else _t("y", 1, rows[0], 2 * last)
    graph = _one("concat", parts, out, at.ConcatAttrs(axis))
    assert (_rule(graph) == "MAP-npu-concat") is helper


def test_other_resize_modes_go_to_the_cpu() -> None:
    others = set(at.ResizeMode) - {at.ResizeMode.NEAREST, at.ResizeMode.BILINEAR}
    for mode in others:
        assert _rule(_resize(mode)) == "MAP-npu-resize-mode"
    assert _rule(_resize(at.ResizeMode.NEAREST)) != "MAP-npu-resize-mode"


def test_every_fallback_rule_has_a_remedy() -> None:
    for language in ("en", "zh"):
        words = catalogue(language)
        for rule in RULES:
            assert words[rule.code]["message"]
            if rule.kind not in (PlacementKind.HARDWARE, PlacementKind.VIEW):
                assert words[rule.code]["hint"]


def test_kernel_splits_seen_in_compiled_networks() -> None:
    assert kernel_parts((5, 5), 1) == ((3, 5), (2, 5))
    assert kernel_parts((7, 7), 1) == ((3, 6), (3, 1), (3, 6), (3, 1), (1, 6), (1, 1))
    assert kernel_parts((3, 12), 2) == ((3, 12),)


def test_user_choice_costs_share() -> None:
    graph = _conv(3)
    assert map_to_npu(graph).node_share == 1
    forced = map_to_npu(graph, cpu=["conv2d"])
    assert (forced.node_share, forced.mac_share, forced.software_epochs) == (0, 0, 1)
    assert forced.fallbacks[0].rule == "MAP-npu-user"
    with pytest.raises(UsageError):
        map_to_npu(graph, cpu=["nothing"])


COMPILED = {
    "mobilenet_v1_025_96": ("mobilenet_v1_0.25_96_tfs_int8.tflite", False),
    "movenet_lightning_192": ("st_movenet_lightning_heatmaps_192_int8_pc.tflite", False),
    "yolox_nano_480": ("st_yolo_x_nano_480_1.0_0.25_3_st_int8.tflite", False),
    # Compiled with integer inputs and outputs: its conversions left no epoch.
    "deeplab_v3_mnv2_320": ("deeplab_v3_mobilenetv2_05_16_320_fft_qdq_int8.onnx", True),
}
_EPOCH_KIND = {
    "MAP-npu-dilation": ("SpaceToDepth", "DepthToSpace"),
    "MAP-npu-nearest": ("DepthToSpace",),
    "MAP-npu-bilinear": ("Resize",),
    "MAP-npu-concat": ("Concat",),
    "MAP-npu-softmax": ("Softmax",),
    "MAP-npu-float-io": ("DequantizeLinear",),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", sorted(COMPILED))
def test_compiled_networks(shared: Path, name: str) -> None:
    """Same kinds, same numbers of software and hybrid epochs as ST's compiler made."""
    folder = shared / "aton" / name
    model, integer_io = COMPILED[name]
    compiled = json.loads((folder / "network.json").read_text())["software_epochs"]
    truth = Counter(entry["kind"] for entries in compiled.values() for entry in entries)
    npu = map_to_npu(load_model(shared / "models" / model), integer_io=integer_io)
    predicted: Counter[str] = Counter()
    for fallback in npu.fallbacks:
        predicted.update(_EPOCH_KIND[fallback.rule])
    assert predicted == truth
    assert npu.hybrid_epochs + npu.software_epochs == sum(truth.values())


@pytest.mark.shared
def test_every_fallback_of_the_models_has_reason_and_remedy(shared: Path) -> None:
    # One file of each family; `benchmarks/placement.py` checks all of them.
    names = (*("yolo11n*seg*", "yolov8n_192*od*", "yunetn*", "yamnet_1024*", "snn_100_2*"),
             *("blazeface*", "ad01*", "*fpnlite_035_192*", "*efficientnet*128*"))  # fmt: skip
    for path in sorted({p for name in names for p in (shared / "models").glob(name)}):
        for fallback in map_to_npu(load_model(path)).fallbacks:
            assert fallback.reason, fallback
            assert fallback.remedy, fallback
            assert "{" not in fallback.reason + fallback.remedy


def test_the_unit_that_rescales_a_channel_pad_saves_a_helper() -> None:
    """Only where the other scale is all that reads it; else the transpose back has its helper."""
    scaled = map_to_npu(_pad((0, 0, 0, 4), scaled=True))
    assert (scaled.hybrid_epochs, scaled.software_epochs) == (1, 0)
    assert sum(epoch.kind is PlacementKind.HYBRID for epoch in scaled.epochs) == 1
    plain = map_to_npu(_pad((0, 0, 0, 4)))
    assert plain.hybrid_epochs == 2
    assert sum(epoch.kind is PlacementKind.HYBRID for epoch in plain.epochs) == 2
    graph = _pad((0, 0, 0, 4), scaled=True)
    read = Graph(graph.name, graph.tensors, graph.nodes, graph.inputs, ("z", "y"))
    assert place_node(read, read.nodes[0]).rule == "MAP-npu-channel-pad"
