"""`npuforge calibrate`: the constants of the cost model from a user's own reports."""

from __future__ import annotations

from pathlib import Path

import typer


def command(
    logs: list[str] = typer.Argument(help="MODEL=REPORT or MODEL=MILLISECONDS, one a network."),
    output: Path = typer.Option(..., "--output", "-o", help="Calibration file to write."),
    target: str = typer.Option("stm32n6570-dk", "--target", "-t", help="Board or its .toml file."),
    clock: str = typer.Option(
        "nominal", help="Clocks of the runs, as for cost; what a report states wins."
    ),
    compiler: str | None = typer.Option(None, help="Release; default: what the report states."),
    no_controller: bool = typer.Option(
        False, "--no-epoch-controller", help="The CPU set up every hardware epoch."
    ),
    integer_io: bool = typer.Option(
        False, "--integer-io", help="Network inputs and outputs stayed integers."
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Refit the cost model to measured reports and write a calibration file."""
    from npuforge import api_cost
    from npuforge.cli.common import console, print_json, print_table, progress
    from npuforge.cost import format_calibration, load_calibration
    from npuforge.report import write_file

    pairs = [api_cost.parse_measurement(text) for text in logs]
    with progress("fitting"):
        done = api_cost.calibrate(
            pairs, target, clock=clock, compiler=compiler, controller=not no_controller,
            integer_io=integer_io,
        )  # fmt: skip
    write_file(output, format_calibration(done.calibration).encode())
    before, after = load_calibration().constants, done.calibration.constants
    rows = [(n, getattr(before, n), getattr(after, n)) for n in done.calibration.fitted]
    if as_json:
        print_json(
            {
                "output": str(output),
                "rows": done.rows,
                "families": done.groups,
                "median_error": done.median_error,
                "spread": done.calibration.spread,
                "constants": {name: {"before": a, "after": b} for name, a, b in rows},
            }
        )
        return
    print_table(
        f"{done.rows} networks", ("constant", ">before", ">after"),
        [(name, f"{a:.4g}", f"{b:.4g}") for name, a, b in rows],
    )  # fmt: skip
    console().print(
        f"median error {done.median_error:.1%}, half an 80 % interval is "
        f"{done.calibration.spread:.2f} times an estimate's doubt: {output}",
        markup=False,
    )
