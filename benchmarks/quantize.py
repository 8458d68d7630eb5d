"""Quantised networks against the float ones: npuforge, ai-edge-quantizer, ONNX Runtime.

Every tool gets the same prepared float network and the same 200 to 240 calibration samples, with
its default range method (npuforge: whichever does best on calibration samples that it keeps
apart); no figure of the evaluation samples flows back. "less ours": a rival's agreement less ours
in percentage points, sample by sample, with its 95 % interval (bootstrap); one that holds 0 is no
difference that these samples show. What each writes is run
as its users run it: TFLite files under LiteRT's reference arithmetic (our executor, equal to it bit
for bit: benchmarks/conformance.py), ONNX files by ONNX Runtime.

    python benchmarks/quantize.py --json benchmarks/results/quantize.json

needs the packages ai-edge-quantizer, onnxruntime and scikit-image, flite for the spoken words, and
NPUFORGE_SHARED for the restored networks; what is missing is left out.
"""

from __future__ import annotations

import math
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from common import arguments, report
from quantize_data import Case, cases, save

from npuforge.errors import NpuforgeError, UnsupportedError
from npuforge.exporters import Format, convert
from npuforge.graph import Array
from npuforge.importers import load_model
from npuforge.numerics import Executor
from npuforge.passes.framework import real_numbers
from npuforge.passes.measure import kept_argmax
from npuforge.quantize import (
    EndType,
    RangeMethod,
    Scheme,
    ToolName,
    quantize,
    quantize_by,
    quantize_graph,
)
from npuforge.quantize.measure import Tally
from npuforge.tasks import Dataset, open_dataset
from npuforge.tasks.boxes import Box
from npuforge.tasks.detections import yolo_boxes
from npuforge.validate.detection_metrics import average_precision

Run = Callable[[Array], list[Array]]
OWN = "npuforge quantize"
SURE = 0.25
"""Score from which on an object of the float detector counts as a true one."""
COLUMNS = ("network", "samples", "by", "right", "agreement", "SQNR dB", "seconds", "less ours")
RESAMPLES = 4000
"""Of a bootstrap; an interval's end is then known to about a twentieth of its width."""


def onnx_run(content: bytes) -> Run:
    """ONNX Runtime on a file with the network's own input layout."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda x: list(session.run(None, {name: x}))


def tflite_run(content: bytes, folder: Path) -> Run:
    """Our executor on a TFLite file; real numbers in, real numbers out."""
    from npuforge.tasks.images import store

    path = folder / "made.tflite"
    path.write_bytes(content)
    graph = load_model(path)
    executor = Executor(graph)
    first = graph.tensors[graph.inputs[0]]

    def run(x: Array) -> list[Array]:
        fed = x if first.dtype.is_float else store(first, x.astype(np.float32))
        found = executor.run({first.name: fed})
        return [real_numbers(found[o], graph.tensors[o].quantization) for o in graph.outputs]

    return run


def outputs_of(run: Run, samples: Array) -> list[list[Array]]:
    """Every output of every sample."""
    return [[np.asarray(o, np.float64) for o in run(x[None])] for x in samples]


def judged(case: Case, truth: list[list[Array]], found: list[list[Array]]
           ) -> tuple[float | None, float, float, Array]:  # fmt: skip
    """Share of right classes, share of kept largest values, SQNR of the worst output in dB; and
    each sample's share of kept ones (none for a detector that is judged by its boxes).
    """
    each: list[float] = []
    right = 0
    tallies = [Tally() for _ in truth[0]]
    for number, (real, made) in enumerate(zip(truth, found, strict=True)):
        for tally, a, b in zip(tallies, real, made, strict=True):
            tally.add(a, b)
        one, other = (np.concatenate([v[i].reshape(-1) for i in case.scores]) for v in (real, made))
        each.append(float(kept_argmax(one, other).sum()))
        right += case.labels is not None and int(other.argmax()) == case.labels[number]
    count = len(truth)
    worst = min(tally.sqnr for tally in tallies)
    share = None if case.labels is None else right / count
    if case.boxes:
        return share, objects_kept(case, truth, found), worst, np.zeros(0)
    return share, sum(each) / count, worst, np.array(each)


def difference(ours: Array, theirs: Array) -> str:
    """A rival's share of kept answers less ours in percentage points, with its 95 % interval."""
    if not ours.size or ours.shape != theirs.shape:
        return ""
    each = 100.0 * (theirs - ours)
    rng = np.random.default_rng(7)
    means = each[rng.integers(0, each.size, (RESAMPLES, each.size))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return f"{each.mean():+.2f} ({low:+.2f} to {high:+.2f})"


def objects_kept(case: Case, truth: list[list[Array]], found: list[list[Array]]) -> float:
    """COCO's average precision of what is found, the float detector's objects being the truth."""
    side = case.graph.tensors[case.graph.inputs[0]].shape[1]

    def objects(outputs: list[list[Array]], least: float) -> list[Box]:
        made = []
        for image, values in enumerate(outputs):
            for box, score, kind in zip(*yolo_boxes(values[0], side, side), strict=True):
                if score >= least:
                    x, y, w, h = (float(v) * side for v in box)
                    made.append(Box(image, int(kind), (x, y, w, h), float(score)))
        return made

    true = objects(truth, SURE)
    assert len(true) >= 20, "too few objects to judge by"
    return average_precision(objects(found, 0.0), true)["AP"]


def contenders(case: Case, data: Dataset) -> list[tuple[str, Callable[[], tuple[bytes, Format]]]]:
    """Who quantises: a name, and what writes the file."""

    def own() -> tuple[bytes, Format]:
        made = quantize(case.graph, data, Scheme(), choose=True, measured_on=0)
        try:
            return convert(made.made.graph, Format.TFLITE).content, Format.TFLITE
        except UnsupportedError:  # an operator that TFLite does not have
            ends = replace(made.scheme, inputs=EndType.FLOAT, outputs=EndType.FLOAT)
            graph = quantize_graph(made.prepared, made.ranges, ends, made.tuning).graph
            return convert(graph, Format.ONNX).content, Format.ONNX

    def other(tool: ToolName, method: RangeMethod) -> tuple[bytes, Format]:
        made = quantize_by(tool, case.graph, data, Scheme(method=method))
        return made.content, made.format

    found: list[tuple[str, Callable[[], tuple[bytes, Format]]]] = [(OWN, own)]
    minmax = RangeMethod.MINMAX
    found.append(("ai-edge-quantizer", lambda: other(ToolName.AI_EDGE, minmax)))
    found.append(("onnxruntime", lambda: other(ToolName.ONNXRUNTIME, minmax)))
    if case.graph.tensors[case.graph.inputs[0]].size < 10_000:
        # its histograms hold every activation of every sample
        entropy = RangeMethod.ENTROPY
        found.append(("onnxruntime entropy", lambda: other(ToolName.ONNXRUNTIME, entropy)))
    return found


def rows_of(case: Case) -> list[Sequence[object]]:
    """The table's rows of one network, the float one first."""
    rows: list[Sequence[object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = open_dataset([save(case, folder)["calibration"]], case.graph)
        truth = outputs_of(onnx_run(convert(case.graph, Format.ONNX).content), case.evaluation)
        right, *_ = judged(case, truth, truth)
        count = len(case.evaluation)
        rows.append((case.name, count, "float", shown(right), "", "", "", ""))
        ours = np.zeros(0)
        for label, make in contenders(case, data):
            begin = time.perf_counter()
            try:
                content, kind = make()
            except NpuforgeError as error:
                print(case.name, label, error, flush=True)
                continue
            seconds = time.perf_counter() - begin
            run = tflite_run(content, folder) if kind is Format.TFLITE else onnx_run(content)
            right, agreement, sqnr, each = judged(case, truth, outputs_of(run, case.evaluation))
            ours = each if label == OWN else ours
            beside = "" if label == OWN else difference(ours, each)
            figures = (shown(right), round(agreement, 4), round(sqnr, 2), round(seconds, 1), beside)
            rows.append((case.name, count, label, *figures))
            print(*rows[-1], flush=True)
    return rows


def shown(share: float | None) -> object:
    """A share, or nothing where there is none."""
    return "" if share is None else round(share, 4)


def verdicts(rows: list[Sequence[object]]) -> dict[str, str]:
    """On how many networks ours is at least as good as the best of the others."""
    found = {}
    for column, label in ((3, "accuracy"), (4, "agreement"), (5, "SQNR")):
        better = known = 0
        for name in dict.fromkeys(str(row[0]) for row in rows):
            mine = [row for row in rows if row[0] == name]
            own = [row[column] for row in mine if row[2] == OWN]
            rest = [row[column] for row in mine if row[2] not in (OWN, "float")]
            if "" in (*own, *rest):
                continue
            known += 1
            better += float(own[0]) >= max(float(r) for r in rest)  # type: ignore[arg-type]
        found[label] = f"at least the better of the others on {better} of {known}"
    intervals = [
        (str(row[0]), float(match[1]))
        for row in rows
        if (match := re.search(r"\(([+-][\d.]+) to", str(row[7])))
    ]
    worse = {name for name, low in intervals if low > 0}
    compared = {name for name, _ in intervals}
    found["agreement below a rival's beyond its interval"] = f"{len(worse)} of {len(compared)}"
    return found


def main() -> None:
    """Quantise every network with every tool and judge."""
    args = arguments(__doc__ or "")
    rows = [row for case in cases() for row in rows_of(case)]
    assert all(not isinstance(cell, float) or math.isfinite(cell) for row in rows for cell in row)
    report("Quantised networks against the float ones", COLUMNS, rows, args.json, **verdicts(rows))


if __name__ == "__main__":
    main()
