"""Input files as samples: npy, npz, csv and pictures; one sample or many."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

from npuforge.errors import UsageError
from npuforge.graph import NUMPY_TYPES, Array, Graph, Tensor
from npuforge.numerics import check_input
from npuforge.tasks.images import ImageRange, image_to_input, is_image, store


class Axis(Enum):
    """How samples lie in the arrays of a file, and so in the arrays of the results."""

    SINGLE = "one sample, shaped like the input"
    STACKED = "a sample axis in front of the input's shape"
    BATCH = "the batch axis of 1 holds the samples"


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of all inputs of a network.

    Attributes:
        samples: one mapping of input name to array a sample.
        axis: how they lay in the file.
        notes: what was assumed on the way, for the user.
    """

    samples: tuple[Mapping[str, Array], ...]
    axis: Axis = Axis.SINGLE
    notes: tuple[str, ...] = ()

    def join(self, results: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
        """Results of all samples as arrays with the samples where the input file had them."""
        if self.axis is Axis.SINGLE:
            return dict(results[0])
        joined = {}
        for name, first in results[0].items():
            values = [result[name] for result in results]
            batch = self.axis is Axis.BATCH and first.ndim > 0 and first.shape[0] == 1
            joined[name] = np.concatenate(values) if batch else np.stack(values)
        return joined


def load_samples(
    paths: Sequence[Path],
    graph: Graph,
    *,
    real: bool = False,
    image_range: ImageRange | None = None,
) -> Samples:
    """Read the samples of a network from files.

    Args:
        paths: one .npz with all inputs, one file an input in the model's order, or pictures
            (several pictures are several samples).
        graph: the network.
        real: arrays hold real numbers that are to be quantised for quantised inputs.
        image_range: what black and white are to the network; guessed when None.

    Raises:
        UsageError: a file is missing or unreadable, or does not fit the network.
    """
    for path in paths:
        if not path.is_file():
            raise UsageError("INP-008", path=path)
    if all(is_image(path) for path in paths) and len(graph.inputs) == 1:
        return _pictures(paths, graph, image_range)
    arrays: dict[str, Array] = {}
    if len(paths) == 1 and paths[0].suffix.lower() == ".npz":
        arrays = _named(paths[0], read_npz(paths[0]), graph)
    else:
        if len(paths) != len(graph.inputs):
            raise UsageError(
                "INP-007",
                path=", ".join(map(str, paths)),
                got=len(paths),
                want=len(graph.inputs),
                names=", ".join(graph.inputs),
            )
        for path, name in zip(paths, graph.inputs, strict=True):
            arrays[name] = _read_array(path, graph, graph.tensors[name], image_range)
    if real:
        arrays = {n: _quantized(graph.tensors[n], a) for n, a in arrays.items()}
    return split_samples(arrays, graph)


def _pictures(paths: Sequence[Path], graph: Graph, image_range: ImageRange | None) -> Samples:
    tensor = graph.tensors[graph.inputs[0]]
    samples = []
    used = image_range
    for path in paths:
        array, used = image_to_input(path, graph, tensor, image_range)
        samples.append({tensor.name: array})
    notes = () if image_range is not None or used is None else (used.value,)
    return Samples(tuple(samples), Axis.SINGLE if len(paths) == 1 else Axis.BATCH, notes)


def _quantized(tensor: Tensor, array: Array) -> Array:
    if array.dtype.kind == "f" and tensor.quantization is not None:
        return store(tensor, array.astype(np.float32))
    if array.dtype.kind == "f" and tensor.dtype.is_float:
        return array.astype(NUMPY_TYPES[tensor.dtype])
    return array


def _read_array(path: Path, graph: Graph, tensor: Tensor, image_range: ImageRange | None) -> Array:
    suffix = path.suffix.lower()
    if is_image(path):
        return image_to_input(path, graph, tensor, image_range)[0]
    try:
        if suffix == ".csv":
            rows = np.loadtxt(path, np.float64, delimiter=",", ndmin=2)
            return _from_csv(path, tensor, rows)
        if suffix == ".npz":
            return next(iter(read_npz(path).values()))
    except (OSError, ValueError, EOFError, StopIteration) as error:
        raise UsageError("INP-006", path=path, reason=str(error)) from None
    return read_npy(path)


def _from_csv(path: Path, tensor: Tensor, rows: Array) -> Array:
    if rows.shape[1] != tensor.size:
        raise UsageError(
            "INP-004", tensor=tensor.name, want=[tensor.size], got=[int(rows.shape[1])]
        )
    if not tensor.dtype.is_float and not np.array_equal(rows, np.rint(rows)):
        # text has no type: numbers with a fraction are real values
        return rows.astype(np.float32).reshape(len(rows), *tensor.shape)
    return rows.astype(NUMPY_TYPES[tensor.dtype]).reshape(len(rows), *tensor.shape)


def read_npy(path: Path, *, mapped: bool = False) -> Array:
    """The array of an .npy file.

    Args:
        path: file.
        mapped: leave the numbers in the file until they are read.

    Raises:
        UsageError: not such a file, or a damaged one.
    """
    try:
        loaded: Array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError("INP-006", path=path, reason=str(error)) from None
    if not isinstance(loaded, np.ndarray):
        raise UsageError("INP-006", path=path, reason="not an .npy file")
    return loaded


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an .npz file by name.

    Raises:
        UsageError: not such a file, or a damaged one.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise UsageError("INP-006", path=path, reason=str(error)) from None


def _named(path: Path, arrays: Mapping[str, Array], graph: Graph) -> dict[str, Array]:
    if set(graph.inputs) <= set(arrays):
        return {name: arrays[name] for name in graph.inputs}
    if len(arrays) != len(graph.inputs):
        raise UsageError(
            "INP-007",
            path=path,
            got=len(arrays),
            want=len(graph.inputs),
            names=", ".join(graph.inputs),
        )
    return dict(zip(graph.inputs, arrays.values(), strict=True))


def split_samples(arrays: Mapping[str, Array], graph: Graph) -> Samples:
    """Take arrays apart into samples.

    Raises:
        UsageError: an array has another type or shape, or the numbers of samples differ.
    """
    axes: dict[str, Axis] = {}
    for name, array in arrays.items():
        tensor = graph.tensors[name]
        shape = tensor.shape
        if array.shape == shape:
            axes[name] = Axis.SINGLE
        elif array.ndim == 0:
            check_input(tensor, array)
        elif array.shape[1:] == shape and array.shape[0] > 0:
            axes[name] = Axis.STACKED
        elif shape and shape[0] == 1 and array.shape[1:] == shape[1:] and array.shape[0] > 0:
            axes[name] = Axis.BATCH
        else:
            check_input(tensor, array)
    counts = {name: 1 if axis is Axis.SINGLE else len(arrays[name]) for name, axis in axes.items()}
    total = max(counts.values(), default=1)
    if any(count not in (1, total) for count in counts.values()):
        raise UsageError("INP-009", counts=counts)
    samples = []
    for index in range(total):
        sample = {}
        for name, array in arrays.items():
            part = array if axes[name] is Axis.SINGLE else array[index % counts[name]]
            sample[name] = part.reshape(graph.tensors[name].shape)
            check_input(graph.tensors[name], sample[name])
        samples.append(sample)
    return Samples(tuple(samples), _overall(axes.values(), total))


def _overall(axes: Iterable[Axis], total: int) -> Axis:
    kinds = set(axes)
    if Axis.STACKED in kinds:
        return Axis.STACKED
    if Axis.BATCH in kinds or total > 1:
        return Axis.BATCH
    return Axis.SINGLE
