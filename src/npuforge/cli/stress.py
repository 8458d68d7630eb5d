"""`npuforge stress`: firmware, or a user's application, on the virtual board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from npuforge.errors import UsageError
from npuforge.vocab import DriverFault, MachineProfile

if TYPE_CHECKING:
    from npuforge.api_board import ApplicationStress

LEAST_SHARE = 0.99
"""Share of its trials in which an injected fault must be caught and rightly named."""
MODEL_COUNT = 1000
APPLICATION_COUNT = 8


def command(
    model: Path = typer.Argument(
        help="TFLite or ONNX file; with --application also a compiled network.c or its folder."
    ),
    target: str = typer.Option(..., "--target", "-t", help="Board or its .toml file."),
    count: int | None = typer.Option(
        None, min=1, help="Inferences: 1000 without a fault, or 8 a run of an application."
    ),
    faults: int = typer.Option(0, min=0, help="Trials of each injected fault; 0: none."),
    profile: MachineProfile = typer.Option(MachineProfile.MCU, help="Kind of machine."),
    driver_fault: DriverFault | None = typer.Option(
        None, help="Mistake the driver makes in every inference: how often is the result wrong?"
    ),
    seed: int = typer.Option(42, min=0, help="Seed of everything random."),
    application: list[Path] = typer.Option(
        [], "--application", "-a", help="C file of your application, each one; runs it instead."
    ),
    include: list[Path] = typer.Option([], "--include", "-I", help="Folder of its headers."),
    define: list[str] = typer.Option([], "--define", "-D", help="Macro, NAME or NAME=VALUE."),
    uncached: list[str] = typer.Option(
        [], help="Section of its variables that the MPU keeps out of the cache."
    ),
    coupled: list[str] = typer.Option(
        [], help="Section of its variables in tightly coupled memory; .dtcm and its like are known."
    ),
    name: str | None = typer.Option(None, help="Network's name in it; taken from its code."),
    user_buffers: bool = typer.Option(
        False, help="It binds inputs and outputs itself (LL_ATON_Set_User_..._Buffer)."
    ),
    runs: int = typer.Option(1, min=1, help="Runs of it, each with a seed of its own."),
    frame_fault: list[str] = typer.Option(
        [], help="Fault of the virtual camera: dropped, torn or late."
    ),
    reproduce: Path | None = typer.Option(
        None, help="New folder for the smallest program that shows the first error or the fault."
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Run a model's firmware, or your application, against caches, delays and injected faults."""
    from dataclasses import asdict

    from npuforge import api
    from npuforge.boards.virtual_board import interval
    from npuforge.cli.common import console, print_json, print_table, print_warning, progress
    from npuforge.messages import text

    if application:
        from npuforge.boards.application import Application

        if faults or driver_fault or profile is not MachineProfile.MCU:
            raise UsageError("BRD-036")
        with progress("running on the virtual board"):
            shown = api.stress_application(
                model,
                target,
                Application(
                    *(tuple(application), tuple(include), tuple(define)),
                    uncached=tuple(uncached),
                    coupled=tuple(coupled),
                ),
                name=name,
                user_buffers=user_buffers,
                inferences=count or APPLICATION_COUNT,
                runs=runs,
                seed=seed,
                frames=frame_fault,
            )
        _print_application(shown, as_json)
        if reproduce and shown.violations:
            _reproduce_first(shown, reproduce, target, seed)
        if shown.failures:
            raise typer.Exit(1)
        return
    with progress("running on the virtual board"):
        result, injected = api.stress_model(
            model,
            target,
            inferences=count or MODEL_COUNT,
            trials=faults,
            seed=seed,
            profile=profile,
            driver_fault=driver_fault,
        )
    if reproduce and driver_fault:
        with progress("running the smallest network"):
            small = api.reproduce_rate(
                reproduce, target, profile, driver_fault, count or MODEL_COUNT, seed
            )
        print_warning(
            text("VBD-reproduced", folder=reproduce, count=small.wrong, of=small.inferences)
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
        if driver_fault:
            low, high = (100 * end for end in interval(result.wrong, result.inferences))
            out.print(
                f"{result.wrong} gave wrong results ({low:.2f} to {high:.2f} %), as a user of a "
                f"driver with {driver_fault} sees it",
                soft_wrap=True,
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


def _print_application(shown: ApplicationStress, as_json: bool) -> None:
    from dataclasses import asdict

    from rich.text import Text

    from npuforge.cli.common import console, print_json
    from npuforge.vocab import Severity

    if as_json:
        document = asdict(shown)
        for entry, v in zip(document["violations"], shown.violations, strict=True):
            entry |= {"message": v.message, "hint": v.hint}
        print_json(document)
    else:
        out = console()
        out.print(
            f"{shown.failures} of {shown.runs} runs with errors, {shown.inferences} inferences; "
            f"with 95 % confidence {100 * shown.low:.1f} to {100 * shown.high:.1f} % of runs",
            soft_wrap=True,
        )
        colours = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}
        for v in shown.violations:
            where = v.cause if v.cause.file else v.effect
            head = f"{v.severity.value} {v.kind}"
            title = Text.assemble((str(where), "bold"), ": ", (head, colours[v.severity]))
            out.print(title, soft_wrap=True)
            out.print(f"  {v.message}", markup=False, soft_wrap=True)
            out.print(f"  {v.hint}", markup=False, soft_wrap=True)
            lines = f"cache line {v.address & ~31:#010x}, {v.lines} lines" if v.address else ""
            first = f"first in inference {v.inference}, {v.times} times"
            out.print(f"  {lines + '; ' if lines else ''}{first}", style="dim", markup=False)


def _reproduce_first(shown: ApplicationStress, folder: Path, target: str, seed: int) -> None:
    from npuforge import api
    from npuforge.cli.common import print_warning, progress
    from npuforge.messages import text

    first = next(iter([*shown.errors, *shown.violations]))
    with progress("running the smallest program"):
        made = api.reproduce_violation(folder, target, first.kind, seed=seed)
    if made is None:
        print_warning(text("VBD-no-reproducer", kind=first.kind))
    else:
        print_warning(text("VBD-reproduced", folder=folder, count=made.failures, of=made.runs))
