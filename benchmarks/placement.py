"""Predicted software and hybrid epochs against published compile reports.

Every model file that is tied to a compile report, run log or per-epoch log with epoch counts (the
exact file, one of the same name, or one of the same topology). Reports say nothing of where the
network's boundary is converted: what counts is the prediction for the file as it is; the one with
integer inputs and outputs stands beside it.
"""

from __future__ import annotations

import csv
import re

from common import arguments, report, shared_folder

from npuforge.importers import load_model
from npuforge.mapping import map_to_npu

TOLERANCE = 2
TAGS = {"", "same-name", "arch-equivalent"}


def main() -> None:
    """Print the table; the last line is the share of networks within the tolerance."""
    options = arguments(__doc__ or "")
    shared = shared_folder()
    if shared is None:
        raise SystemExit("the measurement data is not present")
    truth: dict[str, tuple[int, str]] = {}
    for name in ("compile_reports", "bench_runs"):
        with (shared / "groundtruth" / f"{name}.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                software = row.get("epochs_sw") or row.get("epochs_sw_compiler")
                if software:
                    count = int(float(software)) + int(float(row.get("epochs_hybrid") or 0))
                    kinds = row.get("sw_ops") or row.get("epoch_kinds_compiler") or ""
                    truth[row["row_id"]] = (count, kinds)
    table: list[tuple[object, ...]] = []
    with (shared / "groundtruth" / "models.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            entries = re.findall(r"([A-Z]\d+)(?:\(([^)]*)\))?", row["row_ids"])
            known = [(i, t) for i, t in entries if i in truth and (t or "") in TAGS]
            if not known:
                continue
            graph = load_model(shared / "models" / row["file_name"])
            both = []
            for integer_io in (True, False):
                npu = map_to_npu(graph, integer_io=integer_io)
                both.append(npu.software_epochs + npu.hybrid_epochs)
            for identity, tag in known:
                count, kinds = truth[identity]
                miss = abs(count - both[1])
                table.append(
                    (row["file_name"][:52], identity, tag or "exact", count, *both, miss, kinds)
                )
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
