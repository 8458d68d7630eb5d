"""The documents of a bundle: JSON-ready, each with its schema version. Nothing is computed here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from enum import Enum
from typing import Any

from npuforge.cost import Cost, NpuCost
from npuforge.explore.boards import BoardResult
from npuforge.explore.fit import tiling_ms
from npuforge.explore.models import ModelResult
from npuforge.explore.order import Ordering
from npuforge.explore.tiling import Tiling
from npuforge.graph import Graph, Node, Quantization, Tensor, macs
from npuforge.lowering import Schedule
from npuforge.mapping import Mapping, NpuMapping, ReportComparison, VelaMapping
from npuforge.memory import Plan
from npuforge.messages import text
from npuforge.pipeline import PlannedModel
from npuforge.targets import OperatingPoint, Target
from npuforge.validate import Check, Validation

Document = dict[str, Any]

SCHEMAS = {
    "boards": "npuforge.boards/1",
    "graph": "npuforge.graph/1",
    "mapping": "npuforge.mapping/1",
    "models": "npuforge.models/1",
    "schedule": "npuforge.schedule/1",
    "memory": "npuforge.memory/1",
    "cost": "npuforge.cost/1",
    "validation": "npuforge.validation/1",
    "analysis": "npuforge.analysis/1",
    "manifest": "npuforge.manifest/1",
    "target": "npuforge.target/1",
}


def plain(value: object) -> Any:
    """Enums, tuples and non-finite floats as JSON can hold them."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def quantization_document(quant: Quantization | None) -> Document | None:
    """Scales, zero points and axis."""
    if quant is None:
        return None
    return {
        "scale": [float(s) for s in quant.scale],
        "zero_point": [int(z) for z in quant.zero_point],
        "axis": quant.axis,
    }


def tensor_document(tensor: Tensor) -> Document:
    """One tensor without its data."""
    return {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype),
        "bytes": tensor.nbytes,
        "constant": tensor.is_constant,
        "quantization": quantization_document(tensor.quantization),
    }


def _node_document(graph: Graph, node: Node) -> Document:
    return {
        "name": node.name,
        "op": node.op,
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        "attributes": {
            field.name: plain(getattr(node.attrs, field.name)) for field in fields(node.attrs)
        },
        "contract": str(node.contract),
        "macs": macs(graph, node),
    }


def graph_document(graph: Graph) -> Document:
    """graph.json: the network as npuforge understands it."""
    return {
        "schema": SCHEMAS["graph"],
        "name": graph.name,
        "source": graph.source,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "added_transposes": graph.added_transposes,
        "tensors": [tensor_document(tensor) for tensor in graph.tensors.values()],
        "nodes": [_node_document(graph, node) for node in graph.nodes],
    }


def mapping_document(graph: Graph, mapping: Mapping, target: Target) -> Document:
    """mapping.json: what runs where, and why."""
    nodes = [
        {
            "node": node.name,
            "op": node.op,
            "accelerator": placement.accelerator,
            "kind": str(placement.kind),
            "reason": placement.reason,
            "why": text(placement.reason),
        }
        for node in graph.nodes
        for placement in (mapping.placements[node.name],)
    ]
    return {
        "schema": SCHEMAS["mapping"],
        "target": target.name,
        "backend": mapping.backend,
        "nodes": nodes,
        "count_by_kind": dict(Counter(str(entry["kind"]) for entry in nodes)),
    }


def schedule_document(schedule: Schedule) -> Document:
    """schedule.json: steps over buffers, without addresses."""
    return {
        "schema": SCHEMAS["schedule"],
        "name": schedule.name,
        "buffers": [
            {
                "name": buffer.name,
                "kind": str(buffer.kind),
                "bytes": buffer.nbytes,
                "alignment": buffer.alignment,
                "dtype": plain(buffer.dtype),
                "shape": list(buffer.shape),
                "layout": buffer.layout,
                "role": buffer.role,
            }
            for buffer in schedule.buffers.values()
        ],
        "steps": [
            {
                "node": step.node,
                "op": step.op,
                "accelerator": step.accelerator,
                "kernel": step.kernel,
                "macs": step.macs,
                "params": dict(step.params),
                "operands": [
                    {
                        "buffer": operand.buffer,
                        "writes": operand.writes,
                        "offset": operand.view.offset,
                        "shape": list(operand.view.fields[:4]),
                        "strides": list(operand.view.fields[4:8]),
                        "rows": [operand.view.y0, operand.view.y1],
                        "columns": [operand.view.x0, operand.view.x1],
                        "padding_value": operand.view.pad,
                    }
                    for operand in step.operands
                ],
            }
            for step in schedule.steps
        ],
    }


def tiling_document(tiling: Tiling, schedule: Schedule, point: OperatingPoint | None) -> Document:
    """What is computed in stripes, what that saves, and what it costs."""
    runs = []
    for number, stripes in enumerate(tiling.stripes):
        nodes = [tiling.whole.steps[n].node for n in (stripes.first, stripes.end - 1)]
        runs.append(
            {
                "run": number,
                "first_node": nodes[0],
                "last_node": nodes[1],
                "steps": stripes.end - stripes.first,
                "stripes": len(stripes.ends),
                "rows": stripes.lines,
                "window_bytes": stripes.rolling_bytes,
            }
        )
    return {
        "bytes_before": tiling.before,
        "bytes_after": tiling.after,
        "kernel_calls_added": tiling.added_steps,
        "bytes_moved": tiling.moved,
        "macs_recomputed": tiling.recomputed,
        "macs": schedule.macs,
        "added_ms": None if point is None else tiling_ms(tiling, point),
        "runs": runs,
    }


def tiling_notes(model: PlannedModel, target: Target, clock: str) -> tuple[str, ...]:
    """What a user should know of another order and of stripes, in a sentence each."""
    notes = []
    ordering, tiling = model.ordering, model.tiling
    if ordering is not None:
        code = "MEM-ordered" if ordering.proved else "MEM-ordered-bound"
        notes.append(text(code, after=ordering.after, before=ordering.before, bound=ordering.bound))
    if tiling is not None:
        notes.append(
            text(
                "MEM-tiled", runs=len(tiling.stripes), after=tiling.after, before=tiling.before,
                calls=tiling.added_steps, moved=tiling.moved, macs=tiling.recomputed,
                ms=f"{tiling_ms(tiling, target.operating_points[clock]):.2f}",
            )
        )  # fmt: skip
    return tuple(notes)


def order_document(ordering: Ordering) -> Document:
    """What another order of the steps saves, and what no order goes below."""
    return {
        "bytes_before": ordering.before,
        "bytes_after": ordering.after,
        "bound": ordering.bound,
        "proved_optimal": ordering.proved,
    }


def memory_document(
    schedule: Schedule,
    plan: Plan,
    tiling: Tiling | None = None,
    point: OperatingPoint | None = None,
    ordering: Ordering | None = None,
) -> Document:
    """memory.json: every address, the bound and the gap, and what is computed in stripes."""
    buffers = []
    for buffer in schedule.buffers.values():
        place = plan.places[buffer.name]
        life = schedule.lifetimes.get(buffer.name)
        region = plan.weights if place.region < 0 else plan.regions[place.region]
        buffers.append(
            {
                "name": buffer.name,
                "kind": str(buffer.kind),
                "bytes": buffer.nbytes,
                "region": region.name,
                "offset": place.offset,
                "address": plan.address(buffer.name),
                "first_step": None if life is None else life.first,
                "last_step": None if life is None else life.last,
            }
        )
    regions = [
        {
            "name": region.name,
            "base": region.base,
            "size": region.size,
            "used": region.used,
            "holds": holds,
        }
        for holds, region in (
            *(("activations", r) for r in plan.regions),
            ("weights", plan.weights),
        )
    ]
    return {
        "schema": SCHEMAS["memory"],
        "target": plan.target,
        "regions": regions,
        "activation_bytes": plan.activation_bytes,
        "weight_bytes": int(plan.image.size),
        "lower_bound": plan.lower_bound,
        "gap": plan.gap,
        "proved_optimal": plan.proved_optimal,
        "peak_step": plan.peak_step,
        "peak_node": schedule.steps[plan.peak_step].node if schedule.steps else None,
        "method": plan.method,
        "order": None if ordering is None else order_document(ordering),
        "tiling": None if tiling is None else tiling_document(tiling, schedule, point),
        "buffers": buffers,
    }


def npu_time_document(cost: NpuCost) -> Document:
    """Estimated NPU time: total with its 80 % interval, and every epoch; milliseconds."""
    return {
        "ms": cost.ms,
        "interval_ms": list(cost.interval),
        "interval_rests_on": cost.calibration.basis,
        "compiler": cost.release,
        "epochs": [
            {"node": e.node, "op": e.op, "ms": e.ms, "waits_for": e.bottleneck.value,
             "macs": e.macs, "mode_16x8": e.wide}
            for e in cost.epochs
        ],
    }  # fmt: skip


def cost_document(cost: Cost, validation: Validation | None = None) -> Document:
    """cost.json: work of each step; emulated instructions where they were counted."""
    counted = validation.instructions if validation is not None else ()
    return {
        "schema": SCHEMAS["cost"],
        "macs": cost.macs,
        "emulated_instructions": sum(counted) if counted else None,
        "note": text("RPT-work"),
        "steps": [
            {
                "node": step.node,
                "op": step.op,
                "kernel": step.kernel,
                "macs": step.macs,
                "read_bytes": step.read_bytes,
                "written_bytes": step.written_bytes,
                "constant_bytes": step.constant_bytes,
                "emulated_instructions": counted[i] if counted else None,
            }
            for i, step in enumerate(cost.steps)
        ],
    }


def check_document(check: Check) -> Document:
    """One check with its per-tensor results."""
    document: Document = {
        "where": check.where,
        "reference": check.reference,
        "status": str(check.status),
        "reason": check.reason,
        "tolerance_steps": check.tolerance,
    }
    comparison = check.comparison
    if comparison is not None:
        first = comparison.first_divergence
        document |= {
            "samples": comparison.samples,
            "tensors": len(comparison.tensors),
            "values": sum(entry.values for entry in comparison.tensors),
            "mismatches": comparison.mismatches,
            "first_divergence": first.tensor if first else None,
            "not_shown_by_reference": list(comparison.skipped),
            "metrics": {
                item.tensor: {k: plain(v) for k, v in item.values.items()} for item in check.metrics
            },
            "per_tensor": [
                {
                    "tensor": entry.tensor,
                    "node": entry.node,
                    "op": entry.op,
                    "contract": entry.contract,
                    "values": entry.values,
                    "mismatches": entry.mismatches,
                    "largest": entry.largest,
                    "steps_histogram": {str(k): v for k, v in entry.histogram.items()},
                }
                for entry in comparison.tensors
            ],
        }
    return document


def validation_document(validation: Validation) -> Document:
    """validation.json: what was executed where and compared with what."""
    return {
        "schema": SCHEMAS["validation"],
        "samples": validation.samples,
        "npu_executed": validation.npu_executed,
        "verdict": verdict(validation),
        "checks": [check_document(check) for check in validation.checks],
    }


def verdict(validation: Validation) -> str:
    """One sentence a user can rely on."""
    if validation.failed:
        return text("RPT-failed")
    ran = [check for check in validation.checks if check.comparison is not None]
    if not ran:
        return text("RPT-nothing-ran")
    where = " + ".join(dict.fromkeys(check.where for check in ran))
    sentence = text("RPT-passed", where=where)
    if not validation.npu_executed:
        sentence += " " + text("RPT-no-npu")
    return sentence


def target_document(target: Target) -> Document:
    """A target's pools, operating points and units."""
    return {
        "schema": SCHEMAS["target"],
        "name": target.name,
        "title": target.title,
        "core": target.core,
        "accelerators": list(target.accelerators),
        "cache_line": target.cache_line,
        "buffer_alignment": target.buffer_alignment,
        "weight_alignment": target.weight_alignment or None,
        "coherent_dma": target.coherent_dma,
        "keep_inputs": target.keep_inputs,
        "reserve_outputs": target.reserve_outputs,
        "pools": [
            {field.name: plain(getattr(pool, field.name)) for field in fields(pool)}
            for pool in target.pools
        ],
        "operating_points": [
            {field.name: getattr(point, field.name) for field in fields(OperatingPoint)}
            for point in target.operating_points.values()
        ],
        "units": dict(target.units),
        "emulated_by": target.emulated_by,
    }


def planned_memory(model: PlannedModel, target: Target, clock: str) -> Document:
    """memory.json of a planned model, with its order and stripes."""
    return memory_document(
        model.schedule,
        model.plan,
        model.tiling,
        target.operating_points[clock],
        model.ordering,
    )


def analysis_document(model: PlannedModel, target: Target, clock: str) -> Document:
    """What `analyze --json` prints: everything known without running anything."""
    graph = model.graph
    return {
        "schema": SCHEMAS["analysis"],
        "model": {
            "name": graph.name,
            "path": str(model.path),
            "source": graph.source,
            "nodes": len(graph.nodes),
            "macs": model.cost.macs,
            "weight_bytes": int(model.plan.image.size),
            "added_transposes": graph.added_transposes,
            "operators": dict(Counter(node.op for node in graph.nodes).most_common()),
            "contracts": dict(Counter(str(node.contract) for node in graph.nodes).most_common()),
            "inputs": [tensor_document(graph.tensors[name]) for name in graph.inputs],
            "outputs": [tensor_document(graph.tensors[name]) for name in graph.outputs],
        },
        "target": target.name,
        "clock": clock,
        "graph": graph_document(graph),
        "mapping": mapping_document(graph, model.mapping, target),
        "memory": planned_memory(model, target, clock),
        "cost": cost_document(model.cost),
    }


def npu_document(npu: NpuMapping) -> Document:
    """The predicted placement on the NPU: shares, epochs, every node, every fallback."""
    return {
        "node_share": npu.node_share,
        "mac_share": npu.mac_share,
        "hardware_epochs": npu.hardware_epochs,
        "hybrid_epochs": npu.hybrid_epochs,
        "software_epochs": npu.software_epochs,
        "nodes": [{"node": p.node, "kind": p.kind.value, "rule": p.rule} for p in npu.placements],
        "fallbacks": [asdict(f) for f in npu.fallbacks],
        "epochs": [
            {
                "kind": epoch.kind.value,
                "operations": [{"node": op.node, "part": op.part.value} for op in epoch.operations],
            }
            for epoch in npu.epochs
        ],
    }


def boards_document(results: Sequence[BoardResult], graph: Graph) -> Document:
    """One network on several boards, best first."""
    return {
        "schema": SCHEMAS["boards"],
        "model": graph.name,
        "boards": [asdict(result) for result in results],
    }


def models_document(results: Sequence[ModelResult], target: str) -> Document:
    """Several networks on one board."""
    rows = [asdict(result) for result in results]
    return {"schema": SCHEMAS["models"], "target": target, "models": rows}


def st_report_document(comparison: ReportComparison) -> Document:
    """A compile report of ST's tool beside the prediction."""
    hardware, hybrid, software = comparison.predicted
    return {
        "compiled": asdict(comparison.compiled),
        "predicted": {"hardware": hardware, "hybrid": hybrid, "software": software},
        "off_npu": [asdict(d) for d in comparison.differences],
    }


def vela_document(mapping: VelaMapping) -> Document:
    """Vela's per-layer report laid over the network."""
    return {
        "node_share": mapping.node_share,
        "mac_share": mapping.mac_share,
        "cycles": mapping.cycles,
        "rows_without_node": list(mapping.unknown),
        "fallbacks": [asdict(f) for f in mapping.fallbacks],
    }
