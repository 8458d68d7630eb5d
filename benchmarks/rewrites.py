"""What `npuforge optimize` does to the published models and to patterns of public networks.

One row a model: NPU share, epochs off the NPU and predicted time before and after, and how far the
outputs are from the original's. One row a pass: in how many models it was applied, at how many
places, and its largest measured difference; "refused" counts places where the difference exceeded
the bound, so that nothing was changed there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from common import ROOT, report, shared_folder

from npuforge.explore.judge import TargetJudge
from npuforge.graph import Graph
from npuforge.importers import load_model
from npuforge.passes import (
    BOUNDARY,
    PASSES,
    Optimization,
    Outcome,
    Status,
    calibrated_inputs,
    optimize,
)
from npuforge.targets import load_target

sys.path.insert(0, str(ROOT))
from tests.passes.patterns import PATTERNS


def models(wanted: str, folders: Sequence[Path]) -> Iterator[Path]:
    """Model files of the measurement data, else the examples; of the folders alone if any."""
    shared = shared_folder()
    if folders:
        for folder in folders:
            yield from sorted(p for p in folder.glob(wanted) if p.suffix in (".tflite", ".onnx"))
    elif shared is not None:
        yield from sorted((shared / "models").glob(wanted))
    else:
        yield from sorted((ROOT / "examples").glob(f"*/{wanted}.tflite"))


def improved(graph: Graph, judge: TargetJudge, samples: int, codes: set[str]) -> Optimization:
    """A graph after all passes, or after some."""
    rewrites = [item for item in PASSES if not codes or item.code in codes]
    ends = [item for item in BOUNDARY if not codes or item.code in codes]
    return optimize(graph, rewrites, ends, calibrated_inputs(graph, samples, 42), judge)


def row(name: str, made: Optimization, seconds: float) -> tuple[object, ...]:
    """One line of the table of models."""
    before, after = made.before, made.after
    return (
        name[:56],
        f"{before.node_share or 0:.1%}",
        f"{after.node_share or 0:.1%}",
        *(before.off_npu, after.off_npu, before.nodes, after.nodes),
        *(f"{before.ms:.2f}", f"{after.ms:.2f}", f"{made.difference.relative:.2%}"),
        f"{made.difference.argmax:.1%}",
        f"{seconds:.0f}",
    )


def gains(outcome: Outcome) -> bool:
    """Whether a pass raised the NPU share."""
    before, after = outcome.before.node_share, outcome.after.node_share
    return before is not None and after is not None and after > before


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--models", default="*", help="glob of model files")
    parser.add_argument("--folder", type=Path, action="append", default=[], help="other models")
    parser.add_argument("--samples", type=int, default=2, help="random samples a model")
    options = parser.parse_args()
    target = load_target("stm32n6570-dk")
    judge = TargetJudge(target, target.operating_points["nominal"])
    tally: dict[str, dict[str, float]] = {}
    table = []
    for path in models(options.models, options.folder):
        begin = time.perf_counter()
        made = improved(load_model(path), judge, options.samples, set())
        table.append(row(path.name, made, time.perf_counter() - begin))
        print(*table[-1], flush=True)
        for outcome in made.outcomes:
            count(tally, outcome)
    columns = ("model", "share", "after", "off", "after", "nodes", "after", "ms", "after",
               "outputs", "argmax", "s")  # fmt: skip
    print()
    report("models", columns, table, None)
    patterns = []
    for pattern in PATTERNS:
        made = improved(pattern.make(), judge, options.samples, {pattern.code})
        outcome = made.outcomes[0]
        patterns.append(
            (
                *(pattern.code, pattern.make.__name__, outcome.status.value),
                *(f"{made.before.node_share or 0:.1%}", f"{made.after.node_share or 0:.1%}"),
                *(made.before.off_npu, made.after.off_npu, f"{outcome.worst.steps:g}"),
                *(f"{outcome.bound:g}", f"{made.difference.relative:.2%}", pattern.source),
            )
        )
    print()
    names = ("pass", "pattern", "result", "share", "after", "off", "after", "steps", "bound",
             "outputs", "found in")  # fmt: skip
    report("patterns", names, patterns, None)
    print()
    rows = [
        (code, int(t["models"]), int(t["places"]), int(t["raised"]), int(t["refused"]),
         f"{t['steps']:g}", f"{t['bound']:g}")
        for code, t in tally.items()
    ]  # fmt: skip
    heads = ("pass", "models", "places", "raised the share in", "refused", "steps", "bound")
    report("passes over the models", heads, rows, None)
    if options.json is not None:
        document = {
            "models": [list(map(str, line)) for line in table],
            "patterns": [list(map(str, line)) for line in patterns],
            "passes": tally,
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def count(tally: dict[str, dict[str, float]], outcome: Outcome) -> None:
    """Add one pass on one model to the tally."""
    entry = tally.setdefault(
        outcome.code,
        {"models": 0, "places": 0, "raised": 0, "refused": 0, "steps": 0.0, "bound": outcome.bound},
    )
    entry["models"] += outcome.status is Status.APPLIED
    entry["places"] += len(outcome.sites)
    entry["raised"] += gains(outcome)
    entry["refused"] += outcome.refused if outcome.status is Status.DIFFERS else 0
    if outcome.status is Status.APPLIED:
        kept = max((site.difference.steps for site in outcome.sites), default=0.0)
        entry["steps"] = max(entry["steps"], kept)


if __name__ == "__main__":
    main()
