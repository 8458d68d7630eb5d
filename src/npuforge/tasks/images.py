"""Pictures as network inputs: decode, resize, map pixel values to what the input stores."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from npuforge.errors import UsageError
from npuforge.graph import NUMPY_TYPES, Array, Graph, Quantization, Tensor

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm"})
MAX_PIXELS = 100_000_000
"""Largest picture that is decoded; a small file can claim to be a huge picture."""


class ImageRange(StrEnum):
    """The real numbers a network was trained to see for black and white."""

    UNIT = "0..1"
    SIGNED = "-1..1"
    RAW = "0..255"

    def apply(self, pixels: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Pixel values 0..255 as real numbers of this range."""
        if self is ImageRange.UNIT:
            return pixels / np.float32(255)
        if self is ImageRange.SIGNED:
            return pixels / np.float32(127.5) - np.float32(1)
        return pixels


def is_image(path: Path) -> bool:
    """Whether a file name is that of a picture."""
    return path.suffix.lower() in _SUFFIXES


def read_image(path: Path, height: int, width: int, channels: int) -> npt.NDArray[np.uint8]:
    """A picture as [height, width, channels] bytes, RGB or grey, the middle square scaled.

    Raises:
        UsageError: not a picture that can be read, or not 1 or 3 channels.
    """
    from PIL import Image, ImageOps

    if channels not in (1, 3):
        raise UsageError("INP-010", path=path, channels=channels)
    return decode_image(
        path,
        (height, width, channels),
        lambda whole: ImageOps.fit(whole, (width, height), Image.Resampling.BILINEAR),
    )


def decode_image(
    path: Path, shape: tuple[int, int, int], fit: Callable[[Picture], Picture]
) -> npt.NDArray[np.uint8]:
    """A picture as bytes.

    Args:
        path: file.
        shape: of the result: height, width and channels, 1 for grey or 3 for RGB.
        fit: brings the upright picture, grey or RGB, to that width and height.

    Raises:
        UsageError: not a picture that can be read.
    """
    from PIL import Image, ImageOps

    try:
        with Image.open(path) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise UsageError("INP-011", path=path, reason=f"{picture.size} pixels")
            mode = "L" if shape[2] == 1 else "RGB"
            whole = ImageOps.exif_transpose(picture).convert(mode)
            return np.asarray(fit(whole), np.uint8).reshape(shape)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise UsageError("INP-011", path=path, reason=str(error)) from None


def stored_input(graph: Graph, tensor: Tensor) -> Tensor:
    """The tensor that holds an input's stored numbers: itself, or what a quantise node behind a
    float input makes of it."""
    readers = graph.consumers.get(tensor.name, ())
    if tensor.quantization is None and len(readers) == 1 and readers[0].op == "quantize":
        return graph.tensors[readers[0].outputs[0]]
    return tensor


def input_quantization(graph: Graph, tensor: Tensor) -> Quantization | None:
    """Quantisation of an input: its own, or that of the quantise node behind a float input."""
    return stored_input(graph, tensor).quantization


def guess_range(graph: Graph, tensor: Tensor) -> ImageRange:
    """The range whose ends lie closest to the ends of what the input can store.

    Calibration on real pictures uses the whole range, so the quantised range gives it away; without
    quantisation 0..1 is assumed.
    """
    stored = stored_input(graph, tensor)
    if stored.quantization is None:
        return ImageRange.UNIT
    ends = stored.quantization.range_of(stored.dtype)
    ranges = {ImageRange.UNIT: (0, 1), ImageRange.SIGNED: (-1, 1), ImageRange.RAW: (0, 255)}

    def distance(item: ImageRange) -> float:
        a, b = ranges[item]
        return (abs(ends[0] - a) + abs(ends[1] - b)) / (b - a)

    return min(ranges, key=distance)


def image_to_input(
    path: Path, graph: Graph, tensor: Tensor, value_range: ImageRange | None = None
) -> tuple[Array, ImageRange]:
    """A picture as the array of an input, and the range that was used.

    Raises:
        UsageError: the input is no image, or the file no picture.
    """
    shape = tensor.shape
    if len(shape) != 4 or shape[0] != 1:
        raise UsageError("INP-012", tensor=tensor.name, shape=list(shape))
    first = shape[1] in (1, 3) and shape[3] not in (1, 3)
    height, width, channels = (shape[2], shape[3], shape[1]) if first else shape[1:]
    pixels = read_image(path, height, width, channels)
    if first:
        pixels = pixels.transpose(2, 0, 1)
    used = value_range or guess_range(graph, tensor)
    real = used.apply(pixels.astype(np.float32))[None]
    return store(tensor, real), used


def store(tensor: Tensor, real: npt.NDArray[np.float32]) -> Array:
    """Real numbers as a tensor stores them: quantised half to even, or cast."""
    dtype = NUMPY_TYPES[tensor.dtype]
    if tensor.quantization is None:
        return real.astype(dtype)
    low, high = tensor.dtype.limits
    stored = np.rint(real / tensor.quant.s) + tensor.quant.z
    values: Array = np.clip(stored, low, high).astype(dtype)
    return values
