"""Every intermediate tensor on the host and in the emulator, for the networks of the tutorial.

TFLite: 10 random samples and one real one against LiteRT's reference kernels; then the same samples
in QEMU against the host. ONNX: each integer node against ONNX Runtime's kernel on the host, other
nodes within one step, counted.

    python benchmarks/exactness.py
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from common import ROOT, arguments, model_files, report

from npuforge import api
from npuforge.importers import load_model, read_model_bytes
from npuforge.numerics import Executor, random_inputs
from npuforge.validate.onnx_layers import OnnxRuntimeLayers, cpu_features

TFLITE = {
    "visual_wake_words": "person.png",
    "keyword_spotting": "yes.npy",
    "image_classification": "cat.png",
    "anomaly_detection": "hum.npy",
    "zoo2__flowers__mobilenet_v1_0.25_96_fft_int8": "",
}
ONNX = ("mobilenet_v2_224_int8", "deeplab_v3_mobilenetv2_05_16_320_fft_qdq_int8")
PICTURE = ROOT / "examples" / "visual_wake_words" / "no_person.png"


def tflite_rows(path: Path) -> list[tuple[object, ...]]:
    """Deploy with one real sample; one row a check."""
    name = TFLITE.get(path.stem, "")
    real = path.parent / name if name else PICTURE
    with TemporaryDirectory() as folder:
        done = api.deploy_model(
            path, "stm32n6570-dk", Path(folder) / "out", valinput=[real], emulate="on"
        )
    rows = []
    for check in done.validation.checks:
        assert check.comparison is not None
        values = sum(entry.values for entry in check.comparison.tensors)
        count = len(check.comparison.tensors) * check.comparison.samples
        rows.append(
            (path.stem, check.where, check.reference, count, values, check.comparison.mismatches, 0)
        )
    return rows


def onnx_row(path: Path) -> tuple[object, ...]:
    """Each quantised tensor against ONNX Runtime fed with our inputs of that layer."""
    graph = load_model(path)
    oracle = OnnxRuntimeLayers(graph, read_model_bytes(path))
    executor = Executor(graph, capture=True)
    rng = np.random.default_rng(42)
    exact = within = values = tensors = 0
    for _ in range(3):
        inputs = random_inputs(graph, rng)
        executor.run(inputs)
        ours = executor.read(executor.activations())
        for name, truth in oracle.tensors(inputs, ours).items():
            steps = np.abs(truth.astype(int) - ours[name].astype(int))
            tensors += 1
            values += steps.size
            if oracle.pieces[name].is_qlinear:
                exact += int(np.count_nonzero(steps))
            else:
                assert steps.max() <= 1, name
                within += int(np.count_nonzero(steps))
    return (path.stem, "host", oracle.name, tensors, values, exact, within)


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__ or "")
    rows = [row for path in model_files(*TFLITE) for row in tflite_rows(path)]
    rows += [onnx_row(path) for path in model_files(*ONNX)]
    report(
        "exactness, tensor by tensor",
        ("model", "executed on", "compared with", "tensors", "values", "mismatches", "off by one"),
        rows,
        options.json,
        processor=cpu_features(),
    )


if __name__ == "__main__":
    main()
