"""Compiled Neural-ART programs simulated and compared with their networks, buffer by buffer.

Each network of the measurement data (and any folder given in NPUFORGE_PROGRAMS, as folder=model,
separated by the path separator) runs from random bytes and from a smooth picture. Every epoch is
fed with the reference's tensors. For TFLite files the reference tensors are first held against
LiteRT's reference kernels. Times are CPU seconds of one run on one thread, best of --runs.

    python benchmarks/program_simulation.py
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from common import arguments, least_cpu_seconds, lite_interpreter, report, required_shared_folder

from npuforge.aton.compiled import Buffer, Compiled
from npuforge.aton.execute import memory_for, run_program
from npuforge.aton.load import load_compiled
from npuforge.graph import Array, Graph
from npuforge.importers import load_model, read_model_bytes
from npuforge.validate.buffers import model_input
from npuforge.validate.oracles import LiteRtReference
from npuforge.validate.program import (
    compare_program,
    reference_tensors,
)

Arrays = dict[str, Array]

NETWORKS = (
    "mobilenet_v1_025_96",
    "movenet_lightning_192",
    "yolox_nano_480",
    "deeplab_v3_mnv2_320",
)


def programs(shared: Path) -> list[tuple[Path, Path | None]]:
    """Folders of compiled programs, and the model where it is stated."""
    found: list[tuple[Path, Path | None]] = [(shared / "aton" / name, None) for name in NETWORKS]
    for entry in filter(None, os.environ.get("NPUFORGE_PROGRAMS", "").split(os.pathsep)):
        folder, _, model = entry.partition("=")
        found.append((Path(folder), Path(model) if model else None))
    return found


def picture(buffer: Buffer, kind: str) -> bytes:
    """Random bytes, or slow waves with a little noise."""
    rng = np.random.default_rng(1)
    if kind == "random":
        return rng.integers(0, 256, buffer.size, np.uint8).tobytes()
    height, width, channels = buffer.memory_shape[-3:]
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    waves = np.sin(6 * x / width + c) + np.cos(5 * y / height - c)
    values = 128 + 55 * waves + rng.normal(0, 4, waves.shape)
    steps = np.clip(values, 0, 255).astype(np.uint8)
    return (steps if buffer.unsigned else steps - 128).tobytes()


def differing(graph: Graph, path: Path, arrays: Arrays, ours: Arrays) -> str:
    """Reference tensors that LiteRT's reference kernels compute otherwise, of how many."""
    if path.suffix != ".tflite":
        return "-"
    theirs = LiteRtReference(graph, read_model_bytes(path)).tensors(arrays, ours)
    wrong = sum(not np.array_equal(ours[name], value) for name, value in theirs.items())
    return f"{wrong}/{len(theirs)}"


def speed(network: Compiled, path: Path, runs: int) -> tuple[str, str]:
    """CPU seconds of the program, and their ratio to one LiteRT reference run."""
    data = {buffer.name: picture(buffer, "random") for buffer in network.inputs}
    memory = memory_for(network)
    ours = least_cpu_seconds(lambda: run_program(network, data, memory=memory), runs)
    if path.suffix != ".tflite":
        return f"{ours:.3f}", "-"
    other = lite_interpreter(path)
    detail = other.get_input_details()[0]
    other.set_tensor(detail["index"], np.zeros(detail["shape"], detail["dtype"]))
    return f"{ours:.3f}", f"{ours / least_cpu_seconds(other.invoke, runs):.2f}"


def main() -> None:
    """Measure and report."""
    options = arguments(__doc__ or "")
    shared = required_shared_folder()
    rows: list[tuple[object, ...]] = []
    beyond: list[tuple[object, ...]] = []
    for folder, stated in programs(shared):
        network = load_compiled(folder)
        path = stated or shared / "models" / network.model
        graph = load_model(path)
        times = speed(network, path, options.runs)
        for kind in ("random", "smooth"):
            data = {buffer.name: picture(buffer, kind) for buffer in network.inputs}
            arrays = {
                name: model_input(buffer, graph.tensor(name), data[buffer.name])
                for buffer, name in zip(network.inputs, graph.inputs, strict=True)
            }
            tensors = reference_tensors(graph, arrays)
            found = compare_program(network, data, graph, tensors)
            entries = found.buffers
            values = sum(entry.values for entry in entries)
            rows.append(
                (
                    network.name if stated is None else folder.name,
                    kind,
                    len(found.run.epochs),
                    len(entries),
                    sum(not entry.differing for entry in entries),
                    sum(0 < entry.largest <= 1 for entry in entries),
                    sum(entry.largest > 1 for entry in entries),
                    sum(
                        entry.largest > 1 and not entry.saturated and not entry.causes
                        for entry in entries
                    ),
                    len(found.unmatched),
                    values,
                    f"{100 * sum(entry.differing for entry in entries) / values:.2f}",
                    differing(graph, path, arrays, tensors),
                    *times,
                )
            )
            beyond += [
                (
                    network.name if stated is None else folder.name,
                    kind,
                    entry.epoch,
                    entry.buffer,
                    f"{entry.largest:g}",
                    entry.differing,
                    entry.values,
                    entry.saturated,
                    " ".join(entry.causes) or ("saturation" if entry.saturated else "none"),
                )
                for entry in entries
                if entry.largest > 1
            ]
    report(
        "buffers beyond one step",
        (
            "program",
            "input",
            "epoch",
            "buffer",
            "largest",
            "differing",
            "values",
            "saturated",
            "cause",
        ),
        beyond,
        None,
    )
    report(
        "compiled programs against their networks",
        (
            "program",
            "input",
            "epochs",
            "buffers",
            "equal",
            "within 1",
            "beyond 1",
            "without cause",
            "no counterpart",
            "values",
            "differ %",
            "reference vs LiteRT",
            "CPU s",
            "/ LiteRT",
        ),
        rows,
        options.json,
        beyond=[list(map(str, row)) for row in beyond],
    )


if __name__ == "__main__":
    main()
