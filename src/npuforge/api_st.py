"""The Python side of backend `st`: ST's compiler on the layout's pools, both objectives."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from npuforge.api_doctor import diagnose_project
from npuforge.artefacts.c_info import Where
from npuforge.aton.load import load_compiled
from npuforge.boards import write_sources
from npuforge.boards.stedgeai import (
    COMPILE_SECONDS,
    StRun,
    StStatus,
    StTool,
    compile_network,
    find_stedgeai,
)
from npuforge.doctor import Finding
from npuforge.errors import ModelError, NpuforgeError, UsageError
from npuforge.firmware.st_compile import OBJECTIVES, PROFILES, st_files
from npuforge.firmware.st_project import st_project
from npuforge.memory.layout import SystemLayout
from npuforge.pipeline import PlannedModel
from npuforge.targets import Target

Tick = Callable[[str], None]

_INSTANCE = re.compile(rb"\bLL_ATON_Input_Buffers_Info_(\w{1,64})\b")


@dataclass(frozen=True, eq=False)
class StCompilation:
    """What came of ST's compiler.

    Attributes:
        tool: None where it is not installed: the scripts are ready to run.
        runs: one an objective; their paths are relative to the folder.
        findings: what is known about the failures, by objective.
        firmware: folder of the project around the network, by objective.
        refused: why there is none, by objective.
    """

    tool: StTool | None
    runs: tuple[StRun, ...]
    findings: dict[str, tuple[Finding, ...]]
    firmware: dict[str, Path]
    refused: dict[str, str]

    @property
    def best(self) -> dict[str, StRun]:
        """The run with the fewest estimated clocks, and that with the fewest activation bytes."""
        done = [run for run in self.runs if run.status is StStatus.DONE and run.info is not None]
        if not done:
            return {}
        return {
            "latency": min(done, key=lambda run: clocks(run) or 0),
            "memory": min(done, key=lambda run: run.info.activations if run.info else 0),
        }


def clocks(run: StRun) -> int | None:
    """NPU clocks of one inference as the compiler estimates them; None where it does not."""
    if run.info is None or not run.info.estimates:
        return None
    return sum(item.cycles for item in run.info.estimates)


def compile_with_st(
    model: PlannedModel,
    layout: SystemLayout,
    name: str,
    folder: Path,
    *,
    clock: str = "nominal",
    seconds: float = COMPILE_SECONDS,
    tick: Tick = lambda _: None,
) -> StCompilation:
    """Write what ST's compiler needs and run it where it is installed.

    Args:
        model: the planned model.
        layout: what the program and the system leave to the networks.
        name: C name of the network.
        folder: where everything goes.
        clock: operating point of the projects around the networks.
        seconds: time limit of one run.
        tick: called with each objective as it begins.

    Raises:
        ToolError: the tool is there and cannot be started.
    """
    files = st_files(layout, name, model.path, model.path.read_bytes())
    write_sources(folder, files)
    tool = find_stedgeai()
    runs: list[StRun] = []
    findings: dict[str, tuple[Finding, ...]] = {}
    firmware: dict[str, Path] = {}
    refused: dict[str, str] = {}
    folder = folder.resolve()
    for objective in OBJECTIVES if tool is not None else ():
        assert tool is not None
        tick(objective)
        run = compile_network(
            tool, folder / f"{name}{model.path.suffix.lower()}", folder / PROFILES, objective, name,
            folder / objective, seconds,
        )  # fmt: skip
        source = None if run.source is None else run.source.relative_to(folder)
        if run.status is StStatus.DONE and run.source is not None:
            project = folder / objective / "firmware"
            try:
                st_firmware(run.source, layout.target, clock, project)
            except NpuforgeError as error:
                refused[objective] = str(error)
            else:
                firmware[objective] = project.relative_to(folder)
        runs.append(replace(run, log=run.log.relative_to(folder), source=source))
        if run.status is StStatus.FAILED:
            findings[objective] = diagnose_project([run.log]).findings
    return StCompilation(tool, tuple(runs), findings, firmware, refused)


def st_firmware(source: Path, target: Target, clock: str, folder: Path) -> None:
    """Write the project around a network that ST's compiler made.

    Args:
        source: the generated code, or a folder with it; blobs and weight images beside it.
        target: the board.
        clock: operating point.
        folder: of the project.

    Raises:
        ModelError: the code cannot be read.
        PlanError: FST-001, FST-002, or the program does not fit.
        UsageError: DEP-005: a target without the NPU.
    """
    if not target.has_neural_art:
        raise UsageError("DEP-005", target=target.name)
    network = load_compiled(source)
    path = source if source.is_file() else source / f"{network.name}.c"
    called = _INSTANCE.search(path.read_bytes()) if path.is_file() else None
    if called is None:
        raise ModelError("CMP-004", path=source, reason="LL_ATON_Input_Buffers_Info_NAME")
    name = called[1].decode("ascii")
    write_sources(folder, st_project(name, network, target, clock, path.name))


def st_document(made: StCompilation) -> dict[str, Any]:
    """A compilation as a JSON document."""
    return {
        "schema": "npuforge.st-compilation/1",
        "tool": None if made.tool is None else {"name": "stedgeai", "version": made.tool.version},
        "runs": [
            _row(run, made.findings.get(run.objective, ()))
            | {
                "firmware": made.firmware[run.objective].as_posix()
                if run.objective in made.firmware
                else None,
                "no_firmware": made.refused.get(run.objective, ""),
            }
            for run in made.runs
        ],
        "best": {goal: run.objective for goal, run in made.best.items()},
    }


def _row(run: StRun, findings: tuple[Finding, ...]) -> dict[str, Any]:
    info = run.info
    kinds = {} if info is None else {
        where.value: sum(epoch.where is where for epoch in info.epochs) for where in Where
    }  # fmt: skip
    return {
        "objective": run.objective,
        "options": OBJECTIVES[run.objective],
        "status": run.status.value,
        "seconds": round(run.seconds, 1),
        "compiler": run.read.compiler,
        "activation_bytes": None if info is None else info.activations,
        "weight_bytes": None if info is None else info.weights,
        "epochs": kinds or run.read.epoch_counts,
        "estimated_npu_clocks": clocks(run),
        "pools": {pool.name: pool.used for pool in run.read.pools},
        "messages": [f"{item.kind}: {item.text}" for item in run.read.messages],
        "causes": [
            {
                "finding": item.id,
                "message": item.words.message,
                "cause": item.words.cause,
                "remedy": item.words.hint,
            }
            for item in findings
        ],
    }
