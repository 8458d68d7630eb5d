"""Calibration: samples stream through the float network, observers remember what matters."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from npuforge.errors import UsageError
from npuforge.graph import Array, Graph, is_view
from npuforge.quantize.engines import EngineName, float_engine, wanted_tensors
from npuforge.quantize.observe import Histogram, Observer
from npuforge.quantize.ranges import Range, RangeMethod, choose_range
from npuforge.quantize.saturate import cut
from npuforge.quantize.scheme import Scheme
from npuforge.tasks import Dataset

_STATE = 2
"""Form of a stored state; one of another form is one of another run."""
SAVE_EVERY = 16
"""Samples between two writes of the state that a later run can go on from."""
Tick = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Observers of every activation after all samples.

    Attributes:
        observers: by tensor name.
        samples: how many samples were seen.
        resumed: how many of them came from a stored state.
    """

    observers: Mapping[str, Observer]
    samples: int
    resumed: int = 0

    def ranges(self, graph: Graph, scheme: Scheme) -> dict[str, Range]:
        """The range of every activation of the graph, views included.

        Every method but min-max leaves out what no reader tells apart (`saturate.told_apart`).

        Args:
            graph: the prepared graph that was observed.
            scheme: its method, and other methods of single tensors.
        """
        found = {}
        for name, observer in self.observers.items():
            method = scheme.methods.get(name, scheme.method)
            span = choose_range(observer, method, scheme.percentile)
            found[name] = span if method is RangeMethod.MINMAX else cut(graph, name, span)
        for node in graph.nodes:
            if is_view(node) and node.inputs[0] in found:
                found[node.outputs[0]] = found[str(node.inputs[0])]
        return found


def calibrate(
    graph: Graph,
    data: Dataset,
    *,
    histograms: bool = True,
    engine: EngineName = EngineName.OWN,
    momentum: float = 0.1,
    state: Path | None = None,
    tick: Tick | None = None,
) -> Calibration:
    """Run the float network over a dataset; memory does not grow with the number of samples.

    Args:
        graph: prepared.
        data: samples of its inputs.
        histograms: whether a method needs more than limits.
        engine: who runs the network.
        momentum: of the moving limits.
        state: file that is written now and then, and from which an interrupted run goes on.
        tick: called with samples done and samples in all.

    Raises:
        UsageError: the data does not fit, or the state is of another model or other data.
    """
    wanted = wanted_tensors(graph)
    key = "" if state is None else fingerprint(graph, data, histograms)
    observers = {
        name: Observer(momentum, histogram=Histogram() if histograms else None) for name in wanted
    }
    done = 0
    if state is not None and state.is_file():
        observers, done = _restore(state, key, wanted)
    resumed = done
    if done < len(data):
        runner = float_engine(engine, graph, wanted)
        for number in range(done, len(data)):
            for name, value in runner.tensors(data[number].inputs):
                observers[name].add(np.asarray(value, np.float32))
            done = number + 1
            if tick is not None:
                tick(done, len(data))
            if state is not None and (done % SAVE_EVERY == 0 or done == len(data)):
                _save(state, key, observers, done)
    return Calibration(observers, done, resumed)


def needs_histograms(scheme: Scheme) -> bool:
    """Whether a method of the scheme looks at more than limits."""
    plain = (RangeMethod.MINMAX, RangeMethod.MOVING)
    return any(m not in plain for m in (scheme.method, *scheme.methods.values()))


def fingerprint(graph: Graph, data: Dataset, histograms: bool) -> str:
    """What a stored state belongs to: the network's constants and the list of samples."""
    digest = hashlib.sha256(f"{_STATE} {histograms} {data.pre}".encode())
    for node in graph.nodes:
        digest.update(repr(node).encode())
    for tensor in graph.tensors.values():
        digest.update(tensor.name.encode())
        if tensor.data is not None:
            digest.update(np.ascontiguousarray(tensor.data).tobytes())
    for item in data.items:
        try:
            size = item.path.stat().st_size
        except OSError:
            size = -1
        digest.update(f"{item.name} {size}\n".encode())
    return digest.hexdigest()


def _save(path: Path, key: str, observers: Mapping[str, Observer], done: int) -> None:
    arrays: dict[str, Array] = {
        "key": np.frombuffer(key.encode(), np.uint8),
        "done": np.array([done]),
    }
    for number, observer in enumerate(observers.values()):
        for part, value in observer.state().items():
            arrays[f"{number}/{part}"] = value
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        Path(name).replace(path)
    except OSError as error:
        raise UsageError("OUT-003", path=path, reason=error.strerror) from None


def _restore(path: Path, key: str, wanted: Iterable[str]) -> tuple[dict[str, Observer], int]:
    states: dict[str, dict[str, npt.NDArray[np.generic]]] = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            stored = bytes(archive["key"]).decode()
            done = int(archive["done"][0])
            for entry in archive.files:
                number, _, part = entry.partition("/")
                if part:
                    states.setdefault(number, {})[part] = archive[entry]
        if stored != key:
            raise UsageError("QNT-007", path=path)
        found = {name: Observer.restored(states[str(i)]) for i, name in enumerate(wanted)}
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise UsageError("QNT-006", path=path, reason=str(error)) from None
    return found, done
