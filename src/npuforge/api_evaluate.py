"""Evaluating networks at their task: part of the Python side; `npuforge.api` offers all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from npuforge.api_quantize import samples_of
from npuforge.errors import UsageError
from npuforge.graph import Graph
from npuforge.numerics import Executor
from npuforge.tasks import Dataset
from npuforge.tasks.detections import load_truth
from npuforge.tasks.samples import read_npy, read_npz
from npuforge.validate.evaluate import (
    Contender,
    Evaluation,
    Task,
    TaskName,
    Tick,
    evaluate,
    real_inputs,
)

PathLike = str | os.PathLike[str]
OWN = "own"
"""The arithmetic of a model's own file format, as a contract."""


def evaluate_model(
    model: PathLike,
    *,
    data: Sequence[PathLike],
    reference: PathLike | None = None,
    contracts: Sequence[str] = (OWN,),
    masks: PathLike | None = None,
    truth: PathLike | None = None,
    top: Sequence[int] = (1, 5),
    preprocess: PathLike | None = None,
    image_range: str | None = None,
    samples: int = 0,
    fix_shape: Sequence[str] = (),
    tick: Tick | None = None,
) -> tuple[TaskName, int, tuple[Evaluation, ...]]:
    """Measure a network at its task, under several arithmetics and beside its float network.

    What is measured follows from what is given: `masks` mean IoU, `truth` average precision, labels
    of the samples top-k and F1; without any of them tensors are compared with the reference's.

    Args:
        model: TFLite, ONNX or Keras file.
        data: samples of real numbers; see `quantize_model`.
        reference: float network that everything is compared with; without one the first contract.
        contracts: arithmetics by name; "own" is that of the file.
        masks: .npy or .npz of class numbers, [samples, rows, columns]; 255 does not count.
        truth: objects in COCO's instances format, for pictures by their file names.
        top: the k of top-k.
        preprocess, image_range, fix_shape: see `quantize_model`.
        samples: at most so many, spread over all; 0: all.
        tick: told samples done and samples in all.

    Returns:
        The task, the number of samples, and one evaluation a network, the reference first.

    Raises:
        NpuforgeError: a file or contract cannot be used, or there is nothing to measure.
    """
    from npuforge import api

    contenders = []
    if reference is not None:
        whole = api.load_graph(reference, None, fix_shape)
        contenders.append(Contender(Path(reference).name, whole, Executor(whole)))
    first: Graph | None = contenders[0].graph if contenders else None
    for name in contracts:
        graph = api.load_graph(model, None if name == OWN else name, fix_shape)
        label = Path(model).name if name == OWN else f"{Path(model).name} as {name}"
        contenders.append(Contender(label, graph, api.make_executor(graph)))
        first = graph if first is None else first
    if first is None:
        raise UsageError("EVL-005")
    found = samples_of(real_inputs(first), data, preprocess, image_range)
    task = _task(found, masks, truth, top)
    if task.name is TaskName.TENSORS and len(contenders) < 2:
        raise UsageError("EVL-005")
    if samples and samples < len(found):
        if task.masks is not None:
            raise UsageError("EVL-006")
        found = found.spread(samples)
    return task.name, len(found), evaluate(contenders, found, task, tick)


def _task(
    data: Dataset, masks: PathLike | None, truth: PathLike | None, top: Sequence[int]
) -> Task:
    if masks is not None:
        path = Path(masks)
        stored = next(iter(read_npz(path).values())) if path.suffix == ".npz" else read_npy(path)
        if stored.ndim != 3 or len(stored) != len(data):
            raise UsageError(
                "EVL-007", path=path, got=list(stored.shape), want=f"{len(data)} x rows x columns"
            )
        return Task(TaskName.SEGMENTATION, masks=stored)
    if truth is not None:
        return Task(TaskName.DETECTION, truth=load_truth(Path(truth)))
    if any(label is not None for label in data.labels):
        return Task(TaskName.CLASSES, top=tuple(top))
    return Task(TaskName.TENSORS)
