"""Time of the contract neural_art against LiteRT's reference kernels: one run, one thread.

    python benchmarks/neural_art_speed.py

Both sides run whole networks on the same random input; the median of `--runs` counts.
"""

from __future__ import annotations

import os
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from common import arguments, lite_interpreter, median_seconds, model_files, report

from npuforge import api
from npuforge.graph import macs
from npuforge.numerics import random_inputs

NETWORKS = (
    "mobilenet_v2_1.0_224_int8",
    "st_yolo_x_nano_480_1.0_0.25_3_st_int8",
    "st_movenet_lightning_heatmaps_192_int8_pc",
    "yolov8n_416_quant_pc_uf_od_coco-person",
    "mobilenet_v1_0.25_96_tfs_int8",
)


def main() -> int:
    """Print the ratios; 1 when one of them is above 1."""
    options = arguments(__doc__ or "")
    rows = []
    for path in model_files(*NETWORKS):
        if path.suffix != ".tflite":
            continue
        graph = api.load_graph(path, "neural_art")
        inputs = random_inputs(graph, np.random.default_rng(0))
        executor = api.make_executor(graph)
        interpreter = lite_interpreter(path)
        for detail, name in zip(interpreter.get_input_details(), graph.inputs, strict=True):
            interpreter.set_tensor(detail["index"], inputs[name])
        ours = median_seconds(lambda run=executor, x=inputs: run.run(x), options.runs)
        theirs = median_seconds(interpreter.invoke, options.runs)
        work = sum(macs(graph, node) for node in graph.nodes) / 1e6
        cells = (f"{work:.0f}", f"{ours * 1e3:.0f}", f"{theirs * 1e3:.0f}", f"{ours / theirs:.2f}")
        rows.append((path.stem, *cells))
    if not rows:
        sys.exit("no network found")
    columns = ("network", "M MAC", "neural_art ms", "LiteRT reference ms", "ratio")
    report("Graph path against LiteRT's reference kernels", columns, rows, options.json)
    return int(any(float(row[4]) > 1 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
