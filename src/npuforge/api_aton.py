"""Compiled Neural-ART programs in the Python side of the command line; `npuforge.api` offers it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npuforge.artefacts.ec_blob import read_blob, write_blob
from npuforge.aton import assemble, disassemble
from npuforge.aton.check import check_program
from npuforge.aton.diff import diff_programs
from npuforge.aton.execute import run_program
from npuforge.aton.images import file_bytes
from npuforge.aton.load import load_compiled
from npuforge.boards import find_toolchain
from npuforge.errors import UsageError
from npuforge.firmware.aton_program import build_cosim
from npuforge.importers import load_model
from npuforge.report import check_writable, write_file
from npuforge.report.program import (
    check_document,
    cosim_document,
    diff_document,
    network_document,
    run_summary,
    trace_document,
)
from npuforge.report.run import save_arrays
from npuforge.validate.buffers import buffer_arrays, program_inputs
from npuforge.validate.program import compare_with_model

PathLike = str | os.PathLike[str]


def aton_document(path: PathLike, weights: Sequence[PathLike] = ()) -> dict[str, Any]:
    """What is in a compiled network as a JSON document; bytes are what the engines move.

    Args:
        path: generated C, a folder with it, or an epoch-controller blob.
        weights: weight images instead of the ones beside the code.

    Raises:
        ModelError: what does not decode, with its word offset, line or field.
    """
    return network_document(load_compiled(Path(path), [Path(item) for item in weights]))


def aton_run(
    path: PathLike,
    inputs: Sequence[PathLike] = (),
    *,
    model: PathLike | None = None,
    weights: Sequence[PathLike] = (),
    output: PathLike | None = None,
    trace: bool = False,
    seed: int = 1,
    force: bool = False,
) -> dict[str, Any]:
    """Run a compiled network on the simulator, and compare every buffer with its model.

    Args:
        path: generated C, a folder with it, or a folder of blobs with ``network.json``.
        inputs: one .npy an input; random bytes when none are given.
        model: the network it came from; every epoch is then fed with that network's own tensors.
        weights: weight images instead of the ones beside the code.
        output: .npz for the captured buffers and outputs.
        trace: elements of each link, bytes of each pool and port, MACs of every epoch instead.
        seed: of random inputs.
        force: replace an existing output file.

    Raises:
        ModelError: what the program does that hardware would not survive, by epoch and unit.
        UsageError: a path or an input that cannot be used.
    """
    network = load_compiled(Path(path), [Path(item) for item in weights])
    data = program_inputs(network, [Path(item) for item in inputs], seed)
    if output is not None:
        check_writable(Path(output), replace=force)
    comparison = None
    if model is not None:
        comparison = compare_with_model(network, load_model(Path(model)), data)
    run = (
        comparison.run
        if comparison is not None and output is None
        else run_program(network, data, capture=output is not None)
    )
    if output is not None:
        save_arrays(Path(output), buffer_arrays(network, run))
    if trace:
        return trace_document(network, run)
    return run_summary(network, run, comparison)


def aton_cosimulate(
    path: PathLike,
    inputs: Sequence[PathLike] = (),
    *,
    weights: Sequence[PathLike] = (),
    build: PathLike | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """Run a compiled network's CPU side on an emulated Cortex-M55, its NPU side on the simulator.

    Args:
        path: see `aton_run`.
        inputs: one .npy an input; random bytes when none are given.
        weights: weight images instead of the ones beside the code.
        build: folder to keep the generated project in; a temporary one when None.
        seed: of random inputs.

    Returns:
        A document with every CPU buffer and output, and how many bytes differ from the simulator's.

    Raises:
        ModelError: what the program does that hardware would not survive, by epoch and unit.
        ToolError: tools are missing, or the firmware does not build, faults or hangs.
    """
    network = load_compiled(Path(path), [Path(item) for item in weights])
    data = program_inputs(network, [Path(item) for item in inputs], seed)
    tools = find_toolchain()
    with tempfile.TemporaryDirectory(prefix="npuforge-") as temporary:
        board = build_cosim(network, Path(temporary if build is None else build), tools)
        run = board.run(data)
    return cosim_document(network, board.name, run, run_program(network, data, capture=True))


def aton_check(path: PathLike, weights: Sequence[PathLike] = ()) -> dict[str, Any]:
    """What a compiled program does that the chip would not survive, as a JSON document.

    Args: see `aton_document`.
    """
    network = load_compiled(Path(path), [Path(item) for item in weights])
    return check_document(network, check_program(network))


def aton_diff(path: PathLike, other: PathLike | None) -> dict[str, Any]:
    """Differences of two compiled programs as a JSON document.

    Raises:
        ModelError: what does not decode.
        UsageError: ATN-016 when the second program is missing.
    """
    if other is None:
        raise UsageError("ATN-016")
    first, second = load_compiled(Path(path)), load_compiled(Path(other))
    return diff_document(first, second, diff_programs(first, second))


def aton_translate(
    path: PathLike, action: str, output: PathLike | None = None, *, force: bool = False
) -> bytes:
    """Blob to text (``text``) or text to blob (``assemble``), byte-exact both ways.

    Args:
        path: blob, or text as this function writes it.
        action: ``text`` or ``assemble``.
        output: file to write; needed to assemble.
        force: replace an existing file.

    Raises:
        ModelError: what does not decode or parse, with its word offset or line number.
        UsageError: a path that cannot be read or written.
    """
    data = file_bytes(Path(path))
    if action == "assemble":
        if output is None:
            raise UsageError("ATN-010")
        made = write_blob(assemble(data.decode("utf-8", "replace")))
    else:
        made = disassemble(read_blob(data)).encode()
    if output is not None:
        check_writable(Path(output), replace=force)
        write_file(Path(output), made)
    return made
