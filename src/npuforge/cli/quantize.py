"""`npuforge quantize`: an integer network from a float one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from npuforge.quantize import Judged, Session
    from npuforge.report.quantization import QuantizedFile

WORST = 10
"""Layers shown without --verbose."""


def command(
    model: Path = typer.Argument(help="Float TFLite, ONNX or Keras file."),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="File to write (.tflite or .onnx); without it, a dry run."
    ),
    data: list[Path] = typer.Option(
        ..., "--data", help="Calibration data: folder of pictures or .wav, .npy, .npz, .csv."
    ),
    preprocess: Path | None = typer.Option(
        None, "--preprocess", help="TOML declaration of size, colour, scale, mean and std."
    ),
    image_range: str | None = typer.Option(None, help="What pictures are: 0..1, -1..1, 0..255."),
    method: str = typer.Option(
        "auto", help="auto (whichever does best), minmax, moving, percentile, mse or entropy."
    ),
    percentile: float = typer.Option(99.99, help="Share of values kept by --method percentile."),
    weights: str = typer.Option("channel", help="Scales of weights: one a channel or tensor."),
    zero_points: str = typer.Option(
        "free", help="free, or npu: -128 or 0 where convolutions read, for 8x8 multiplication."
    ),
    activations: str = typer.Option("int8", help="int8, or int16 for 16x8."),
    inputs: str = typer.Option("int8", help="Type of the inputs: int8, uint8 or float."),
    outputs: str = typer.Option("int8", help="Type of the outputs: int8, uint8 or float."),
    equalise: bool = typer.Option(
        False, "--equalise", help="Balance channels across pairs of layers first."
    ),
    round_weights: bool = typer.Option(
        False, "--round", help="Round weights for the least error of the layer's output."
    ),
    correct_bias: bool | None = typer.Option(
        None,
        "--correct-bias/--no-correct-bias",
        help="Change biases so that the layers' means stay (default: yes).",
    ),
    int4: list[str] = typer.Option(
        [], "--int4", help="Layer whose weights get 4 bits, or all; repeatable."
    ),
    samples: int = typer.Option(200, help="Most samples taken, spread over all of the data."),
    engine: str = typer.Option("own", help="Runs the float network: own or onnxruntime."),
    state: Path | None = typer.Option(
        None, "--state", help="File from which an interrupted calibration goes on."
    ),
    measured_on: int = typer.Option(32, help="Samples the result is compared on."),
    tool: str = typer.Option(
        "npuforge", help="Quantises: npuforge; for comparison ai-edge-quantizer, onnxruntime."
    ),
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    scales: Path | None = typer.Option(
        None, "--scales", help="JSON file of all scales, for training with fake quantisation."
    ),
    verbose: bool = typer.Option(False, "--verbose", help="Show every tensor."),
    force: bool = typer.Option(False, "--force", help="Replace existing files."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Quantise a float network; every tensor is compared with the float one on your data."""
    from npuforge import api
    from npuforge.cli.common import print_json, progress_bar
    from npuforge.report import check_writable, write_file
    from npuforge.report.quantization import quantization_document
    from npuforge.report.scales import scales_document

    if scales is not None:
        check_writable(scales, replace=force)
    with progress_bar() as tick:
        made, written = api.quantize_model(
            model,
            output,
            data=data,
            preprocess=preprocess,
            image_range=image_range,
            method=method,
            percentile=percentile,
            weights=weights,
            zero_points=zero_points,
            activations=activations,
            inputs=inputs,
            outputs=outputs,
            equalise=equalise,
            round_weights=round_weights,
            correct_bias=correct_bias,
            int4=int4,
            samples=samples,
            engine=engine,
            state=state,
            measured_on=measured_on,
            tool=tool,
            fix_shape=fix_shape,
            force=force,
            tick=tick,
        )
    if scales is not None:
        write_file(scales, json.dumps(scales_document(made), indent=1).encode())
    if as_json:
        print_json(quantization_document(made, written))
    else:
        _print(made, written, verbose)


def _print(made: Session, written: QuantizedFile | None, verbose: bool) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.graph import short_name

    measured = made.measured
    shown = list(measured.tensors)
    if not verbose:
        shown = sorted(shown, key=lambda item: item.sqnr)[:WORST]
    title = "tensors" if verbose else "tensors with the largest error"
    if shown:
        print_table(
            f"{made.original.name}: {title}",
            ("tensor", "made by", ">SQNR dB", ">cosine", ">outside", ">range"),
            [
                (
                    *(short_name(item.tensor), item.op, f"{item.sqnr:.1f}", f"{item.cosine:.5f}"),
                    f"{item.saturated:.2%}",
                    _range(made, item.tensor),
                )
                for item in shown
            ],
        )
    out = console()
    if made.tried:
        print_table(
            "ways to quantise, judged on samples kept apart",
            ("ranges", "beside", ">SQNR dB", "taken"),
            [
                (_ranges(item), _beside(item), f"{item.decibels:.1f}", "*" if item.chosen else "")
                for item in made.tried
            ],
        )
    for item in measured.outputs if measured.samples else ():
        out.print(
            f"output {short_name(item.tensor)}: SQNR {item.sqnr:.1f} dB, cosine {item.cosine:.5f}",
            markup=False,
        )
    if measured.agreement is not None:
        out.print(
            f"the largest value stays at its place in {measured.agreement:.1%} of rows, "
            f"{measured.samples} samples"
        )
    stays = [n for n, kind in made.made.assignment.precisions.items() if kind == "float"]
    if stays:
        out.print(
            f"{len(stays)} nodes stay float: {', '.join(short_name(n) for n in stays[:WORST])}",
            markup=False,
        )
    out.print(
        f"calibrated on {made.calibration.samples} samples"
        + (f", {made.calibration.resumed} from before" if made.calibration.resumed else "")
    )
    if written is not None:
        before = sum(t.nbytes for t in made.original.tensors.values() if t.is_constant)
        out.print(
            f"written: {written.path} ({len(written.conversion.content)} bytes; "
            f"float constants {before})",
            markup=False,
            soft_wrap=True,
        )
        if written.preprocessing is not None:
            out.print(f"preprocessing: {written.preprocessing}", markup=False, soft_wrap=True)
        if not written.difference.is_zero:
            out.print(
                f"the file's outputs differ from the graph's by {written.difference.relative:.3%}"
            )


def _ranges(item: Judged) -> str:
    scheme = item.candidate.scheme
    share = f" {scheme.percentile:g}" if scheme.method == "percentile" else ""
    return f"{scheme.method}{share}"


def _beside(item: Judged) -> str:
    return " ".join(f"--{option}" for option in item.candidate.remedies.options)


def _range(made: Session, tensor: str) -> str:
    span = made.range_of(tensor)
    return f"{span.low:.3g}..{span.high:.3g}"
