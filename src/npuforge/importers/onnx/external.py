"""Tensors that an ONNX file keeps in files beside it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from npuforge.errors import ModelError, UnsupportedError
from npuforge.graph import Array

MAX_BYTES = 1 << 30
"""Largest tensor read from another file."""


def external_array(tensor: Any, path: str) -> Array:
    """The data of a tensor stored outside of the model file, in its folder.

    Raises:
        UnsupportedError: the location leads out of the model's folder.
        ModelError: the file is absent, too short, or the entry contradicts itself.
    """
    import onnx

    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    folder = Path(path).resolve().parent
    file = (folder / location).resolve()
    if not location or Path(location).is_absolute() or not file.is_relative_to(folder):
        raise UnsupportedError("IMP-033", path=path, tensor=tensor.name, location=location or "?")
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    shape = tuple(tensor.dims)
    size = math.prod(shape) * dtype.itemsize
    offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
    if length != size or offset < 0 or size > MAX_BYTES or dtype.hasobject:
        reason = f"{tensor.name} of {size} bytes keeps {length} at {offset} in {location}"
        raise ModelError("IMP-008", path=path, reason=reason)
    try:
        with file.open("rb") as stream:
            stream.seek(offset)
            content = stream.read(size)
    except OSError as error:
        reason = f"{location}: {error.strerror or error}"
        raise ModelError("IMP-008", path=path, reason=reason) from None
    if len(content) != size:
        reason = f"{location} ends before {tensor.name}"
        raise ModelError("IMP-008", path=path, reason=reason)
    little = dtype.newbyteorder("<")
    array: Array = np.frombuffer(content, little).astype(dtype).reshape(shape)
    return array
