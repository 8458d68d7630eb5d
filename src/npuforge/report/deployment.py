"""What a deployment leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from npuforge.boards import HostBoard, Toolchain
from npuforge.pipeline import PlannedModel
from npuforge.report.bundle import json_bytes, write_bundle
from npuforge.report.documents import (
    analysis_document,
    cost_document,
    graph_document,
    mapping_document,
    planned_memory,
    schedule_document,
    validation_document,
)
from npuforge.report.html import html_report
from npuforge.targets import Target
from npuforge.validate import Status, Validation


def deployment_files(
    model: PlannedModel, target: Target, clock: str, validation: Validation
) -> dict[str, bytes]:
    """The documents and the page of a deployment by file name."""
    documents = {
        "graph": graph_document(model.graph),
        "mapping": mapping_document(model.graph, model.mapping, target),
        "schedule": schedule_document(model.schedule),
        "memory": planned_memory(model, target, clock),
        "cost": cost_document(model.cost, validation),
        "validation": validation_document(validation),
    }
    files = {f"{name}.json": json_bytes(document) for name, document in documents.items()}
    documents["analysis"] = analysis_document(model, target, clock)
    files["report.html"] = html_report(documents).encode()
    return files


def write_deployment(
    folder: Path,
    files: Mapping[str, bytes],
    model: PlannedModel,
    target: Target,
    clock: str,
    validation: Validation,
    tools: Toolchain | None,
) -> None:
    """Write documents and manifest beside what is already in the folder: firmware, and `st`."""
    everything = dict(files)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            everything[path.relative_to(folder).as_posix()] = path.read_bytes()
    versions = dict(tools.versions) if tools is not None else {}
    for check in validation.checks:
        if check.where == HostBoard.name and check.status is not Status.NOT_RUN:
            versions["oracle"] = check.reference
    write_bundle(
        folder,
        everything,
        inputs={model.path.name: model.path.read_bytes()},
        tools=versions,
        options={"target": target.name, "backend": model.mapping.backend, "clock": clock},
    )
