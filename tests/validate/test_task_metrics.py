"""Metrics of tasks against plain definitions, and against pycocotools where it is installed."""

from __future__ import annotations

import contextlib
import io
import math
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from npuforge.tasks import Preprocessing
from npuforge.tasks.boxes import Box, in_picture
from npuforge.tasks.detections import suppressed, yolo_boxes
from npuforge.tasks.preprocess import Fit, Geometry
from npuforge.tasks.resample import load_pixels
from npuforge.validate.detection_metrics import average_precision, overlaps
from npuforge.validate.task_metrics import Confusion, TopK


def test_top_k() -> None:
    top = TopK((1, 2))
    top.add(np.array([0.1, 0.7, 0.2]), 1)
    top.add(np.array([0.5, 0.1, 0.4]), 2)
    top.add(np.array([0.3, 0.3, 0.3]), 1)  # equal scores: lower classes first
    assert top.result() == {"top-1": pytest.approx(1 / 3), "top-2": 1.0}


def test_confusion_against_loops() -> None:
    rng = np.random.default_rng(0)
    truth, found = rng.integers(0, 4, 500), rng.integers(0, 5, 500)
    truth[:20] = 255
    table = Confusion(6)
    table.add(truth[:200], found[:200])
    table.add(truth[200:], found[200:])
    truth, found = truth[20:], found[20:]
    overlap, f1 = [], []
    for c in range(5):  # class 5 is never seen, class 4 never true
        tp = np.sum((truth == c) & (found == c))
        fp, fn = np.sum((truth != c) & (found == c)), np.sum((truth == c) & (found != c))
        overlap.append(tp / (tp + fp + fn))
        f1.append(2 * tp / (2 * tp + fp + fn))
    assert table.mean_iou == pytest.approx(np.mean(overlap))
    assert table.f1 == pytest.approx(np.mean(f1))
    assert table.accuracy == pytest.approx(np.mean(truth == found))


# --- boxes ---


@pytest.mark.parametrize("fit", list(Fit))
@pytest.mark.parametrize("picture", [(90, 60), (60, 90), (64, 64)])
@pytest.mark.parametrize("crop", [1.0, 0.8])
def test_boxes_go_back_to_where_they_came_from(
    fit: Fit, picture: tuple[int, int], crop: float, tmp_path: object
) -> None:
    """A white rectangle is drawn, fitted as samples are, found again and put back."""
    from pathlib import Path

    pre = replace(Preprocessing(), fit=fit, crop=crop)
    truth = np.array([picture[0] * 0.4, picture[1] * 0.45, picture[0] * 0.25, picture[1] * 0.2])
    left, top, w, h = truth.round().astype(int)
    pixels = np.zeros((picture[1], picture[0], 3), np.uint8)
    pixels[top : top + h, left : left + w] = 255
    path = Path(str(tmp_path)) / "p.png"
    Image.fromarray(pixels).save(path)
    seen = load_pixels(path, Geometry(320, 400, 3, False), pre)[..., 0] > 127
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    shares = np.array(
        [
            *(columns[0] / 400, rows[0] / 320),
            *((columns[-1] + 1 - columns[0]) / 400, (rows[-1] + 1 - rows[0]) / 320),
        ]
    )
    found = in_picture(shares[None], pre, picture, (400, 320))[0]
    np.testing.assert_allclose(found, [left, top, w, h], atol=0.6)


def test_yolo_head() -> None:
    output = np.zeros((1, 6, 50))
    output[0, :, 7] = [0.5, 0.5, 0.2, 0.4, 0.1, 0.9]
    output[0, :, 8] = [0.51, 0.5, 0.2, 0.4, 0.0, 0.8]  # the same object
    output[0, :, 9] = [0.51, 0.5, 0.2, 0.4, 0.7, 0.0]  # another class
    output[0, :, 20] = [0.2, 0.2, 0.1, 0.1, 0.0, 0.3]
    for made in (output, output.transpose(0, 2, 1)):
        boxes, scores, classes = yolo_boxes(made, 320, 320)
        assert scores.tolist() == [0.9, 0.7, 0.3]
        assert classes.tolist() == [1, 0, 1]
        np.testing.assert_allclose(boxes[0], [0.4, 0.3, 0.2, 0.4])
    pixels = output.copy()
    pixels[0, :4] *= 320
    np.testing.assert_allclose(yolo_boxes(pixels, 320, 320)[0], boxes)


def test_suppression_keeps_what_barely_overlaps() -> None:
    boxes = np.array([[0, 0, 10, 10], [0, 1, 10, 10], [0, 3, 10, 10.0]])
    assert suppressed(boxes, np.zeros(3, int)) == [0, 2]  # 9/11 is one object, 7/13 is not


# --- average precision ---


def scene(seed: int, images: int = 12) -> tuple[list[Box], list[Box]]:
    """True objects of all sizes, crowds among them, and detections near and far from them."""
    rng = np.random.default_rng(seed)
    truth, found = [], []
    for image in range(images):
        for _ in range(int(rng.integers(0, 9))):
            side = float(np.exp(rng.uniform(np.log(8), np.log(220))))
            box = (*rng.uniform(0, 300, 2), side, side * rng.uniform(0.5, 2))
            box = tuple(float(v) for v in box)
            category = int(rng.integers(1, 4))
            crowd = bool(rng.random() < 0.1)
            area = box[2] * box[3] * float(rng.uniform(0.5, 1))
            truth.append(Box(image, category, box, crowd=crowd, area=area))
            for _ in range(int(rng.integers(0, 4))):
                moved = tuple(float(v + rng.normal() * 0.12 * side) for v in box[:2])
                size = tuple(float(v * np.exp(rng.normal() * 0.15)) for v in box[2:])
                score = round(float(rng.random()), 1)  # equal scores happen
                found.append(Box(image, category, (*moved, *size), score))
        for _ in range(int(rng.integers(0, 5))):
            box = tuple(float(v) for v in (*rng.uniform(0, 300, 2), *rng.uniform(5, 150, 2)))
            found.append(Box(image, int(rng.integers(1, 4)), box, float(rng.random())))
    order = rng.permutation(len(found))
    return [found[i] for i in order], truth


def by_pycocotools(found: list[Box], truth: list[Box]) -> list[float]:
    coco = pytest.importorskip("pycocotools.coco")
    cocoeval = pytest.importorskip("pycocotools.cocoeval")
    images = sorted({b.image for b in (*found, *truth)})
    document = {
        "images": [{"id": i} for i in images],
        "categories": [{"id": c} for c in (1, 2, 3)],
        "annotations": [
            {
                "id": n + 1,
                "image_id": b.image,
                "category_id": b.category,
                "bbox": list(b.box),
                "area": b.size,
                "iscrowd": int(b.crowd),
            }
            for n, b in enumerate(truth)
        ],
    }
    with contextlib.redirect_stdout(io.StringIO()):
        base = coco.COCO()
        base.dataset = document
        base.createIndex()
        results = base.loadRes(
            [
                {
                    "image_id": b.image,
                    "category_id": b.category,
                    "bbox": list(b.box),
                    "score": b.score,
                }
                for b in found
            ]
        )
        judge = cocoeval.COCOeval(base, results, "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return list(judge.stats)


@pytest.mark.parametrize("seed", range(6))
def test_average_precision_is_pycocotools(seed: int) -> None:
    found, truth = scene(seed)
    made = average_precision(found, truth)
    np.testing.assert_allclose(list(made.values()), by_pycocotools(found, truth), atol=1e-12)


def test_many_detections_are_cut_as_pycocotools_cuts_them() -> None:
    rng = np.random.default_rng(9)
    truth = [Box(0, 1, (10.0, 10.0, 50.0, 60.0)), Box(0, 1, (100.0, 30.0, 40.0, 40.0))]
    found = [
        Box(0, 1, tuple(float(v) for v in (*rng.uniform(0, 120, 2), 45, 50)), float(rng.random()))
        for _ in range(180)
    ]
    made = average_precision(found, truth)
    expected = by_pycocotools(found, truth)
    for value, other in zip(made.values(), expected, strict=True):
        assert value == pytest.approx(other) or (math.isnan(value) and other == -1)


def test_perfect_and_empty() -> None:
    truth = [Box(0, 1, (10.0, 10.0, 50.0, 60.0)), Box(1, 2, (5.0, 5.0, 20.0, 20.0))]
    assert average_precision(truth, truth)["AP"] == pytest.approx(1.0)
    assert average_precision([], truth)["AP"] == 0.0
    assert math.isnan(average_precision(truth, [])["AP"])
    assert overlaps([], truth).shape == (0, 2)
    crowd = replace(truth[0], crowd=True)
    inside = replace(truth[0], box=(20.0, 20.0, 10.0, 10.0))
    assert overlaps([inside], [crowd]) == pytest.approx(1.0)
