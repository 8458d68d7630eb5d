"""`npuforge validate`: every tensor against an independent oracle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from npuforge.validate.neural_art import ChipValidation


def command(
    model: Path = typer.Argument(help="TFLite or ONNX file."),
    target: str = typer.Option("mps3-an547", "--target", "-t", help="Board or its .toml file."),
    mode: str = typer.Option("host", help="host, or target for the emulated Cortex-M55 too."),
    valinput: list[Path] = typer.Option(
        [], "--valinput", "-vi", help="npy, npz, csv or picture, beside the random samples."
    ),
    random_samples: int = typer.Option(10, min=0, help="Random samples (seed 42)."),
    image_range: str | None = typer.Option(None, help="0..1, -1..1 or 0..255 for pictures."),
    contract: str | None = typer.Option(
        None, help="Arithmetic of integer nodes; default: the file's."
    ),
    against: str | None = typer.Option(
        None,
        help="neural_art or neural_art@1.1.3: how far the chip's arithmetic moves each tensor.",
    ),
    program: Path | None = typer.Option(
        None, help="Compiled program whose choices and constants the chip's contract takes."
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
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Compare a model layer by layer and name the first tensor that differs."""
    from npuforge import api
    from npuforge.cli.common import print_json, print_validation, progress
    from npuforge.report import validation_document

    if against is not None:
        with progress("comparing with the chip"):
            chip = api.validate_against(
                model,
                against,
                valinput=valinput,
                random_samples=random_samples,
                image_range=image_range,
                contract=contract,
                fix_shape=fix_shape,
                program=program,
            )
        _show_chip(chip, as_json)
        return
    with progress("validating"):
        _, validation = api.validate_model(
            model,
            target,
            mode=mode,
            valinput=valinput,
            random_samples=random_samples,
            image_range=image_range,
            contract=contract,
            fix_shape=fix_shape,
            activations=activations,
            tiling=tiling,
        )
    if as_json:
        print_json(validation_document(validation))
    else:
        print_validation(validation)
    if validation.failed:
        raise typer.Exit(1)


def _show_chip(validation: ChipValidation, as_json: bool) -> None:
    """Deviation of each tensor by stage, saturation and headroom; exit code 1 for a finding."""
    from npuforge.cli.common import print_json, print_table
    from npuforge.report.chip import chip_document

    if as_json:
        print_json(chip_document(validation))
    else:
        print_table(
            f"{validation.contract} against the model's own arithmetic, node by node",
            ("node", "operator", "unit", "grade", ">values", ">differing", ">largest", "by stage",
             ">saturated", ">headroom bits"),
            [
                (
                    *(entry.node, entry.op, entry.unit, entry.grade, entry.values),
                    *(entry.differing, entry.largest),
                    ", ".join(f"{name} {count}" for name, count in entry.stages.items()),
                    *(entry.saturated, "" if entry.headroom is None else entry.headroom),
                )
                for entry in validation.deviations
            ],
        )  # fmt: skip
        print_table(
            "outputs end to end",
            ("tensor", ">rmse", ">cosine", ">top1"),
            [
                (
                    output.tensor,
                    *(f"{output.values[name]:.6g}" for name in ("rmse", "cosine", "top1")),
                )
                for output in validation.outputs
            ],
        )
    if validation.failed:
        raise typer.Exit(1)
