"""True objects from a COCO file, and detections from the raw outputs of a detector."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from npuforge.errors import UsageError
from npuforge.graph import Array
from npuforge.tasks.boxes import Box

Double = npt.NDArray[np.float64]
LEAST_SCORE = 0.001
"""Detections below are left out: they hardly change an average precision."""
MOST_BOXES = 300
OVERLAP = 0.7
"""Intersection over union from which on two boxes of a class are one object."""


@dataclass(frozen=True, eq=False)
class Truth:
    """Objects of a COCO file.

    Attributes:
        images: number of each picture by file name (without folders).
        sizes: width and height of each picture by number.
        boxes: all objects.
        categories: category numbers in rising order: class i of a network is the i-th.
    """

    images: Mapping[str, int]
    sizes: Mapping[int, tuple[float, float]]
    boxes: tuple[Box, ...]
    categories: tuple[int, ...]


def load_truth(path: Path) -> Truth:
    """Read a file of COCO's instances format.

    Raises:
        UsageError: it is none.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        images = {Path(str(i["file_name"])).name: int(i["id"]) for i in document["images"]}
        sizes = {int(i["id"]): (float(i["width"]), float(i["height"])) for i in document["images"]}
        boxes = []
        for item in document["annotations"]:
            x, y, w, h = (float(v) for v in item["bbox"])
            crowd = bool(item.get("iscrowd", 0))
            area = float(item["area"]) if "area" in item else None
            place = int(item["image_id"]), int(item["category_id"])
            boxes.append(Box(*place, (x, y, w, h), crowd=crowd, area=area))
        categories = tuple(sorted(int(c["id"]) for c in document["categories"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError("EVL-001", path=path, reason=repr(error)) from None
    return Truth(images, sizes, tuple(boxes), categories)


def yolo_boxes(
    output: Array, width: int, height: int
) -> tuple[Double, Double, npt.NDArray[np.int64]]:
    """Boxes of a YOLO head without objectness (YOLOv8 and later), after suppression.

    Args:
        output: real numbers, [1, 4 + classes, candidates] or the last two axes exchanged; middle,
            width and height of boxes as shares of the picture, or in pixels of the input.
        width, height: of the network's input in pixels.

    Returns:
        Boxes [n, 4] as shares of the input (x, y of a corner, width, height), scores, classes.

    Raises:
        UsageError: no such head.
    """
    values = np.asarray(output, np.float64)
    if values.ndim != 3 or values.shape[0] != 1 or min(values.shape[1:]) < 5:
        raise UsageError("EVL-002", shape=list(values.shape))
    rows = values[0].T if values.shape[1] < values.shape[2] else values[0]
    classes, scores = rows[:, 4:].argmax(axis=1), rows[:, 4:].max(axis=1)
    kept = np.argsort(-scores, kind="stable")
    kept = kept[scores[kept] >= LEAST_SCORE][: 10 * MOST_BOXES]
    boxes = rows[kept, :4]
    if boxes.size and boxes.max() > 2.0:
        boxes = boxes / np.array([width, height, width, height])
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, 2:]], axis=1)
    chosen = suppressed(corners, classes[kept])[:MOST_BOXES]
    return corners[chosen], scores[kept][chosen], classes[kept][chosen]


def suppressed(boxes: Double, classes: npt.NDArray[np.int64]) -> list[int]:
    """Boxes that no better one of their class overlaps; the best are given first."""
    areas = boxes[:, 2] * boxes[:, 3]
    chosen: list[int] = []
    for i in range(len(boxes)):
        rivals = [j for j in chosen if classes[j] == classes[i]]
        if rivals:
            a, b = boxes[i], boxes[rivals]
            wide = np.minimum(a[0] + a[2], b[:, 0] + b[:, 2]) - np.maximum(a[0], b[:, 0])
            high = np.minimum(a[1] + a[3], b[:, 1] + b[:, 3]) - np.maximum(a[1], b[:, 1])
            shared = np.clip(wide, 0, None) * np.clip(high, 0, None)
            union = np.maximum(areas[i] + areas[rivals] - shared, 1e-12)
            if float((shared / union).max()) > OVERLAP:
                continue
        chosen.append(i)
        if len(chosen) >= MOST_BOXES:
            break
    return chosen
