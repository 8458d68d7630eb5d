"""The memory map over time: who occupies which address at which step, with the peak marked.

One SVG that stands alone, and the same picture with a cursor for HTML pages: it says what is alive
at the step under the mouse. Nothing is loaded from outside.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from typing import Any

from npuforge.graph import short_name

Document = dict[str, Any]

WIDTH, LEFT, RIGHT, TOP = 1000, 150, 16, 58
LANE, STRIP, GAP = 300, 90, 46
COLOURS = {
    "input": "#2a9d6f", "output": "#b8651b", "activation": "#3f7cc4", "scratch": "#8f6bb3",
    "state": "#9a8423",
}  # fmt: skip
INK, DIM, GRID, PEAK = "#1c2733", "#5d6b79", "#dfe4ea", "#c0392b"


def human(value: float) -> str:
    """Bytes with a binary unit."""
    for limit, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= limit:
            return f"{value / limit:.4g} {unit}"
    return f"{value:.0f} B"


def shown_buffers(memory: Document) -> list[Document]:
    """Buffers with a lifetime and a size: what is drawn."""
    return [b for b in memory["buffers"] if b["first_step"] is not None and b["bytes"]]


def live_bytes(memory: Document) -> list[int]:
    """Bytes alive at each step, from the one before the first to the one behind the last."""
    buffers = shown_buffers(memory)
    last = max((b["last_step"] for b in buffers), default=-1)
    change = [0] * (last + 3)
    for b in buffers:
        change[b["first_step"] + 1] += b["bytes"]
        change[b["last_step"] + 2] -= b["bytes"]
    live = []
    total = 0
    for step in change[:-1]:
        total += step
        live.append(total)
    return live


def memory_svg(memory: Document, nodes: Sequence[str], title: str) -> str:
    """The picture as one SVG file.

    Args:
        memory: `memory_document` of a plan.
        nodes: name of the node of every step.
        title: of the picture.
    """
    regions = [r for r in memory["regions"] if r["holds"] == "activations" and r["used"]]
    height = TOP + len(regions) * (LANE + GAP) + STRIP + 56
    live = live_bytes(memory)
    x = _Scale(0, max(len(live), 1), LEFT, WIDTH - RIGHT)
    peak = live.index(max(live)) if live else 0
    body: list[str] = []
    top = TOP
    for region in regions:
        body += _lane(memory, region, x, top)
        top += LANE + GAP
    body += _strip(live, x, top)
    body += _peak(nodes, live, peak, x, top)
    body += _legend(memory)
    style = f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {style} '
            f'class="memory-map" role="img" aria-label="{escape(title)}">',
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="{LEFT}" y="20" font-size="15" font-weight="600">{escape(title)}</text>',
            *body,
            "</svg>",
            "",
        ]
    )


class _Scale:
    """From values to pixels."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.span = low, max(high - low, 1e-9)
        self.start, self.length = start, end - start

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / self.span * self.length


def _lane(memory: Document, region: Document, x: _Scale, top: float) -> list[str]:
    y = _Scale(0, region["used"], top + LANE, top)
    items = [
        f'<text x="{LEFT}" y="{top - 6}" font-weight="600">{escape(region["name"])}</text>',
        f'<text x="{WIDTH - RIGHT}" y="{top - 6}" text-anchor="end" fill="{DIM}">'
        f"{human(region['used'])} used of {human(region['size'])}</text>",
    ]
    for offset in _ticks(region["used"]):
        at = y(offset)
        items.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="{GRID}"/>'
            f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end" fill="{DIM}" font-size="11">'
            f"{region['base'] + offset:#010x}  +{human(offset)}</text>"
        )
    for number, buffer in enumerate(shown_buffers(memory)):
        if buffer["region"] == region["name"]:
            items.append(_block(number, buffer, x, y))
    return items


def _block(number: int, buffer: Document, x: _Scale, y: _Scale) -> str:
    left, right = x(buffer["first_step"] + 1), x(buffer["last_step"] + 2)
    upper, lower = y(buffer["offset"] + buffer["bytes"]), y(buffer["offset"])
    width, height = max(right - left, 1.5), max(lower - upper, 1.0)
    name = short_name(buffer["name"]).rpartition("/")[2]
    tip = (
        f"{buffer['name']}: {buffer['bytes']} bytes at {buffer['address']:#010x}, steps "
        f"{buffer['first_step']} to {buffer['last_step']}"
    )
    label = ""
    room = int(width / 6.4) - 1
    if height > 15 and room >= 5:
        cut = name if len(name) <= room else name[: room - 1] + "…"
        label = (
            f'<text x="{left + 4:.1f}" y="{upper + min(height / 2 + 4, 16):.1f}" fill="#ffffff" '
            f'font-size="11" pointer-events="none">{escape(cut)}</text>'
        )
    return (
        f'<rect class="b" data-b="{number}" x="{left:.1f}" y="{upper:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" fill="{COLOURS.get(buffer["kind"], COLOURS["activation"])}" '
        f'fill-opacity="0.88" stroke="#ffffff" stroke-width="0.8"><title>{escape(tip)}</title>'
        f"</rect>{label}"
    )


def _strip(live: Sequence[int], x: _Scale, top: float) -> list[str]:
    """Bytes alive over time, below the lanes."""
    most = max(live, default=1) or 1
    y = _Scale(0, most, top + STRIP, top)
    points = [f"{x(0):.1f},{top + STRIP}"]
    for step, value in enumerate(live):
        points += [f"{x(step):.1f},{y(value):.1f}", f"{x(step + 1):.1f},{y(value):.1f}"]
    points.append(f"{x(len(live)):.1f},{top + STRIP}")
    lines = [
        f'<text x="{LEFT}" y="{top - 6}" font-weight="600">alive</text>',
        f'<polygon points="{" ".join(points)}" fill="#c9d6e4"/>',
    ]
    for value in (0, most):
        lines.append(
            f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end" fill="{DIM}" '
            f'font-size="11">{human(value)}</text>'
        )
    for step in range(0, len(live), max(1, 2 ** max(0, math.ceil(math.log2(len(live) / 12))))):
        lines.append(
            f'<text x="{x(step + 0.5):.1f}" y="{top + STRIP + 16}" text-anchor="middle" '
            f'fill="{DIM}" font-size="11">{step - 1 if step else "in"}</text>'
        )
    lines.append(
        f'<text x="{LEFT - 8}" y="{top + STRIP + 16}" text-anchor="end" fill="{DIM}" '
        'font-size="11">step</text>'
    )
    return lines


def _peak(nodes: Sequence[str], live: Sequence[int], peak: int, x: _Scale, top: float) -> list[str]:
    if not live:
        return []
    at = x(peak + 0.5)
    step = peak - 1
    name = short_name(nodes[step]) if 0 <= step < len(nodes) else "network input"
    words = f"peak: {human(live[peak])} at step {step}, {name[:60]}"
    anchor = "start" if at < WIDTH / 2 else "end"
    return [
        f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{top + STRIP}" stroke="{PEAK}" '
        'stroke-dasharray="5 4" stroke-width="1.4" pointer-events="none"/>',
        f'<text x="{at + (6 if anchor == "start" else -6):.1f}" y="{top + STRIP + 36}" '
        f'text-anchor="{anchor}" fill="{PEAK}" font-weight="600">{escape(words)}</text>',
    ]


def _legend(memory: Document) -> list[str]:
    kinds = [kind for kind in COLOURS if kind in {b["kind"] for b in shown_buffers(memory)}]
    items = []
    at = WIDTH - RIGHT - 92 * len(kinds)
    for kind in kinds:
        items.append(
            f'<rect x="{at}" y="9" width="12" height="12" rx="2" fill="{COLOURS[kind]}"/>'
            f'<text x="{at + 17}" y="19">{kind}</text>'
        )
        at += 92
    return items


def _ticks(used: int) -> list[int]:
    step = 1 << max(math.ceil(math.log2(max(used / 6, 1))), 0)
    return list(range(0, used + 1, step))


_SCRIPT = """
(() => {
  const box = document.currentScript.parentElement, data = JSON.parse(box.dataset.map);
  const svg = box.querySelector("svg"), said = box.querySelector(".memory-said");
  const rects = [...svg.querySelectorAll("rect.b")];
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  for (const [k, v] of Object.entries({y1: data.top, y2: svg.viewBox.baseVal.height - 40,
    stroke: "#1c2733", "stroke-width": 1, "pointer-events": "none", visibility: "hidden"}))
    line.setAttribute(k, v);
  svg.append(line);
  const bytes = n => n >= 1048576 ? (n / 1048576).toFixed(2) + " MiB"
    : n >= 1024 ? (n / 1024).toFixed(1) + " KiB" : n + " B";
  let pinned = -1;
  const show = (step, own, moved) => {
    const at = data.left + (step + 1.5) / data.live.length * (data.right - data.left);
    line.setAttribute("x1", at); line.setAttribute("x2", at);
    line.setAttribute("visibility", moved ? "visible" : "hidden");
    const alive = data.buffers.map((b, i) => [b, i]).filter(([b]) => b[3] <= step && step <= b[4]);
    alive.sort((a, b) => a[0][2] - b[0][2]);
    rects.forEach(r => {
      const i = +r.dataset.b, b = data.buffers[i];
      r.setAttribute("fill-opacity", i === own ? 1 :
        !moved || b[3] <= step && step <= b[4] ? 0.88 : 0.25);
    });
    said.replaceChildren();
    const head = document.createElement("b");
    head.textContent = `step ${step}${data.nodes[step] ? ", " + data.nodes[step] : ""}: ` +
      `${bytes(data.live[step + 1])} alive`;
    said.append(head);
    for (const [b, i] of alive) {
      const row = document.createElement("div");
      row.textContent = `0x${b[2].toString(16).padStart(8, "0")}  ${bytes(b[1])}  ${b[0]}  ` +
        `(steps ${b[3]} to ${b[4]})`;
      if (i === own) row.style.fontWeight = "bold";
      said.append(row);
    }
  };
  const stepAt = event => {
    const r = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / r.width;
    const x = (event.clientX - r.left) * scale;
    const step = Math.floor((x - data.left) / (data.right - data.left) * data.live.length) - 1;
    return Math.max(-1, Math.min(data.live.length - 2, step));
  };
  const own = event => event.target.dataset && event.target.dataset.b !== undefined
    ? +event.target.dataset.b : -1;
  svg.addEventListener("mousemove", e => { if (pinned < 0) show(stepAt(e), own(e), true); });
  svg.addEventListener("mouseleave", () => { if (pinned < 0) show(data.peak, -1, false); });
  svg.addEventListener("click", e => { pinned = -1 - pinned; show(stepAt(e), own(e), true); });
  show(data.peak, -1, false);
})();
"""


def memory_widget(memory: Document, nodes: Sequence[str], title: str) -> str:
    """The picture with a cursor, as a piece of HTML; without scripts it is the picture alone."""
    live = live_bytes(memory)
    data = {
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "top": TOP,
        "peak": live.index(max(live)) - 1 if live else -1,
        "live": live,
        "nodes": [short_name(node) for node in nodes],
        "buffers": [
            [short_name(b["name"]), b["bytes"], b["address"], b["first_step"], b["last_step"]]
            for b in shown_buffers(memory)
        ],
    }
    packed = escape(json.dumps(data, separators=(",", ":"), ensure_ascii=False), quote=True)
    return (
        f'<figure class="memory" data-map="{packed}">{memory_svg(memory, nodes, title)}'
        '<div class="memory-said" style="white-space:pre;overflow:auto;max-height:14em;'
        'font:12px ui-monospace,monospace;padding:6px 0"></div>'
        f"<script>{_SCRIPT}</script></figure>"
    )


def memory_page(memory: Document, nodes: Sequence[str], title: str) -> str:
    """A page with nothing but the picture and its cursor."""
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<body style="margin:16px auto;max-width:1200px">{memory_widget(memory, nodes, title)}'
        "</body></html>\n"
    )
