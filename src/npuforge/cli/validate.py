"""`npuforge validate`: every tensor against an independent oracle."""

from __future__ import annotations

from pathlib import Path

import typer


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
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Compare a model layer by layer and name the first tensor that differs."""
    from npuforge import api
    from npuforge.cli.common import print_json, print_validation, progress
    from npuforge.report import validation_document

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
        )
    if as_json:
        print_json(validation_document(validation))
    else:
        print_validation(validation)
    if validation.failed:
        raise typer.Exit(1)
