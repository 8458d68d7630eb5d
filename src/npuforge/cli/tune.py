"""`npuforge tune`: the search for a quantisation within bounds on accuracy and time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from npuforge.quantize import Price, Search
    from npuforge.report.quantization import QuantizedFile

SHOWN = 8
"""Causes and raised nodes that are listed."""


def command(
    model: Path = typer.Argument(help="Float TFLite, ONNX or Keras file."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="File to write (.tflite or .onnx); without it, a dry run."
    ),
    data: list[Path] = typer.Option(..., "--data", help="Calibration data, as for quantize."),
    validate: list[Path] = typer.Option(
        [], "--validate", help="Data quality is measured on, with labels for accuracy."
    ),
    preprocess: Path | None = typer.Option(
        None, "--preprocess", help="TOML declaration of size, colour, scale, mean and std."
    ),
    image_range: str | None = typer.Option(None, help="What pictures are: 0..1, -1..1, 0..255."),
    max_drop: float = typer.Option(
        0.01, help="Most that accuracy (or agreement) may fall below the float network, 0..1."
    ),
    max_ms: float | None = typer.Option(None, help="Most milliseconds of an inference."),
    target: str = typer.Option("stm32n6570-dk", help="Board whose time and memory count."),
    clock: str = typer.Option("nominal", help="Operating point of the board."),
    inputs: str = typer.Option("int8", help="Type of the inputs: int8, uint8 or float."),
    outputs: str = typer.Option("int8", help="Type of the outputs: int8, uint8 or float."),
    samples: int = typer.Option(200, help="Most calibration samples taken."),
    validated_on: int = typer.Option(500, help="Most samples that quality is measured on."),
    engine: str = typer.Option("own", help="Runs the float network: own or onnxruntime."),
    thorough: bool = typer.Option(
        False, "--thorough", help="Try all that is free on the board, even within the bounds."
    ),
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    force: bool = typer.Option(False, "--force", help="Replace existing files."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Search ranges, remedies and mixed precision until accuracy and time are within bounds.

    Exit code 1 when nothing that was tried meets them; the best is written all the same.
    """
    from npuforge import api
    from npuforge.cli.common import print_json, progress_bar
    from npuforge.report.quality import search_document

    with progress_bar() as tick:
        found, written = api.tune_model(
            model,
            output,
            data=data,
            validate=validate,
            preprocess=preprocess,
            image_range=image_range,
            max_drop=max_drop,
            max_ms=max_ms,
            target=target,
            clock=clock,
            inputs=inputs,
            outputs=outputs,
            samples=samples,
            validated_on=validated_on,
            engine=engine,
            thorough=thorough,
            fix_shape=fix_shape,
            force=force,
            tick=tick,
        )
    if as_json:
        print_json(search_document(found, written))
    else:
        _print(found, written, apart=bool(validate))
    if not found.met:
        raise typer.Exit(1)


def _print(found: Search, written: QuantizedFile | None, *, apart: bool) -> None:
    from npuforge.cli.common import console, print_table, print_warning
    from npuforge.graph import short_name
    from npuforge.messages import text
    from npuforge.report.quality import (
        db,
        diagnosis_words,
        kind_words,
        trial_words,
        verdict_words,
    )

    kind = kind_words(found.best.score.kind)
    print_table(
        f"{found.session.original.name}: search",
        ("step", f">{kind}", ">SQNR dB", ">ms", ">8x8", ">weights", ">activations", "kept"),
        [
            (
                trial_words(trial),
                f"{trial.score.quality:.4f}",
                db(trial.score.sqnr),
                *_price(trial.price),
                "*" if trial.kept else "",
            )
            for trial in found.trials
        ],
    )
    out = console()
    for item in found.diagnoses[:SHOWN]:
        message, hint = diagnosis_words(item)
        out.print(f"cause: {message}. {hint}", markup=False)
    for name, precision in list(found.raised.items())[:SHOWN]:
        out.print(f"raised: {short_name(name)} computes in {precision}", markup=False)
    if len(found.raised) > SHOWN:
        out.print(f"raised: {len(found.raised) - SHOWN} more")
    out.print(verdict_words(found), markup=False)
    if found.best.price is not None and found.best.price.why:
        out.print(found.best.price.why, markup=False)
    if not apart:
        print_warning(text("QNS-same-data"))
    if written is not None:
        out.print(
            f"written: {written.path} ({len(written.conversion.content)} bytes)",
            markup=False,
            soft_wrap=True,
        )


def _price(price: Price | None) -> tuple[str, str, str, str]:
    if price is None:
        return ("", "", "", "")
    return (
        "" if price.ms is None else f"{price.ms:.3f}",
        "" if price.narrow_share is None else f"{price.narrow_share:.0%}",
        str(price.weight_bytes),
        "" if price.activation_bytes is None else str(price.activation_bytes),
    )
