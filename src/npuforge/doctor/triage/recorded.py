"""Recorded inputs and outputs: npz files, and dumps that came over a serial line."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from npuforge.artefacts.log_text import read_log
from npuforge.artefacts.serial_dump import read_dumps
from npuforge.errors import UsageError
from npuforge.graph import NUMPY_TYPES, Array, Graph, Tensor
from npuforge.tasks.images import ImageRange, guess_range, store
from npuforge.vocab import DType

MAX_SAMPLES = 32


@dataclass(frozen=True, eq=False)
class Recorded:
    """What was recorded of some inferences.

    Attributes:
        inputs: the right inputs, one mapping of input name to stored array a sample.
        outputs: what the device gave, one mapping of output name to array a sample; stored values
            where the types agree, else real numbers.
        device_inputs: content of the device's input buffer where it was recorded too.
        typed: names of outputs that were recorded in another integer type than the network's.
    """

    inputs: tuple[Mapping[str, Array], ...]
    outputs: tuple[Mapping[str, Array], ...]
    device_inputs: tuple[Mapping[str, Array], ...] = ()
    typed: tuple[str, ...] = ()


_DEVICE = re.compile(r"device|buffer|dump|target", re.IGNORECASE)
_INPUT = re.compile(
    r"^(?:\w*_)?(?:in|input|inputs|x|image|sample|feature)s?(?:_?\d+)?$",
    re.IGNORECASE,
)
_OUTPUT = re.compile(
    r"^(?:\w*_)?(?:out|output|outputs|y|pred\w*|result)s?(?:_?\d+)?$",
    re.IGNORECASE,
)


def read_recorded(path: Path, graph: Graph, value_range: ImageRange | None = None) -> Recorded:
    """Read a recording.

    Arrays of an npz are recognised by the network's tensor names, else by ``input``, ``output`` and
    ``device_input`` (also with numbers, and as ``m_inputs_1`` / ``c_outputs_1`` of ST's validation
    files). A text file holds dumps as the generated probes print them.

    Raises:
        UsageError: the file cannot be read, or does not fit the network.
    """
    arrays = _arrays(path)
    inputs, device = _inputs(path, graph, arrays)
    outputs = _outputs(path, graph, arrays)
    if not outputs:
        raise UsageError("TRI-001", path=path, names=", ".join(arrays) or "-")
    count = min(MAX_SAMPLES, *(len(values) for values in outputs.values()))
    rows: dict[str, Array] = {}
    for name, array in inputs.items():
        rows[name] = _samples(path, graph, graph.tensors[name], array, value_range)
        count = min(count, len(rows[name]))
    typed = tuple(name for name in outputs if _other_type(graph.tensors[name], outputs[name]))
    buffers: dict[str, Array] = {}
    for name, array in device.items():
        buffers[name] = _samples(path, graph, graph.tensors[name], array, value_range)
    return Recorded(
        tuple({n: a[i] for n, a in rows.items()} for i in range(count)),
        tuple({n: a[i] for n, a in outputs.items()} for i in range(count)),
        tuple({n: a[i] for n, a in buffers.items()} for i in range(count))
        if buffers and all(len(a) >= count for a in buffers.values())
        else (),
        typed,
    )


def _arrays(path: Path) -> dict[str, Array]:
    try:
        if path.suffix.lower() == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        return read_dumps(read_log(path))
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise UsageError("INP-006", path=path, reason=str(error)) from None


def _inputs(
    path: Path, graph: Graph, arrays: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    device = {name: a for name, a in arrays.items() if _DEVICE.search(name) and _INPUT.match(name)}
    named = {name: arrays[name] for name in graph.inputs if name in arrays}
    rest = {n: a for n, a in arrays.items() if n not in device and _INPUT.match(n)}
    if not named:
        # validation files hold the host's and the board's view; the host's is the right input
        keep = sorted(rest, key=lambda n: (not n.startswith("m_"), n.startswith("c_"), n))
        named = dict(zip(graph.inputs, (rest[n] for n in keep), strict=False))
    if len(named) != len(graph.inputs):
        if device and len(device) == len(graph.inputs):
            named = dict(zip(graph.inputs, device.values(), strict=True))
        else:
            raise UsageError("TRI-002", path=path, names=", ".join(arrays) or "-",
                             inputs=", ".join(graph.inputs))  # fmt: skip
    buffers = dict(zip(graph.inputs, device.values(), strict=False)) if device else {}
    return named, buffers


def _outputs(path: Path, graph: Graph, arrays: Mapping[str, Array]) -> dict[str, Array]:
    found = {name: arrays[name] for name in graph.outputs if name in arrays}
    if not found:
        rest = [name for name in arrays if _OUTPUT.match(name) and name not in graph.inputs]
        boards = [name for name in rest if name.startswith("c_") or _DEVICE.search(name)]
        chosen = sorted(boards or rest)
        found = {n: arrays[c] for n, c in zip(graph.outputs, chosen, strict=False)}
    return {name: _stacked(path, graph.tensors[name], array) for name, array in found.items()}


def _stacked(path: Path, tensor: Tensor, array: Array) -> Array:
    """[samples, *shape] whatever form the recording has."""
    size = tensor.size
    if array.dtype.kind not in "iufb" or not size or array.size % size or not array.size:
        raise UsageError("TRI-003", path=path, tensor=tensor.name, want=list(tensor.shape),
                         got=f"{array.dtype} {list(array.shape)}")  # fmt: skip
    stacked: Array = np.ascontiguousarray(array).reshape(-1, *tensor.shape)
    if stacked.dtype.kind in "iu" and not tensor.dtype.is_float:
        # printed numbers have no type of their own: the network's where it can hold them
        low, high = tensor.dtype.limits
        wide = stacked.dtype.itemsize > tensor.dtype.nbytes
        if wide and low <= int(stacked.min()) and int(stacked.max()) <= high:
            return stacked.astype(NUMPY_TYPES[tensor.dtype])
        if wide and int(stacked.min()) >= 0 and int(stacked.max()) <= 255:
            return stacked.astype(np.uint8)
    return stacked


def _other_type(tensor: Tensor, array: Array) -> bool:
    return array.dtype.kind in "iu" and array.dtype != np.dtype(NUMPY_TYPES[tensor.dtype])


def _samples(
    path: Path, graph: Graph, tensor: Tensor, array: Array, value_range: ImageRange | None
) -> Array:
    stacked = _stacked(path, tensor, array)
    want = np.dtype(NUMPY_TYPES[tensor.dtype])
    if stacked.dtype == want:
        return stacked
    if stacked.dtype == np.uint8 and tensor.dtype is not DType.UINT8:
        # pixels: what a picture file holds, so the right preprocessing is applied
        used = value_range or guess_range(graph, tensor)
        return np.stack([store(tensor, used.apply(one.astype(np.float32))) for one in stacked])
    if stacked.dtype.kind == "f":
        return np.stack([store(tensor, one.astype(np.float32)) for one in stacked])
    return stacked.astype(want)
