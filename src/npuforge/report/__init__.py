"""The report room: documents for terminal, JSON and HTML."""

from npuforge.report.bundle import (
    check_writable,
    json_bytes,
    new_folder,
    sha256,
    write_bundle,
    write_file,
)
from npuforge.report.documents import (
    SCHEMAS,
    analysis_document,
    check_document,
    cost_document,
    graph_document,
    mapping_document,
    memory_document,
    npu_document,
    npu_time_document,
    schedule_document,
    target_document,
    validation_document,
    verdict,
)
from npuforge.report.html import html_report, human_bytes, human_count

__all__ = [
    "SCHEMAS",
    "analysis_document",
    "check_document",
    "check_writable",
    "cost_document",
    "graph_document",
    "html_report",
    "human_bytes",
    "human_count",
    "json_bytes",
    "mapping_document",
    "memory_document",
    "new_folder",
    "npu_document",
    "npu_time_document",
    "schedule_document",
    "sha256",
    "target_document",
    "validation_document",
    "verdict",
    "write_bundle",
    "write_file",
]
