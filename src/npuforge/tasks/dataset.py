"""Calibration and evaluation data: many samples, read one at a time.

A folder of pictures or recordings (folders in it are classes), arrays in .npy or .npz files (read
piece by piece), or a CSV file. Samples are real numbers, as the float network takes them.
"""

from __future__ import annotations

import wave
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from npuforge.errors import UsageError
from npuforge.graph import NUMPY_TYPES, Array, Graph, Tensor
from npuforge.tasks.images import is_image
from npuforge.tasks.preprocess import (
    Preprocessing,
    arranged,
    image_geometry,
)
from npuforge.tasks.resample import load_pixels
from npuforge.tasks.samples import read_npy, read_npz

LABEL_NAMES = ("labels", "label", "y", "targets")
"""Names under which an .npz holds class numbers rather than an input."""
_WAVE = ".wav"


@dataclass(frozen=True, eq=False)
class Sample:
    """One input of the network.

    Attributes:
        inputs: one array an input, real numbers for float and quantised inputs.
        label: class number, or None where none is known.
        source: file, or file and position.
        pixels: the bytes [height, width, channels] it was made from, for pictures.
    """

    inputs: Mapping[str, Array]
    label: int | None
    source: str
    pixels: npt.NDArray[np.uint8] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Item:
    """Where one sample lies.

    Attributes:
        path: file.
        index: position in the file; -1: the file is the sample.
        label: class number, or None.
    """

    path: Path
    index: int = -1
    label: int | None = None

    @property
    def name(self) -> str:
        """As reports call it."""
        return str(self.path) if self.index < 0 else f"{self.path}[{self.index}]"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples of a network that are read when they are asked for.

    Attributes:
        graph: the float network.
        items: where the samples lie, in a fixed order.
        classes: names of the classes, where folders give them.
        pre: preprocessing of pictures.
    """

    graph: Graph
    items: tuple[Item, ...]
    classes: tuple[str, ...] = ()
    pre: Preprocessing = field(default_factory=Preprocessing)
    _arrays: dict[Path, Mapping[str, Array]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self.items)))

    def __getitem__(self, number: int) -> Sample:
        item = self.items[number]
        if item.index < 0:
            return self._file(item)
        arrays = self._opened(item.path)
        inputs = {}
        for name in self.graph.inputs:
            tensor = self.graph.tensors[name]
            values = np.asarray(arrays[name][item.index], NUMPY_TYPES[tensor.dtype])
            inputs[name] = np.ascontiguousarray(values).reshape(tensor.shape)
        return Sample(inputs, item.label, item.name)

    def some(self, numbers: Sequence[int]) -> Dataset:
        """The samples with these numbers, as a dataset of their own."""
        items = tuple(self.items[i] for i in numbers)
        return Dataset(self.graph, items, self.classes, self.pre, self._arrays)

    def spread(self, count: int) -> Dataset:
        """At most `count` samples, evenly spread over all."""
        if count >= len(self.items):
            return self
        numbers = np.linspace(0, len(self.items) - 1, count).round().astype(int)
        return self.some([int(i) for i in numbers])

    @property
    def labels(self) -> tuple[int | None, ...]:
        """The class number of every sample."""
        return tuple(item.label for item in self.items)

    def _file(self, item: Item) -> Sample:
        name = self.graph.inputs[0]
        tensor = self.graph.tensors[name]
        if item.path.suffix.lower() == _WAVE:
            values = read_wave(item.path, tensor)
            return Sample({name: values}, item.label, item.name)
        size = image_geometry(tensor)
        if size is None:
            raise UsageError("INP-012", tensor=name, shape=list(tensor.shape))
        pixels = load_pixels(item.path, size, self.pre)
        real = arranged(self.pre.apply(pixels), size)
        inputs = {name: real.astype(NUMPY_TYPES[tensor.dtype])}
        return Sample(inputs, item.label, item.name, pixels)

    def _opened(self, path: Path) -> Mapping[str, Array]:
        if path not in self._arrays:
            self._arrays[path] = _arrays(path, self.graph)[0]
        return self._arrays[path]


def open_dataset(paths: Sequence[Path], graph: Graph, pre: Preprocessing | None = None) -> Dataset:
    """Find the samples in files and folders.

    Args:
        paths: folders of pictures or .wav files, such files, .npy, .npz or .csv files.
        graph: the float network the samples are for.
        pre: preprocessing of pictures; 0..1, middle cut, RGB when None.

    Raises:
        UsageError: nothing there, or what is there does not fit the network.
    """
    items: list[Item] = []
    classes: list[str] = []
    opened: dict[Path, Mapping[str, Array]] = {}
    for path in paths:
        if path.is_dir():
            found, names = _folder(path)
            offset = len(classes)
            items += [
                Item(i.path, label=None if i.label is None else i.label + offset) for i in found
            ]
            classes += names
        elif not path.is_file():
            raise UsageError("INP-008", path=path)
        elif _is_sample(path):
            items.append(Item(path))
        else:
            opened[path], labels, count = _arrays(path, graph)
            items += [
                Item(path, i, None if labels is None else int(labels[i])) for i in range(count)
            ]
    if not items:
        raise UsageError("DAT-001", path=", ".join(map(str, paths)))
    if any(item.index < 0 for item in items) and len(graph.inputs) != 1:
        names_ = ", ".join(graph.inputs)
        raise UsageError("DAT-002", inputs=len(graph.inputs), names=names_)
    return Dataset(graph, tuple(items), tuple(classes), pre or Preprocessing(), opened)


def _folder(folder: Path) -> tuple[list[Item], list[str]]:
    """Files of a folder; when it has folders with files in them, those are classes."""

    def wanted(place: Path) -> list[Path]:
        return sorted(p for p in place.rglob("*") if p.is_file() and _is_sample(p))

    parts = [(p.name, wanted(p)) for p in sorted(folder.iterdir()) if p.is_dir()]
    parts = [(name, files) for name, files in parts if files]
    loose = [Item(p) for p in sorted(folder.iterdir()) if p.is_file() and _is_sample(p)]
    if loose or not parts:
        nested = [Item(p) for _, files in parts for p in files]
        return loose + nested, []
    items = [Item(p, label=i) for i, (_, files) in enumerate(parts) for p in files]
    return items, [name for name, _ in parts]


def _is_sample(path: Path) -> bool:
    return is_image(path) or path.suffix.lower() == _WAVE


def _arrays(path: Path, graph: Graph) -> tuple[Mapping[str, Array], Array | None, int]:
    """The arrays of a file by input, its labels and the number of samples."""
    suffix = path.suffix.lower()
    labels: Array | None = None
    if suffix == ".csv":
        return _table(path, graph)
    if suffix == ".npz":
        named = read_npz(path)
        for name in LABEL_NAMES:
            if name in named and name not in graph.inputs and len(named) > len(graph.inputs):
                labels = np.asarray(named.pop(name)).reshape(-1)
                break
    else:
        named = {graph.inputs[0]: read_npy(path, mapped=True)}
    if len(named) != len(graph.inputs):
        names = ", ".join(graph.inputs)
        raise UsageError("INP-007", path=path, got=len(named), want=len(graph.inputs), names=names)
    if not set(graph.inputs) <= set(named):
        named = dict(zip(graph.inputs, named.values(), strict=True))
    arrays: dict[str, Array] = {}
    counts: dict[str, int] = {}
    for name in graph.inputs:
        arrays[name], counts[name] = _stacked(graph.tensors[name], named[name])
    total = max(counts.values())
    if len(set(counts.values())) > 1 or (labels is not None and len(labels) != total):
        if labels is not None:
            counts["labels"] = len(labels)
        raise UsageError("INP-009", counts=counts)
    return arrays, labels, total


def _stacked(tensor: Tensor, values: Array) -> tuple[Array, int]:
    """An array with the samples in front, and how many there are."""
    shape = tensor.shape
    if values.shape == shape:
        return values[None], 1
    if values.ndim and len(values) and values.size == len(values) * tensor.size:
        tail = values.shape[1:]
        squeezed = tuple(n for n in shape if n != 1)
        if tuple(n for n in tail if n != 1) == squeezed or len(tail) == 1:
            return values, len(values)
    raise UsageError("INP-004", tensor=tensor.name, want=list(shape), got=list(values.shape))


def _table(path: Path, graph: Graph) -> tuple[Mapping[str, Array], Array | None, int]:
    """Rows of numbers; one number more than the input takes: the last is the class."""
    tensor = graph.tensors[graph.inputs[0]]
    try:
        rows = np.loadtxt(path, np.float32, delimiter=",", ndmin=2)
    except (OSError, ValueError) as error:
        raise UsageError("INP-006", path=path, reason=str(error)) from None
    labels: Array | None = None
    if rows.shape[1] == tensor.size + 1:
        labels, rows = rows[:, -1].astype(np.int64), rows[:, :-1]
    if rows.shape[1] != tensor.size or len(graph.inputs) != 1:
        raise UsageError(
            "INP-004", tensor=tensor.name, want=[tensor.size], got=[int(rows.shape[1])]
        )
    return {tensor.name: rows}, labels, len(rows)


def read_wave(path: Path, tensor: Tensor) -> Array:
    """A recording as the samples of a waveform input, -1..1, the first channel.

    Raises:
        UsageError: no PCM file of 8, 16 or 32 bits, or shorter than the input.
    """
    try:
        with wave.open(str(path), "rb") as file:
            width, channels = file.getsampwidth(), file.getnchannels()
            raw = file.readframes(min(file.getnframes(), tensor.size))
    except (wave.Error, EOFError, OSError) as error:
        raise UsageError("INP-006", path=path, reason=str(error)) from None
    kinds: Mapping[int, tuple[str, float, float]] = {
        1: ("u1", 128.0, 128.0),
        2: ("<i2", 0.0, 32768.0),
        4: ("<i4", 0.0, 2147483648.0),
    }
    if width not in kinds:
        raise UsageError("INP-006", path=path, reason=f"{8 * width} bits a value")
    kind, zero, full = kinds[width]
    values = np.frombuffer(raw[: len(raw) // (width * channels) * width * channels], kind)
    mono = (values.reshape(-1, channels)[:, 0].astype(np.float64) - zero) / full
    if len(mono) < tensor.size:
        mono = np.pad(mono, (0, tensor.size - len(mono)))
    return mono[: tensor.size].astype(np.float32).reshape(tensor.shape)
