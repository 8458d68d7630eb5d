"""The roofline picture: epochs between what they read and what they compute, as one SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from npuforge.accelerators import PlacementKind
from npuforge.cost import EpochCost, NpuCost
from npuforge.cost.timing import DEFAULT_FLASH_MHZ, FLASH_BYTES_PER_CLOCK
from npuforge.graph import short_name

MACS_PER_CLOCK = 288
"""Four convolution units of 72 multiply-accumulates in 8x8-bit mode; half of it in 16x8."""
WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 84, 190, 56, 62
COLOURS = {
    "input stream": "#1f6fb4", "output stream": "#4aa3df", "kernel stream": "#7a5195",
    "flash": "#d95f02", "cpu ram": "#e7a93b", "external ram": "#c1272d", "control": "#7f7f7f",
    "copy by the cpu": "#8c6d31", "cpu": "#2ca02c",
}  # fmt: skip
NAMED = 6
"""Epochs that take most time get a number and a line in the legend."""


@dataclass(frozen=True)
class RooflinePoint:
    """One epoch: multiply-accumulates a byte of constants, and a second."""

    epoch: EpochCost
    intensity: float
    gmacs: float


def roofline_points(cost: NpuCost) -> tuple[RooflinePoint, ...]:
    """Hardware epochs that multiply; activations on the chip are free, constants are not."""
    found = []
    for epoch in cost.epochs:
        if epoch.kind is PlacementKind.HARDWARE and epoch.macs and epoch.ms > 0:
            read = max(epoch.flash_bytes + cost.residence.external_bytes(epoch.work), 1)
            found.append(RooflinePoint(epoch, epoch.macs / read, epoch.macs / epoch.ms / 1e6))
    return tuple(found)


def roofline_svg(cost: NpuCost, title: str) -> str:
    """The picture of a network at its operating point.

    Args:
        cost: the estimate.
        title: of the picture.
    """
    points = roofline_points(cost)
    peak = MACS_PER_CLOCK * cost.point.npu_mhz / 1e3
    flash = (cost.point.flash_mhz or DEFAULT_FLASH_MHZ) * FLASH_BYTES_PER_CLOCK / 1e3
    xs = [p.intensity for p in points] or [1.0]
    ys = [p.gmacs for p in points] or [1.0]
    box = (
        10 ** math.floor(math.log10(min(*xs, 1.0) if len(xs) > 1 else min(xs[0], 1.0))),
        10 ** math.ceil(math.log10(max(max(xs), peak / flash * 2))),
        10 ** math.floor(math.log10(max(min(ys), 1e-3))),
        10 ** math.ceil(math.log10(max(peak * 1.2, max(ys)))),
    )
    body = [*_axes(box), *_roofs(box, peak, flash), *_dots(points, box)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            f'<text x="{LEFT}" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
            f'<text x="{LEFT}" y="42" fill="#555555">{escape(_subtitle(cost))}</text>',
            *body,
            *_legend(points),
            "</svg>",
            "",
        ]
    )


def _subtitle(cost: NpuCost) -> str:
    low, high = cost.interval
    return (
        f"{cost.ms:.2f} ms ({low:.2f} to {high:.2f}), {cost.point.cpu_mhz:.0f}/"
        f"{cost.point.npu_mhz:.0f} MHz, flash {cost.point.flash_mhz or DEFAULT_FLASH_MHZ:.0f} MHz"
    )


Box = tuple[float, float, float, float]


def _x(value: float, box: Box) -> float:
    part = math.log10(value / box[0]) / math.log10(box[1] / box[0])
    return LEFT + max(0.0, min(1.0, part)) * (WIDTH - LEFT - RIGHT)


def _y(value: float, box: Box) -> float:
    part = math.log10(value / box[2]) / math.log10(box[3] / box[2])
    return HEIGHT - BOTTOM - max(0.0, min(1.0, part)) * (HEIGHT - TOP - BOTTOM)


def _axes(box: Box) -> list[str]:
    lines = []
    for power in range(round(math.log10(box[0])), round(math.log10(box[1])) + 1):
        x = _x(10.0**power, box)
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" '
                     'stroke="#e6e6e6"/>')  # fmt: skip
        lines.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
                     f"{10.0**power:g}</text>")  # fmt: skip
    for power in range(round(math.log10(box[2])), round(math.log10(box[3])) + 1):
        y = _y(10.0**power, box)
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
                     'stroke="#e6e6e6"/>')  # fmt: skip
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
                     f"{10.0**power:g}</text>")  # fmt: skip
    middle = (LEFT + WIDTH - RIGHT) / 2
    lines.append(f'<text x="{middle:.0f}" y="{HEIGHT - 18}" text-anchor="middle">'
                 "multiply-accumulates a byte from flash or external RAM</text>")  # fmt: skip
    lines.append(f'<text transform="translate(22 {HEIGHT / 2:.0f}) rotate(-90)" '
                 'text-anchor="middle">billion multiply-accumulates a second</text>')  # fmt: skip
    return lines


def _roofs(box: Box, peak: float, flash: float) -> list[str]:
    lines = []
    for roof, dash, label in ((peak, "", "8x8 bit"), (peak / 2, "5 4", "16x8 bit")):
        knee = max(box[0], roof / flash)
        start = max(box[0], box[2] / flash)
        path = [(start, start * flash), (knee, roof), (box[1], roof)]
        corners = " ".join(f"{_x(x, box):.1f},{_y(y, box):.1f}" for x, y in path)
        lines.append(f'<polyline points="{corners}" fill="none" stroke="#333333" '
                     f'stroke-width="1.6" stroke-dasharray="{dash}"/>')  # fmt: skip
        lines.append(f'<text x="{WIDTH - RIGHT - 4}" y="{_y(roof, box) - 6:.1f}" '
                     f'text-anchor="end">{label}: {roof:.0f}</text>')  # fmt: skip
    return lines


def _dots(points: Sequence[RooflinePoint], box: Box) -> list[str]:
    total = sum(p.epoch.ms for p in points) or 1.0
    ranked = sorted(points, key=lambda p: -p.epoch.ms)
    circles, numbers = [], []
    for rank, point in enumerate(ranked):
        radius = 3 + 22 * math.sqrt(point.epoch.ms / total)
        colour = COLOURS.get(point.epoch.bottleneck.value, "#000000")
        x, y = _x(point.intensity, box), _y(point.gmacs, box)
        tip = f"{short_name(point.epoch.node)}: {point.epoch.ms:.3f} ms"
        circles.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" '
                       f'fill-opacity="0.55" stroke="{colour}"><title>{escape(tip)}</title>'
                       "</circle>")  # fmt: skip
        if rank < NAMED:
            numbers.append(f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" '
                           f'font-weight="bold" font-size="11">{rank + 1}</text>')  # fmt: skip
    # Numbers lie above all circles, or small epochs would cover them.
    return circles + numbers


def _legend(points: Sequence[RooflinePoint]) -> list[str]:
    x, y = WIDTH - RIGHT + 16, TOP + 8
    lines = [f'<text x="{x}" y="{y}" font-weight="bold">waits for</text>']
    present = {p.epoch.bottleneck.value for p in points}
    for name in (name for name in COLOURS if name in present):
        y += 20
        lines.append(f'<circle cx="{x + 6}" cy="{y - 4}" r="6" fill="{COLOURS[name]}"/>')
        lines.append(f'<text x="{x + 18}" y="{y}">{name}</text>')
    y += 34
    lines.append(f'<text x="{x}" y="{y}" font-weight="bold">slowest</text>')
    for rank, point in enumerate(sorted(points, key=lambda p: -p.epoch.ms)[:NAMED]):
        y += 20
        name = short_name(point.epoch.node)[-13:]
        lines.append(f'<text x="{x}" y="{y}">{rank + 1}  {escape(name)} '
                     f"{point.epoch.ms:.2f} ms</text>")  # fmt: skip
    return lines
