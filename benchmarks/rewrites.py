"""What `npuforge optimize` does to the published models and to patterns of public networks.

One row a model: NPU share, epochs off the NPU and predicted time before and after, and how far the
outputs are from the original's. One row a pass: in how many models it was applied, at how many
places, and its largest measured difference; "refused" counts places where the difference exceeded
the bound, so that nothing was changed there. The last table sums up: how many passes raise the
share of a published model or of a pattern, and whether anything was kept beyond its bound.
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
    Score,
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


def kept_beyond(outcome: Outcome) -> int:
    """Places that were kept although they differ by more than the pass may."""
    if outcome.status is not Status.APPLIED:
        return 0
    return sum(site.difference.steps > outcome.bound for site in outcome.sites)


def summed(scores: Sequence[tuple[str, Score, Score]], raising: int, beyond: int) -> dict[str, str]:
    """The figures that documentation quotes."""
    before = [old.node_share or 0 for _, old, _ in scores]
    after = [new.node_share or 0 for _, _, new in scores]
    ratios = sorted(new.ms / old.ms for _, old, new in scores)
    worse = sum(new < old for old, new in zip(before, after, strict=True))
    count = max(len(scores), 1)
    return {
        "models": str(len(scores)),
        "share raised in": str(sum(new > old for old, new in zip(before, after, strict=True))),
        "share lowered in": str(worse),
        "wholly on the NPU before": str(sum(share == 1 for share in before)),
        "wholly on the NPU after": str(sum(share == 1 for share in after)),
        "mean share before": f"{sum(before) / count:.1%}",
        "mean share after": f"{sum(after) / count:.1%}",
        "nodes off the NPU before": str(sum(old.off_npu for _, old, _ in scores)),
        "nodes off the NPU after": str(sum(new.off_npu for _, _, new in scores)),
        "predicted time, median ratio": f"{ratios[len(ratios) // 2]:.3f}" if ratios else "",
        "predicted time, best ratio": f"{ratios[0]:.3f}" if ratios else "",
        "predicted time, worst ratio": f"{ratios[-1]:.3f}" if ratios else "",
        "passes that raise the share of a model or pattern": str(raising),
        "places kept beyond their bound": str(beyond),
    }


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
    table, scores, beyond = [], [], 0
    for path in models(options.models, options.folder):
        begin = time.perf_counter()
        made = improved(load_model(path), judge, options.samples, set())
        table.append(row(path.name, made, time.perf_counter() - begin))
        print(*table[-1], flush=True)
        scores.append((path.name, made.before, made.after))
        beyond += sum(kept_beyond(outcome) for outcome in made.outcomes)
        for outcome in made.outcomes:
            count(tally, outcome)
    columns = ("model", "share", "after", "off", "after", "nodes", "after", "ms", "after",
               "outputs", "argmax", "s")  # fmt: skip
    print()
    report("models", columns, table, None)
    patterns, raising = [], {code for code, entry in tally.items() if entry["raised"]}
    for pattern in PATTERNS:
        made = improved(pattern.make(), judge, options.samples, {pattern.code})
        outcome = made.outcomes[0]
        beyond += kept_beyond(outcome)
        if gains(outcome):
            raising.add(pattern.code)
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
    summary = summed(scores, len(raising), beyond)
    print()
    report("summary", ("what", "figure"), list(summary.items()), None)
    if options.json is not None:
        document = {
            "models": [list(map(str, line)) for line in table],
            "patterns": [list(map(str, line)) for line in patterns],
            "passes": tally,
            "raising": sorted(raising),
            "summary": summary,
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
