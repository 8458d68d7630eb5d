"""Keras files as layers and arrays: .h5 of Keras 2 and 3, and .keras archives; read with h5py.

Facts of the formats: an .h5 file holds the configuration as the attribute `model_config` and the
arrays under `model_weights`; a .keras file is an archive of `config.json` and `model.weights.h5`,
where the arrays of a layer lie under its class in snake case, numbered in the order of the model.
"""

from __future__ import annotations

import importlib.util
import io
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npuforge.errors import ModelError, ToolError, UnsupportedError

ARCHIVE = b"PK\x03\x04"
MOST_LAYERS = 10_000
MOST_NESTED = 8
MOST_BYTES = 1 << 30
"""Largest member of an archive that is unpacked."""
Arrays = tuple[npt.NDArray[np.float32], ...]
_DAMAGE = (OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError, LookupError)


@dataclass(frozen=True, eq=False)
class RawLayer:
    """One layer as the file has it.

    Attributes:
        kind: class name.
        name: unique in its model.
        config: its options.
        inputs: for each use of the layer, the (layer, output) pairs it reads; empty in a
            Sequential model, whose layers read the one before.
        arrays: weights in Keras' order.
        inner: layers of a nested model.
    """

    kind: str
    name: str
    config: Mapping[str, Any]
    inputs: tuple[tuple[tuple[str, int], ...], ...]
    arrays: Arrays
    inner: RawModel | None = None


@dataclass(frozen=True, eq=False)
class RawModel:
    """A model as the file has it.

    Attributes:
        layers: in the file's order.
        inputs: (layer, output) pairs; empty for a Sequential model.
        outputs: the same.
    """

    layers: tuple[RawLayer, ...]
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]


def read_keras(content: bytes, path: str) -> RawModel:
    """Layers and arrays of a Keras file.

    Raises:
        ToolError: h5py is not installed.
        ModelError: the file is damaged, or holds weights only.
        UnsupportedError: it holds a model of no layers.
    """
    if importlib.util.find_spec("h5py") is None:
        raise ToolError("IMP-040", path=path)
    import h5py

    try:
        if content.startswith(ARCHIVE):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                config = json.loads(_member(archive, "config.json"))
                weights = h5py.File(io.BytesIO(_member(archive, "model.weights.h5")), "r")
            with weights:
                return _model(config, _Archive(weights), path, 0)
        with h5py.File(io.BytesIO(content), "r") as file:
            stored = file.attrs.get("model_config")
            if stored is None:
                raise ModelError("IMP-041", path=path, reason="no model_config: weights only")
            return _model(json.loads(stored), _Legacy(file["model_weights"]), path, 0)
    except ModelError:
        raise
    except (*_DAMAGE, zipfile.BadZipFile, RecursionError) as error:
        raise ModelError("IMP-041", path=path, reason=f"{type(error).__name__}: {error}") from None


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > MOST_BYTES:
        raise ValueError(f"{name} is too large")
    return archive.read(name)


class _Legacy:
    """Arrays of an .h5 file, by layer name; those of nested models lie under the outer layer."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def arrays(self, kind: str, name: str) -> Arrays:
        """Arrays of a layer."""
        if name not in self._group:
            return ()
        group = self._group[name]
        names = group.attrs.get("weight_names", ())
        return tuple(_array(group[_text(entry)]) for entry in names)

    def nested(self, kind: str, name: str) -> _Nested:
        """Arrays of the layers in a nested model."""
        return _Nested(self._group[name])


class _Nested:
    """Arrays of a nested model in an .h5 file: named "layer/weight:0" in one list."""

    def __init__(self, group: Any) -> None:
        self._group = group
        self._names = [_text(entry) for entry in group.attrs.get("weight_names", ())]

    def arrays(self, kind: str, name: str) -> Arrays:
        """Arrays of a layer."""
        own = [entry for entry in self._names if name in entry.split("/")[:-1]]
        return tuple(_array(self._group[entry]) for entry in own)

    def nested(self, kind: str, name: str) -> _Nested:
        """The list is flat."""
        return self


class _Archive:
    """Arrays of a .keras archive: layers are numbered by class, in the model's order."""

    def __init__(self, group: Any) -> None:
        self._group = (
            group["layers"] if "layers" in group else group["_layer_checkpoint_dependencies"]
        )
        self._seen: dict[str, int] = {}

    def _place(self, kind: str, name: str) -> Any:
        snake = _snake(kind)
        count = self._seen.get(snake, 0)
        self._seen[snake] = count + 1
        numbered = snake if count == 0 else f"{snake}_{count}"
        chosen = name if name in self._group and numbered not in self._group else numbered
        return self._group.get(chosen)

    def arrays(self, kind: str, name: str) -> Arrays:
        """Arrays of a layer."""
        place = self._place(kind, name)
        if place is None or "vars" not in place:
            return ()
        entries = place["vars"]
        return tuple(_array(entries[key]) for key in sorted(entries, key=int))

    def nested(self, kind: str, name: str) -> _Archive:
        """Arrays of the layers in a nested model."""
        return _Archive(self._place(kind, name))


def _snake(name: str) -> str:
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _array(dataset: Any) -> npt.NDArray[np.float32]:
    if dataset.size * 4 > MOST_BYTES:
        raise ValueError(f"{dataset.name} is too large")
    return np.ascontiguousarray(np.asarray(dataset), np.float32)


Weights = _Legacy | _Nested | _Archive


def _model(config: Mapping[str, Any], weights: Weights, path: str, depth: int) -> RawModel:
    inner = config["config"]
    entries: Sequence[Mapping[str, Any]] = inner["layers"] if isinstance(inner, dict) else inner
    if not entries or len(entries) > MOST_LAYERS or depth > MOST_NESTED:
        raise UnsupportedError("IMP-041", path=path, reason=f"{len(entries)} layers")
    layers = []
    for entry in entries:
        kind = str(entry["class_name"])
        options = entry["config"]
        nested = kind in ("Sequential", "Functional", "Model")
        name = str(entry.get("name") or (options["name"] if isinstance(options, dict) else kind))
        layers.append(
            RawLayer(
                kind,
                name,
                options if isinstance(options, dict) else {},
                _inbound(entry.get("inbound_nodes", ())),
                () if nested else weights.arrays(kind, name),
                _model(entry, weights.nested(kind, name), path, depth + 1) if nested else None,
            )
        )
    ends = [_ends(inner.get(key, ())) if isinstance(inner, dict) else () for key in
            ("input_layers", "output_layers")]  # fmt: skip
    return RawModel(tuple(layers), ends[0], ends[1])


def _ends(entries: Any) -> tuple[tuple[str, int], ...]:
    if entries and isinstance(entries[0], str):
        entries = [entries]
    return tuple((str(entry[0]), int(entry[2])) for entry in entries)


def _inbound(nodes: Any) -> tuple[tuple[tuple[str, int], ...], ...]:
    """What each use of a layer reads, from both forms of the configuration."""
    found = []
    for node in nodes:
        if isinstance(node, dict):
            found.append(tuple(_tensors(node.get("args", ()))))
        else:
            pairs = [node] if node and isinstance(node[0], str) else node
            found.append(tuple((str(pair[0]), int(pair[2])) for pair in pairs))
    return tuple(found)


def _tensors(value: Any) -> list[tuple[str, int]]:
    """Tensors named anywhere in the arguments of a call."""
    if isinstance(value, dict):
        if value.get("class_name") == "__keras_tensor__":
            history = value["config"]["keras_history"]
            return [(str(history[0]), int(history[2]))]
        return [pair for part in value.values() for pair in _tensors(part)]
    if isinstance(value, list | tuple):
        return [pair for part in value for pair in _tensors(part)]
    return []
