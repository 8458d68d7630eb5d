"""`npuforge convert`: write a model in the other format, or again in its own."""

from __future__ import annotations

from pathlib import Path

import typer


def command(
    model: Path = typer.Argument(help="TFLite or ONNX file."),
    output: Path = typer.Option(
        ..., "--output", "-o", help="File to write; its name ends in .tflite or .onnx."
    ),
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    force: bool = typer.Option(False, "--force", help="Replace an existing file."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Write a model as TFLite or ONNX, folded and with static shapes."""
    from npuforge import api
    from npuforge.cli.common import print_json, print_table, print_warning
    from npuforge.messages import text

    made = api.convert_model(model, output, fix_shape=fix_shape, force=force)
    document = api.conversion_document(made, output)
    if as_json:
        print_json(document)
        return
    print_table(
        f"{made.graph.name}: {document['format']}",
        ("written", ">bytes", ">nodes", ">tensors", ">under another contract"),
        [
            (
                output,
                document["bytes"],
                document["nodes"],
                document["tensors"],
                len(document["changed"]),
            )
        ],
    )
    if made.changed:
        contract = made.changed[0].contract
        print_warning(text("EXP-changed", count=len(made.changed), contract=contract))
