"""`npuforge analyze`: what a deployment will be, without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from npuforge.cost import NpuCost
    from npuforge.mapping import NpuMapping
    from npuforge.pipeline import PlannedModel


def command(
    model: Path = typer.Argument(help="TFLite or ONNX file."),
    target: str = typer.Option("stm32n6570-dk", "--target", "-t", help="Board or its .toml file."),
    clock: str = typer.Option("nominal", help="Operating point of the target."),
    contract: str | None = typer.Option(
        None, help="Arithmetic of integer nodes; default: the file's."
    ),
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    cpu: list[str] = typer.Option([], "--cpu", help="Node or operator forced to the CPU."),
    strict: float | None = typer.Option(
        None, "--strict", help="Exit 1 when fewer nodes than this percentage stay on the NPU."
    ),
    only_npu: bool = typer.Option(False, "--only-npu", help="Exit 1 when a node leaves the NPU."),
    integer_io: bool = typer.Option(
        False, "--integer-io", help="Network inputs and outputs stay integers: no conversions."
    ),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Every node with its contract."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Read, map, lower and plan a model; show operators, work and memory."""
    from npuforge import api
    from npuforge.cli.common import console, print_json, progress
    from npuforge.cli.lint import print_findings
    from npuforge.report import analysis_document, npu_document, npu_time_document
    from npuforge.report.lint import lint_section

    with progress("analyzing"):
        planned, board = api.analyze_model(model, target, contract=contract, fix_shape=fix_shape)
        api.check_clock(board, clock)
        npu = api.npu_mapping(planned.graph, board, cpu=cpu, integer_io=integer_io)
        time = None if npu is None else api.npu_time(planned.graph, board, npu, clock)
        found = api.lint_model(model, fix_shape=fix_shape, graph=planned.graph)
    if as_json:
        document = analysis_document(planned, board, clock)
        if npu is not None and time is not None:
            extra = {"npu": npu_document(npu), "npu_time": npu_time_document(time)}
            document = {**document, **extra, "lint": lint_section(found)}
        print_json(document)
    else:
        _print(planned, board.title, verbose)
        if npu is not None:
            _print_npu(npu)
            if verbose:
                _print_epochs(npu)
        if time is not None:
            _print_cost(time)
        if npu is not None and found:
            console().print()
            print_findings(found)
    missing = npu is None or bool(npu.fallbacks)
    below = strict is not None and (npu is None or 100 * npu.node_share < strict)
    if below or (only_npu and missing):
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


def _print_npu(npu: NpuMapping) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.graph import short_name
    from npuforge.messages import text
    from npuforge.report import human_bytes, human_count

    console().print()
    console().print(
        text(
            "NPU-share", nodes=f"{npu.node_share:.1%}", macs=f"{npu.mac_share:.1%}",
            hardware=npu.hardware_epochs, hybrid=npu.hybrid_epochs, software=npu.software_epochs,
        ),
        markup=False,
    )  # fmt: skip
    if npu.fallbacks:
        print_table(
            text("NPU-leaves"),
            tuple(text("NPU-leaves-columns").split("|")),
            [
                (
                    *(f"{f.op} {short_name(f.node)}", f.kind.value.replace("_", " ")),
                    *(human_count(f.macs), human_bytes(f.bytes), f"{f.rule}: {f.reason}"),
                    *(f.remedy, f.confidence),
                )
                for f in npu.fallbacks
            ],
        )


def _print_epochs(npu: NpuMapping) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.graph import short_name
    from npuforge.messages import text

    rows = []
    for number, epoch in enumerate(npu.epochs):
        parts: dict[str, list[str]] = {}
        for op in epoch.operations:
            parts.setdefault(short_name(op.node), []).append(op.part.value)
        steps = "; ".join(f"{node}: {' '.join(names)}" for node, names in parts.items())
        rows.append((number, epoch.kind.value.replace("_", " "), steps))
    console().print()
    print_table(text("NPU-epochs"), tuple(text("NPU-epochs-columns").split("|")), rows)


def _print_cost(cost: NpuCost) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.graph import short_name

    low, high = cost.interval
    console().print()
    console().print(
        f"estimated time: {cost.ms:.2f} ms, 80 % interval {low:.2f} to {high:.2f} ms "
        "(weights in flash, activations in NPU RAM; published 800/1000 MHz figures)"
    )
    slowest = sorted(cost.epochs, key=lambda epoch: -epoch.ms)[:10]
    print_table(
        "slowest epochs",
        ("node", ">ms", ">share", "waits for", "mode"),
        [
            (f"{e.op} {short_name(e.node)}", f"{e.ms:.3f}", f"{e.ms / cost.ms:.1%}",
             e.bottleneck.value, "16x8" if e.wide else "")
            for e in slowest
        ],
    )  # fmt: skip
