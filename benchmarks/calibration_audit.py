"""The classic faults of calibration samples, injected one by one: is each found and named?

Four networks with data (see `quantize_data.py`); the reference is 200 sound samples, the
calibration set 200 others of the same kind, with one fault or none. A fault counts as found only
where its own sentence comes first; what is sound must stay without a finding. --runs draws of each.

    python benchmarks/calibration_audit.py --json benchmarks/results/calibration_audit.json
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from common import arguments, report
from quantize_data import Case, crops, digits, mltk, words

from npuforge.graph import Array, Graph
from npuforge.quantize import Fault, audit, survey
from npuforge.quantize.audit import AuditFinding
from npuforge.quantize.survey import Survey
from npuforge.report.audit import finding_words
from npuforge.tasks import open_dataset

Rng = np.random.Generator
COUNT = 200


class Pictures:
    """Photo crops for a network, as the network takes them."""

    def __init__(self, name: str, graph: Graph, scale: float, offset: float, wrong: float) -> None:
        self.name, self.graph = name, graph
        self._scale, self._offset, self._wrong = scale, offset, wrong

    def draw(self, seed: int) -> tuple[Array, Array | None]:
        """Bytes and labels of 200 samples."""
        side = self.graph.tensors[self.graph.inputs[0]].shape[1]
        return crops(COUNT, side, right=False, seed=seed).astype(np.float32), None

    def real(self, pixels: Array) -> Array:
        """As the network takes them."""
        return (pixels - self._offset) * self._scale

    def faults(self) -> Iterator[tuple[str, Fault, Callable[[Array, Rng], Array]]]:
        """Faults of pictures: what bytes become."""
        yield "wrong normalisation", Fault.NORMALISATION, lambda x, _: x * self._wrong
        yield "256 for 255", Fault.SCALE_256, lambda x, _: self.real(x) * 255 / 256
        yield "BGR", Fault.COLOUR_ORDER, lambda x, _: self.real(x[..., ::-1])
        yield "drift: darker", Fault.DRIFT, lambda x, _: self.real(np.rint(x * 0.4))
        yield "drift: less contrast", Fault.DRIFT, lambda x, _: self.real(np.rint(x * 0.4 + 76))


class Arrays:
    """Samples of a case, split at random; not pictures in three colours."""

    def __init__(self, case: Case, wrong: float, grid: bool) -> None:
        self.name, self.graph = case.name, case.graph
        both = (case.calibration, case.evaluation)
        self._values = np.concatenate(both)
        labels = (case.calibration_labels, case.labels)
        assert labels[0] is not None
        assert labels[1] is not None
        self._labels = np.concatenate(labels)
        self._wrong, self._grid = wrong, grid

    def draw(self, seed: int) -> tuple[Array, Array | None]:
        """Values and labels of 200 samples; two seeds that differ by one never share a sample."""
        order = np.random.default_rng(seed // 2).permutation(len(self._values))
        chosen = order[COUNT * (seed % 2) :][:COUNT]
        return self._values[chosen], self._labels[chosen]

    def real(self, values: Array) -> Array:
        """As they are."""
        return values

    def faults(self) -> Iterator[tuple[str, Fault, Callable[[Array, Rng], Array]]]:
        """Faults of one channel."""
        yield "wrong normalisation", Fault.NORMALISATION, lambda x, _: x * self._wrong
        if self._grid:
            yield "256 for 255", Fault.SCALE_256, lambda x, _: x * 255 / 256
            yield "drift: darker", Fault.DRIFT, lambda x, _: np.rint(x * 255 * 0.4) / 255
        else:
            yield "drift: quieter", Fault.DRIFT, lambda x, _: np.clip(x - 50, 0, None)


Source = Pictures | Arrays


def looked_at(source: Source, values: Array, labels: Array | None, folder: Path) -> Survey:
    """The survey of some samples, through a file as a user's would be."""
    path = folder / "samples.npz"
    more = {} if labels is None else {"labels": labels}
    name = source.graph.inputs[0]
    np.savez(path, **{name: values[:, None].astype(np.float32)}, **more)
    return survey(source.graph, open_dataset([path], source.graph))


def sets(
    source: Source, seed: int, sound: Survey
) -> Iterator[tuple[str, Fault | None, Array, Array | None]]:
    """Name, fault, values and labels of every calibration set of a draw."""
    values, labels = source.draw(seed)
    rng = np.random.default_rng(seed)
    yield "none", None, source.real(values), labels

    def some(chosen: Array) -> tuple[Array, Array | None]:
        return source.real(values[chosen]), None if labels is None else labels[chosen]

    yield "ten samples", Fault.FEW, *some(np.arange(10))
    classes = np.array(sound.predicted if labels is None else labels)
    most = Counter(classes.tolist()).most_common()[-1 if labels is not None else 0][0]
    chosen = np.flatnonzero(classes == most)
    yield "one class", Fault.ONE_CLASS, *some(rng.choice(chosen, COUNT, replace=True))
    yield "duplicates", Fault.DUPLICATES, *some(rng.integers(0, 60, COUNT))
    for name, fault, change in source.faults():
        yield name, fault, change(values, rng), labels


def first(found: tuple[AuditFinding, ...]) -> Fault | None:
    """The finding that comes first."""
    return found[0].fault if found else None


def sources() -> list[Source]:
    """Networks with data."""
    spoken = words(mltk("keyword_spotting", "keyword_spotting.h5"))
    found: list[Source] = [
        Pictures(
            "image classification",
            mltk("image_classification", "image_classification.h5"),
            *(1 / 127.5, 127.5, 1 / 255),
        ),
        Pictures(
            "visual wake words",
            mltk("visual_wake_words", "visual_wake_words.h5"),
            *(1.0, 0.0, 1 / 255),
        ),
        Arrays(digits(), 255.0, True),
    ]
    if spoken is not None:
        found.append(Arrays(spoken, 1 / 255, False))
    return found


def main() -> None:
    """Inject, audit, count."""
    args = arguments(__doc__ or "")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in sources():
            results: dict[str, list[bool]] = {}
            example: dict[str, str] = {}
            for draw in range(args.runs):
                values, labels = source.draw(2 * draw)
                reference = looked_at(source, source.real(values), labels, folder)
                own = looked_at(source, source.real(source.draw(2 * draw + 1)[0]), None, folder)
                for kind, fault, made, classes in sets(source, 2 * draw + 1, own):
                    found = audit(looked_at(source, made, classes, folder), reference)
                    results.setdefault(kind, []).append(first(found) is fault)
                    words_ = finding_words(found[0])[0] if found else "nothing found"
                    if first(found) is not fault or kind not in example:
                        example[kind] = words_
            for kind, right in results.items():
                rows.append((source.name, kind, f"{sum(right)}/{len(right)}", example[kind]))
                print(*rows[-1], sep=" | ", flush=True)
    right = sum(int(row[2].split("/")[0]) for row in rows)
    total = sum(int(row[2].split("/")[1]) for row in rows)
    columns = ("network", "fault", "named", "what is said")
    report("Calibration faults", columns, rows, args.json, named=f"{right} of {total}")


if __name__ == "__main__":
    main()
