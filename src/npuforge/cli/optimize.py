"""`npuforge optimize`: rewrite a model so that more of it runs on the NPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from npuforge.passes import Optimization, Score
    from npuforge.report.optimization import Written


def command(
    model: Path | None = typer.Argument(None, help="TFLite or ONNX file."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="File to write (.tflite or .onnx); without it, a dry run."
    ),
    target: str = typer.Option("stm32n6570-dk", "--target", "-t", help="Board or its .toml file."),
    clock: str = typer.Option("nominal", help="Operating point of the target."),
    passes: str = typer.Option("", "--passes", help="Only these passes, comma-separated."),
    skip: str = typer.Option("", "--skip", help="None of these passes, comma-separated."),
    cut: bool = typer.Option(
        False, "--cut", help="Move conversions and CPU work at the ends into the application."
    ),
    data: list[Path] = typer.Option(
        [], "--data", help="Inputs to measure on: .npz, .npy, picture."
    ),
    samples: int | None = typer.Option(None, "--samples", help="Number of random samples."),
    image_range: str | None = typer.Option(None, help="What pictures are: 0..1, -1..1, 0..255."),
    limit: float = typer.Option(
        5.0, "--limit", help="Largest difference of the outputs, in percent of their size."
    ),
    insist: bool = typer.Option(False, "--insist", help="Apply passes that bring no gain, too."),
    contract: str | None = typer.Option(
        None, help="Arithmetic of integer nodes; default: the file's."
    ),
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    list_all: bool = typer.Option(False, "--list", help="Show all passes and stop."),
    force: bool = typer.Option(False, "--force", help="Replace existing files."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Rewrite a model for the NPU; every rewrite is run against the original on data first.

    Exit code 1 when a pass named in --passes differs too much to be applied.
    """
    from npuforge import api
    from npuforge.cli.common import print_json, progress
    from npuforge.passes import Status
    from npuforge.report.optimization import optimization_document

    if list_all:
        _list()
        return
    if model is None:
        raise typer.BadParameter("MODEL is missing")
    wanted = [name for name in passes.split(",") if name]
    with progress("optimizing") as tick:
        made, written = api.optimize_model(
            model,
            output,
            target=target,
            clock=clock,
            passes=wanted,
            skip=[name for name in skip.split(",") if name],
            cut=cut,
            data=data,
            random_samples=samples,
            image_range=image_range,
            limit=limit / 100.0,
            insist=insist,
            contract=contract,
            fix_shape=fix_shape,
            force=force,
            tick=tick,
        )
    if as_json:
        print_json(optimization_document(made, written))
    else:
        _print(made, written)
    refused = (Status.DIFFERS, Status.OUTPUTS, Status.NO_KERNEL)
    if any(o.code in wanted and o.status in refused for o in made.outcomes):
        raise typer.Exit(1)


def _list() -> None:
    from npuforge.cli.common import print_table
    from npuforge.messages import text
    from npuforge.passes import BOUNDARY, PASSES

    rows = [
        (item.code, "exact" if not item.bound else f"{item.bound:g}", text(f"PASS-{item.code}"))
        for item in PASSES
    ]
    rows += [(item.code, "--cut", text(f"PASS-{item.code}")) for item in BOUNDARY]
    print_table("passes", ("pass", "bound", "what"), rows)


def _share(score: Score) -> str:
    return "-" if score.node_share is None else f"{score.node_share:.1%}"


def _print(made: Optimization, written: Written | None) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.messages import text
    from npuforge.passes import Status
    from npuforge.report.optimization import same

    found = [o for o in made.outcomes if o.status is not Status.NOT_FOUND]
    print_table(
        f"{made.original.name}: passes",
        ("pass", ">places", ">share before", ">after", ">steps", ">outputs", "result"),
        [
            (
                *(o.code, len(o.sites), _share(o.before), _share(o.after), f"{o.worst.steps:g}"),
                *(same(o.output), text(f"PASS-{o.status.value}", reason=o.reason)),
            )
            for o in found
        ],
    )
    console().print()
    before, after = made.before, made.after
    print_table(
        "",
        ("", ">before", ">after"),
        [
            ("nodes", before.nodes, after.nodes),
            ("on the NPU", _share(before), _share(after)),
            ("software epochs", before.software_epochs, after.software_epochs),
            ("hybrid epochs", before.hybrid_epochs, after.hybrid_epochs),
            ("transposes", before.transposes, after.transposes),
            ("known to hang", before.hazards, after.hazards),
            ("predicted ms", f"{before.ms:.2f}", f"{after.ms:.2f}"),
        ],
    )
    out = console()
    out.print(
        f"outputs differ by {same(made.difference)} over {made.samples} samples; largest value "
        f"stays at its place in {made.difference.argmax:.1%} of rows"
    )
    if made.tails or made.heads:
        out.print(f"outputs are now: {', '.join(made.graph.outputs)}", markup=False)
    if written is not None:
        for path in (written.path, *written.parts.values()):
            out.print(f"written: {path}", markup=False, soft_wrap=True)
        for label, reason in written.unwritten.items():
            out.print(f"{label} not written: {reason}", markup=False)
        if written.score != made.after:
            out.print(
                f"read again: {_share(written.score)} on the NPU, {written.score.ms:.2f} ms, "
                f"{written.score.nodes} nodes"
            )
        if not written.difference.is_zero:
            out.print(f"the file's outputs differ from the graph's by {same(written.difference)}")
