"""`npuforge run`: run a model on this machine, exactly."""

from __future__ import annotations

from pathlib import Path

import typer


def command(
    model: Path = typer.Argument(help="TFLite or ONNX file."),
    inputs: list[Path] = typer.Option(
        ..., "--input", "-i", help="npy, npz, csv or picture; one an input, in the model's order."
    ),
    output: Path | None = typer.Option(None, "--output", "-o", help="npz file for the results."),
    contract: str | None = typer.Option(
        None, help="Arithmetic of integer nodes; default: the file's."
    ),
    program: Path | None = typer.Option(
        None, help="Compiled program whose choices and constants the chip's contract takes."
    ),
    fix_shape: list[str] = typer.Option(
        [], "--fix-shape", help="NAME=1x3x224x224: fixes the free dimensions of an input."
    ),
    capture: list[str] = typer.Option(
        [], help="Tensor to store beside the outputs, or `all`; repeatable."
    ),
    real: bool = typer.Option(
        False, "--real", help="Arrays hold real numbers: quantise inputs, dequantise results."
    ),
    image_range: str | None = typer.Option(
        None, help="What black and white are to the network: 0..1, -1..1 or 0..255."
    ),
    threads: int | None = typer.Option(
        None, help="Threads that share large layers; the results are the same. [default: 1]"
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """Run a model on samples; arrays may have a leading sample axis."""
    from npuforge import api
    from npuforge.cli.common import note_image_range, print_json, print_table, progress
    from npuforge.tasks import load_samples

    with progress("running") as status:
        graph = api.load_graph(model, contract, fix_shape)
        samples = load_samples(
            inputs, graph, real=real, image_range=api.parse_image_range(image_range)
        )
        arrays = api.run_samples(
            graph,
            samples,
            capture=capture,
            real=real,
            tick=status,
            program=program,
            threads=threads,
        )
    note_image_range(samples.notes)
    if output is not None:
        api.save_arrays(output, arrays)
    document = api.run_document(graph, arrays, len(samples.samples), output)
    if as_json:
        print_json(document)
        return
    print_table(
        f"{graph.name}: {len(samples.samples)} sample(s)",
        ("tensor", "type", "shape", ">min", ">max", ">mean", "largest at"),
        [
            (
                entry["tensor"],
                entry["dtype"],
                "x".join(str(n) for n in entry["shape"]),
                f"{entry['min']:.6g}",
                f"{entry['max']:.6g}",
                f"{entry['mean']:.6g}",
                entry["argmax"],
            )
            for entry in document["tensors"]
        ],
    )
    if document["evidence"]:
        print_table(
            "evidence that this is the chip's arithmetic",
            ("node", "operator", "contract", "unit", "grade"),
            [
                (e["node"], e["op"], e["contract"], e["unit"], e["grade"])
                for e in document["evidence"]
            ],
        )
    if output is not None:
        typer.echo(f"written: {output}")
