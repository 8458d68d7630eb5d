"""`npuforge evaluate`: a network at its task, under each arithmetic."""

from __future__ import annotations

from pathlib import Path

import typer


def command(
    model: Path = typer.Argument(help="TFLite, ONNX or Keras file."),
    data: list[Path] = typer.Option(
        ..., "--data", help="Samples: folder of pictures (folders in it are classes), .npz, .csv."
    ),
    reference: Path | None = typer.Option(
        None, "--reference", help="Float network that everything is compared with."
    ),
    contract: list[str] = typer.Option(
        ["own"], "--contract", help="Arithmetic: own, neural_art, tflite_reference, …; repeatable."
    ),
    masks: Path | None = typer.Option(
        None, "--masks", help="Segmentation: .npy of class numbers, samples x rows x columns."
    ),
    truth: Path | None = typer.Option(
        None, "--truth", help="Detection: objects in COCO's instances format."
    ),
    top: list[int] = typer.Option([1, 5], "--top", help="The k of top-k; repeatable."),
    preprocess: Path | None = typer.Option(
        None, "--preprocess", help="TOML declaration of size, colour, scale, mean and std."
    ),
    image_range: str | None = typer.Option(None, help="What pictures are: 0..1, -1..1, 0..255."),
    samples: int = typer.Option(0, help="Most samples taken; 0: all."),
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Measure accuracy at the task: the float network and the integer one under each contract."""
    from npuforge import api
    from npuforge.cli.common import print_json, print_table, progress_bar
    from npuforge.report.evaluation import evaluation_document

    with progress_bar() as tick:
        task, count, found = api.evaluate_model(
            model,
            data=data,
            reference=reference,
            contracts=contract,
            masks=masks,
            truth=truth,
            top=top,
            preprocess=preprocess,
            image_range=image_range,
            samples=samples,
            fix_shape=fix_shape,
            tick=lambda done, total: tick("evaluating", done, total),
        )
    if as_json:
        print_json(evaluation_document(task, count, found))
        return
    names = list(found[0].figures)
    print_table(
        f"{task}: {count} samples",
        ("network", *(f">{name}" for name in names), ">agreement", ">SQNR dB", ">cosine"),
        [
            (
                item.name,
                *(f"{item.figures[name]:.4f}" for name in names),
                "" if item.agreement is None else f"{item.agreement:.4f}",
                "" if item.sqnr is None else f"{item.sqnr:.1f}",
                "" if item.cosine is None else f"{item.cosine:.6f}",
            )
            for item in found
        ],
    )
