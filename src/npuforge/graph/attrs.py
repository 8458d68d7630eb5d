"""Attribute records of the operators: frozen, fully resolved, free of any file format.

Padding is always explicit numbers, axes are never negative, shapes are static.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from npuforge.vocab import Activation

Pair = tuple[int, int]
Pads = tuple[int, int, int, int]


@dataclass(frozen=True)
class Attrs:
    """Base of all attribute records."""


@dataclass(frozen=True)
class NoAttrs(Attrs):
    """An operator without attributes."""


NO_ATTRS = NoAttrs()


@dataclass(frozen=True)
class ConvAttrs(Attrs):
    """Convolution and depthwise convolution.

    Attributes:
        stride: rows, columns.
        dilation: rows, columns.
        padding: top, bottom, left, right, filled with the zero point.
        activation: fused activation.
        groups: channel groups of a convolution; a depthwise convolution leaves it at 1.
    """

    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    padding: Pads = (0, 0, 0, 0)
    activation: Activation = Activation.NONE
    groups: int = 1


@dataclass(frozen=True)
class PoolAttrs(Attrs):
    """Average and max pooling; padded elements are never counted unless `count_padding`."""

    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pads = (0, 0, 0, 0)
    activation: Activation = Activation.NONE
    count_padding: bool = False


@dataclass(frozen=True)
class FullyConnectedAttrs(Attrs):
    """Matrix product with constant weights; `keep_dims` keeps the leading dimensions."""

    activation: Activation = Activation.NONE
    keep_dims: bool = False
    asymmetric_inputs: bool = False
    """Float input, int8 weights: the input is quantised with a zero point of its own."""


@dataclass(frozen=True)
class ElementwiseAttrs(Attrs):
    """Binary elementwise operators with broadcasting."""

    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class SoftmaxAttrs(Attrs):
    """Softmax over `axis` of beta * x."""

    axis: int
    beta: float = 1.0


@dataclass(frozen=True)
class ReshapeAttrs(Attrs):
    """Same elements in the same order under another shape."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class TransposeAttrs(Attrs):
    """Output axis i is input axis perm[i]."""

    perm: tuple[int, ...]


class PadMode(StrEnum):
    """What a Pad writes outside of its input."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    SYMMETRIC = "symmetric"


@dataclass(frozen=True)
class PadAttrs(Attrs):
    """Padding of any axis.

    Attributes:
        before: elements added in front, one number an axis.
        after: elements added behind, one number an axis.
        mode: constant, reflect (edge not repeated) or symmetric (edge repeated).
        value: the stored value written in constant mode (already quantised for integer types).
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    mode: PadMode = PadMode.CONSTANT
    value: float = 0.0


@dataclass(frozen=True)
class ConcatAttrs(Attrs):
    """Concatenation along one axis."""

    axis: int
    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class ReduceAttrs(Attrs):
    """Reduction over `axes`, which are sorted."""

    axes: tuple[int, ...]
    keep_dims: bool = False


class ResizeMode(StrEnum):
    """Interpolation of a Resize."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"


class CoordinateMode(StrEnum):
    """How a Resize maps output coordinates to input coordinates."""

    ASYMMETRIC = "asymmetric"
    HALF_PIXEL = "half_pixel"
    PYTORCH_HALF_PIXEL = "pytorch_half_pixel"
    ALIGN_CORNERS = "align_corners"
    HALF_PIXEL_NEAREST = "half_pixel_nearest"
    """(i + 0.5) * input / output without the shift back; TensorFlow's nearest neighbour."""


class NearestMode(StrEnum):
    """How a nearest-neighbour Resize rounds coordinates."""

    FLOOR = "floor"
    CEIL = "ceil"
    ROUND_PREFER_FLOOR = "round_prefer_floor"
    ROUND_PREFER_CEIL = "round_prefer_ceil"


@dataclass(frozen=True)
class ResizeAttrs(Attrs):
    """Resize of the two image axes to `size` (rows, columns).

    `scale` is output over input as the file states it (ONNX computes coordinates with it);
    None means exactly size over input size.
    """

    size: Pair
    mode: ResizeMode
    coordinates: CoordinateMode
    nearest: NearestMode = NearestMode.FLOOR
    scale: tuple[float, float] | None = None


@dataclass(frozen=True)
class SliceAttrs(Attrs):
    """Strided slice: `count` elements from `begin` in steps of `step`, one number an axis."""

    begin: tuple[int, ...]
    step: tuple[int, ...]
    count: tuple[int, ...]


@dataclass(frozen=True)
class SplitAttrs(Attrs):
    """Pieces of `sizes` along `axis`."""

    axis: int
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class AxisAttrs(Attrs):
    """Operators along one axis."""

    axis: int


@dataclass(frozen=True)
class TileAttrs(Attrs):
    """How often each axis is repeated."""

    repeats: tuple[int, ...]


@dataclass(frozen=True)
class MatMulAttrs(Attrs):
    """Product of two computed matrices; the last two axes may be swapped first."""

    transpose_a: bool = False
    transpose_b: bool = False


@dataclass(frozen=True)
class TransposeConvAttrs(Attrs):
    """Transposed convolution.

    Attributes:
        stride: rows, columns.
        padding: rows and columns cut off the full result: top, bottom, left, right.
        output_padding: rows and columns added behind before cutting.
        activation: fused activation.
    """

    stride: Pair = (1, 1)
    padding: Pads = (0, 0, 0, 0)
    output_padding: Pair = (0, 0)
    activation: Activation = Activation.NONE


@dataclass(frozen=True)
class LeakyReluAttrs(Attrs):
    """x for x > 0, else alpha * x."""

    alpha: float


@dataclass(frozen=True)
class HardSigmoidAttrs(Attrs):
    """alpha * x + 0.5, limited to 0..1."""

    alpha: float


@dataclass(frozen=True)
class GeluAttrs(Attrs):
    """Gaussian error linear unit, exact or by the tanh formula."""

    approximate: bool = False


@dataclass(frozen=True)
class StateAttrs(Attrs):
    """A state variable that lives between inferences.

    Attributes:
        variable: its name.
        shape: its shape.
    """

    variable: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class DetectionAttrs(Attrs):
    """SSD post-processing: box decoding and non-maximum suppression.

    Attributes:
        max_detections: boxes kept.
        max_classes_per_detection: classes reported for a box.
        classes: number of classes without the background.
        score_threshold: smallest score kept.
        iou_threshold: overlap from which the weaker box is dropped.
        scales: y, x, h, w divisors of the box encoding.
        regular: suppress per class instead of over all classes.
        detections_per_class: boxes kept a class in regular mode.
    """

    max_detections: int
    max_classes_per_detection: int
    classes: int
    score_threshold: float
    iou_threshold: float
    scales: tuple[float, float, float, float]
    regular: bool = False
    detections_per_class: int = 100
