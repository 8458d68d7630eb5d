"""Documents of the system's memory: the ledger, and the layout with its budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npuforge.boards.high_water import MeasuredMemory
from npuforge.explore.compiler import FilledBanks
from npuforge.explore.shortfall import Diagnosis
from npuforge.lowering.tile import moved_bytes
from npuforge.memory.check import Claim, Disagreement, FileClaims
from npuforge.memory.layout import PlacedNetwork, SystemLayout, budget, layout_ledger
from npuforge.memory.ledger import Ledger
from npuforge.memory.shortfall import bytes_needed
from npuforge.memory.system import Account
from npuforge.messages import text
from npuforge.pipeline import PlannedModel
from npuforge.report.documents import memory_document
from npuforge.targets import Target

Document = dict[str, Any]


def ledger_document(ledger: Ledger) -> Document:
    """Every line, the sums of the classes, of the pools, and those that ``size`` prints."""
    sums, inside = ledger.by_account(), ledger.in_ram()
    sizes = ledger.sizes
    return {
        "schema": "npuforge.ledger/1",
        "target": ledger.target,
        "accounts": [
            {"account": str(account), "bytes": sums[account], "in_ram": inside[account]}
            for account in Account
        ],
        "sizes": {
            "text": sizes.text,
            "data": sizes.data,
            "bss": sizes.bss,
            "total": sizes.total,
        },
        "pools": [
            {
                "name": pool.name,
                "base": pool.base,
                "bytes": pool.size,
                "used": pool.used,
                "free": pool.free,
                "on_chip": pool.on_chip,
            }
            for pool in ledger.pools
        ],
        "lines": [
            {
                "account": str(line.account),
                "name": line.name,
                "pool": line.pool,
                "address": line.address,
                "bytes": line.nbytes,
                "column": str(line.column),
                "origin": line.origin,
            }
            for line in ledger.lines
        ],
    }


def layout_document(layout: SystemLayout) -> Document:
    """The layout: its ledger, the budget against the policy, the pipeline and the networks."""
    spent = budget(layout)
    pipeline = layout.description.pipeline
    return {
        "schema": "npuforge.system/1",
        "name": layout.description.name,
        "target": layout.target.name,
        "boot": layout.boot.name,
        "budget": {
            "ram": spent.ram,
            "fixed": spent.fixed,
            "held": spent.held,
            "moving": spent.moving,
            "total": spent.total,
            "allowed": spent.allowed,
            "within": spent.within,
            "reserve": layout.description.reserve,
            "limit": layout.description.limit,
        },
        "pipeline": None
        if pipeline is None
        else {
            "capture_ms": pipeline.capture_ms,
            "infer_ms": pipeline.infer_ms,
            "post_ms": pipeline.post_ms,
            "period_ms": pipeline.period_ms,
            "latency_ms": pipeline.latency_ms,
        },
        "networks": [
            {
                "name": network.name,
                "arena": str(network.arena),
                "activations": network.plan.activation_bytes,
                "lower_bound": network.plan.lower_bound,
                "peak_step": network.plan.peak_step,
                "peak_node": network.schedule.steps[
                    min(network.plan.peak_step, len(network.schedule.steps) - 1)
                ].node,
                "weights": int(network.plan.image.size),
                "ordered": network.ordered,
                "tiling": _tiled(network),
            }
            for network in layout.networks
        ],
        "ledger": ledger_document(layout_ledger(layout)),
    }


def _tiled(network: PlacedNetwork) -> Document | None:
    """What stripes save and cost, when the network is computed in stripes."""
    if not network.schedule.pieces:
        return None
    return {
        "bytes_before": bytes_needed(network.whole),
        "bytes_after": bytes_needed(network.schedule),
        "kernel_calls_added": len(network.schedule.steps) - len(network.whole.steps),
        "bytes_moved": moved_bytes(network.schedule),
        "macs_recomputed": network.schedule.macs - network.whole.macs,
        "macs": network.whole.macs,
    }


def measured_document(found: MeasuredMemory) -> Document:
    """Expected, linked and run, row by row, and the terms between live tensors and the plan."""
    sums, sizes = found.ledger.by_account(), found.ledger.sizes
    arenas = found.run.arenas
    parts = found.breakdown
    rows = [
        ("activations", parts.planned, sums[Account.ACTIVATIONS],
         sum(area.high for area in arenas), "up to the last byte written"),
        ("weights", found.weights, sums[Account.WEIGHTS], None, ""),
        ("stack", found.stack_reserved, found.stack_room, found.run.stack.high,
         "deepest byte written"),
        ("npu runtime", None, sums[Account.NPU_RUNTIME], None, ""),
        ("code", None, sums[Account.CODE], None, ""),
        ("read-only data", None, sums[Account.READ_ONLY], None, ""),
    ]  # fmt: skip
    return {
        "schema": "npuforge.measured-memory/1",
        "rows": [
            {
                "what": what,
                "expected": expected,
                "linked": linked,
                "run": run,
                "meaning": meaning,
            }
            for what, expected, linked, run, meaning in rows
        ],
        "peak_step": parts.step,
        "terms": [
            {"term": "tensors alive", "bytes": parts.tensors},
            *({"term": name, "bytes": value} for name, value in parts.terms),
        ],
        "sizes": [sizes.text, sizes.data, sizes.bss],
        "exact": found.exact,
    }


def disagreement_text(found: Disagreement) -> str:
    """A disagreement in one sentence with files and addresses."""
    one, other = found.one, found.other
    return text(
        f"SYS-{found.conflict.value.replace(' ', '-')}",
        a=one.name, file_a=one.file, start_a=f"{one.start:#010x}",
        b=other.name if other else "", file_b=other.file if other else "",
        start_b=f"{other.start:#010x}" if other else "",
        start=f"{found.start:#010x}", end=f"{found.end:#010x}",
    )  # fmt: skip


def check_memory_document(
    files: Sequence[FileClaims], disagreements: Sequence[Disagreement]
) -> Document:
    """The files and every disagreement, with both claims."""

    def claim(entry: Claim | None) -> Document | None:
        if entry is None:
            return None
        return {"file": entry.file, "name": entry.name, "start": entry.start, "end": entry.end}

    return {
        "schema": "npuforge.memory-check/1",
        "files": [{"file": f.file, "claims": len(f.claims)} for f in files],
        "disagreements": [
            {
                "conflict": str(found.conflict),
                "one": claim(found.one),
                "other": claim(found.other),
                "start": found.start,
                "end": found.end,
                "text": disagreement_text(found),
            }
            for found in disagreements
        ],
    }


def model_fit_document(
    model: PlannedModel | None,
    refused: str | None,
    diagnosis: Diagnosis | None,
    target: Target,
    compiler: FilledBanks | None = None,
) -> Document:
    """Whether one model fits on a board, and how: its plan, stripes, and what would help."""
    document: Document = {
        "schema": "npuforge.model-fit/1",
        "target": target.name,
        "fits": model is not None and diagnosis is None,
        "error": refused,
        "model": None,
        "shortfall": None if diagnosis is None else diagnosis_document(diagnosis),
        "st_compiler": None
        if compiler is None
        else {
            "banks": dict(compiler.banks),
            "inside": compiler.inside,
            "outside": compiler.outside,
            "unplaced": compiler.unplaced,
        },
    }
    if model is not None:
        memory = memory_document(
            model.schedule, model.plan, model.tiling, target.operating_points.get("nominal"),
            model.ordering,
        )  # fmt: skip
        kept = ("regions", "activation_bytes", "weight_bytes", "lower_bound", "gap",
                "proved_optimal", "peak_step", "peak_node", "order", "tiling")  # fmt: skip
        document["model"] = {"name": model.graph.name} | {name: memory[name] for name in kept}
    return document


def diagnosis_document(found: Diagnosis) -> Document:
    """Why a network does not fit on the chip, and every remedy with its effect."""
    short = found.shortfall
    return {
        "network": found.network,
        "capacity": short.capacity,
        "need": short.need,
        "missing": short.missing,
        "peak_step": short.step,
        "peak_node": short.node,
        "peak_epoch": found.epoch,
        "together_at": short.at,
        "together": [
            {"buffer": b.name, "bytes": b.nbytes, "first_step": b.first, "last_step": b.last}
            for b in short.together
        ],
        "remedies": [
            {
                "kind": r.kind,
                "detail": r.detail,
                "planned": r.planned,
                "fits": r.fits,
                "outside": r.outside,
                "ms": r.ms,
                "ms_on_chip": r.before_ms,
                "added_ms": r.added_ms,
            }
            for r in found.remedies
        ],
    }
