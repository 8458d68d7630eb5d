"""`npuforge cost`: how fast, why not faster, at what energy, and what a board's log says to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from npuforge.api_cost import ModelCost
    from npuforge.cost.energy import DutyCycle
    from npuforge.cost.measured import Comparison


def command(
    model: Path = typer.Argument(help="TFLite or ONNX file."),
    target: str = typer.Option("stm32n6570-dk", "--target", "-t", help="Board or its .toml file."),
    clock: str = typer.Option(
        "nominal", help="Operating point, a .toml file, or BASE,cpu=600,npu=800,flash=50 in MHz."
    ),
    compiler: str = typer.Option("4.0", help="Release of ST Edge AI Core."),
    no_controller: bool = typer.Option(
        False, "--no-epoch-controller", help="The CPU sets up every hardware epoch."
    ),
    calibration: Path | None = typer.Option(None, help="Constants that calibrate wrote."),
    integer_io: bool = typer.Option(
        False, "--integer-io", help="Network inputs and outputs stay integers: no conversions."
    ),
    cpu: list[str] = typer.Option([], "--cpu", help="Node or operator forced to the CPU."),
    rate: float | None = typer.Option(None, min=0.001, help="Inferences a second: best power."),
    measured: Path | None = typer.Option(None, help="Report or per-epoch log of a board."),
    roofline: Path | None = typer.Option(None, help="SVG file to write the roofline picture to."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Time, energy, bottlenecks and remedies of a model on Neural-ART."""
    from npuforge import api_cost
    from npuforge.cli.common import print_json, progress
    from npuforge.cost.energy import duty_cycles
    from npuforge.report import model_cost_document, write_file
    from npuforge.report.roofline import roofline_svg

    with progress("estimating"):
        found = api_cost.model_cost(
            model, target, clock=clock, compiler=compiler, controller=not no_controller,
            calibration=calibration, integer_io=integer_io, cpu=cpu,
        )  # fmt: skip
        cycles = duty_cycles(found.at_points, rate) if rate else ()
        compared = api_cost.measured_against(found.cost, measured) if measured else None
    if roofline is not None:
        write_file(roofline, roofline_svg(found.cost, model.stem).encode())
    if as_json:
        print_json(model_cost_document(found, cycles, compared))
    else:
        _print(found)
        if cycles:
            _print_cycles(cycles)
        if compared is not None:
            _print_measured(compared)
    if compared is not None and compared.suspicions:
        raise typer.Exit(1)


def _print(found: ModelCost) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.cost import Bottleneck
    from npuforge.graph import short_name
    from npuforge.report import human_bytes

    cost = found.cost
    low, high = cost.interval
    console().print(
        f"{cost.ms:.2f} ms, 80 % interval {low:.2f} to {high:.2f} ms; best possible "
        f"{found.why.best_ms:.2f} ms ({cost.calibration.basis})"
    )
    for energy in (found.board.total, found.core.total):
        console().print(
            f"{energy.uj:.0f} uJ {energy.level.value}, 80 % interval {energy.low:.0f} to "
            f"{energy.high:.0f} uJ"
        )
    print_table(
        "what the time waits for", ("", ">share"),
        [(b.value, f"{cost.share(b):.1%}") for b in Bottleneck if cost.share(b) > 0],
    )  # fmt: skip
    print_table(
        "why slower than the best possible", ("cause", ">ms", ">share", ">epochs", "remedy"),
        [(s.cause.value, f"{s.ms:.3f}", f"{s.share:.1%}", s.epochs, s.remedy)
         for s in found.why.savings],
    )  # fmt: skip
    order = {e.node: e for e in found.board.epochs}
    print_table(
        "slowest epochs", ("node", ">ms", ">share", "waits for", ">uJ", ">mW"),
        [
            (f"{e.op} {short_name(e.node)}", f"{e.ms:.3f}", f"{e.ms / cost.ms:.1%}",
             e.bottleneck.value, f"{order[e.node].energy.uj:.1f}", f"{order[e.node].mw:.0f}")
            for e in sorted(cost.epochs, key=lambda e: -e.ms)[:10]
        ],
    )  # fmt: skip
    plan = found.prefetch
    print_table(
        f"weights in RAM: {human_bytes(plan.room)} free, {plan.ms:.3f} ms saved by those that fit; "
        f"{plan.ahead_ms:.3f} ms by fetching one epoch ahead into {human_bytes(plan.buffer)}",
        ("node", ">bytes", ">ms saved", ">fetched ahead", "fits"),
        [(short_name(p.node), human_bytes(p.nbytes), f"{p.ms:.3f}", f"{p.ahead_ms:.3f}",
          "yes" if p.fits else "") for p in sorted(plan.entries, key=lambda p: -p.ms)[:10]],
    )  # fmt: skip
    print_table(
        "operating points", ("point", ">ms", ">uJ core"),
        [(c.point.name, f"{c.ms:.2f}", f"{uj:.0f}") for c, uj in found.point_energies()],
    )  # fmt: skip


def _print_cycles(cycles: tuple[DutyCycle, ...]) -> None:
    from npuforge.cli.common import print_table

    print_table(
        f"core power at {cycles[0].rate:g} inferences a second, least first",
        ("point", "between inferences", ">busy", ">mW", "80 %", ">uJ each"),
        [
            (c.point.name, c.waiting.value, f"{c.busy:.1%}" if c.reached else "not reached",
             f"{c.mw:.1f}", f"{c.low:.1f} to {c.high:.1f}", f"{c.uj_per_inference:.0f}")
            for c in cycles
        ],
    )  # fmt: skip


def _print_measured(compared: Comparison) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.graph import short_name

    console().print(
        f"measured {compared.measured_ms:.2f} ms, {compared.ratio:.2f} of the estimate; "
        f"{compared.matched:.0%} of it matched with predicted epochs"
    )
    rows = sorted((p for p in compared.pairs if p.measured), key=lambda p: -p.measured.ms)[:15]  # type: ignore[union-attr]
    print_table(
        "slowest measured epochs", ("measured", ">ms", "predicted", ">ms", ">ratio"),
        [
            (p.measured.name, f"{p.measured.ms:.3f}",
             short_name(p.predicted.name) if p.predicted else "-",
             f"{p.predicted.ms:.3f}" if p.predicted else "",
             f"{p.ratio:.2f}" if p.ratio is not None else "")
            for p in rows if p.measured
        ],
    )  # fmt: skip
    for suspicion in compared.suspicions:
        console().print(f"{suspicion.code}: {suspicion.text} {suspicion.remedy}", markup=False)
