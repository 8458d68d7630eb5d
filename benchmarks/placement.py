"""Predicted software and hybrid epochs against published compile reports.

Every model file that is tied to a compile report, run log or per-epoch log with epoch counts (the
exact file, one of the same name, or one of the same topology). Reports say nothing of where the
network's boundary is converted: what counts is the prediction for the file as it is; the one with
integer inputs and outputs stands beside it.
"""

from __future__ import annotations

from common import arguments, csv_rows, published_models, report, shared_folder

from npuforge.importers import load_model
from npuforge.mapping import map_to_npu

TOLERANCE = 2


def main() -> None:
    """Print the table; the last line is the share of networks within the tolerance."""
    options = arguments(__doc__ or "")
    shared = shared_folder()
    if shared is None:
        raise SystemExit("the measurement data is not present")
    truth: dict[str, tuple[int, str]] = {}
    for name in ("compile_reports", "bench_runs"):
        for row in csv_rows(shared / "groundtruth" / f"{name}.csv"):
            software = row.get("epochs_sw") or row.get("epochs_sw_compiler")
            if software:
                count = int(float(software)) + int(float(row.get("epochs_hybrid") or 0))
                kinds = row.get("sw_ops") or row.get("epoch_kinds_compiler") or ""
                truth[row["row_id"]] = (count, kinds)
    table: list[tuple[object, ...]] = []
    for model in published_models(shared):
        known = [(key, tag) for key, tag in model.rows.items() if key in truth]
        if not known:
            continue
        graph = load_model(shared / "models" / model.file)
        both = []
        for integer_io in (True, False):
            npu = map_to_npu(graph, integer_io=integer_io)
            both.append(npu.software_epochs + npu.hybrid_epochs)
        for identity, tag in known:
            count, kinds = truth[identity]
            miss = abs(count - both[1])
            table.append((model.file[:52], identity, tag or "exact", count, *both, miss, kinds))
    within = sum(int(str(line[6])) <= TOLERANCE for line in table)
    columns = ("model", "row", "match", "true", "integer io", "as file", "miss", "true kinds")
    report(
        "software and hybrid epochs",
        columns,
        table,
        options.json,
        compared=len(table),
        within=within,
    )
    print(f"{within} of {len(table)} within {TOLERANCE}")


if __name__ == "__main__":
    main()
