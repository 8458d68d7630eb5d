"""Search and sensitivity of a quantisation as documents, sentences and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from npuforge.graph import short_name
from npuforge.messages import parts, text
from npuforge.quantize import Diagnosis, Price, Quality, Score, Search, Sensitivity, Trial
from npuforge.report.quantization import QuantizedFile, finite, quantization_document

BARS = 30
"""Groups in the picture, the most harmful ones."""
MOST_DB = 60.0
"""Where bars end; beyond it quantisation is hardly visible in any task."""


def kind_words(kind: Quality) -> str:
    """What a quality is, in words."""
    return text(f"QNS-{kind.value}")


def score_document(score: Score) -> dict[str, Any]:
    """A score; `sqnr_db` is null where nothing differs."""
    return {
        "kind": score.kind.value,
        "quality": score.quality,
        "drop": score.drop,
        "sqnr_db": finite(score.sqnr),
        "cosine": score.cosine,
        "agreement": score.agreement,
        "accuracy": score.accuracy,
        "samples": score.samples,
    }


def price_document(price: Price | None) -> dict[str, Any] | None:
    """A price on a target."""
    if price is None:
        return None
    return {
        "ms": price.ms,
        "weight_bytes": price.weight_bytes,
        "activation_bytes": price.activation_bytes,
        "narrow_share": price.narrow_share,
        "why_not": price.why or None,
    }


def trial_words(trial: Trial) -> str:
    """What a trial changed."""
    return text(trial.step.value, detail=trial.detail)


def diagnosis_words(item: Diagnosis) -> tuple[str, str]:
    """What is wrong with a tensor, and the remedy."""
    found = parts(
        item.cause.value,
        {
            "tensor": short_name(item.tensor),
            "node": short_name(item.node),
            "ratio": f"{item.ratio:.0f}",
            "levels": f"{item.levels:.1f}",
        },
    )
    return found["message"], found["hint"]


def verdict_words(found: Search) -> str:
    """Whether the bounds hold, with the figures."""
    score = found.best.score
    code = "QNS-met" if found.met else "QNS-missed"
    quality, drop = f"{score.quality:.2%}", f"{score.drop:.2%}"
    if score.kind is Quality.COSINE:
        quality, drop = f"{score.quality:.5f}", f"{score.drop:.5f}"
    return text(code, kind=kind_words(score.kind), quality=quality, drop=drop)


def search_document(found: Search, written: QuantizedFile | None) -> dict[str, Any]:
    """A search as a JSON document."""
    return {
        "schema": "npuforge.quantization-search/1",
        "met": found.met,
        "bounds": {"drop": found.bounds.drop, "ms": found.bounds.ms},
        "score": score_document(found.best.score),
        "price": price_document(found.best.price),
        "raised": {name: kind.value for name, kind in sorted(found.raised.items())},
        "diagnoses": [
            {
                "cause": item.cause.value,
                "tensor": item.tensor,
                "node": item.node,
                "ratio": item.ratio,
                "levels": item.levels,
                "message": diagnosis_words(item)[0],
                "remedy": diagnosis_words(item)[1],
            }
            for item in found.diagnoses
        ],
        "trials": [
            {
                "step": trial.step.value.removeprefix("QNS-"),
                "detail": trial.detail,
                "kept": trial.kept,
                "score": score_document(trial.score),
                "price": price_document(trial.price),
            }
            for trial in found.trials
        ],
        "ranking": [item_document(item) for item in found.ranking],
        "quantization": quantization_document(found.session, written),
    }


def item_document(item: Sensitivity) -> dict[str, Any]:
    """One group of a ranking."""
    return {
        "name": item.name,
        "nodes": list(item.nodes),
        "ops": list(item.ops),
        "score": score_document(item.score),
        "weight_sqnr_db": None if item.weight_sqnr is None else finite(item.weight_sqnr),
        "macs": item.macs,
    }


def sensitivity_document(model: str, ranking: Sequence[Sensitivity]) -> dict[str, Any]:
    """A ranking as a JSON document."""
    return {
        "schema": "npuforge.sensitivity/1",
        "model": model,
        "groups": [item_document(item) for item in ranking],
    }


def sensitivity_svg(title: str, ranking: Sequence[Sensitivity]) -> str:
    """Bars of signal to noise at the network's output with one group in integers, worst on top.

    Args:
        title: of the picture.
        ranking: as `sensitivities` gives it.
    """
    shown = sorted(ranking, key=lambda item: item.score.sqnr)[:BARS]
    left, step, width, top = 300, 20, 860, 64
    height = top + step * len(shown) + 40
    scale = (width - left - 90) / MOST_DB
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
        '<text x="16" y="44" fill="#555555">signal to noise of the worst output in dB, this group '
        "alone in integers; short bars do the harm</text>",
    ]
    for tick in range(0, int(MOST_DB) + 1, 10):
        x = left + tick * scale
        bottom = height - 30
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 8}" y2="{bottom}" stroke="#e6e6e6"/>'
        )
        lines.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick}</text>')
    for number, item in enumerate(shown):
        y = top + number * step
        value = max(0.0, min(item.score.sqnr, MOST_DB))
        colour = "#c1272d" if item.score.drop > 0.01 else "#1f6fb4"
        label = f"{short_name(item.name)[-32:]} ({', '.join(item.ops)[:14]})"
        lines.append(
            f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(label)}</text>'
            f'<rect x="{left}" y="{y + 2}" width="{max(value * scale, 1):.1f}" '
            f'height="{step - 6}" fill="{colour}"/>'
            f'<text x="{left + value * scale + 6:.1f}" y="{y + 13}">{db(item.score.sqnr)}</text>'
        )
    return "\n".join([*lines, "</svg>", ""])


def db(value: float) -> str:
    """Decibels for people."""
    return f"{value:.1f}" if math.isfinite(value) else ("no error" if value > 0 else "-inf")
