"""report.html: one self-contained page made from the bundle's documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npuforge import __version__
from npuforge.graph import short_name
from npuforge.report.documents import Document
from npuforge.report.memory_map import memory_widget

_TEMPLATES = Path(__file__).parent / "templates"


def html_report(documents: dict[str, Document]) -> str:
    """The page.

    Args:
        documents: analysis, memory, mapping, cost and validation documents by name.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, autoescape=True
    )
    environment.filters["bytes"] = human_bytes
    environment.filters["count"] = human_count
    environment.filters["short"] = short_name
    environment.filters["sig"] = lambda value: _significant(value)
    return environment.get_template("report.html.j2").render(
        version=__version__,
        memory_map=memory_widget(
            documents["memory"],
            [step["node"] for step in documents["cost"]["steps"]],
            documents["analysis"]["model"]["name"],
        ),
        layers=layer_rows(documents),
        **documents,
    )


def human_bytes(value: int) -> str:
    """Bytes with a binary unit."""
    if value < 1024:
        return f"{value} B"
    if value < 1 << 20:
        return f"{value / 1024:.1f} KiB"
    return f"{value / (1 << 20):.2f} MiB"


def human_count(value: int) -> str:
    """A number with a decimal unit."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.2f} {unit}"
    return str(value)


def _significant(value: Any) -> str:
    if isinstance(value, str) or value is None:
        return str(value)
    return f"{value:.4g}"


def layer_rows(documents: dict[str, Document]) -> list[dict[str, Any]]:
    """One row a node: what it is, what it costs, whether it is exact."""
    graph, cost = documents["analysis"]["graph"], documents["cost"]
    shapes = {tensor["name"]: tensor for tensor in graph["tensors"]}
    placements = {entry["node"]: entry for entry in documents["mapping"]["nodes"]}
    work: dict[str, dict[str, int]] = {}
    for step in cost["steps"]:
        row = work.setdefault(step["node"], {"bytes": 0, "constants": 0, "instructions": 0})
        row["bytes"] += step["read_bytes"] + step["written_bytes"]
        row["constants"] += step["constant_bytes"]
        row["instructions"] += step["emulated_instructions"] or 0
    total = max(sum(row["instructions"] for row in work.values()), 1)
    mismatches: dict[str, int] = {}
    for check in documents["validation"]["checks"]:
        for entry in check.get("per_tensor", ()):
            mismatches[entry["node"]] = mismatches.get(entry["node"], 0) + entry["mismatches"]
    rows = []
    for number, node in enumerate(graph["nodes"]):
        output = shapes[node["outputs"][0]]
        row = work.get(node["name"], {"bytes": 0, "constants": 0, "instructions": 0})
        rows.append(
            {
                "number": number,
                "name": node["name"],
                "op": node["op"],
                "shape": "×".join(str(n) for n in output["shape"]),
                "dtype": output["dtype"],
                "contract": node["contract"],
                "kind": placements[node["name"]]["kind"],
                "macs": node["macs"],
                "share": row["instructions"] / total,
                "mismatches": mismatches.get(node["name"]),
                **row,
            }
        )
    return rows
