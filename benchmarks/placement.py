"""Predicted epochs against compiled networks and published compile reports.

Three tables. The first compares four compiled networks (their programs are in the measurement data)
node by node (as many of its operations in hardware, hybrid and software epochs) and epoch by
epoch: an epoch counts as right when exactly the predicted operations run in it. The second
compares the number of hybrid and software epochs with compile reports of public repositories
(`public_epochs.csv` names repository and path of each model file; `--models` is a folder with those
files, what is not there is looked for in the measurement data). A model that a rule was made from
is no blind test: it is marked and counted apart. Column
`integer_io` of the file says with which interface it was compiled: 0 as the model is, 1 integers,
"in" integer inputs and float outputs. The third one does the same for the networks of
the measurement data, the last one counts fallbacks. `--json` writes the second one.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from common import csv_rows, published_models, report, required_shared_folder
from compiled import NETWORKS, CompiledEpoch, compiled_epochs

from npuforge.accelerators.neural_art.epochs import Epoch
from npuforge.accelerators.neural_art.operations import Operation, operations
from npuforge.accelerators.protocol import PlacementKind
from npuforge.importers import load_model
from npuforge.mapping import map_to_npu

TOLERANCE = 2
KIND = {PlacementKind.HARDWARE: "hardware", PlacementKind.HYBRID: "hybrid"}
WHY = {
    "yolox_nano_480": "the branches of one of three equal heads run in another order than those of "
    "the other two: no rule on the graph's structure gives all three, nor those of YOLOv8n",
    "deeplab_v3_mnv2_320": "five branches side by side, three of them dilated, in another order; "
    "this network is the only evidence",
    "yolov11n_micro_224_int8.onnx": "an attention block more or less a C helper",
    "033_palm_detection_full_quant_pc_uf_od.tflite": "some transposes around the pads of channels "
    "run in hardware",
    "face_landmark_ptq.tflite": "some transposes around the pads of channels run in hardware",
    "face_landmarks_v1_192_int8_pc.onnx": "two of three transposes before the pads of channels "
    "run in hardware",
    "ch_PP-OCRv4_det_160_qdq.onnx": "a hard sigmoid read under two scales went to float on the CPU",
}


def compiled_table(shared: Path) -> None:
    """Epoch by epoch, and node by node."""
    table = []
    for name, (file, integer_io) in NETWORKS.items():
        graph = load_model(shared / "models" / file)
        npu = map_to_npu(graph, integer_io=integer_io, release="2.1")
        ops = {op.writes: op for op in operations(graph, npu.placements)}
        truth = compiled_epochs(shared / "aton" / name, graph, tuple(ops.values()))
        predicted = [frozenset(op.writes for op in epoch.operations) for epoch in npu.epochs]
        real = [epoch.made for epoch in truth]
        right = sum(e.made in predicted and not e.unknown for e in truth)
        wrong = [e for e in real if e not in predicted] + [e for e in predicted if e not in real]
        nodes = {op.node for op in ops.values()}
        off = {ops[value].node for made in wrong for value in made}
        ran, own_kinds = _kinds(truth, ops), _kinds(npu.epochs, ops)
        counts = [sum(e.kind == k for e in truth) for k in ("hardware", "hybrid", "software")]
        own = (npu.hardware_epochs, npu.hybrid_epochs, npu.software_epochs)
        table.append(
            (
                *(name, "/".join(map(str, counts)), "/".join(map(str, own))),
                f"{sum(ran[node] == own_kinds[node] for node in nodes)} of {len(nodes)}",
                *(f"{right} of {len(truth)}", f"{len(nodes - off)} of {len(nodes)}"),
                WHY.get(name, "") if right < len(truth) else "",
            )
        )
    columns = (
        *("network", "true hw/hyb/sw", "predicted", "placed right"),
        *("epochs equal", "nodes in them", "why not"),
    )
    report("compiled networks, operation by operation", columns, table, None)


def _kinds(
    epochs: Iterable[CompiledEpoch | Epoch], ops: dict[str, Operation]
) -> dict[str, Counter[str]]:
    """How many operations of each node run in epochs of each kind."""
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for epoch in epochs:
        if isinstance(epoch, CompiledEpoch):
            kind, made = epoch.kind, [v for v in epoch.made if v in ops]
        else:
            kind, made = KIND.get(epoch.kind, "software"), [op.writes for op in epoch.operations]
        for value in made:
            kinds[ops[value].node][kind] += 1
    return kinds


def public_table(folders: list[Path], out: Path | None) -> None:
    """Counts against public compile reports."""
    table = []
    within = {"0": [0, 0], "1": [0, 0]}
    missing = []
    for row in csv_rows(Path(__file__).with_name("public_epochs.csv")):
        path = next((f / row["file"] for f in folders if (f / row["file"]).is_file()), None)
        if path is None:
            missing.append(row["file"])
            continue
        graph = load_model(path)
        npu = map_to_npu(graph, integer_io=row["integer_io"] == "1", release=row["compiler"])
        true = int(row["hybrid"]) + int(row["software"])
        own = npu.hybrid_epochs + npu.software_epochs
        if row["integer_io"] == "in":
            own -= sum(
                placement.software_epochs
                for node, placement in zip(graph.nodes, npu.placements, strict=True)
                if placement.rule == "MAP-npu-float-io" and node.op == "quantize"
            )
        miss = abs(true - own)
        within[row["rules_from_it"]][0] += miss <= TOLERANCE
        within[row["rules_from_it"]][1] += 1
        source = "yes" if row["rules_from_it"] == "1" else "no"
        table.append(
            (row["file"][:46], row["compiler"], source, true, own, miss, row["hardware"],
             npu.hardware_epochs,
             WHY.get(row["file"], "") if miss else "")
        )  # fmt: skip
    columns = (
        "file",
        "tool",
        "rules from it",
        "true sw+hyb",
        "predicted",
        "miss",
        "true hw",
        "hw",
        "why",
    )
    report("public compile reports", columns, table, out,
           within_and_compared={"no rule from it": within["0"], "rules from it": within["1"]},
           not_present=missing)  # fmt: skip


def single_table(shared: Path) -> None:
    """Networks of the measurement data with epoch counts of a report or a run."""
    truth: dict[str, int] = {}
    for name in ("compile_reports", "bench_runs"):
        for row in csv_rows(shared / "groundtruth" / f"{name}.csv"):
            software = row.get("epochs_sw") or row.get("epochs_sw_compiler")
            if software:
                count = int(float(software)) + int(float(row.get("epochs_hybrid") or 0))
                truth[row["row_id"]] = count
    table = []
    for model in published_models(shared):
        for identity, tag in model.rows.items():
            if identity in truth:
                graph = load_model(shared / "models" / model.file)
                both = []
                for io in (True, False):
                    npu = map_to_npu(graph, integer_io=io)
                    both.append(npu.software_epochs + npu.hybrid_epochs)
                miss = abs(truth[identity] - both[1])
                table.append(
                    (model.file[:52], identity, tag or "exact", truth[identity], *both, miss)
                )
    columns = ("model", "row", "match", "true", "integer io", "as file", "miss")
    within = sum(int(str(line[6])) <= TOLERANCE for line in table)
    report("measurement data", columns, table, None, within=within, compared=len(table))


def fallback_table(shared: Path) -> None:
    """Fallback nodes of every model file, and those without reason or remedy."""
    count = empty = models = 0
    for path in sorted((shared / "models").iterdir()):
        fallbacks = map_to_npu(load_model(path)).fallbacks
        models += 1
        count += len(fallbacks)
        empty += sum(not f.reason or not f.remedy or "{" in f.reason + f.remedy for f in fallbacks)
    report("fallbacks", ("models", "fallback nodes", "without reason or remedy"),
           [(models, count, empty)], None)  # fmt: skip


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--models", type=Path, action="append", default=[], help="model files")
    options = parser.parse_args()
    shared = required_shared_folder()
    compiled_table(shared)
    print()
    public_table([*options.models, shared / "models"], options.json)
    print()
    single_table(shared)
    print()
    fallback_table(shared)


if __name__ == "__main__":
    main()
