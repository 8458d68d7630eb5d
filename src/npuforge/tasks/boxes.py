"""Objects in pictures, and where a box of the network's input lies in the picture it came from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.tasks.preprocess import Fit, Preprocessing

Double = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Box:
    """An object in a picture, found or true.

    Attributes:
        image: number of the picture.
        category: class number.
        box: x, y of the upper left corner, width, height, in pixels.
        score: of a detection; true objects have 1.
        crowd: a group that is no single object.
        area: in square pixels; None: that of the box.
    """

    image: int
    category: int
    box: tuple[float, float, float, float]
    score: float = 1.0
    crowd: bool = False
    area: float | None = None

    @property
    def size(self) -> float:
        """Square pixels."""
        return self.box[2] * self.box[3] if self.area is None else self.area


def in_picture(
    boxes: Double, pre: Preprocessing, picture: tuple[float, float], network: tuple[int, int]
) -> Double:
    """Boxes as shares of the network's input, in pixels of the picture it was made of.

    Args:
        boxes: [n, 4]: x, y, width, height.
        pre: how the picture became the input.
        picture: its width and height in pixels.
        network: width and height of the input.
    """
    width, height = (pre.crop * side for side in picture)
    left, top = ((side - part) / 2 for side, part in zip(picture, (width, height), strict=True))
    shape = network[0] / network[1]
    wide = width / height > shape
    if pre.fit is Fit.STRETCH:
        size = (width, height)
    elif (pre.fit is Fit.CROP) is wide:
        size = (height * shape, height)  # full height: cut left and right, or filled there
    else:
        size = (width, width / shape)
    origin = (left + (width - size[0]) / 2, top + (height - size[1]) / 2)
    placed: Double = boxes * np.array([*size, *size]) + np.array([*origin, 0.0, 0.0])
    return placed
