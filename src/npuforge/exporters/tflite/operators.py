"""Handlers that turn nodes which compute into TFLite operators."""

from __future__ import annotations

import numpy as np

from npuforge.exporters.tflite.emitter import Emitter, Handler
from npuforge.exporters.tflite.movement import MOVEMENT, pad_into
from npuforge.exporters.tflite.records import FieldValue, Options
from npuforge.exporters.tflite.versions import TYPE_NUMBERS
from npuforge.graph import (
    ConvAttrs,
    CoordinateMode,
    DetectionAttrs,
    ElementwiseAttrs,
    FullyConnectedAttrs,
    GeluAttrs,
    LeakyReluAttrs,
    MatMulAttrs,
    Node,
    PoolAttrs,
    Quantization,
    ReduceAttrs,
    ResizeAttrs,
    ResizeMode,
    Shape,
    SoftmaxAttrs,
    Tensor,
    TransposeConvAttrs,
)
from npuforge.graph.attrs import AxisAttrs, Pads
from npuforge.graph.shapes import same_padding
from npuforge.numerics import nearest_index
from npuforge.vocab import Activation, DType

# ActivationFunctionType of the TFLite schema
_ACTIVATIONS = {
    Activation.NONE: 0,
    Activation.RELU: 1,
    Activation.RELU_N1_TO_1: 2,
    Activation.RELU6: 3,
}
SAME, VALID = 0, 1
"""Padding of the TFLite schema."""

Fields = tuple[tuple[str, FieldValue], ...]


def _fused(activation: Activation) -> tuple[str, int]:
    return "FusedActivationFunction", _ACTIVATIONS[activation]


def stated_padding(
    shape: Shape,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: Pads,
    dilation: tuple[int, int] = (1, 1),
) -> int | None:
    """SAME or VALID when one of them says the same as explicit padding; None otherwise."""
    if not any(padding):
        return VALID
    rows = same_padding(shape[1], kernel[0], stride[0], dilation[0])
    columns = same_padding(shape[2], kernel[1], stride[1], dilation[1])
    return SAME if (*rows, *columns) == padding else None


def _padded_input(
    emitter: Emitter, node: Node, x: Tensor, padding: Pads, fill: float | None = None
) -> int:
    """The input with explicit padding put around it; by default zeros of its scale."""
    top, bottom, left, right = padding
    before, after = (0, top, left, 0), (0, bottom, right, 0)
    shape = tuple(n + b + a for n, b, a in zip(x.shape, before, after, strict=True))
    target = emitter.temporary(node, "padded", x, shape)
    zero = float(x.quant.z) if x.quantization is not None else 0.0
    value = zero if fill is None else fill
    pad_into(emitter, node, x, emitter.number(x.name), target, before, after, value)
    return target


def _window(
    emitter: Emitter, node: Node, x: Tensor, kernel: tuple[int, int], attrs: ConvAttrs
) -> tuple[int, int]:
    """The input of a convolution, padded if need be, and the padding to state."""
    stated = stated_padding(x.shape, kernel, attrs.stride, attrs.padding, attrs.dilation)
    if stated is not None:
        return emitter.number(x.name), stated
    return _padded_input(emitter, node, x, attrs.padding), VALID


def _convolution(kind: str, table: str) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        attrs = node.attrs
        assert isinstance(attrs, ConvAttrs)
        graph = emitter.graph
        x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
        source, stated = _window(emitter, node, x, (w.shape[1], w.shape[2]), attrs)
        fields: Fields = (
            ("Padding", stated),
            ("StrideH", attrs.stride[0]),
            ("StrideW", attrs.stride[1]),
            ("DilationHFactor", attrs.dilation[0]),
            ("DilationWFactor", attrs.dilation[1]),
            _fused(attrs.activation),
        )
        if kind == "DEPTHWISE_CONV_2D":
            fields += (("DepthMultiplier", w.shape[3] // x.shape[3]),)
        inputs = [source, *(emitter.number(name) for name in node.inputs[1:])]
        if kind == "CONV_2D" and len(inputs) == 2:
            inputs.append(_zero_bias(emitter, node, x, w))
        outputs = [emitter.number(node.outputs[0])]
        emitter.operator(kind, inputs, outputs, Options(table, fields))

    return handle


def _zero_bias(emitter: Emitter, node: Node, x: Tensor, w: Tensor) -> int:
    """LiteRT refuses convolutions without bias."""
    channels = w.shape[0]
    if x.dtype.is_float:
        bias = Tensor("", (channels,), x.dtype)
    else:
        scale = x.quant.s * w.quant.scale
        axis = 0 if w.quant.is_per_channel else None
        quant = Quantization(scale, np.zeros(scale.size, np.int64), axis)
        dtype = DType.INT64 if x.dtype is DType.INT16 else DType.INT32
        bias = Tensor("", (channels,), dtype, quant)
    return emitter.stored(node, "bias", np.zeros(channels), bias)


def _lite_transpose_padding(
    source: int, kernel: int, stride: int, before: int, result: int
) -> frozenset[int]:
    """Which of SAME and VALID mean this padding along one axis; LiteRT checks the sizes."""
    found = set()
    if before == 0 and (result - kernel + stride) // stride == source:
        found.add(VALID)
    same = same_padding(result, kernel, stride, 1)[0]
    if before == same and -(-result // stride) == source:
        found.add(SAME)
    return frozenset(found)


def _transpose_conv(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, TransposeConvAttrs)
    graph = emitter.graph
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    before = (attrs.padding[0], attrs.padding[2])
    known = frozenset((SAME, VALID))
    for axis in (0, 1):
        sizes = x.shape[axis + 1], w.shape[axis + 1], attrs.stride[axis]
        known &= _lite_transpose_padding(*sizes, before[axis], y.shape[axis + 1])
    shape, target = y.shape, emitter.number(y.name)
    if not known:
        # any other padding is rows and columns cut off the whole result
        rows, columns = (
            (x.shape[axis + 1] - 1) * attrs.stride[axis]
            + w.shape[axis + 1]
            + attrs.output_padding[axis]
            for axis in (0, 1)
        )
        if any(e >= s for e, s in zip(attrs.output_padding, attrs.stride, strict=True)):
            raise emitter.refuse(node, f"output padding {attrs.output_padding}")
        shape = (y.shape[0], rows, columns, y.shape[3])
        target = emitter.temporary(node, "whole", y, shape)
    stated = VALID if VALID in known or not known else SAME
    fields: Fields = (
        ("Padding", stated),
        ("StrideH", attrs.stride[0]),
        ("StrideW", attrs.stride[1]),
        _fused(attrs.activation),
    )
    size = emitter.constant(node, "shape", shape)
    inputs = [size, emitter.number(w.name), emitter.number(x.name)]
    inputs += [emitter.number(name) for name in node.inputs[2:]]
    emitter.operator("TRANSPOSE_CONV", inputs, [target], Options("TransposeConvOptions", fields))
    if not known:
        begin = emitter.constant(node, "begin", (0, *before, 0))
        count = emitter.constant(node, "size", y.shape)
        operands = [target, begin, count]
        emitter.operator("SLICE", operands, [emitter.number(y.name)], Options("SliceOptions"))


def _fully_connected(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, FullyConnectedAttrs)
    fields: Fields = (
        _fused(attrs.activation),
        ("KeepNumDims", attrs.keep_dims),
        ("AsymmetricQuantizeInputs", attrs.asymmetric_inputs),
    )
    _plain_operator(emitter, node, "FULLY_CONNECTED", Options("FullyConnectedOptions", fields))


def _plain_operator(emitter: Emitter, node: Node, kind: str, options: Options | None) -> None:
    inputs = [emitter.number(name) for name in node.inputs]
    outputs = [emitter.number(name) for name in node.outputs]
    emitter.operator(kind, inputs, outputs, options)


def _matmul(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, MatMulAttrs)
    fields: Fields = (("AdjX", attrs.transpose_a), ("AdjY", attrs.transpose_b))
    _plain_operator(emitter, node, "BATCH_MATMUL", Options("BatchMatMulOptions", fields))


def _binary(kind: str, table: str, fused: bool) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        attrs = node.attrs
        fields: Fields = ()
        activation = attrs.activation if isinstance(attrs, ElementwiseAttrs) else Activation.NONE
        if fused:
            fields = (_fused(activation),)
            if kind in ("ADD", "SUB"):
                fields += (("PotScaleInt16", False),)
        elif activation is not Activation.NONE:
            raise emitter.refuse(node, f"fused activation {activation}", "EXP-006")
        _plain_operator(emitter, node, kind, Options(table, fields))

    return handle


def _plain(kind: str, table: str = "") -> Handler:
    options = Options(table) if table else None
    return lambda emitter, node: _plain_operator(emitter, node, kind, options)


def _cast(emitter: Emitter, node: Node) -> None:
    x, y = emitter.graph.tensor(node.inputs[0]), emitter.graph.tensor(node.outputs[0])
    fields: Fields = (
        ("InDataType", TYPE_NUMBERS[x.dtype]),
        ("OutDataType", TYPE_NUMBERS[y.dtype]),
    )
    _plain_operator(emitter, node, "CAST", Options("CastOptions", fields))


def _leaky_relu(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, LeakyReluAttrs)
    options = Options("LeakyReluOptions", (("Alpha", node.attrs.alpha),))
    _plain_operator(emitter, node, "LEAKY_RELU", options)


def _gelu(emitter: Emitter, node: Node) -> None:
    assert isinstance(node.attrs, GeluAttrs)
    options = Options("GeluOptions", (("Approximate", node.attrs.approximate),))
    _plain_operator(emitter, node, "GELU", options)


def _softmax(kind: str) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        attrs = node.attrs
        assert isinstance(attrs, SoftmaxAttrs)
        rank = len(emitter.graph.tensor(node.inputs[0]).shape)
        if attrs.axis != rank - 1:
            raise emitter.refuse(node, f"axis {attrs.axis} of {rank}", "EXP-007")
        options = Options("LogSoftmaxOptions")
        if kind == "SOFTMAX":
            options = Options("SoftmaxOptions", (("Beta", attrs.beta),))
        elif attrs.beta != 1.0:
            raise emitter.refuse(node, f"beta {attrs.beta}")
        _plain_operator(emitter, node, kind, options)

    return handle


def _pool(kind: str) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        attrs = node.attrs
        assert isinstance(attrs, PoolAttrs)
        x = emitter.graph.tensor(node.inputs[0])
        padding = attrs.padding
        stated = stated_padding(x.shape, attrs.kernel, attrs.stride, padding)
        source = emitter.number(x.name)
        average = kind == "AVERAGE_POOL_2D"
        if average and attrs.count_padding and any(padding):
            source, stated = _padded_input(emitter, node, x, padding), VALID
        elif average and stated is None:
            raise emitter.refuse(node, f"padding {padding} that is not averaged", "EXP-005")
        elif stated is None:
            lowest = float(np.finfo(np.float32).min)
            fill = lowest if x.dtype.is_float else float(x.dtype.limits[0])
            source, stated = _padded_input(emitter, node, x, padding, fill), VALID
        fields: Fields = (
            ("Padding", stated),
            ("StrideH", attrs.stride[0]),
            ("StrideW", attrs.stride[1]),
            ("FilterHeight", attrs.kernel[0]),
            ("FilterWidth", attrs.kernel[1]),
            _fused(attrs.activation),
        )
        outputs = [emitter.number(node.outputs[0])]
        emitter.operator(kind, [source], outputs, Options("Pool2DOptions", fields))

    return handle


def _reduce(kind: str) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        attrs = node.attrs
        assert isinstance(attrs, ReduceAttrs)
        axes = emitter.constant(node, "axes", attrs.axes)
        inputs = [emitter.number(node.inputs[0]), axes]
        options = Options("ReducerOptions", (("KeepDims", attrs.keep_dims),))
        emitter.operator(kind, inputs, [emitter.number(node.outputs[0])], options)

    return handle


def _arg_extreme(kind: str, table: str) -> Handler:
    def handle(emitter: Emitter, node: Node) -> None:
        assert isinstance(node.attrs, AxisAttrs)
        y = emitter.graph.tensor(node.outputs[0])
        axis = emitter.constant(node, "axis", node.attrs.axis)
        options = Options(table, (("OutputType", TYPE_NUMBERS[y.dtype]),))
        inputs = [emitter.number(node.inputs[0]), axis]
        emitter.operator(kind, inputs, [emitter.number(y.name)], options)

    return handle


def _resize(emitter: Emitter, node: Node) -> None:
    attrs = node.attrs
    assert isinstance(attrs, ResizeAttrs)
    corners, centers = _coordinates(emitter, node, attrs)
    nearest = attrs.mode is ResizeMode.NEAREST
    kind = "RESIZE_NEAREST_NEIGHBOR" if nearest else "RESIZE_BILINEAR"
    table = "ResizeNearestNeighborOptions" if nearest else "ResizeBilinearOptions"
    fields: Fields = (("AlignCorners", corners), ("HalfPixelCenters", centers))
    inputs = [emitter.number(node.inputs[0]), emitter.constant(node, "size", attrs.size)]
    outputs = [emitter.number(node.outputs[0])]
    emitter.operator(kind, inputs, outputs, Options(table, fields))


_LITE_NEAREST = (
    (CoordinateMode.ASYMMETRIC, "floor", False, False),
    (CoordinateMode.ALIGN_CORNERS, "round_prefer_ceil", True, False),
    (CoordinateMode.HALF_PIXEL_NEAREST, "floor", False, True),
)


def _coordinates(emitter: Emitter, node: Node, attrs: ResizeAttrs) -> tuple[bool, bool]:
    """The options align_corners and half_pixel_centers."""
    x, y = emitter.graph.tensor(node.inputs[0]), emitter.graph.tensor(node.outputs[0])
    sides = [(axis, x.shape[axis + 1], y.shape[axis + 1]) for axis in (0, 1)]
    if attrs.mode is ResizeMode.NEAREST:
        wanted = [nearest_index(attrs, *side) for side in sides]
        for mode, rounding, corners, centers in _LITE_NEAREST:
            if attrs.coordinates is mode and attrs.nearest == rounding and attrs.scale is None:
                return corners, centers
        for mode, rounding, corners, centers in _LITE_NEAREST:
            other = ResizeAttrs(attrs.size, attrs.mode, mode, type(attrs.nearest)(rounding))
            if all(
                np.array_equal(index, nearest_index(other, *side))
                for index, side in zip(wanted, sides, strict=True)
            ):
                return corners, centers
    else:
        known = {
            CoordinateMode.ASYMMETRIC: (False, False),
            CoordinateMode.ALIGN_CORNERS: (True, False),
            CoordinateMode.HALF_PIXEL: (False, True),
        }
        coordinates = attrs.coordinates
        if coordinates is CoordinateMode.PYTORCH_HALF_PIXEL and min(attrs.size) > 1:
            coordinates = CoordinateMode.HALF_PIXEL
        ratios = tuple(target / source for _, source, target in sides)
        if attrs.scale in (None, ratios) and coordinates in known:
            return known[coordinates]
    reason = f"coordinates {attrs.coordinates}, rounding {attrs.nearest}, scale {attrs.scale}"
    raise emitter.refuse(node, reason, "EXP-008")


def _detection(emitter: Emitter, node: Node) -> None:
    from flatbuffers import flexbuffers

    attrs = node.attrs
    assert isinstance(attrs, DetectionAttrs)
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Int("max_detections", attrs.max_detections)
        builder.Int("max_classes_per_detection", attrs.max_classes_per_detection)
        builder.Int("detections_per_class", attrs.detections_per_class)
        builder.Bool("use_regular_nms", attrs.regular)
        builder.Float("nms_score_threshold", attrs.score_threshold)
        builder.Float("nms_iou_threshold", attrs.iou_threshold)
        builder.Int("num_classes", attrs.classes)
        for name, value in zip("yxhw", attrs.scales, strict=True):
            builder.Float(f"{name}_scale", value)
    inputs = [emitter.number(name) for name in node.inputs]
    outputs = [emitter.number(name) for name in node.outputs]
    emitter.custom("TFLite_Detection_PostProcess", inputs, outputs, bytes(builder.Finish()))


_COMPARISONS = {
    "equal": ("EQUAL", "EqualOptions"),
    "not_equal": ("NOT_EQUAL", "NotEqualOptions"),
    "less": ("LESS", "LessOptions"),
    "less_equal": ("LESS_EQUAL", "LessEqualOptions"),
    "greater": ("GREATER", "GreaterOptions"),
    "greater_equal": ("GREATER_EQUAL", "GreaterEqualOptions"),
    "logical_and": ("LOGICAL_AND", "LogicalAndOptions"),
    "logical_or": ("LOGICAL_OR", "LogicalOrOptions"),
}
_FUSING = {
    "add": ("ADD", "AddOptions"),
    "sub": ("SUB", "SubOptions"),
    "mul": ("MUL", "MulOptions"),
    "div": ("DIV", "DivOptions"),
}
_NOT_FUSING = {
    "minimum": ("MINIMUM", "MaximumMinimumOptions"),
    "maximum": ("MAXIMUM", "MaximumMinimumOptions"),
    "squared_difference": ("SQUARED_DIFFERENCE", "SquaredDifferenceOptions"),
    "floor_div": ("FLOOR_DIV", "FloorDivOptions"),
    "floor_mod": ("FLOOR_MOD", "FloorModOptions"),
    "power": ("POW", "PowOptions"),
}
_UNARY = {
    "relu": ("RELU", ""),
    "relu6": ("RELU6", ""),
    "relu_n1_to_1": ("RELU_N1_TO_1", ""),
    "logistic": ("LOGISTIC", ""),
    "tanh": ("TANH", ""),
    "hard_swish": ("HARD_SWISH", "HardSwishOptions"),
    "elu": ("ELU", ""),
    "exp": ("EXP", "ExpOptions"),
    "log": ("LOG", ""),
    "sqrt": ("SQRT", ""),
    "rsqrt": ("RSQRT", ""),
    "square": ("SQUARE", "SquareOptions"),
    "abs": ("ABS", "AbsOptions"),
    "neg": ("NEG", "NegOptions"),
    "round": ("ROUND", ""),
    "floor": ("FLOOR", ""),
    "ceil": ("CEIL", ""),
    "sign": ("SIGN", ""),
    "sin": ("SIN", ""),
    "cos": ("COS", "CosOptions"),
    "logical_not": ("LOGICAL_NOT", "LogicalNotOptions"),
    "quantize": ("QUANTIZE", "QuantizeOptions"),
    "dequantize": ("DEQUANTIZE", "DequantizeOptions"),
    "prelu": ("PRELU", ""),
    "select": ("SELECT_V2", "SelectV2Options"),
    "l2_normalization": ("L2_NORMALIZATION", "L2NormOptions"),
}
_REDUCTIONS = {
    "mean": "MEAN",
    "sum": "SUM",
    "reduce_max": "REDUCE_MAX",
    "reduce_min": "REDUCE_MIN",
    "reduce_prod": "REDUCE_PROD",
}

HANDLERS: dict[str, Handler] = {
    **{op: _plain(*entry) for op, entry in (_COMPARISONS | _UNARY).items()},
    **{op: _binary(*entry, fused=True) for op, entry in _FUSING.items()},
    **{op: _binary(*entry, fused=False) for op, entry in _NOT_FUSING.items()},
    **{op: _reduce(kind) for op, kind in _REDUCTIONS.items()},
    **MOVEMENT,
    "arg_max": _arg_extreme("ARG_MAX", "ArgMaxOptions"),
    "arg_min": _arg_extreme("ARG_MIN", "ArgMinOptions"),
    "average_pool2d": _pool("AVERAGE_POOL_2D"),
    "cast": _cast,
    "conv2d": _convolution("CONV_2D", "Conv2DOptions"),
    "depthwise_conv2d": _convolution("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"),
    "detection_postprocess": _detection,
    "fully_connected": _fully_connected,
    "gelu": _gelu,
    "leaky_relu": _leaky_relu,
    "log_softmax": _softmax("LOG_SOFTMAX"),
    "matmul": _matmul,
    "max_pool2d": _pool("MAX_POOL_2D"),
    "resize": _resize,
    "softmax": _softmax("SOFTMAX"),
    "transpose_conv2d": _transpose_conv,
}
"""Handlers by our operator; what is missing here has no TFLite operator."""
