"""`npuforge explore`: combinations of clock, backend and memory that nothing else beats."""

from __future__ import annotations

from pathlib import Path

import typer


def command(
    model: Path = typer.Argument(help="TFLite or ONNX file."),
    target: str = typer.Option("stm32n6570-dk", "--target", "-t", help="Board or its .toml file."),
    clock: list[str] = typer.Option([], "--clock", help="Operating points; default: all."),
    compiler: str = typer.Option("4.0", help="Release of ST Edge AI Core."),
    max_ms: float | None = typer.Option(None, "--max-ms", help="Leave out what is slower."),
    max_ram: int | None = typer.Option(
        None, "--max-ram", help="Leave out what takes more KiB of on-chip RAM."
    ),
    size: list[str] = typer.Option(
        [], "--size", help="Image size to try, 192 or 256x320; may be repeated."
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Pareto front of time, energy and memory."""
    from npuforge import api_cost
    from npuforge.cli.common import console, print_json, print_table, progress
    from npuforge.report import exploration_document, human_bytes

    with progress("exploring"):
        found = api_cost.explore_model(
            model, target, clocks=clock, compiler=compiler, max_ms=max_ms,
            max_ram=None if max_ram is None else max_ram * 1024, sizes=size,
        )  # fmt: skip
    if as_json:
        print_json(exploration_document(found))
    else:
        print_table(
            f"{len(found.front)} of {found.tried} combinations are beaten by no other",
            (">ms", ">uJ core", ">RAM", ">external", "clock", "backend", "activations",
             ">weights in RAM", "integer I/O", "order", *(("input",) if size else ())),
            [
                (f"{c.cost.ms:.2f}", f"{c.energy.uj:.0f}", human_bytes(c.ram),
                 human_bytes(c.external), c.choice.point.name, c.choice.backend.value,
                 c.choice.spread.value, human_bytes(c.weights_in_ram),
                 "yes" if c.choice.integer_io else "",
                 "least RAM" if c.choice.reordered else "",
                 *(("x".join(map(str, c.size)),) if c.size else ()))
                for c in found.front
            ],
        )  # fmt: skip
    if not found.front:
        if not as_json:
            console().print("no combination meets the limits")
        raise typer.Exit(1)
