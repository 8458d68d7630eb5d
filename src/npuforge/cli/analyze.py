"""`npuforge analyze`: what a deployment will be, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from npuforge.pipeline import PlannedModel


def command(
    models: list[Path] = typer.Argument(help="TFLite or ONNX file; several make one table."),
    target: str = typer.Option(
        "stm32n6570-dk",
        "--target",
        "-t",
        help="Board or its .toml file, or all: compare them.",
    ),
    clock: str = typer.Option("nominal", help="Operating point of the target."),
    contract: str | None = typer.Option(
        None, help="Arithmetic of integer nodes; default: the file's."
    ),
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    activations: str | None = typer.Option(
        None,
        help="Bytes that the activations may take, for example 294KiB; default: all there are.",
    ),
    tiling: bool = typer.Option(
        True, help="Compute in stripes of rows what does not fit otherwise; the same results."
    ),
    cpu: list[str] = typer.Option([], "--cpu", help="Node or operator forced to the CPU."),
    strict: float | None = typer.Option(
        None, "--strict", help="Exit 1 when fewer nodes than this percentage stay on the NPU."
    ),
    only_npu: bool = typer.Option(False, "--only-npu", help="Exit 1 when a node leaves the NPU."),
    integer_io: bool = typer.Option(
        False, "--integer-io", help="Network inputs and outputs stay integers: no conversions."
    ),
    release: str = typer.Option(
        "4.0", "--compiler", help="Release of ST Edge AI Core that compiles the network."
    ),
    st_report: Path | None = typer.Option(
        None, "--st-report", help="c_info.json or text report of ST's tool, compared with."
    ),
    vela: Path | None = typer.Option(
        None, "--vela", help="Vela's per-layer .csv: the placement on an Ethos-U."
    ),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Every node with its contract."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Read, map, lower and plan a model; show operators, work and memory."""
    from npuforge import api
    from npuforge.cli import npu_tables
    from npuforge.cli.common import console, print_json, progress
    from npuforge.cli.lint import print_findings
    from npuforge.report import analysis_document, tiling_notes
    from npuforge.report.lint import lint_section

    if len(models) > 1:
        npu_tables.show_models(models, target, fix_shape, cpu, integer_io, as_json)
        return
    model = models[0]
    if target == "all":
        graph = api.load_graph(model, contract, fix_shape)
        npu_tables.show_boards(graph, cpu, integer_io, as_json)
        return
    with progress("analyzing"):
        planned, board = api.analyze_model(
            model, target, contract=contract, fix_shape=fix_shape, activations=activations,
            tiling=tiling,
        )  # fmt: skip
        api.check_clock(board, clock)
        view = npu_tables.view_of(
            planned.graph, board, clock, cpu=cpu, integer_io=integer_io, release=release,
            st_report=st_report, vela=vela,
        )  # fmt: skip
        found = api.lint_model(model, fix_shape=fix_shape, graph=planned.graph)
    if as_json:
        parts = {**npu_tables.documents(view), "lint": lint_section(found)}
        print_json({**analysis_document(planned, board, clock), **parts})
    else:
        _print(planned, board.title, verbose)
        for note in tiling_notes(planned, board, clock):
            console().print(note, markup=False, soft_wrap=True)
        npu_tables.show(view, only_npu=only_npu, verbose=verbose)
        if view.npu is not None and found:
            console().print()
            print_findings(found)
    share, fallbacks = npu_tables.outcome(view)
    if (strict is not None and 100 * share < strict) or (only_npu and fallbacks):
        raise typer.Exit(1)


def _peak(model: PlannedModel) -> str:
    from npuforge.graph import short_name

    steps = model.schedule.steps
    if not steps:
        return "-"
    step = steps[model.plan.peak_step]
    return f"step {model.plan.peak_step}, {step.op} {short_name(step.node)}"


def _print(model: PlannedModel, title: str, verbose: bool) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.graph import format_graph, macs
    from npuforge.report import human_bytes, human_count

    graph, plan = model.graph, model.plan
    gap = "proved minimal" if plan.proved_optimal else f"{plan.gap:.1%} above the lower bound"
    rows = [
        ("model", f"{graph.name} ({graph.source}), {len(graph.nodes)} nodes"),
        ("target", title),
        ("work", f"{human_count(model.cost.macs)} multiply-accumulates an inference"),
        ("weights", f"{human_bytes(plan.image.size)} in {plan.weights.name}"),
        ("activations", f"{human_bytes(plan.activation_bytes)}, {gap}"),
        *(
            ("", f"{human_bytes(region.used)} of {human_bytes(region.size)} in {region.name}")
            for region in plan.regions
        ),
        ("peak at", _peak(model)),
        ("added transposes", graph.added_transposes),
    ]
    print_table("", ("", ""), rows)
    work: dict[tuple[str, str], list[int]] = {}
    for node in graph.nodes:
        kind = model.mapping.placements[node.name].kind.value.replace("_", " ")
        entry = work.setdefault((node.op, kind), [0, 0])
        entry[0] += 1
        entry[1] += macs(graph, node)
    console().print()
    print_table(
        "operators",
        ("operator", "runs as", ">nodes", ">MAC", ">share"),
        [
            (op, kind, count, human_count(n), f"{n / max(model.cost.macs, 1):.1%}")
            for (op, kind), (count, n) in sorted(work.items(), key=lambda item: -item[1][1])
        ],
    )
    if verbose:
        console().print()
        console().print(format_graph(graph), markup=False, soft_wrap=True)
