"""report.html: one self-contained page made from the bundle's documents."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import Any

from npuforge import __version__
from npuforge.graph import short_name
from npuforge.report.documents import Document

_TEMPLATES = Path(__file__).parent / "templates"
_KINDS = ("input", "output", "activation", "scratch")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 960, 300, 86, 30


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
        memory_map=memory_map(documents["memory"]),
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


def memory_map(memory: Document) -> str:
    """Which buffer occupies which bytes at which step, as SVG; the peak step is marked."""
    buffers = [b for b in memory["buffers"] if b["first_step"] is not None and b["bytes"]]
    regions = [r for r in memory["regions"] if r["holds"] == "activations"]
    steps = max((b["last_step"] for b in buffers), default=0) + 2
    parts = []
    for region in regions:
        inside = [b for b in buffers if b["region"] == region["name"]]
        parts.append(_region_svg(region, inside, steps, memory["peak_step"]))
    return "\n".join(parts)


def _region_svg(region: Document, buffers: list[Document], steps: int, peak: int) -> str:
    top = max(region["used"], 1)

    def x(step: float) -> float:
        return _LEFT + (step + 1) / steps * (_WIDTH - _LEFT - 8)

    def y(offset: float) -> float:
        return float(_HEIGHT - _BOTTOM - offset / top * (_HEIGHT - _BOTTOM - 12))

    items = []
    for tick in _ticks(top):
        items.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{y(tick):.1f}"'
            f' y2="{y(tick):.1f}"/>'
            f'<text class="axis" x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">'
            f"{human_bytes(tick)}</text>"
        )
    for buffer in buffers:
        left, right = x(buffer["first_step"]), x(buffer["last_step"] + 1)
        upper = y(buffer["offset"] + buffer["bytes"])
        height = y(buffer["offset"]) - upper
        title = (
            f"{buffer['name']}\n{human_bytes(buffer['bytes'])} at {buffer['address']:#x}\n"
            f"steps {buffer['first_step']} to {buffer['last_step']}"
        )
        items.append(
            f'<rect class="{escape(buffer["kind"])}" x="{left:.1f}" y="{upper:.1f}"'
            f' width="{max(right - left, 1):.1f}" height="{max(height, 1):.1f}">'
            f"<title>{escape(title)}</title></rect>"
        )
    middle = x(peak + 0.5)
    first = ""
    if middle > _LEFT + 130:
        first = f'<text class="axis" x="{_LEFT}" y="{_HEIGHT - 8}">step 0</text>'
    place = min(max(middle, _LEFT + 32), _WIDTH - 110)
    items.append(
        f'<line class="peak" x1="{middle:.1f}" x2="{middle:.1f}" y1="8"'
        f' y2="{_HEIGHT - _BOTTOM}"/>'
        f"{first}"
        f'<text class="axis" x="{_WIDTH - 8}" y="{_HEIGHT - 8}" text-anchor="end">'
        f"step {steps - 2}</text>"
        f'<text class="axis" x="{place:.1f}" y="{_HEIGHT - 8}" text-anchor="middle">'
        f"peak: step {peak}</text>"
    )
    label = f"{region['name']} at {region['base']:#010x}: {human_bytes(region['used'])} used"
    return (
        f'<figure><figcaption>{escape(label)}</figcaption><svg viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        f' role="img" aria-label="{escape(label)}">{"".join(items)}</svg></figure>'
    )


def _ticks(top: int) -> list[int]:
    step = 1 << max(math.ceil(math.log2(top / 5)), 0)
    return list(range(0, top + 1, step))
