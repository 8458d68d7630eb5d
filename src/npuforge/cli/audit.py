"""`npuforge audit`: whether calibration samples are fit to be calibrated on."""

from __future__ import annotations

from pathlib import Path

import typer


def command(
    model: Path = typer.Argument(help="Float TFLite, ONNX or Keras file."),
    data: list[Path] = typer.Option(..., "--data", help="Calibration data, as for quantize."),
    validate: list[Path] = typer.Option(
        [], "--validate", help="Other samples, as the network will see them."
    ),
    preprocess: Path | None = typer.Option(
        None, "--preprocess", help="TOML declaration of size, colour, scale, mean and std."
    ),
    image_range: str | None = typer.Option(None, help="What pictures are: 0..1, -1..1, 0..255."),
    samples: int = typer.Option(200, help="Most samples taken of each."),
    engine: str = typer.Option("own", help="Runs the float network: own or onnxruntime."),
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Judge calibration samples: too few, repeated, of one class, scaled or ordered otherwise."""
    from npuforge import api
    from npuforge.cli.common import console, print_json, progress_bar
    from npuforge.report.audit import audit_document, finding_words, sound_words

    with progress_bar() as tick:
        found, own, reference = api.audit_data(
            model,
            data=data,
            validate=validate,
            preprocess=preprocess,
            image_range=image_range,
            samples=samples,
            engine=engine,
            fix_shape=fix_shape,
            tick=tick,
        )
    if as_json:
        print_json(audit_document(model.stem, own, reference, found))
    else:
        out = console()
        for item in found:
            message, hint = finding_words(item)
            out.print(f"{item.fault.value}: {message}", markup=False, soft_wrap=True)
            out.print(f"  {hint}", markup=False, soft_wrap=True)
        if not found:
            out.print(sound_words(own, reference), markup=False, soft_wrap=True)
    if found:
        raise typer.Exit(1)
