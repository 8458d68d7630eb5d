"""Wrong ways to feed a network, as functions of the right input.

A way is put together from stages, each of which may be left out: geometry of the picture, order of
its channels, map from pixel values to stored values, treatment of the bytes in the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from npuforge.doctor.triage.causes import Cause
from npuforge.graph import NUMPY_TYPES, Array, Graph, Quantization, Tensor
from npuforge.tasks.images import ImageRange, guess_range, input_quantization, store
from npuforge.vocab import DType

Real = npt.NDArray[np.float32]

IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
IMAGENET_STD = np.array([0.229, 0.224, 0.225], np.float32)
"""Means and deviations of the ImageNet training pictures as torchvision publishes them, 0..1 "
"RGB."""
CAFFE_MEAN = np.array([103.939, 116.779, 123.68], np.float32)
"""Means of the same pictures in Caffe's models, 0..255 BGR."""


class Stage(IntEnum):
    """Stages in the order in which they act."""

    GEOMETRY = 0
    CHANNELS = 1
    VALUES = 2
    BUFFER = 3


@dataclass(frozen=True, eq=False)
class Source:
    """The right input of one sample and what it stands for.

    Attributes:
        tensor: the network's input.
        quant: its quantisation, or that behind a float input, or None.
        stored: the right content of the buffer.
        real: real numbers of it, in the tensor's shape.
        image: whether it is a picture.
        first: whether the channels come first.
        value_range: the range of a picture's real numbers.
        previous: the right buffer of the sample before, or None.
    """

    tensor: Tensor
    quant: Quantization | None
    stored: Array
    real: Real
    image: bool
    first: bool
    value_range: ImageRange
    previous: Array | None = None

    @property
    def pixels(self) -> Real:
        """Values 0..255 of a picture, channels last, without the batch axis."""
        real = self.real[0].transpose(1, 2, 0) if self.first else self.real[0]
        scaled: Real = real
        if self.value_range is ImageRange.UNIT:
            scaled = real * np.float32(255)
        elif self.value_range is ImageRange.SIGNED:
            scaled = (real + np.float32(1)) * np.float32(127.5)
        clipped = np.clip(scaled, 0, 255)
        if not self.tensor.dtype.is_float:
            # a quantised buffer holds pixels to half a level; the pixel itself is whole, and what
            # is stored as the largest value was white
            low, high = self.tensor.dtype.limits
            kept = self.stored[0].transpose(1, 2, 0) if self.first else self.stored[0]
            clipped = np.rint(clipped)
            clipped = np.where(kept == high, 255, np.where(kept == low, 0, clipped))
        return np.asarray(clipped, np.float32)

    def shaped(self, picture: Real) -> Real:
        """A channels-last picture in the tensor's shape."""
        return (picture.transpose(2, 0, 1) if self.first else picture)[None].astype(np.float32)

    def exact(self, given: Real) -> Real:
        """Real numbers before they were quantised, from a picture where it is one."""
        if not self.image:
            return given
        return self.shaped(_RANGES[_NAMES[self.value_range]](given))

    def keep(self, real: Real) -> Array:
        """Real numbers as the right firmware would store them."""
        if self.tensor.quantization is None and not self.tensor.dtype.is_float:
            low, high = self.tensor.dtype.limits
            whole = np.clip(np.rint(real), low, high)
            return whole.astype(NUMPY_TYPES[self.tensor.dtype]).reshape(self.tensor.shape)
        return store(self.tensor, real.reshape(self.tensor.shape))


Change = Callable[[Source, Real], Real]
"""Geometry and channels: (source, channels-last picture or real numbers) -> the same kind."""
Mapping = Callable[[Source, Real], Array]
"""Values: (source, picture 0..255 or real numbers) -> stored array in the tensor's shape."""
Bytes = Callable[[Source, Array], Array]
"""Buffer: (source, stored) -> stored."""


@dataclass(frozen=True, eq=False)
class Alternative:
    """One wrong stage."""

    cause: Cause
    detail: str
    stage: Stage
    change: Change | Mapping | Bytes


def source_of(
    graph: Graph,
    tensor: Tensor,
    stored: Array,
    previous: Array | None,
    value_range: ImageRange | None,
) -> Source:
    """Describe the right input of a sample."""
    quant = input_quantization(graph, tensor)
    real = stored.astype(np.float32)
    if tensor.quantization is not None:
        real = (real - np.float32(tensor.quant.z)) * tensor.quant.s
    shape = tensor.shape
    four = len(shape) == 4 and shape[0] == 1
    first = four and shape[1] in (1, 3) and shape[3] not in (1, 3)
    sides = (shape[2], shape[3]) if first else (shape[1], shape[2]) if four else (0, 0)
    channels = shape[1] if first else shape[3] if four else 0
    image = four and channels in (1, 3) and min(sides) >= 16
    chosen = value_range or guess_range(graph, tensor)
    return Source(tensor, quant, stored, real, image, first, chosen, previous)


def _resized(picture: Real, height: int, width: int) -> Real:
    """Bilinear, half-pixel centres."""
    rows = np.clip((np.arange(height) + 0.5) * picture.shape[0] / height - 0.5, 0, None)
    columns = np.clip((np.arange(width) + 0.5) * picture.shape[1] / width - 0.5, 0, None)
    top = np.minimum(rows.astype(int), picture.shape[0] - 1)
    left = np.minimum(columns.astype(int), picture.shape[1] - 1)
    below = np.minimum(top + 1, picture.shape[0] - 1)
    right = np.minimum(left + 1, picture.shape[1] - 1)
    dy = (rows - top).astype(np.float32)[:, None, None]
    dx = (columns - left).astype(np.float32)[None, :, None]
    upper = picture[top][:, left] * (1 - dx) + picture[top][:, right] * dx
    lower = picture[below][:, left] * (1 - dx) + picture[below][:, right] * dx
    mixed: Real = (upper * (1 - dy) + lower * dy).astype(np.float32)
    return mixed


def _zoom(share: float) -> Change:
    def change(source: Source, picture: Real) -> Real:
        height, width = picture.shape[:2]
        rows, columns = max(1, round(height * share)), max(1, round(width * share))
        top, left = (height - rows) // 2, (width - columns) // 2
        return _resized(picture[top : top + rows, left : left + columns], height, width)

    return change


def _letterbox(vertical: float, horizontal: float, pad: int) -> Change:
    def change(source: Source, picture: Real) -> Real:
        height, width = picture.shape[:2]
        rows, columns = round(height * vertical), round(width * horizontal)
        small = _resized(picture, rows, columns)
        out = np.full_like(picture, pad)
        top, left = (height - rows) // 2, (width - columns) // 2
        out[top : top + rows, left : left + columns] = small
        return out

    return change


def _pitch(align: int) -> Change:
    def change(source: Source, picture: Real) -> Real:
        height, row = picture.shape[0], picture.shape[1] * picture.shape[2]
        pitch = -(-row // align) * align
        padded = np.zeros((height, pitch), np.float32)
        padded[:, :row] = picture.reshape(height, row)
        return padded.reshape(-1)[: height * row].reshape(picture.shape)

    return change


def _geometry(source: Source) -> Iterator[Alternative]:
    height, width, channels = source.pixels.shape

    def add(cause: Cause, detail: str, change: Change) -> Alternative:
        return Alternative(cause, detail, Stage.GEOMETRY, change)

    yield add(Cause.FLIP, "left-right", lambda s, p: p[:, ::-1])
    yield add(Cause.FLIP, "top-bottom", lambda s, p: p[::-1])
    yield add(Cause.ROTATED, "180 degrees", lambda s, p: p[::-1, ::-1])
    if height == width:
        yield add(Cause.ROTATED, "90 degrees", lambda s, p: np.rot90(p))
        yield add(Cause.ROTATED, "270 degrees", lambda s, p: np.rot90(p, 3))
    yield add(
        Cause.TRANSPOSED, "rows and columns", lambda s, p: p.transpose(1, 0, 2).reshape(p.shape)
    )
    for share in (0.875, 0.75, 0.5):
        yield add(Cause.CROP, f"centre {share:.1%}", _zoom(share))
    for pad in (0, 114, 128):
        yield add(Cause.LETTERBOX, f"3:4, bars {pad}", _letterbox(0.75, 1, pad))
        yield add(Cause.LETTERBOX, f"4:3, bars {pad}", _letterbox(1, 0.75, pad))
        yield add(Cause.LETTERBOX, f"9:16, bars {pad}", _letterbox(0.5625, 1, pad))
    for align in (16, 32, 64):
        if (width * channels) % align:
            yield add(Cause.PITCH, f"line pitch rounded to {align} bytes", _pitch(align))


def _grey(source: Source, picture: Real) -> Real:
    luma = picture @ np.array([0.299, 0.587, 0.114], np.float32)
    return np.repeat(luma[..., None], 3, axis=-1).astype(np.float32)


def _channels(source: Source) -> Iterator[Alternative]:
    if source.pixels.shape[2] == 3:
        yield Alternative(
            Cause.BGR, "BGR instead of RGB", Stage.CHANNELS, lambda s, p: p[..., ::-1]
        )
        yield Alternative(Cause.GREY, "grey instead of colour", Stage.CHANNELS, _grey)


def _ranged(name: str) -> Mapping:
    def change(source: Source, picture: Real) -> Array:
        return source.keep(source.shaped(_RANGES[name](picture)))

    return change


def _per_image(picture: Real) -> Real:
    deviation = np.maximum(picture.std(), np.float32(1e-6))
    standard: Real = ((picture - picture.mean()) / deviation).astype(np.float32)
    return standard


_RANGES: dict[str, Callable[[Real], Real]] = {
    "0..1": lambda p: p / np.float32(255),
    "-1..1": lambda p: p / np.float32(127.5) - np.float32(1),
    "0..255": lambda p: p,
    "-128..127": lambda p: p - np.float32(128),
    "-0.5..0.5": lambda p: p / np.float32(255) - np.float32(0.5),
    "0..1 by 256": lambda p: p / np.float32(256),
    "-1..1 by 128": lambda p: p / np.float32(128) - np.float32(1),
}
_NAMES = {ImageRange.UNIT: "0..1", ImageRange.SIGNED: "-1..1", ImageRange.RAW: "0..255"}
_NEIGHBOUR = {"0..1": "0..1 by 256", "-1..1": "-1..1 by 128"}


def _mapped(mapping: Callable[[Real], Real]) -> Mapping:
    return lambda source, picture: source.keep(source.shaped(mapping(picture)))


def _image_values(source: Source) -> Iterator[Alternative]:
    right = _NAMES[source.value_range]
    if right in _NEIGHBOUR:
        near = _NEIGHBOUR[right]
        yield Alternative(
            Cause.DIV256, f"divided {near[near.index('by') :]}", Stage.VALUES, _ranged(near)
        )
    for name in ("0..255", "0..1", "-1..1", "-128..127", "-0.5..0.5"):
        if name != right:
            yield Alternative(
                Cause.RANGE, f"{name} instead of {right}", Stage.VALUES, _ranged(name)
            )
    if source.pixels.shape[2] == 3:
        yield Alternative(
            Cause.MEAN_STD, "ImageNet mean and deviation", Stage.VALUES,
            _mapped(lambda p: (p / np.float32(255) - IMAGENET_MEAN) / IMAGENET_STD),
        )  # fmt: skip
        yield Alternative(
            Cause.MEAN_STD, "ImageNet mean, 0..255", Stage.VALUES,
            _mapped(lambda p: p - CAFFE_MEAN[::-1]),
        )  # fmt: skip
        yield Alternative(
            Cause.MEAN_STD, "ImageNet mean in BGR order, 0..255", Stage.VALUES,
            _mapped(lambda p: p - CAFFE_MEAN),
        )  # fmt: skip
    yield Alternative(
        Cause.MEAN_STD, "every picture by its own mean and deviation", Stage.VALUES,
        _mapped(_per_image),
    )  # fmt: skip
    yield from _byte_values(source)


def _raw_bytes(source: Source, picture: Real) -> Array:
    raw = np.rint(np.clip(source.shaped(picture), 0, 255)).astype(np.uint8)
    if source.tensor.dtype is DType.INT8:
        return raw.view(np.int8).reshape(source.tensor.shape)
    return raw.reshape(source.tensor.shape)


def _bytes_in_float(source: Source, picture: Real) -> Array:
    raw = np.rint(np.clip(source.shaped(picture), 0, 255)).astype(np.uint8).tobytes()
    whole = raw + bytes(source.tensor.size * 4 - len(raw))
    return np.nan_to_num(np.frombuffer(whole, np.float32)).reshape(source.tensor.shape)


def _byte_values(source: Source) -> Iterator[Alternative]:
    if source.tensor.dtype.is_float:
        yield Alternative(
            Cause.FLOAT_BYTES, "8-bit pixels written into a float buffer", Stage.VALUES,
            _bytes_in_float,
        )  # fmt: skip
    elif source.tensor.dtype is DType.INT8:
        yield Alternative(Cause.SIGNED, "uint8 pixels in an int8 buffer", Stage.VALUES, _raw_bytes)
        yield Alternative(
            Cause.ZERO_POINT, "pixel - 128 whatever the scale", Stage.VALUES,
            lambda s, p: (np.rint(np.clip(s.shaped(p), 0, 255)) - 128).astype(np.int8),
        )  # fmt: skip


def _quantised(source: Source, real: Real, scale: float, zero: int) -> Array:
    low, high = source.tensor.dtype.limits
    whole = np.clip(np.rint(real / np.float32(scale)) + zero, low, high)
    stored: Array = whole.astype(NUMPY_TYPES[source.tensor.dtype])
    return stored.reshape(source.tensor.shape)


def _literals(source: Source) -> Iterator[tuple[str, float, int]]:
    """Scales and zero points that stay behind in sources from another build."""
    quant = source.quant
    if quant is None or source.tensor.dtype.is_float:
        return
    scale, zero = float(quant.s), quant.z
    for name, other, point in (
        ("scale 1/255", 1 / 255, zero),
        ("scale 1/128", 1 / 128, zero),
        ("scale 1/127.5", 1 / 127.5, zero),
        ("scale 1", 1.0, zero),
        ("scale 1/255, zero point -128", 1 / 255, -128),
        ("scale 1/128, zero point 0", 1 / 128, 0),
        ("twice the scale", 2 * scale, zero),
        ("half the scale", scale / 2, zero),
    ):
        if abs(other - scale) > 0.003 * scale or point != zero:
            yield name, other, point


def _signal_values(source: Source) -> Iterator[Alternative]:
    """Faults in real numbers, for every kind of input; the change gets real numbers."""

    def real_of(source: Source, given: Real) -> Real:
        return source.exact(given)

    for factor in (0.5, 2.0, 0.25, 4.0, 1 / 255, 255.0, 1 / 256, 1 / 32768, 0.1, 10.0):
        yield Alternative(
            Cause.SCALE, f"real values times {factor:g}", Stage.VALUES,
            lambda s, given, f=factor: s.keep(real_of(s, given) * np.float32(f)),
        )  # fmt: skip
    if not source.image:
        yield Alternative(
            Cause.MEAN_STD, "every sample by its own mean and deviation", Stage.VALUES,
            lambda s, given: s.keep(_per_image(given)),
        )  # fmt: skip
        yield Alternative(
            Cause.MEAN_STD, "mean not removed or removed twice", Stage.VALUES,
            lambda s, given: s.keep(given - given.mean()),
        )  # fmt: skip
    quant = source.quant
    if quant is not None and not source.tensor.dtype.is_float:
        zero = quant.z
        for point in (0, 128, -128):
            if (point != zero and source.tensor.dtype is not DType.UINT8) or point > 0:
                yield Alternative(
                    Cause.ZERO_POINT, f"zero point {point} instead of {zero}", Stage.VALUES,
                    lambda s, given, z=point: _quantised(s, real_of(s, given), float(s.quant.s), z),
                )  # fmt: skip
        for name, scale, point in _literals(source):
            yield Alternative(
                Cause.SCALE, f"{name} instead of scale {float(quant.s):.6g}, zero point {zero}",
                Stage.VALUES,
                lambda s, given, a=scale, z=point: _quantised(s, real_of(s, given), a, z),
            )  # fmt: skip


def _layout(source: Source, stored: Array) -> Array:
    """Channels first where last are meant, and the reverse, in the same bytes."""
    if source.first:
        return stored.transpose(0, 2, 3, 1).reshape(stored.shape)
    return np.moveaxis(stored, -1, 1).reshape(stored.shape)


def _swapped(source: Source, stored: Array) -> Array:
    """The two longest axes exchanged, same bytes count."""
    axes = sorted(range(stored.ndim), key=lambda i: -stored.shape[i])[:2]
    order = list(range(stored.ndim))
    order[axes[0]], order[axes[1]] = axes[1], axes[0]
    return stored.transpose(order).reshape(stored.shape)


def _float_in_bytes(source: Source, stored: Array) -> Array:
    real = source.exact(source.pixels) if source.image else source.real
    raw = real.astype(np.float32).tobytes()[: stored.size]
    return np.frombuffer(raw, stored.dtype).reshape(stored.shape)


def _turned(source: Source, stored: Array) -> Array:
    return (stored.view(np.uint8) ^ 0x80).view(stored.dtype)


def _rolled(count: int) -> Bytes:
    return lambda source, stored: np.roll(stored.reshape(-1), count).reshape(stored.shape)


def _filled(value: float) -> Bytes:
    return lambda source, stored: np.full_like(stored, value)


def _previous(source: Source, stored: Array) -> Array:
    return stored if source.previous is None else source.previous


def _buffer(source: Source) -> Iterator[Alternative]:
    def add(cause: Cause, detail: str, change: Bytes) -> Alternative:
        return Alternative(cause, detail, Stage.BUFFER, change)

    channels = source.tensor.shape[1] if source.first else source.tensor.shape[-1:][0]
    if len(source.tensor.shape) == 4 and channels > 1:
        wanted = "channels last" if source.first else "channels first"
        yield add(Cause.LAYOUT, f"{wanted} in the buffer", _layout)
    if not source.image and sum(size > 1 for size in source.tensor.shape) > 1:
        yield add(Cause.TRANSPOSED, "the two longest axes", _swapped)
    if not source.image:
        yield add(Cause.FLIP, "order reversed", lambda s, a: a.reshape(-1)[::-1].reshape(a.shape))
    if source.previous is not None:
        yield add(Cause.LATE, "the sample before", _previous)
    if not source.tensor.dtype.is_float:
        if source.tensor.dtype.nbytes == 1:
            yield add(Cause.SIGNED, "sign bit of every byte turned over", _turned)
        yield add(Cause.FLOAT_BYTES, "float values copied into an 8-bit buffer", _float_in_bytes)
        low, high = source.tensor.dtype.limits
        fills: tuple[float, ...] = (0, low, high, -1 if low < 0 else 255)
        if source.quant is not None:
            fills = (*fills, source.quant.z)
    else:
        fills = (0.0, 1.0, -1.0, 255.0)
    for value in dict.fromkeys(fills):
        yield add(Cause.CONSTANT, f"every element {value:g}", _filled(value))
    for count in (1, 4, 8, 16, 32, 64, -1, -4, -32):
        yield add(Cause.SHIFTED, f"by {count} elements", _rolled(count))


def alternatives_of(source: Source) -> tuple[Alternative, ...]:
    """Every single wrong stage that makes sense for an input, likely ones first."""
    found: list[Alternative] = []
    if source.image:
        found += [*_image_values(source), *_channels(source)]
    found += [*_buffer(source)]
    if source.image:
        found += _geometry(source)
    return (*found, *_signal_values(source))


def feed(source: Source, chosen: tuple[Alternative, ...]) -> Array:
    """The buffer that a firmware with some wrong stages would fill."""
    given = source.pixels if source.image else source.real
    stored: Array | None = None
    for item in sorted(chosen, key=lambda a: a.stage):
        if item.stage in (Stage.GEOMETRY, Stage.CHANNELS):
            given = np.ascontiguousarray(item.change(source, given), np.float32)
        elif item.stage is Stage.VALUES:
            stored = item.change(source, given)
        else:
            stored = item.change(source, _default(source, given) if stored is None else stored)  # type: ignore[arg-type]
    if stored is None:
        stored = _default(source, given)
    return np.ascontiguousarray(stored, NUMPY_TYPES[source.tensor.dtype])


def _default(source: Source, given: Real) -> Array:
    """The right map from values to stored values."""
    if not source.image:
        return source.stored if given is source.real else source.keep(given)
    if np.array_equal(given, source.pixels):
        return source.stored
    return _ranged(_NAMES[source.value_range])(source, given)
