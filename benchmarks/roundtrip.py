"""Every model read, written, read again; converted to the other format; and run there.

    python benchmarks/roundtrip.py --json out/roundtrip.json

Columns: whether the graph read again is the same; whether the written file, in the runtime of its
format, gives our executor's outputs (largest difference in steps, or relative for floats); the same
for the file converted to the other format. LiteRT's reference kernels are slow: networks of more
multiply-accumulates than `LITE_MACS` are not run there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from common import arguments, every_model, lite_interpreter, report

from npuforge.exporters import Conversion, Format, convert
from npuforge.graph import Array, Graph, first_difference, macs
from npuforge.importers import load_model
from npuforge.importers.onnx.importer import import_onnx
from npuforge.importers.tflite.importer import import_tflite
from npuforge.numerics import Executor, random_inputs

LITE_MACS = 60_000_000
READERS = {Format.TFLITE: import_tflite, Format.ONNX: import_onnx}


def in_litert(made: Conversion, feeds: Mapping[str, Array]) -> dict[str, Array]:
    interpreter = lite_interpreter(made.content)
    for detail, name in zip(interpreter.get_input_details(), made.graph.inputs, strict=True):
        interpreter.set_tensor(detail["index"], feeds[name])
    interpreter.invoke()
    details = interpreter.get_output_details()
    return {
        name: interpreter.get_tensor(detail["index"])
        for name, detail in zip(made.graph.outputs, details, strict=True)
    }


def in_onnx_runtime(made: Conversion, feeds: Mapping[str, Array]) -> dict[str, Array]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = onnxruntime.InferenceSession(
        made.content, options, providers=["CPUExecutionProvider"]
    )
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def difference(graph: Graph, ours: Mapping[str, Array], truth: Mapping[str, Array]) -> str:
    steps, relative = 0, 0.0
    for name in graph.outputs:
        a, b = ours[name], truth[name]
        if a.dtype.kind == "f":
            top = float(np.abs(b).max(initial=0.0)) or 1.0
            relative = max(relative, float(np.abs(a - b).max(initial=0.0)) / top)
        else:
            gap = np.abs(a.astype(np.int64) - b.astype(np.int64))
            steps = max(steps, int(gap.max(initial=0)))
    if relative > 1e-5:
        return f"{relative:.1e}"
    return "equal" if steps == 0 else f"{steps} steps"


def outcome(made: Conversion) -> str:
    graph = made.graph
    work = sum(macs(graph, node) for node in graph.nodes)
    if made.format is Format.TFLITE and work > LITE_MACS:
        return "not run"
    feeds = random_inputs(graph, np.random.default_rng(0))
    ours = Executor(graph).run(feeds)
    run = in_litert if made.format is Format.TFLITE else in_onnx_runtime
    try:
        truth = run(made, feeds)
    except (ValueError, RuntimeError) as error:
        return f"refused: {str(error).splitlines()[0][:50]}"
    return difference(graph, ours, truth)


def main() -> None:
    options = arguments(__doc__ or "")
    rows: list[list[Any]] = []
    for path in sorted(every_model(), key=lambda path: path.suffix == ".onnx"):
        graph = load_model(path)
        own = Format.ONNX if path.suffix == ".onnx" else Format.TFLITE
        other = Format.TFLITE if own is Format.ONNX else Format.ONNX
        begin = time.perf_counter()
        written = convert(graph, own)
        seconds = time.perf_counter() - begin
        again = READERS[own](written.content, graph.name, path.name)
        same = first_difference(graph, again)
        crossed = convert(graph, other)
        cells = [path.stem[:44], len(graph.nodes), "same" if same is None else same[:40]]
        cells += [f"{seconds * 1e3:.0f}", outcome(written), len(crossed.changed), outcome(crossed)]
        rows.append(cells)
        print(*cells, flush=True)
    columns = (
        *("model", "nodes", "read again", "ms to write", "own runtime", "nodes changed"),
        "other runtime",
    )
    same_count = sum(row[2] == "same" for row in rows)
    report("round trips", columns, rows, options.json, models=len(rows), identical=same_count)


if __name__ == "__main__":
    main()
