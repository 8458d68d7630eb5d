"""Preprocessing, declared once: what stands between a picture or a recording and the network.

The declaration travels with the model as a small TOML file. What it says of pixel values is a table
of 256 numbers a channel, so that a board which uses the table cannot differ from the PC.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npuforge.errors import UsageError
from npuforge.graph import Tensor
from npuforge.tasks.images import ImageRange

Real = npt.NDArray[np.float32]


class Fit(StrEnum):
    """How a picture of another size comes to the network's size."""

    CROP = "crop"
    """The middle part of the network's proportions, scaled."""
    STRETCH = "stretch"
    """The whole picture, scaled without regard to proportions."""
    LETTERBOX = "letterbox"
    """The whole picture in its proportions, the rest filled with the background."""


class Colour(StrEnum):
    """Order of the colour channels the network was trained on."""

    RGB = "rgb"
    BGR = "bgr"
    GREY = "grey"


@dataclass(frozen=True)
class Preprocessing:
    """From bytes to the real numbers of an input: (byte * scale - mean) / std, a channel each.

    Attributes:
        fit: how pictures come to size.
        crop: share of the picture that is kept, measured on each side; 0 < crop <= 1.
        background: grey level around a letterboxed picture, 0..255.
        colour: order of channels.
        scale: factor of the bytes.
        mean: one number, or one a channel in the order of `colour`.
        std: one number, or one a channel.
    """

    fit: Fit = Fit.CROP
    crop: float = 1.0
    background: int = 0
    colour: Colour = Colour.RGB
    scale: float = 1.0 / 255.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    @classmethod
    def of_range(cls, value_range: ImageRange) -> Preprocessing:
        """The declaration of a range black..white."""
        if value_range is ImageRange.RAW:
            return cls(scale=1.0)
        if value_range is ImageRange.SIGNED:
            return cls(scale=1.0 / 127.5, mean=(1.0,))
        return cls()

    def values(self, channels: int) -> Real:
        """The real number of every byte: float32 [256, channels]."""
        mean = self._spread("mean", self.mean, channels)
        std = self._spread("std", self.std, channels)
        bytes_ = np.arange(256, dtype=np.float64)[:, None] * self.scale
        return ((bytes_ - mean) / std).astype(np.float32)

    def apply(self, pixels: npt.NDArray[np.uint8]) -> Real:
        """Pixels [height, width, channels] as real numbers of the same shape."""
        channels = pixels.shape[-1]
        return self.values(channels)[pixels, np.arange(channels)]

    def _spread(
        self, name: str, given: tuple[float, ...], channels: int
    ) -> npt.NDArray[np.float64]:
        if len(given) not in (1, channels):
            raise UsageError("PRE-003", name=name, got=len(given), channels=channels)
        return np.broadcast_to(np.asarray(given, np.float64), (channels,))

    def to_toml(self) -> str:
        """The declaration as the text of a TOML file."""
        lines = ["# preprocessing of the network's input: (byte * scale - mean) / std", "[image]"]
        for name, value in asdict(self).items():
            if isinstance(value, str):
                text = f'"{value}"'
            elif isinstance(value, tuple):
                text = "[" + ", ".join(repr(float(v)) for v in value) + "]"
            else:
                text = repr(value)
            lines.append(f"{name} = {text}")
        return "\n".join(lines) + "\n"


def load_preprocessing(path: Path) -> Preprocessing:
    """Read a declaration.

    Raises:
        UsageError: the file is missing, no TOML, or says something unknown or impossible.
    """
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except (OSError, ValueError) as error:
        raise UsageError("PRE-001", path=path, reason=str(error)) from None
    image = document.get("image")
    if not isinstance(image, dict):
        raise UsageError("PRE-001", path=path, reason="no table [image]")
    return _checked(path, image)


def _checked(path: Path, image: Mapping[str, Any]) -> Preprocessing:
    known = {field.name for field in fields(Preprocessing)}
    for name in image:
        if name not in known:
            raise UsageError("PRE-002", path=path, name=name, known=", ".join(sorted(known)))
    values: dict[str, Any] = {}
    for name, value in image.items():
        try:
            values[name] = _READ[name](value)
        except (TypeError, ValueError):
            raise UsageError("PRE-004", path=path, name=name, value=value) from None
    made = Preprocessing(**values)
    finite = np.isfinite([made.scale, made.crop, *made.mean, *made.std]).all()
    sound = 0 < made.crop <= 1 and 0 <= made.background <= 255 and all(s != 0 for s in made.std)
    if not (finite and sound and made.scale != 0):
        raise UsageError("PRE-004", path=path, name="image", value=dict(image))
    return made


def _numbers(value: Any) -> tuple[float, ...]:
    entries: list[Any] = value if isinstance(value, list) else [value]
    if not entries:
        raise ValueError
    return tuple(float(entry) for entry in entries)


_READ: Mapping[str, Any] = {
    "fit": Fit,
    "crop": float,
    "background": int,
    "colour": Colour,
    "scale": float,
    "mean": _numbers,
    "std": _numbers,
}


@dataclass(frozen=True)
class Geometry:
    """Size and axis order of an image input.

    Attributes:
        height: rows.
        width: columns.
        channels: 1 or 3.
        first: whether channels come before rows and columns.
    """

    height: int
    width: int
    channels: int
    first: bool


def image_geometry(tensor: Tensor) -> Geometry | None:
    """What image an input takes; None when it is no single image of 1 or 3 channels."""
    shape = tensor.shape
    if len(shape) != 4 or shape[0] != 1:
        return None
    first = shape[1] in (1, 3) and shape[3] not in (1, 3)
    height, width, channels = (shape[2], shape[3], shape[1]) if first else shape[1:]
    return Geometry(height, width, channels, first) if channels in (1, 3) else None


def arranged(pixels: Real, size: Geometry) -> Real:
    """Values [height, width, channels] as the input's array with its batch axis."""
    ordered = pixels.transpose(2, 0, 1) if size.first else pixels
    return np.ascontiguousarray(ordered[None])
