"""Handlers of TFLite operators that compute: options and constant inputs become attributes."""

from __future__ import annotations

from typing import Any

from npuforge.graph import (
    Attrs,
    AxisAttrs,
    ConvAttrs,
    CoordinateMode,
    DetectionAttrs,
    ElementwiseAttrs,
    FullyConnectedAttrs,
    GeluAttrs,
    LeakyReluAttrs,
    MatMulAttrs,
    NearestMode,
    NoAttrs,
    PoolAttrs,
    ReduceAttrs,
    ResizeAttrs,
    ResizeMode,
    SoftmaxAttrs,
    Tensor,
    TransposeConvAttrs,
)
from npuforge.graph.attrs import NO_ATTRS
from npuforge.graph.shapes import same_padding
from npuforge.importers.tflite.context import Context, Handler, normal_axes
from npuforge.importers.tflite.file import RawOperator, read_options
from npuforge.importers.tflite.movement import MOVEMENT
from npuforge.importers.tflite.state import STATE
from npuforge.vocab import Activation

# ActivationFunctionType of the TFLite schema
_ACTIVATIONS = {
    0: Activation.NONE,
    1: Activation.RELU,
    2: Activation.RELU_N1_TO_1,
    3: Activation.RELU6,
}


def _activation(ctx: Context, op: RawOperator, options: Any) -> Activation:
    number = options.FusedActivationFunction()
    if number not in _ACTIVATIONS:
        raise ctx.refuse(op, f"fused activation {number}")
    return _ACTIVATIONS[number]


def _window(
    ctx: Context,
    op: RawOperator,
    options: Any,
    size: tuple[int, int],
    kernel: tuple[int, int],
    dilation: tuple[int, int] = (1, 1),
) -> tuple[tuple[int, int], tuple[int, int, int, int]]:
    stride = (options.StrideH(), options.StrideW())
    if min(*stride, *dilation, *kernel) < 1:
        raise ctx.damaged(op, f"stride {stride}, dilation {dilation}, kernel {kernel}")
    if options.Padding() != 0:  # VALID
        return stride, (0, 0, 0, 0)
    rows = same_padding(size[0], kernel[0], stride[0], dilation[0])
    columns = same_padding(size[1], kernel[1], stride[1], dilation[1])
    return stride, (*rows, *columns)


def _image(ctx: Context, op: RawOperator, tensor: Tensor | None) -> tuple[int, int, int, int]:
    if tensor is None or len(tensor.shape) != 4:
        raise ctx.damaged(op, "input or weights are not of rank 4")
    n, h, w, c = tensor.shape
    return n, h, w, c


def _conv2d(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.Conv2DOptions, op)
    x, w = ctx.inputs(op, 2)[:2]
    _, height, width, channels = _image(ctx, op, x)
    _, kernel_h, kernel_w, depth = _image(ctx, op, w)
    dilation = (options.DilationHFactor(), options.DilationWFactor())
    stride, padding = _window(ctx, op, options, (height, width), (kernel_h, kernel_w), dilation)
    groups = channels // depth if depth else 1
    attrs = ConvAttrs(stride, dilation, padding, _activation(ctx, op, options), groups)
    ctx.add(op, "conv2d", attrs)


def _depthwise_conv2d(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.DepthwiseConv2DOptions, op)
    x, w = ctx.inputs(op, 2)[:2]
    _, height, width, _ = _image(ctx, op, x)
    _, kernel_h, kernel_w, _ = _image(ctx, op, w)
    dilation = (options.DilationHFactor(), options.DilationWFactor())
    stride, padding = _window(ctx, op, options, (height, width), (kernel_h, kernel_w), dilation)
    attrs = ConvAttrs(stride, dilation, padding, _activation(ctx, op, options))
    ctx.add(op, "depthwise_conv2d", attrs)


def _fully_connected(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.FullyConnectedOptions, op)
    if options.WeightsFormat() != 0:
        raise ctx.refuse(op, "shuffled weights")
    attrs = FullyConnectedAttrs(
        _activation(ctx, op, options),
        bool(options.KeepNumDims()),
        bool(options.AsymmetricQuantizeInputs()),
    )
    ctx.add(op, "fully_connected", attrs)


def _pool(kind: str) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        import tflite

        options = read_options(tflite.Pool2DOptions, op)
        _, height, width, _ = _image(ctx, op, ctx.first(op))
        kernel = (options.FilterHeight(), options.FilterWidth())
        stride, padding = _window(ctx, op, options, (height, width), kernel)
        ctx.add(op, kind, PoolAttrs(kernel, stride, padding, _activation(ctx, op, options)))

    return handle


def _binary(kind: str, table: str) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        import tflite

        options = read_options(getattr(tflite, table), op)
        ctx.add(op, kind, ElementwiseAttrs(_activation(ctx, op, options)))

    return handle


def _unary(kind: str) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        ctx.add(op, kind, NoAttrs(), [ctx.first(op).name])

    return handle


def _reduce(kind: str) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        import tflite

        options = read_options(tflite.ReducerOptions, op)
        x = ctx.first(op)
        axes = normal_axes(ctx, op, ctx.integers(op, 1), len(x.shape))
        attrs = ReduceAttrs(tuple(sorted(set(axes))), bool(options.KeepDims()))
        ctx.add(op, kind, attrs, [x.name])

    return handle


def _softmax(kind: str) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        import tflite

        x = ctx.first(op)
        beta = 1.0
        if kind == "softmax":
            beta = float(read_options(tflite.SoftmaxOptions, op).Beta())
        ctx.add(op, kind, SoftmaxAttrs(max(len(x.shape) - 1, 0), beta), [x.name])

    return handle


def _leaky_relu(ctx: Context, op: RawOperator) -> None:
    import tflite

    alpha = float(read_options(tflite.LeakyReluOptions, op).Alpha())
    ctx.add(op, "leaky_relu", LeakyReluAttrs(alpha), [ctx.first(op).name])


def _gelu(ctx: Context, op: RawOperator) -> None:
    import tflite

    approximate = bool(read_options(tflite.GeluOptions, op).Approximate())
    ctx.add(op, "gelu", GeluAttrs(approximate), [ctx.first(op).name])


def _plain(kind: str, attrs: Attrs = NO_ATTRS) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        ctx.add(op, kind, attrs)

    return handle


def _batch_matmul(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.BatchMatMulOptions, op)
    ctx.add(op, "matmul", MatMulAttrs(bool(options.AdjX()), bool(options.AdjY())))


def _transpose_conv(ctx: Context, op: RawOperator) -> None:
    import tflite

    options = read_options(tflite.TransposeConvOptions, op)
    tensors = ctx.inputs(op, 3)
    w, x = tensors[1], tensors[2]
    y = ctx.output(op)
    if y.name in ctx.open:
        y = ctx.settle(y, tuple(ctx.integers(op, 0)))
    _, kernel_h, kernel_w, _ = _image(ctx, op, w)
    _, height, width, _ = _image(ctx, op, x)
    _, rows, columns, _ = _image(ctx, op, y)
    stride = (options.StrideH(), options.StrideW())
    if min(stride) < 1:
        raise ctx.damaged(op, f"stride {stride}")
    padding: list[int] = []
    extra: list[int] = []
    for size, result, kernel, step in (
        (height, rows, kernel_h, stride[0]),
        (width, columns, kernel_w, stride[1]),
    ):
        before = 0 if options.Padding() else same_padding(result, kernel, step, 1)[0]
        behind = (size - 1) * step + kernel - before - result
        padding += [before, max(behind, 0)]
        extra.append(max(-behind, 0))
    activation = _activation(ctx, op, options)
    attrs = TransposeConvAttrs(
        stride, (padding[0], padding[1], padding[2], padding[3]), (extra[0], extra[1]), activation
    )
    names = [ctx.name_of(i) for i in op.inputs]
    ctx.add(op, "transpose_conv2d", attrs, [names[2], names[1], *names[3:4]])


def _resize(mode: ResizeMode, table: str) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        import tflite

        options = read_options(getattr(tflite, table), op)
        size = ctx.integers(op, 1)
        if len(size) != 2:
            raise ctx.damaged(op, f"size {size}")
        coordinates, nearest = CoordinateMode.ASYMMETRIC, NearestMode.FLOOR
        if options.AlignCorners():
            coordinates, nearest = CoordinateMode.ALIGN_CORNERS, NearestMode.ROUND_PREFER_CEIL
        elif options.HalfPixelCenters():
            coordinates = CoordinateMode.HALF_PIXEL
            if mode is ResizeMode.NEAREST:
                coordinates = CoordinateMode.HALF_PIXEL_NEAREST
        attrs = ResizeAttrs((size[0], size[1]), mode, coordinates, nearest)
        moves = mode is ResizeMode.NEAREST
        ctx.add(op, "resize", attrs, [ctx.first(op).name], moves=moves)

    return handle


def _arg_extreme(kind: str) -> Handler:
    def handle(ctx: Context, op: RawOperator) -> None:
        x = ctx.first(op)
        axis = normal_axes(ctx, op, ctx.integers(op, 1), len(x.shape))[0]
        ctx.add(op, kind, AxisAttrs(axis), [x.name], moves=True)

    return handle


def _detection(ctx: Context, op: RawOperator) -> None:
    from flatbuffers import flexbuffers

    try:
        options = flexbuffers.Loads(op.custom_options)
        attrs = DetectionAttrs(
            max_detections=int(options["max_detections"]),
            max_classes_per_detection=int(options["max_classes_per_detection"]),
            classes=int(options["num_classes"]),
            score_threshold=float(options["nms_score_threshold"]),
            iou_threshold=float(options["nms_iou_threshold"]),
            scales=(
                float(options["y_scale"]),
                float(options["x_scale"]),
                float(options["h_scale"]),
                float(options["w_scale"]),
            ),
            regular=bool(options.get("use_regular_nms", False)),
            detections_per_class=int(options.get("detections_per_class", 100)),
        )
    except Exception as error:  # flexbuffers raises many types on damaged options
        raise ctx.damaged(op, f"options: {type(error).__name__}: {error}") from None
    names = [ctx.name_of(i) for i in op.inputs[:2]]
    anchors = ctx.inputs(op, 3)[2]
    assert anchors is not None
    ctx.add(op, "detection_postprocess", attrs, [*names, anchors.name])


_BINARY_TABLES = {
    "ADD": ("add", "AddOptions"),
    "SUB": ("sub", "SubOptions"),
    "MUL": ("mul", "MulOptions"),
    "DIV": ("div", "DivOptions"),
}
_PLAIN_BINARY = {
    "MINIMUM": "minimum",
    "MAXIMUM": "maximum",
    "SQUARED_DIFFERENCE": "squared_difference",
    "FLOOR_DIV": "floor_div",
    "FLOOR_MOD": "floor_mod",
    "POW": "power",
}
_COMPARISONS = {
    "EQUAL": "equal",
    "NOT_EQUAL": "not_equal",
    "LESS": "less",
    "LESS_EQUAL": "less_equal",
    "GREATER": "greater",
    "GREATER_EQUAL": "greater_equal",
    "LOGICAL_AND": "logical_and",
    "LOGICAL_OR": "logical_or",
}
_UNARY_NAMES = {
    "RELU": "relu",
    "RELU6": "relu6",
    "RELU_N1_TO_1": "relu_n1_to_1",
    "LOGISTIC": "logistic",
    "TANH": "tanh",
    "HARD_SWISH": "hard_swish",
    "ELU": "elu",
    "EXP": "exp",
    "LOG": "log",
    "SQRT": "sqrt",
    "RSQRT": "rsqrt",
    "SQUARE": "square",
    "ABS": "abs",
    "NEG": "neg",
    "ROUND": "round",
    "FLOOR": "floor",
    "CEIL": "ceil",
    "SIGN": "sign",
    "SIN": "sin",
    "COS": "cos",
    "LOGICAL_NOT": "logical_not",
    "QUANTIZE": "quantize",
    "DEQUANTIZE": "dequantize",
    "CAST": "cast",
}
_REDUCTIONS = {
    "MEAN": "mean",
    "SUM": "sum",
    "REDUCE_MAX": "reduce_max",
    "REDUCE_MIN": "reduce_min",
    "REDUCE_PROD": "reduce_prod",
}

HANDLERS: dict[str, Handler] = {
    **{name: _binary(*entry) for name, entry in _BINARY_TABLES.items()},
    **{name: _plain(kind, ElementwiseAttrs()) for name, kind in _PLAIN_BINARY.items()},
    **{name: _plain(kind) for name, kind in _COMPARISONS.items()},
    **{name: _unary(kind) for name, kind in _UNARY_NAMES.items()},
    **{name: _reduce(kind) for name, kind in _REDUCTIONS.items()},
    **MOVEMENT,
    **STATE,
    "ARG_MAX": _arg_extreme("arg_max"),
    "ARG_MIN": _arg_extreme("arg_min"),
    "AVERAGE_POOL_2D": _pool("average_pool2d"),
    "BATCH_MATMUL": _batch_matmul,
    "CONV_2D": _conv2d,
    "CUSTOM TFLite_Detection_PostProcess": _detection,
    "DEPTHWISE_CONV_2D": _depthwise_conv2d,
    "FULLY_CONNECTED": _fully_connected,
    "GELU": _gelu,
    "L2_NORMALIZATION": _unary("l2_normalization"),
    "LEAKY_RELU": _leaky_relu,
    "LOG_SOFTMAX": _softmax("log_softmax"),
    "MAX_POOL_2D": _pool("max_pool2d"),
    "PRELU": _plain("prelu"),
    "RESIZE_BILINEAR": _resize(ResizeMode.BILINEAR, "ResizeBilinearOptions"),
    "RESIZE_NEAREST_NEIGHBOR": _resize(ResizeMode.NEAREST, "ResizeNearestNeighborOptions"),
    "SELECT": _plain("select"),
    "SELECT_V2": _plain("select"),
    "SOFTMAX": _softmax("softmax"),
    "TRANSPOSE_CONV": _transpose_conv,
}
