"""How a picture comes to the network's size, as tables that a board computes with too.

Weights are those of Pillow's bilinear filter: a triangle as wide as the reduction, in fixed point
with 22 fraction bits, each pass rounded to bytes. The order of the passes is ours, across before
down; Pillow's own depends on its version and the sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from npuforge.errors import UsageError
from npuforge.tasks.images import decode_image
from npuforge.tasks.preprocess import Colour, Fit, Geometry, Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

FRACTION_BITS = 22
"""Pillow's: 32 bits less 8 of a byte and 2 of head room."""


@dataclass(frozen=True, eq=False)
class AxisTable:
    """One direction: output i is the sum of weights[i, k] * input[first[i] + k].

    Attributes:
        first: int32 [outputs], not falling.
        count: int32 [outputs], inputs of each output.
        weights: int32 [outputs, taps] in units of 2 ** -22; zero from `count` on.
    """

    first: npt.NDArray[np.int32]
    count: npt.NDArray[np.int32]
    weights: npt.NDArray[np.int32]

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return len(self.first)

    @property
    def taps(self) -> int:
        """Most inputs of one output."""
        return int(self.weights.shape[1])


@dataclass(frozen=True, eq=False)
class FramePlan:
    """From a frame to the network's picture.

    Attributes:
        width: columns of the frame.
        height: rows of the frame.
        part: what of the frame is looked at: left, top, right, bottom.
        box: what of that part is scaled: left, top, right, bottom.
        scaled: columns and rows it is scaled to.
        left: column of the network's picture where they begin.
        top: row where they begin.
    """

    width: int
    height: int
    part: tuple[int, int, int, int]
    box: tuple[float, float, float, float]
    scaled: tuple[int, int]
    left: int
    top: int

    def across(self) -> AxisTable:
        """Columns of the scaled part."""
        x, _, right, _ = self.part
        return axis_table(x, self.box[0], self.box[2], right - x, self.scaled[0])

    def down(self) -> AxisTable:
        """Rows of the scaled part."""
        _, y, _, bottom = self.part
        return axis_table(y, self.box[1], self.box[3], bottom - y, self.scaled[1])


def axis_table(offset: int, start: float, end: float, size: int, outputs: int) -> AxisTable:
    """Weights of one direction.

    Args:
        offset: added to every position.
        start: first position of the part that is scaled, in inputs.
        end: end position of it.
        size: inputs there are.
        outputs: outputs to make.
    """
    low, high = np.float32(start), np.float32(end)
    scale = float(high - low) / outputs
    support = max(scale, 1.0)
    taps = math.ceil(support) * 2 + 1
    first = np.zeros(outputs, np.int32)
    count = np.zeros(outputs, np.int32)
    weights = np.zeros((outputs, taps), np.int32)
    for i in range(outputs):
        center = float(low) + (i + 0.5) * scale
        begin = max(int(center - support + 0.5), 0)
        stop = min(int(center + support + 0.5), size)
        positions = np.arange(begin, stop, dtype=np.float64)
        values = np.maximum(0.0, 1.0 - np.abs((positions - center + 0.5) / support))
        values /= values.sum()
        first[i], count[i] = offset + begin, stop - begin
        weights[i, : stop - begin] = (values * (1 << FRACTION_BITS) + 0.5).astype(np.int32)
    return AxisTable(first, count, weights[:, : max(1, int(count.max()))])


def plan_frame(pre: Preprocessing, size: Geometry, width: int, height: int) -> FramePlan:
    """What a declaration does to frames of one size.

    Args:
        pre: the declaration.
        size: of the network's picture.
        width: columns of the frame.
        height: rows of the frame.

    Raises:
        UsageError: nothing of the frame would be left.
    """
    part_w, part_h = width * pre.crop, height * pre.crop
    x, y = (width - part_w) / 2, (height - part_h) / 2
    part = (round(x), round(y), round(x + part_w), round(y + part_h))
    w, h = part[2] - part[0], part[3] - part[1]
    out_w, out_h = size.width, size.height
    box = (0.0, 0.0, float(w), float(h))
    if w > 0 and h > 0:
        if pre.fit is Fit.CROP:
            box = _middle(w, h, out_w, out_h)
        elif pre.fit is Fit.LETTERBOX:
            out_w, out_h = _contained(w, h, out_w, out_h)
    if min(w, h, out_w, out_h) < 1:
        raise UsageError("PRE-005", width=width, height=height)
    left, top = round((size.width - out_w) * 0.5), round((size.height - out_h) * 0.5)
    return FramePlan(width, height, part, box, (out_w, out_h), left, top)


def _middle(w: int, h: int, out_w: int, out_h: int) -> tuple[float, float, float, float]:
    """The middle part of the output's proportions."""
    part_w, part_h = float(w), float(h)
    have, want = w / h, out_w / out_h
    if have > want:
        part_w = want * h
    elif have < want:
        part_h = w / want
    left, top = (w - part_w) * 0.5, (h - part_h) * 0.5
    return left, top, left + part_w, top + part_h


def _contained(w: int, h: int, out_w: int, out_h: int) -> tuple[int, int]:
    """The largest size of the picture's proportions inside of the output."""
    have, want = w / h, out_w / out_h
    if have > want:
        out_h = round(h / w * out_w)
    elif have < want:
        out_w = round(w / h * out_h)
    return out_w, out_h


def load_pixels(path: Path, size: Geometry, pre: Preprocessing) -> npt.NDArray[np.uint8]:
    """A picture as bytes [height, width, channels] in the declared size and colour order.

    Raises:
        UsageError: not a picture that can be read, or nothing of it would be left.
    """
    shape = (size.height, size.width, size.channels)
    pixels = decode_image(path, shape, lambda whole: _fitted(whole, size, pre))
    if pre.colour is Colour.BGR and size.channels == 3:
        pixels = pixels[..., ::-1]
    return pixels


def _fitted(whole: Picture, size: Geometry, pre: Preprocessing) -> Picture:
    """The declared part of a picture in the network's size."""
    from PIL import Image

    plan = plan_frame(pre, size, whole.width, whole.height)
    part, how = whole.crop(plan.part), Image.Resampling.BILINEAR
    (left, top, right, bottom), (columns, rows) = plan.box, plan.scaled
    # one direction a call, or Pillow chooses which comes first
    wide = part.resize((columns, part.height), how, box=(left, 0, right, part.height))
    scaled = wide.resize((columns, rows), how, box=(0, top, columns, bottom))
    if scaled.size == (size.width, size.height):
        return scaled
    grey = pre.background
    fill = grey if size.channels == 1 else (grey, grey, grey)
    picture = Image.new(whole.mode, (size.width, size.height), fill)
    picture.paste(scaled, (plan.left, plan.top))
    return picture
