"""The document of a triage: what `npuforge doctor --recorded --json` prints."""

from __future__ import annotations

from typing import Any

from npuforge.doctor.triage import Triage, Verdict
from npuforge.messages import text


def triage_document(result: Triage) -> dict[str, Any]:
    """Verdicts, best first, as JSON data, schema npuforge.triage/1."""
    return {
        "schema": "npuforge.triage/1",
        "decided": result.decided,
        "samples": result.samples,
        "tried": result.tried,
        "buffer": result.buffer,
        "computed": result.computed,
        "verdicts": [_verdict(item) for item in result.verdicts],
    }


def _verdict(item: Verdict) -> dict[str, Any]:
    return {
        "cause": item.cause.value,
        "second": None if item.second is None else item.second.value,
        "detail": item.detail,
        "message": item.message,
        "remedy": item.hint,
        "distance": round(item.distance, 6),
        "exact": item.exact,
        "samples": item.samples,
        "reproduces": item.reproduces,
    }


def triage_lines(result: Triage) -> list[str]:
    """What a terminal shows."""
    best = result.best
    lines = [f"{best.cause.value}: {best.message}", f"  {best.hint}"]
    if best.samples and best.reproduces:
        lines.append(f"  {best.exact} / {best.samples} samples exact, distance {best.distance:.3f}")
    if result.equal:
        other = "; ".join(item.message for item in result.equal)
        lines.append("  " + text("TRI-equal", other=other))
    if result.buffer:
        lines.append("  " + text(f"TRI-buffer-{result.buffer}"))
        lines.append("  " + text("TRI-computed" if result.computed else "TRI-not-computed"))
    for item in result.verdicts[1:4]:
        if item not in result.equal:
            lines.append(f"  ({item.distance:.3f}) {item.cause.value}: {item.message}")
    return lines
