"""Networks at their task, side by side: the float one and the integer one under each contract.

Every sample goes through all of them before the next one is read, so that memory does not grow with
the data and differences can be told sample by sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from npuforge.errors import UsageError
from npuforge.graph import Array, Graph, Tensor
from npuforge.passes.framework import real_numbers
from npuforge.passes.measure import kept_argmax
from npuforge.quantize.measure import Tally
from npuforge.quantize.score import predicted
from npuforge.tasks import Dataset, Sample
from npuforge.tasks.boxes import Box, in_picture
from npuforge.tasks.detections import Truth, yolo_boxes
from npuforge.tasks.images import store
from npuforge.tasks.preprocess import image_geometry
from npuforge.validate.detection_metrics import average_precision
from npuforge.validate.task_metrics import Confusion, TopK
from npuforge.vocab import DType

Double = npt.NDArray[np.float64]
Tick = Callable[[int, int], None]


class Runner(Protocol):
    """What runs a network."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name."""


@dataclass(frozen=True, eq=False)
class Contender:
    """A network under an arithmetic.

    Attributes:
        name: as the table calls it.
        graph: whose inputs and outputs count.
        runner: runs it.
    """

    name: str
    graph: Graph
    runner: Runner

    def outputs(self, sample: Sample) -> list[Double]:
        """Real numbers of every output of a sample of real numbers.

        Raises:
            UsageError: an input has another shape.
        """
        fed = {}
        for name, values in zip(self.graph.inputs, sample.inputs.values(), strict=True):
            tensor = self.graph.tensors[name]
            if values.shape != tensor.shape:
                want, got = list(tensor.shape), list(values.shape)
                raise UsageError("EVL-003", name=self.name, tensor=name, want=want, got=got)
            integers = tensor.quantization is not None and not tensor.dtype.is_float
            fed[name] = store(tensor, values.astype(np.float32)) if integers else values
        found = self.runner.run(fed)
        tensors = self.graph.tensors
        return [real_numbers(found[o], tensors[o].quantization) for o in self.graph.outputs]


class TaskName(StrEnum):
    """What answers are held against."""

    CLASSES = "classes"
    """The label of each sample."""
    SEGMENTATION = "segmentation"
    """The class of each pixel."""
    DETECTION = "detection"
    """The objects in each picture."""
    TENSORS = "tensors"
    """Nothing but the first network's outputs."""


@dataclass(frozen=True)
class Evaluation:
    """One network.

    Attributes:
        name: of the contender.
        figures: of the task, by name.
        agreement: share of rows of the first output whose largest value is where the first
            contender has it; None of the first itself, and without classes.
        sqnr: of the worst output against the first contender's, dB; None of the first itself.
        cosine: likewise.
    """

    name: str
    figures: Mapping[str, float]
    agreement: float | None
    sqnr: float | None
    cosine: float | None


@dataclass(frozen=True, eq=False)
class Task:
    """What is asked.

    Attributes:
        name: see `TaskName`.
        top: for classes: the k of top-k.
        masks: for segmentation: class of each pixel, [samples, rows, columns].
        truth: for detection.
    """

    name: TaskName
    top: tuple[int, ...] = (1, 5)
    masks: Array | None = None
    truth: Truth | None = None


def real_inputs(graph: Graph) -> Graph:
    """The graph as datasets are opened for: its quantised inputs take real numbers."""
    tensors = dict(graph.tensors)
    for name in graph.inputs:
        tensor = tensors[name]
        if tensor.quantization is not None and not tensor.dtype.is_float:
            tensors[name] = Tensor(name, tensor.shape, DType.FLOAT32)
    return replace(graph, tensors=tensors)


class _Judge(Protocol):
    def add(self, sample: Sample, number: int, outputs: Sequence[Double]) -> None: ...

    def result(self) -> dict[str, float]: ...


class _Classes:
    def __init__(self, task: Task, graph: Graph) -> None:
        size = max(graph.tensors[graph.outputs[0]].size, 2)
        self._top = TopK([k for k in task.top if k < size])
        self._table = Confusion(size)

    def add(self, sample: Sample, number: int, outputs: Sequence[Double]) -> None:
        if sample.label is None:
            return
        scores = outputs[0].reshape(-1)
        if scores.size == 1:  # a sigmoid: the second class from a half on
            scores = np.array([1.0 - scores[0], scores[0]])
        self._top.add(scores, sample.label)
        self._table.add(sample.label, predicted(outputs[0]))

    def result(self) -> dict[str, float]:
        return {**self._top.result(), "F1": self._table.f1}


class _Segmentation:
    def __init__(self, task: Task, graph: Graph) -> None:
        assert task.masks is not None
        self._masks = task.masks
        shape = graph.tensors[graph.outputs[0]].shape
        if len(shape) != 4:
            raise UsageError("EVL-004", shape=list(shape))
        self._axis = 1 if shape[1] < shape[3] else 3
        self._table = Confusion(max(shape[self._axis], 2))

    def add(self, sample: Sample, number: int, outputs: Sequence[Double]) -> None:
        maps = np.moveaxis(outputs[0], self._axis, -1)[0]
        one = maps.shape[-1] == 1
        found = (maps[..., 0] > 0.5).astype(np.int64) if one else maps.argmax(axis=-1)
        mask = np.asarray(self._masks[number])
        # the answer is brought to the mask's size: its classes are what was drawn
        rows, columns = (
            (np.arange(n) * size // n) for n, size in zip(mask.shape, found.shape, strict=True)
        )
        self._table.add(mask, found[np.ix_(rows, columns)])

    def result(self) -> dict[str, float]:
        return {"mIoU": self._table.mean_iou, "pixels": self._table.accuracy}


class _Detection:
    def __init__(self, task: Task, graph: Graph, data: Dataset) -> None:
        assert task.truth is not None
        self._truth, self._pre = task.truth, data.pre
        size = image_geometry(data.graph.tensors[data.graph.inputs[0]])
        if size is None:
            shape = list(data.graph.tensors[data.graph.inputs[0]].shape)
            raise UsageError("INP-012", tensor=data.graph.inputs[0], shape=shape)
        self._size = (size.width, size.height)
        self._names = [item.path.name for item in data.items]
        self._found: list[Box] = []

    def add(self, sample: Sample, number: int, outputs: Sequence[Double]) -> None:
        truth = self._truth
        image = truth.images.get(self._names[number])
        if image is None:
            return
        boxes, scores, classes = yolo_boxes(outputs[0], *self._size)
        placed = in_picture(boxes, self._pre, truth.sizes[image], self._size)
        for box, score, found in zip(placed, scores, classes, strict=True):
            if found < len(truth.categories):
                x, y, w, h = (float(v) for v in box)
                category = truth.categories[found]
                self._found.append(Box(image, category, (x, y, w, h), float(score)))

    def result(self) -> dict[str, float]:
        seen = {self._truth.images[n] for n in self._names if n in self._truth.images}
        made = average_precision(self._found, [b for b in self._truth.boxes if b.image in seen])
        return {name: made[name] for name in ("AP", "AP50", "AP75", "AR100")}


class _Nothing:
    def add(self, sample: Sample, number: int, outputs: Sequence[Double]) -> None:
        pass

    def result(self) -> dict[str, float]:
        return {}


def _judge(task: Task, graph: Graph, data: Dataset) -> _Judge:
    if task.name is TaskName.CLASSES:
        return _Classes(task, graph)
    if task.name is TaskName.SEGMENTATION:
        return _Segmentation(task, graph)
    if task.name is TaskName.DETECTION:
        return _Detection(task, graph, data)
    return _Nothing()


@dataclass
class _Row:
    contender: Contender
    judge: _Judge
    ends: list[Tally] = field(default_factory=list)
    kept: float = 0.0
    rows: int = 0


def evaluate(
    contenders: Sequence[Contender], data: Dataset, task: Task, tick: Tick | None = None
) -> tuple[Evaluation, ...]:
    """Run everything on everything.

    Args:
        contenders: the first is what the others are compared with.
        data: samples of real numbers.
        task: what answers are held against.
        tick: told samples done and samples in all.

    Raises:
        UsageError: an output is not of the task's form, or an input of another shape.
    """
    rows = [_Row(c, _judge(task, c.graph, data)) for c in contenders]
    for number, sample in enumerate(data):
        truth: list[Double] | None = None
        for row in rows:
            outputs = row.contender.outputs(sample)
            row.judge.add(sample, number, outputs)
            if truth is None:
                truth = outputs
            else:
                _compare(row, truth, outputs)
        if tick is not None:
            tick(number + 1, len(data))
    return tuple(_evaluation(row) for row in rows)


def _compare(row: _Row, truth: Sequence[Double], outputs: Sequence[Double]) -> None:
    row.ends = row.ends or [Tally() for _ in truth]
    for number, (real, found) in enumerate(zip(truth, outputs, strict=True)):
        row.ends[number].add(real, found.reshape(real.shape))
    first = truth[0]
    if first.ndim and first.shape[-1] > 1 and first.ndim in (1, 2, 4):
        same = kept_argmax(first, outputs[0].reshape(first.shape))
        row.kept, row.rows = row.kept + float(same.sum()), row.rows + same.size


def _evaluation(row: _Row) -> Evaluation:
    return Evaluation(
        row.contender.name,
        row.judge.result(),
        row.kept / row.rows if row.rows else None,
        min((end.sqnr for end in row.ends), default=None),
        min((end.cosine for end in row.ends), default=None),
    )
