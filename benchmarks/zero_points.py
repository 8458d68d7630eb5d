"""Zero points that Neural-ART multiplies 8 by 8 bits with: what they bring and what they cost.

MobileNetV2-224 and a Swish network (ST's EfficientNet-like 128), float networks restored from the
int8 files of the measurement data. Each is quantised with free zero points and with
`--zero-points npu`, ranges symmetric where they have a negative part, or cut where it is at most a
tenth. Share of multiplications in 8x8-bit mode and milliseconds are predictions of the placement
rules and the cost model for STM32N6570-DK at the nominal operating point; agreement with the float
network is measured on 400 photo crops, calibration is on 200 others.

    python benchmarks/zero_points.py --json benchmarks/results/zero_points.json
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from common import arguments, report
from quantize_data import Case, pictures, save, shared, signed

from npuforge.explore.price import TargetPrice
from npuforge.exporters import Format, convert
from npuforge.graph import Array
from npuforge.quantize import (
    EngineName,
    Scheme,
    ZeroPoints,
    calibrate,
    quantize_graph,
)
from npuforge.targets import load_target
from npuforge.tasks import open_dataset
from quantize import judged, onnx_run, outputs_of, tflite_run

NETWORKS: tuple[tuple[str, str, Callable[[Array], Array]], ...] = (
    ("MobileNetV2 1.0 224", "mobilenet_v2_1.0_224_int8.tflite", signed),
    (
        "EfficientNet-like 128 (Swish)",
        "zoo2__food-101__st_efficientnet_lc_v1_128_tfs_int8.tflite",
        lambda x: x / 255,
    ),
)
FRIENDLY = replace(Scheme(), zero_points=ZeroPoints.NPU)
SCHEMES = {
    "free": Scheme(),
    "npu, symmetric": FRIENDLY,
    "npu, negative tenth cut": replace(FRIENDLY, signed_share=0.1),
}
COLUMNS = ("network", "zero points", "8x8 share", "predicted ms", "agreement", "SQNR dB")


def rows_of(case: Case) -> list[tuple[object, ...]]:
    """One network under every scheme."""
    board = load_target("stm32n6570-dk")
    price = TargetPrice(board, board.operating_points["nominal"])
    rows: list[tuple[object, ...]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = open_dataset([save(case, folder)["calibration"]], case.graph)
        seen = calibrate(case.graph, data, engine=EngineName.ONNXRUNTIME)
        truth = outputs_of(onnx_run(convert(case.graph, Format.ONNX).content), case.evaluation)
        for label, scheme in SCHEMES.items():
            graph = quantize_graph(case.graph, seen.ranges(case.graph, scheme), scheme).graph
            run = tflite_run(convert(graph, Format.TFLITE).content, folder)
            _, agreement, sqnr = judged(case, truth, outputs_of(run, case.evaluation))
            cost = price(graph)
            assert cost.ms is not None
            assert cost.narrow_share is not None
            figures = (f"{cost.narrow_share:.1%}", f"{cost.ms:.2f}", agreement, round(sqnr, 2))
            rows.append((case.name, label, *figures))
            print(*rows[-1], flush=True)
    return rows


def main() -> None:
    """Quantise, price, judge."""
    args = arguments(__doc__ or "")
    rows = []
    for name, file, convert_pixels in NETWORKS:
        graph = shared(file)
        if graph is None:
            raise SystemExit("needs NPUFORGE_SHARED")
        rows += rows_of(pictures(graph, name, convert_pixels, (200, 400)))
    report("Zero points for Neural-ART", COLUMNS, rows, args.json)


if __name__ == "__main__":
    main()
