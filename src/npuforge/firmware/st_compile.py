"""What ST's compiler is given: pools of the layout, a profile an objective, scripts that run it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath

from npuforge.memory.layout import SystemLayout
from npuforge.memory.writers.mpool import mpool_file

POOLS = "npu.mpool"
PROFILES = "neural_art.json"

_COMMON = (
    "--all-buffers-info --mvei --cache-maintenance --native-float --enable-virtual-mem-pools "
    "--Ocache-opt --enable-epoch-controller"
)

OBJECTIVES: Mapping[str, str] = {
    "latency": f"-O3 {_COMMON} --Oauto-sched --Omax-ca-pipe 4",
    "memory": f"-O3 {_COMMON} --Os --Oalt-sched --Omax-ca-pipe 4",
}
"""Compiler options an objective: of those ST documents, the schedule is searched for the first, and
buffers are kept small for the second."""


def profiles_file() -> bytes:
    """The profile file: one profile an objective, with the pools of the layout."""
    profiles = {
        name: {"memory_pool": POOLS, "options": options} for name, options in OBJECTIVES.items()
    }
    return (json.dumps({"Globals": {}, "Profiles": profiles}, indent=2) + "\n").encode()


def st_files(layout: SystemLayout, name: str, model: PurePath, content: bytes) -> dict[str, bytes]:
    """Everything a run of the compiler needs, by file name, for one folder.

    Args:
        layout: what the program, stacks and frames leave to the networks.
        name: C name of the network.
        model: name of the model file; only its suffix is used.
        content: the model file.
    """
    file = f"{name}{model.suffix.lower()}"
    commands = [
        f"stedgeai generate --model {file} --target stm32n6 "
        f"--st-neural-art {objective}@{PROFILES} --name {name} "
        f"--output {objective} --workspace {objective}/workspace"
        for objective in OBJECTIVES
    ]
    shell = ["#!/bin/sh", "# ST's compiler with each objective; needs stedgeai on the PATH"]
    shell += ["set -eu", 'cd "$(dirname "$0")"', *commands, ""]
    batch = ["@rem ST's compiler with each objective; needs stedgeai on the PATH", "@cd /d %~dp0"]
    batch += [f"call {command} || exit /b 1" for command in commands]
    return {
        file: content,
        POOLS: mpool_file(layout),
        PROFILES: profiles_file(),
        "compile.sh": "\n".join(shell).encode(),
        "compile.cmd": ("\r\n".join(batch) + "\r\n").encode(),
    }
