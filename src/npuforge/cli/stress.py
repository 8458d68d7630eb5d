"""`npuforge stress`: firmware on the virtual board."""

from __future__ import annotations

from pathlib import Path

import typer

LEAST_SHARE = 0.99
"""Share of its trials in which an injected fault must be caught and rightly named."""


def command(
    model: Path = typer.Argument(help="TFLite or ONNX file."),
    target: str = typer.Option(..., "--target", "-t", help="Board or its .toml file."),
    count: int = typer.Option(1000, min=1, help="Inferences without a fault."),
    faults: int = typer.Option(0, min=0, help="Trials of each injected fault; 0: none."),
    seed: int = typer.Option(42, min=0, help="Seed of everything random."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Run a model's firmware against a modelled cache, late completions and injected faults."""
    from dataclasses import asdict

    from npuforge import api
    from npuforge.cli.common import console, print_json, print_table, progress

    with progress("running on the virtual board"):
        result, injected = api.stress_model(
            model, target, inferences=count, trials=faults, seed=seed
        )
    missed = [f for f in injected if min(f.caught, f.named) < LEAST_SHARE * f.trials]
    if as_json:
        print_json({"stress": asdict(result), "faults": [asdict(fault) for fault in injected]})
    else:
        out = console()
        out.print(
            f"{result.failures} of {result.inferences} inferences failed; with 95 % confidence "
            f"between {100 * result.low:.3f} and {100 * result.high:.3f} %"
        )
        if result.first:
            out.print(result.first, markup=False)
        if injected:
            print_table(
                "injected faults",
                ("fault", ">trials", ">caught", ">named", "as"),
                [(f.fault, str(f.trials), str(f.caught), str(f.named), f.name) for f in injected],
            )
    if result.failures or missed:
        raise typer.Exit(1)
