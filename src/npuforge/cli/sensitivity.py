"""`npuforge sensitivity`: which layers lose most in integers."""

from __future__ import annotations

from pathlib import Path

import typer

WORST = 20
"""Groups shown without --verbose."""


def command(
    model: Path = typer.Argument(help="Float TFLite, ONNX or Keras file."),
    data: list[Path] = typer.Option(..., "--data", help="Calibration data, as for quantize."),
    preprocess: Path | None = typer.Option(
        None, "--preprocess", help="TOML declaration of size, colour, scale, mean and std."
    ),
    image_range: str | None = typer.Option(None, help="What pictures are: 0..1, -1..1, 0..255."),
    method: str = typer.Option("mse", help="minmax, moving, percentile, mse or entropy."),
    activations: str = typer.Option("int8", help="int8, or int16 for 16x8."),
    group: str = typer.Option("layer", help="Made integer at once: layer, block or operator."),
    samples: int = typer.Option(64, help="Most calibration samples taken."),
    measured_on: int = typer.Option(32, help="Samples quality is measured on."),
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    picture: Path | None = typer.Option(None, "--picture", help="SVG file to write."),
    verbose: bool = typer.Option(False, "--verbose", help="Show every group."),
    force: bool = typer.Option(False, "--force", help="Replace an existing picture."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Rank layers by what the network loses when each alone computes in integers."""
    from npuforge import api
    from npuforge.cli.common import print_json, print_table, progress_bar
    from npuforge.graph import short_name
    from npuforge.report import check_writable, write_file
    from npuforge.report.quality import db, kind_words, sensitivity_document, sensitivity_svg

    if picture is not None:
        check_writable(picture, replace=force)
    with progress_bar() as tick:
        ranking = api.layer_sensitivity(
            model,
            data=data,
            preprocess=preprocess,
            image_range=image_range,
            method=method,
            activations=activations,
            group=group,
            samples=samples,
            measured_on=measured_on,
            fix_shape=fix_shape,
            tick=tick,
        )
    if picture is not None:
        write_file(picture, sensitivity_svg(model.stem, ranking).encode())
    if as_json:
        print_json(sensitivity_document(model.stem, ranking))
        return
    kind = kind_words(ranking[0].score.kind) if ranking else ""
    print_table(
        f"{model.stem}: each {group} alone in {activations}, the most harmful first",
        (group, "operators", f">{kind}", ">SQNR dB", ">cosine", ">weights dB", ">MACs"),
        [
            (
                *(short_name(item.name), ", ".join(item.ops), f"{item.score.quality:.4f}"),
                *(db(item.score.sqnr), f"{item.score.cosine:.6f}"),
                "" if item.weight_sqnr is None else db(item.weight_sqnr),
                item.macs,
            )
            for item in (ranking if verbose else ranking[:WORST])
        ],
    )
