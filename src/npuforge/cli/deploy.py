"""`npuforge deploy`: the main job."""

from __future__ import annotations

from pathlib import Path

import typer


def command(
    model: Path = typer.Argument(help="TFLite or ONNX file."),
    target: str = typer.Option(..., "--target", "-t", help="Board or its .toml file."),
    output: Path = typer.Option(..., "--output", "-o", help="Folder of the bundle."),
    clock: str = typer.Option("nominal", help="Operating point of the target."),
    valinput: list[Path] = typer.Option(
        [], "--valinput", "-vi", help="npy, npz, csv or picture; the last becomes the known answer."
    ),
    random_samples: int = typer.Option(10, min=0, help="Random samples (seed 42)."),
    image_range: str | None = typer.Option(None, help="0..1, -1..1 or 0..255 for pictures."),
    contract: str | None = typer.Option(
        None, help="Arithmetic of integer nodes; default: the file's."
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
    emulate: str = typer.Option("auto", help="auto, on or off: the run on an emulated Cortex-M55."),
    preprocess: Path | None = typer.Option(
        None, help="Declaration of the preprocessing that the firmware does (TOML)."
    ),
    frame: str | None = typer.Option(None, help="640x480: size of the camera's frames."),
    backend: str = typer.Option(
        "cpu", help="cpu, or st: ST's compiler too, for latency and for memory, where installed."
    ),
    st_timeout: float = typer.Option(1800, min=1, help="Seconds for one run of ST's compiler."),
    st_network: Path | None = typer.Option(
        None,
        help="With --backend st: network.c that ST's compiler made already, or its folder; "
        "the project around it is written, the compiler is not run.",
    ),
    force: bool = typer.Option(False, "--force", help="Replace an existing folder."),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """From a model file to a validated firmware project with a report."""
    from npuforge import api
    from npuforge.cli.common import (
        console,
        print_json,
        print_st,
        print_validation,
        print_warning,
        progress,
    )
    from npuforge.report import human_bytes, validation_document

    with progress("deploying") as status:
        done = api.deploy_model(
            model,
            target,
            output,
            clock=clock,
            valinput=valinput,
            random_samples=random_samples,
            image_range=image_range,
            contract=contract,
            fix_shape=fix_shape,
            activations=activations,
            tiling=tiling,
            emulate=emulate,
            preprocess=preprocess,
            frame=frame,
            backend=backend,
            st_seconds=st_timeout,
            st_network=st_network,
            force=force,
            tick=status,
        )
    for note in done.notes:
        print_warning(note)
    if as_json:
        print_json(
            {
                "schema": "npuforge.deployment/1",
                "bundle": str(done.folder),
                "validation": validation_document(done.validation),
            }
        )
    else:
        plan = done.model.plan
        out = console()
        out.print(
            f"{done.model.graph.name} on {done.target.name}: "
            f"{human_bytes(plan.activation_bytes)} activations, "
            f"{human_bytes(plan.image.size)} weights",
            markup=False,
        )
        print_validation(done.validation)
        if done.st is not None and done.st.runs:
            print_st(done.st)
        out.print(f"bundle: {done.folder}", markup=False, soft_wrap=True)
        out.print(f"  look at {done.folder / 'report.html'}", markup=False, soft_wrap=True)
        out.print(f"  firmware in {done.folder / 'firmware'}", markup=False, soft_wrap=True)
    if done.validation.failed:
        raise typer.Exit(1)
