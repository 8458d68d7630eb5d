"""Reading a model file of any supported format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from npuforge.errors import ModelError, UnsupportedError, UsageError
from npuforge.graph import Graph, verify

MAX_FILE_BYTES = 1 << 30
"""Largest model file npuforge opens."""


Shapes = Mapping[str, tuple[int, ...]]
"""Fixed shapes by the name of an input, or one number by the name of a free dimension."""


def load_model(path: str | os.PathLike[str], shapes: Shapes | None = None) -> Graph:
    """Read a TFLite, ONNX or Keras file and verify the graph.

    The format is taken from the content, not from the file's name.

    Args:
        path: the file.
        shapes: what takes the place of free dimensions; None fixes a free batch axis at 1.

    Raises:
        UsageError: there is no such file.
        ModelError: the file is empty, damaged or no model.
        UnsupportedError: the model uses something npuforge does not take.
        ToolError: the file is Keras' and h5py is not installed.
        GraphError: the graph in the file breaks a rule.
    """
    file = Path(path)
    content = read_model_bytes(file)
    if content[4:8] == b"TFL3":
        from npuforge.importers.tflite.importer import import_tflite

        graph = import_tflite(content, file.stem, str(file))
        _check_shapes(graph, shapes or {}, str(file))
    elif content.startswith((b"\x89HDF", b"PK\x03\x04")):
        from npuforge.importers.keras.importer import import_keras

        graph = import_keras(content, file.stem, str(file))
        _check_shapes(graph, shapes or {}, str(file))
    else:
        from npuforge.importers.onnx.importer import import_onnx

        graph = import_onnx(content, file.stem, str(file), shapes or {})
    verify(graph)
    return graph


def _check_shapes(graph: Graph, shapes: Shapes, path: str) -> None:
    """A TFLite or Keras file states all shapes; asking for others needs a new conversion."""
    for name, wanted in shapes.items():
        if name not in graph.inputs:
            raise UsageError("IMP-037", path=path, name=name, known=", ".join(graph.inputs))
        have = graph.tensors[name].shape
        if have != wanted:
            raise UnsupportedError("IMP-038", path=path, tensor=name, shape=have, wanted=wanted)


def read_model_bytes(path: Path) -> bytes:
    """The content of a model file.

    Raises:
        UsageError: there is no such file, or it is a folder.
        ModelError: it is empty, too large or not readable.
    """
    if not path.exists():
        raise UsageError("IMP-001", path=path)
    if path.is_dir():
        raise UsageError("IMP-002", path=path)
    try:
        size = path.stat().st_size
        if size == 0:
            raise ModelError("IMP-003", path=path)
        if size > MAX_FILE_BYTES:
            raise ModelError("IMP-005", path=path, size=size, limit=MAX_FILE_BYTES)
        return path.read_bytes()
    except OSError as error:
        raise ModelError("IMP-006", path=path, reason=error.strerror or str(error)) from None
