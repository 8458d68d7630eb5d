"""Calibration: samples stream through the float network, observers remember what matters."""

from __future__ import annotations

import copy
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
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

MOST_HELD = 64 << 20
"""Bytes of inputs and outputs of samples kept to choose by."""
_STATE = 2
"""Form of a stored state; one of another form is one of another run."""
SAVE_EVERY = 16
"""Samples between two writes of the state that a later run can go on from."""
Tick = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Held:
    """Samples that were kept apart to choose by.

    Attributes:
        early: observers that never saw them.
        inputs: of each sample, by name.
        outputs: the float network's, in the order of its outputs; None where one holds no real
            numbers.
    """

    early: Calibration
    inputs: Sequence[Mapping[str, Array]]
    outputs: Sequence[Sequence[Array | None]]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Observers of every activation after all samples.

    Attributes:
        observers: by tensor name.
        samples: how many samples were seen.
        resumed: how many of them came from a stored state.
        held: what the last of them are kept for; None when none were.
    """

    observers: Mapping[str, Observer]
    samples: int
    resumed: int = 0
    held: Held | None = None

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
    hold: int = 0,
    tick: Tick | None = None,
) -> Calibration:
    """Run the float network over a dataset; memory does not grow with the number of samples.

    Args:
        graph: prepared.
        data: samples of its inputs.
        histograms: whether a method needs more than limits.
        engine: who runs the network.
        momentum: of the moving limits.
        state: file that is written now and then, and from which an interrupted run goes on; of
            samples that are held nothing is written.
        hold: so many of the last samples are kept to choose by, as far as `MOST_HELD` allows; they
            are observed like the others, after a copy was made of what was observed before.
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
    first = max(len(data) - hold, 0)
    held: Held | None = None
    sources = [_source(graph, name) for name in graph.outputs]
    used = 0
    if done < len(data):
        runner = float_engine(engine, graph, wanted)
        for number in range(done, len(data)):
            if number == first:
                early = Calibration(copy.deepcopy(observers), number)
                held = Held(early, [], [])
            inputs = data[number].inputs
            outputs: dict[str, Array] = {}
            for name, value in runner.tensors(inputs):
                observers[name].add(np.asarray(value, np.float32))
                if held is not None and name in sources:
                    outputs[name] = np.array(value)
            if held is not None:
                used += sum(a.nbytes for a in (*inputs.values(), *outputs.values()))
                if used <= MOST_HELD:
                    held = Held(
                        held.early,
                        [*held.inputs, inputs],
                        [*held.outputs, [outputs.get(name) for name in sources]],
                    )
            done = number + 1
            if tick is not None:
                tick(done, len(data))
            last = done == (first if hold else len(data))
            if state is not None and (last or (done % SAVE_EVERY == 0 and done <= first)):
                _save(state, key, observers, done)
    return Calibration(observers, done, resumed, held)


def _source(graph: Graph, name: str) -> str:
    """The tensor whose values a view shows."""
    node = graph.producers.get(name)
    while node is not None and is_view(node):
        name = str(node.inputs[0])
        node = graph.producers.get(name)
    return name


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
