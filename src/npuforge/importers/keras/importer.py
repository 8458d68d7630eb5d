"""Keras layers → Graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npuforge.errors import ModelError, NpuforgeError, UnsupportedError
from npuforge.graph import (
    SCHEMAS,
    Attrs,
    ConcatAttrs,
    ConvAttrs,
    CoordinateMode,
    ElementwiseAttrs,
    FullyConnectedAttrs,
    Graph,
    LeakyReluAttrs,
    Names,
    NoAttrs,
    Node,
    PadAttrs,
    PoolAttrs,
    ReduceAttrs,
    ReshapeAttrs,
    ResizeAttrs,
    ResizeMode,
    SliceAttrs,
    SoftmaxAttrs,
    Tensor,
    TransposeAttrs,
    TransposeConvAttrs,
)
from npuforge.graph.attrs import Pads
from npuforge.graph.shapes import same_padding
from npuforge.importers.keras.file import RawLayer, RawModel, read_keras
from npuforge.vocab import Activation, Contract, DType

_DAMAGE = (KeyError, IndexError, TypeError, ValueError, ArithmeticError)
_FUSED = {"linear": Activation.NONE, "relu": Activation.RELU, "relu6": Activation.RELU6}
_UNARY = {
    "relu": "relu",
    "relu6": "relu6",
    "sigmoid": "logistic",
    "tanh": "tanh",
    "elu": "elu",
    "exponential": "exp",
    "softplus": "softplus",
    "hard_swish": "hard_swish",
    "hard_silu": "hard_swish",
}
_IDENTITY = frozenset(
    {
        *("Dropout", "SpatialDropout2D", "SpatialDropout1D", "GaussianNoise", "GaussianDropout"),
        *("ActivityRegularization", "AlphaDropout"),
    }
)
_BINARY = {
    "Add": "add",
    "Subtract": "sub",
    "Multiply": "mul",
    "Maximum": "maximum",
    "Minimum": "minimum",
}


def import_keras(content: bytes, name: str, path: str) -> Graph:
    """Make a Graph of a Keras file; a free batch axis becomes 1.

    Raises:
        ToolError: h5py is not installed.
        ModelError: the file is damaged or contradicts itself.
        UnsupportedError: a layer, or an option of one, is not taken.
    """
    raw = read_keras(content, path)
    build = _Build(path)
    try:
        outputs = build.model(raw, None)
    except NpuforgeError:
        raise
    except _DAMAGE as error:
        raise ModelError("IMP-041", path=path, reason=f"{type(error).__name__}: {error}") from None
    if not build.inputs:
        raise UnsupportedError("IMP-041", path=path, reason="no shape of an input")
    return Graph(
        name, build.tensors, tuple(build.nodes), tuple(build.inputs), tuple(outputs), "keras"
    )


class _Build:
    """State of one import."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []
        self._names = Names(())

    def model(self, raw: RawModel, fed: Sequence[str] | None) -> list[str]:
        """Add a model's layers; returns the names of its outputs."""
        made: dict[str, list[str]] = {}
        last: list[str] = list(fed or ())
        supply = list(fed) if fed is not None else None
        functional = bool(raw.outputs)
        for number, layer in enumerate(raw.layers):
            if layer.kind == "InputLayer":
                last = [supply.pop(0)] if supply is not None else [self._input(layer)]
                made[layer.name] = last
                continue
            if not functional:
                if not last:
                    last = [self._input(layer)]
                last = self._layer(layer, last)
                continue
            if not layer.inputs:
                raise ValueError(f"layer {number} ({layer.name}) reads nothing")
            if len(layer.inputs) > 1:
                # which use a reader means is numbered differently by the versions of Keras
                raise self.refused(layer, f"used {len(layer.inputs)} times")
            sources = [made[source][index] for source, index in layer.inputs[0]]
            last = made[layer.name] = self._layer(layer, sources)
        if not functional:
            return last
        return [made[end][index] for end, index in raw.outputs]

    def _input(self, layer: RawLayer) -> str:
        shape = layer.config.get("batch_input_shape") or layer.config.get("batch_shape")
        if shape is None:
            raise UnsupportedError("IMP-042", path=self.path, layer=layer.name, what="no shape")
        dims = [1 if shape[0] is None else int(shape[0]), *shape[1:]]
        if any(not isinstance(n, int) or n < 1 for n in dims):
            raise UnsupportedError("IMP-012", path=self.path, tensor=layer.name, shape=shape)
        name = self._names.fresh(layer.name)
        self.tensors[name] = Tensor(name, tuple(dims), DType.FLOAT32)
        self.inputs.append(name)
        return name

    def _layer(self, layer: RawLayer, sources: Sequence[str]) -> list[str]:
        if layer.inner is not None:
            return self.model(layer.inner, sources)
        if layer.kind in _IDENTITY:
            return [sources[0]]
        if layer.config.get("data_format", "channels_last") == "channels_first":
            raise self.refused(layer, "data_format channels_first")
        handler = _LAYERS.get(layer.kind)
        if handler is None:
            raise self.refused(layer, layer.kind)
        return [handler(self, layer, sources)]

    # --- for handlers ---

    def refused(self, layer: RawLayer, what: str) -> UnsupportedError:
        """The error for something a layer asks for."""
        return UnsupportedError("IMP-042", path=self.path, layer=layer.name, what=what)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self.tensors[name].shape

    def constant(self, layer: RawLayer, label: str, data: npt.ArrayLike) -> str:
        """A new constant."""
        array = np.ascontiguousarray(np.asarray(data, np.float32))
        name = self._names.fresh(f"{layer.name}/{label}")
        self.tensors[name] = Tensor(name, array.shape, DType.FLOAT32, None, array)
        return name

    def add(
        self, layer: RawLayer, op: str, inputs: Sequence[str], attrs: Attrs, *, moves: bool = False
    ) -> str:
        """Append a node; returns the name of its output."""
        shape = SCHEMAS[op].infer([self.tensors[n] for n in inputs], attrs)[0]
        name = self._names.fresh(
            layer.name if layer.name not in self.tensors else f"{layer.name}/{op}"
        )
        self.tensors[name] = Tensor(name, shape, DType.FLOAT32)
        contract = Contract.EXACT if moves else Contract.FLOAT32
        self.nodes.append(Node(name, op, tuple(inputs), (name,), attrs, contract))
        return name

    def activation(self, layer: RawLayer, name: str, kind: Any) -> str:
        """An activation behind a tensor."""
        if isinstance(kind, dict):
            kind = kind.get("class_name", kind)
        if kind in (None, "linear"):
            return name
        if kind in ("swish", "silu"):
            gate = self.add(layer, "logistic", [name], NoAttrs())
            return self.add(layer, "mul", [name, gate], ElementwiseAttrs())
        if kind == "softmax":
            return self.add(layer, "softmax", [name], SoftmaxAttrs(len(self.shape(name)) - 1))
        if kind not in _UNARY:
            raise self.refused(layer, f"activation {kind}")
        return self.add(layer, _UNARY[kind], [name], NoAttrs())

    def fused(self, kind: Any) -> tuple[Activation, Any]:
        """The part of an activation that a node takes in, and what is left."""
        if isinstance(kind, str) and kind in _FUSED:
            return _FUSED[kind], None
        return Activation.NONE, kind


def _pair(value: Any) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    a, b = value
    return int(a), int(b)


def _padding(
    build: _Build, layer: RawLayer, x: tuple[int, ...], kernel: tuple[int, int],
    stride: tuple[int, int], dilation: tuple[int, int],
) -> Pads:  # fmt: skip
    kind = layer.config.get("padding", "valid")
    if kind == "valid":
        return (0, 0, 0, 0)
    if kind != "same":
        raise build.refused(layer, f"padding {kind}")
    rows = same_padding(x[1], kernel[0], stride[0], dilation[0])
    columns = same_padding(x[2], kernel[1], stride[1], dilation[1])
    return (*rows, *columns)


def _bias(build: _Build, layer: RawLayer, channels: int) -> str:
    used = layer.config.get("use_bias", True)
    return build.constant(layer, "bias", layer.arrays[-1] if used else np.zeros(channels))


def _conv(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    kernel = layer.arrays[0]
    x = build.shape(sources[0])
    stride, dilation = _pair(layer.config["strides"]), _pair(layer.config["dilation_rate"])
    size = (kernel.shape[0], kernel.shape[1])
    groups = int(layer.config.get("groups", 1))
    act, rest = build.fused(layer.config.get("activation"))
    pads = _padding(build, layer, x, size, stride, dilation)
    attrs = ConvAttrs(stride, dilation, pads, act, groups)
    weights = build.constant(layer, "kernel", kernel.transpose(3, 0, 1, 2))
    inputs = [sources[0], weights, _bias(build, layer, kernel.shape[3])]
    return build.activation(layer, build.add(layer, "conv2d", inputs, attrs), rest)


def _depthwise(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    return _depthwise_part(build, layer, sources[0], layer.config.get("activation"), True)


def _depthwise_part(
    build: _Build, layer: RawLayer, source: str, activation: Any, biased: bool
) -> str:
    kernel = layer.arrays[0]
    h, w, c, m = kernel.shape
    stride, dilation = _pair(layer.config["strides"]), _pair(layer.config["dilation_rate"])
    act, rest = build.fused(activation)
    pads = _padding(build, layer, build.shape(source), (h, w), stride, dilation)
    attrs = ConvAttrs(stride, dilation, pads, act)
    weights = build.constant(layer, "depthwise", kernel.reshape(1, h, w, c * m))
    zeros = np.zeros(c * m)
    bias = _bias(build, layer, c * m) if biased else build.constant(layer, "zeros", zeros)
    made = build.add(layer, "depthwise_conv2d", [source, weights, bias], attrs)
    return build.activation(layer, made, rest)


def _separable(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    middle = _depthwise_part(build, layer, sources[0], None, False)
    kernel = layer.arrays[1]
    act, rest = build.fused(layer.config.get("activation"))
    weights = build.constant(layer, "pointwise", kernel.transpose(3, 0, 1, 2))
    inputs = [middle, weights, _bias(build, layer, kernel.shape[3])]
    made = build.add(layer, "conv2d", inputs, ConvAttrs(activation=act))
    return build.activation(layer, made, rest)


def _transposed(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    kernel = layer.arrays[0]
    stride = _pair(layer.config["strides"])
    if _pair(layer.config.get("dilation_rate", 1)) != (1, 1):
        raise build.refused(layer, "dilation_rate")
    if layer.config.get("output_padding") is not None:
        raise build.refused(layer, "output_padding")
    x = build.shape(sources[0])
    pads: list[int] = []
    extra: list[int] = []
    for axis in (0, 1):
        size, step = kernel.shape[axis], stride[axis]
        same = layer.config.get("padding") == "same"
        pads += same_padding(x[axis + 1] * step, size, step, 1) if same else (0, 0)
        extra.append(max(step - size, 0))
    act, rest = build.fused(layer.config.get("activation"))
    attrs = TransposeConvAttrs(
        stride, (pads[0], pads[1], pads[2], pads[3]), (extra[0], extra[1]), act
    )
    weights = build.constant(layer, "kernel", kernel.transpose(2, 0, 1, 3))
    inputs = [sources[0], weights, _bias(build, layer, kernel.shape[2])]
    return build.activation(layer, build.add(layer, "transpose_conv2d", inputs, attrs), rest)


def _dense(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    kernel = layer.arrays[0]
    act, rest = build.fused(layer.config.get("activation"))
    keep = len(build.shape(sources[0])) > 2
    weights = build.constant(layer, "kernel", kernel.T)
    inputs = [sources[0], weights, _bias(build, layer, kernel.shape[1])]
    made = build.add(layer, "fully_connected", inputs, FullyConnectedAttrs(act, keep))
    return build.activation(layer, made, rest)


def _batch_norm(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    axis = layer.config.get("axis", -1)
    axis = axis[0] if isinstance(axis, list) else axis
    rank = len(build.shape(sources[0]))
    if axis not in (-1, rank - 1):
        raise build.refused(layer, f"axis {axis}")
    arrays = list(layer.arrays)
    mean, variance = (a.astype(np.float64) for a in arrays[-2:])
    gamma = arrays.pop(0) if layer.config.get("scale", True) else np.ones_like(mean)
    beta = arrays.pop(0) if layer.config.get("center", True) else np.zeros_like(mean)
    factor = gamma / np.sqrt(variance + float(layer.config["epsilon"]))
    scale = build.constant(layer, "scale", factor)
    shift = build.constant(layer, "shift", beta - mean * factor)
    scaled = build.add(layer, "mul", [sources[0], scale], ElementwiseAttrs())
    return build.add(layer, "add", [scaled, shift], ElementwiseAttrs())


def _activation(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    return build.activation(layer, sources[0], layer.config["activation"])


def _relu(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    slope = layer.config.get("negative_slope") or 0.0
    limit, threshold = layer.config.get("max_value"), layer.config.get("threshold") or 0.0
    if threshold:
        raise build.refused(layer, f"threshold {threshold}")
    if slope:
        if limit is not None:
            raise build.refused(layer, "negative_slope with max_value")
        return build.add(layer, "leaky_relu", [sources[0]], LeakyReluAttrs(float(slope)))
    if limit is None or float(limit) == 6.0:
        return build.add(layer, "relu" if limit is None else "relu6", [sources[0]], NoAttrs())
    raise build.refused(layer, f"max_value {limit}")


def _leaky(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    slope = layer.config.get("negative_slope", layer.config.get("alpha", 0.3))
    if isinstance(slope, dict):
        slope = slope["config"]["value"] if "config" in slope else slope["value"]
    return build.add(layer, "leaky_relu", [sources[0]], LeakyReluAttrs(float(slope)))


def _prelu(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    alpha = build.constant(layer, "alpha", layer.arrays[0])
    return build.add(layer, "prelu", [sources[0], alpha], NoAttrs())


def _elu(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    if float(layer.config.get("alpha", 1.0)) != 1.0:
        raise build.refused(layer, f"alpha {layer.config['alpha']}")
    return build.add(layer, "elu", [sources[0]], NoAttrs())


def _softmax(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    rank = len(build.shape(sources[0]))
    if layer.config.get("axis", -1) not in (-1, rank - 1):
        raise build.refused(layer, f"axis {layer.config['axis']}")
    return build.add(layer, "softmax", [sources[0]], SoftmaxAttrs(rank - 1))


def _binary(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    op = _BINARY[layer.kind]
    made = sources[0]
    for other in sources[1:]:
        made = build.add(layer, op, [made, other], ElementwiseAttrs())
    return made


def _concat(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    axis = int(layer.config.get("axis", -1)) % len(build.shape(sources[0]))
    return build.add(layer, "concat", sources, ConcatAttrs(axis), moves=True)


def _pool(op: str) -> Handler:
    def handle(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
        size = _pair(layer.config["pool_size"])
        stride = _pair(layer.config.get("strides") or size)
        pads = _padding(build, layer, build.shape(sources[0]), size, stride, (1, 1))
        return build.add(layer, op, [sources[0]], PoolAttrs(size, stride, pads))

    return handle


def _global(op: str) -> Handler:
    def handle(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
        keep = bool(layer.config.get("keepdims", False))
        return build.add(layer, op, [sources[0]], ReduceAttrs((1, 2), keep))

    return handle


def _zero_padding(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    (top, bottom), (left, right) = (_pair(p) for p in layer.config["padding"])
    attrs = PadAttrs((0, top, left, 0), (0, bottom, right, 0))
    return build.add(layer, "pad", [sources[0]], attrs, moves=True)


def _cropping(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    (top, bottom), (left, right) = (_pair(p) for p in layer.config["cropping"])
    n, h, w, c = build.shape(sources[0])
    attrs = SliceAttrs((0, top, left, 0), (1, 1, 1, 1), (n, h - top - bottom, w - left - right, c))
    return build.add(layer, "slice", [sources[0]], attrs, moves=True)


def _upsampling(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    rows, columns = _pair(layer.config["size"])
    _, h, w, _ = build.shape(sources[0])
    nearest = layer.config.get("interpolation", "nearest") == "nearest"
    if not nearest and layer.config["interpolation"] != "bilinear":
        raise build.refused(layer, f"interpolation {layer.config['interpolation']}")
    mode = ResizeMode.NEAREST if nearest else ResizeMode.BILINEAR
    where = CoordinateMode.HALF_PIXEL_NEAREST if nearest else CoordinateMode.HALF_PIXEL
    attrs = ResizeAttrs((h * rows, w * columns), mode, where)
    return build.add(layer, "resize", [sources[0]], attrs, moves=nearest)


def _reshape(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    shape = build.shape(sources[0])
    size = int(np.prod(shape[1:]))
    wanted = [size] if layer.kind == "Flatten" else [int(n) for n in layer.config["target_shape"]]
    if -1 in wanted:
        rest = int(np.prod([n for n in wanted if n != -1]))
        wanted[wanted.index(-1)] = size // rest
    attrs = ReshapeAttrs((shape[0], *wanted))
    return build.add(layer, "reshape", [sources[0]], attrs, moves=True)


def _permute(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    perm = (0, *(int(n) for n in layer.config["dims"]))
    return build.add(layer, "transpose", [sources[0]], TransposeAttrs(perm), moves=True)


def _rescaling(build: _Build, layer: RawLayer, sources: Sequence[str]) -> str:
    scale = build.constant(layer, "scale", np.reshape(layer.config["scale"], -1))
    offset = build.constant(layer, "offset", np.reshape(layer.config["offset"], -1))
    scaled = build.add(layer, "mul", [sources[0], scale], ElementwiseAttrs())
    return build.add(layer, "add", [scaled, offset], ElementwiseAttrs())


Handler = Callable[[_Build, RawLayer, Sequence[str]], str]
_LAYERS: Mapping[str, Handler] = {
    "Conv2D": _conv,
    "DepthwiseConv2D": _depthwise,
    "SeparableConv2D": _separable,
    "Conv2DTranspose": _transposed,
    "Dense": _dense,
    "BatchNormalization": _batch_norm,
    "Activation": _activation,
    "ReLU": _relu,
    "LeakyReLU": _leaky,
    "PReLU": _prelu,
    "ELU": _elu,
    "Softmax": _softmax,
    **dict.fromkeys(_BINARY, _binary),
    "Concatenate": _concat,
    "MaxPooling2D": _pool("max_pool2d"),
    "AveragePooling2D": _pool("average_pool2d"),
    "GlobalAveragePooling2D": _global("mean"),
    "GlobalMaxPooling2D": _global("reduce_max"),
    "ZeroPadding2D": _zero_padding,
    "Cropping2D": _cropping,
    "UpSampling2D": _upsampling,
    "Flatten": _reshape,
    "Reshape": _reshape,
    "Permute": _permute,
    "Rescaling": _rescaling,
}
