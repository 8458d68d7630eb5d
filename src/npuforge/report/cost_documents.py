"""JSON documents of the cost and explore rooms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from npuforge.cost import Bottleneck, NpuCost
from npuforge.cost.energy import DutyCycle, Energy, NetworkEnergy
from npuforge.cost.explain import Explanation, PrefetchPlan
from npuforge.cost.measured import Comparison
from npuforge.explore.search import Exploration
from npuforge.report.documents import npu_time_document

Document = dict[str, Any]


class CostOfModel(Protocol):
    """What the document is made of: `npuforge.api_cost.ModelCost`."""

    @property
    def cost(self) -> NpuCost:
        """Time of each epoch."""

    @property
    def board(self) -> NetworkEnergy:
        """Board-level energy."""

    @property
    def core(self) -> NetworkEnergy:
        """Core-level energy."""

    @property
    def why(self) -> Explanation:
        """Distance to the best possible."""

    @property
    def prefetch(self) -> PrefetchPlan:
        """Weights ranked."""

    def point_energies(self) -> tuple[tuple[NpuCost, float], ...]:
        """Operating points with the core's microjoules."""


def _energy(energy: Energy) -> Document:
    return {"uj": energy.uj, "interval_uj": [energy.low, energy.high], "level": energy.level.value}


def model_cost_document(
    found: CostOfModel, cycles: Sequence[DutyCycle] = (), compared: Comparison | None = None
) -> Document:
    """Time, energy, causes, weights and operating points of a model; ms, uJ, mW, bytes."""
    cost = found.cost
    by_node = {entry.node: entry for entry in found.board.epochs}
    document: Document = {
        "time": npu_time_document(cost),
        "clock": {"name": cost.point.name, "cpu_mhz": cost.point.cpu_mhz,
                  "npu_mhz": cost.point.npu_mhz, "flash_mhz": cost.point.flash_mhz},
        "epoch_controller": cost.controller,
        "shares": {b.value: cost.share(b) for b in Bottleneck if cost.share(b) > 0},
        "epochs": [
            {"nodes": list(e.nodes), "kind": e.kind.value, "ms": e.ms,
             "waits_for": e.bottleneck.value,
             "parts_ms": {part.value: ms for part, ms in e.parts.items()},
             "uj": by_node[e.node].energy.uj, "mw": by_node[e.node].mw}
            for e in cost.epochs
        ],
        "energy": [_energy(found.board.total), _energy(found.core.total)],
        "best_possible_ms": found.why.best_ms,
        "why": [
            {"cause": s.cause.value, "ms": s.ms, "share": s.share, "epochs": s.epochs,
             "nodes": list(s.nodes), "remedy": s.remedy}
            for s in found.why.savings
        ],
        "weights_in_ram": {
            "room_bytes": found.prefetch.room, "ms": found.prefetch.ms,
            "ahead_ms": found.prefetch.ahead_ms, "buffer_bytes": found.prefetch.buffer,
            "entries": [
                {"node": p.node, "bytes": p.nbytes, "ms": p.ms, "ahead_ms": p.ahead_ms,
                 "fits": p.fits}
                for p in found.prefetch.entries
            ],
        },
        "operating_points": [
            {"name": c.point.name, "ms": c.ms, "core_uj": uj} for c, uj in found.point_energies()
        ],
    }  # fmt: skip
    if cycles:
        document["duty_cycles"] = [
            {"point": c.point.name, "waiting": c.waiting.value, "rate": c.rate, "busy": c.busy,
             "reached": c.reached, "mw": c.mw, "interval_mw": [c.low, c.high],
             "uj_per_inference": c.uj_per_inference}
            for c in cycles
        ]  # fmt: skip
    if compared is not None:
        document["measured"] = comparison_document(compared)
    return document


def comparison_document(compared: Comparison) -> Document:
    """Measured against expected, epoch by epoch; milliseconds."""
    return {
        "measured_ms": compared.measured_ms,
        "predicted_ms": compared.predicted_ms,
        "ratio": compared.ratio,
        "matched": compared.matched,
        "suspicions": [
            {"code": s.code, "text": s.text, "remedy": s.remedy} for s in compared.suspicions
        ],
        "epochs": [
            {"measured": p.measured.name if p.measured else None,
             "measured_ms": p.measured.ms if p.measured else None,
             "predicted": p.predicted.name if p.predicted else None,
             "predicted_ms": p.predicted.ms if p.predicted else None,
             "ratio": p.ratio}
            for p in compared.pairs
        ],
    }  # fmt: skip


def exploration_document(found: Exploration) -> Document:
    """The Pareto front; ms, uJ, bytes."""
    return {
        "tried": found.tried,
        "front": [
            {"ms": c.cost.ms, "interval_ms": list(c.cost.interval), "energy": _energy(c.energy),
             "ram_bytes": c.ram, "external_bytes": c.external,
             "weights_in_ram_bytes": c.weights_in_ram, "clock": c.choice.point.name,
             "backend": c.choice.backend.value, "activations": c.choice.spread.value,
             "integer_io": c.choice.integer_io,
             "reordered": c.choice.reordered, "input_size": c.size}
            for c in found.front
        ],
    }  # fmt: skip
