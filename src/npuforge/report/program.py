"""Compiled programs as JSON documents: what is in them, what a run did, how two differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npuforge.aton.check import Finding
from npuforge.aton.compiled import Buffer, Compiled, Step
from npuforge.aton.diff import Difference
from npuforge.aton.execute import ProgramRun
from npuforge.aton.simulate import EpochRun
from npuforge.boards import CosimRun
from npuforge.validate.program import ProgramComparison
from npuforge.vocab import Severity


def _buffer(buffer: Buffer) -> dict[str, Any]:
    return {
        "name": buffer.name,
        "address": buffer.address,
        "bytes": buffer.size,
        "shape": list(buffer.memory_shape),
        "bits": buffer.bits,
        "unsigned": buffer.unsigned,
        "float": buffer.real,
        "scale": list(buffer.scales[:1]),
        "zero_point": list(buffer.offsets[:1]),
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "kind": str(step.kind),
        "epoch": step.number,
        "name": step.name,
        "operators": [work.kind for work in step.work],
        "epochs": [
            {
                "epoch": epoch.number,
                "units": [unit.name for _, unit in sorted(epoch.units.items())],
                "read": sum(unit.stream_bytes for unit in epoch.readers),
                "written": sum(unit.stream_bytes for unit in epoch.writers),
            }
            for epoch in step.epochs
        ],
    }


def network_document(network: Compiled) -> dict[str, Any]:
    """What is in a compiled network."""
    return {
        "schema": "npuforge.aton-network/1",
        "name": network.name,
        "compiler": network.version,
        "model": network.model,
        "pools": [
            {"name": r.name, "address": r.address, "bytes": r.size, "writable": r.writable}
            for r in network.regions
        ],
        "constants": [{"address": i.address, "bytes": len(i.data)} for i in network.images],
        "inputs": [_buffer(buffer) for buffer in network.inputs],
        "outputs": [_buffer(buffer) for buffer in network.outputs],
        "buffers": len(network.buffers),
        "all_buffers": network.described,
        "missing": {
            "constants": [buffer.name for buffer in network.lacking],
            "blobs": list(network.absent),
        },
        "steps": [_step(step) for step in network.steps],
    }


def profile_rows(network: Compiled, run: EpochRun) -> dict[str, Any]:
    """One epoch's links, bytes by pool and port, and multiply-accumulates.

    Engines 0 to 4 share one bus port, 5 to 9 the other (public machine description).
    """
    pools: dict[str, dict[str, int]] = {}
    ports = {"0": 0, "1": 0}
    for item in run.transfers:
        owner = next(
            (r.name for r in network.regions if r.address <= item.low < r.end), "elsewhere"
        )
        part = pools.setdefault(owner, {"read": 0, "written": 0})
        part["written" if item.write else "read"] += item.moved
        ports[str(int(item.engine.removeprefix("STRENG")) // 5)] += item.moved
    return {
        "epoch": run.number,
        "macs": run.macs,
        "links": [
            {
                "from": link.source,
                "to": f"{link.destination}.{link.port}",
                "elements": link.elements,
            }
            for link in run.links
        ],
        "pools": pools,
        "ports": ports,
        "saturated": {item.unit: item.count for item in run.saturations if item.bits > 8},
    }


def trace_document(network: Compiled, run: ProgramRun) -> dict[str, Any]:
    """What every hardware epoch of a run moved and computed."""
    return {
        "schema": "npuforge.aton-trace/1",
        "name": network.name,
        "epochs": [profile_rows(network, item) for item in run.epochs],
        "macs": sum(item.macs for item in run.epochs),
    }


def run_summary(
    network: Compiled, run: ProgramRun, comparison: ProgramComparison | None
) -> dict[str, Any]:
    """A run, and its comparison with the network where one was made."""
    document: dict[str, Any] = {
        "schema": "npuforge.aton-run/1",
        "name": network.name,
        "hardware_epochs": len(run.epochs),
        "macs": sum(item.macs for item in run.epochs),
        "saturated": {
            str(item.number): sum(s.count for s in item.saturations if s.bits > 8)
            for item in run.epochs
            if any(s.bits > 8 for s in item.saturations)
        },
        "outputs": {name: len(data) for name, data in run.outputs.items()},
    }
    if comparison is not None:
        entries = comparison.buffers
        document["comparison"] = {
            "compared": len(entries),
            "exact": sum(not entry.differing for entry in entries),
            "within_one": sum(0 < entry.largest <= 1 for entry in entries),
            "beyond_one": sum(entry.largest > 1 for entry in entries),
            "explained": comparison.explained,
            "outside_bound": len(comparison.outside),
            "ambiguous": sum(entry.candidates > 1 for entry in entries),
            "observed_bounds": sum(e.bound is not None and not e.derived for e in entries),
            "values": sum(entry.values for entry in entries),
            "differing": sum(entry.differing for entry in entries),
            "without_counterpart": list(comparison.unmatched),
            "unchecked": list(comparison.unchecked),
            "buffers": [{**vars(entry), "causes": list(entry.causes)} for entry in entries],
        }
    return document


def check_document(network: Compiled, findings: Sequence[Finding]) -> dict[str, Any]:
    """Findings of the program checks."""
    errors = sum(item.severity is Severity.ERROR for item in findings)
    return {
        "schema": "npuforge.aton-check/1",
        "name": network.name,
        "errors": errors,
        "warnings": len(findings) - errors,
        "findings": [
            {
                "code": item.code,
                "severity": str(item.severity),
                "epoch": item.epoch,
                "unit": item.unit,
                "message": item.message,
                "hint": item.hint,
            }
            for item in findings
        ],
    }


def diff_document(
    first: Compiled, second: Compiled, differences: Sequence[Difference]
) -> dict[str, Any]:
    """Differences of two programs."""
    return {
        "schema": "npuforge.aton-diff/1",
        "first": first.name,
        "second": second.name,
        "differences": [vars(item) for item in differences],
    }


def cosim_document(
    network: Compiled, board: str, run: CosimRun, simulated: ProgramRun
) -> dict[str, Any]:
    """What CPU steps and outputs of a co-simulation hold, against the simulator alone."""
    rows = []
    for kind, made, want in (
        ("cpu step", run.buffers, simulated.buffers),
        ("output", run.outputs, simulated.outputs),
    ):
        rows += [
            {
                "name": name,
                "kind": kind,
                "bytes": len(data),
                "different": sum(a != b for a, b in zip(data, want[name], strict=True)),
            }
            for name, data in made.items()
        ]
    return {
        "schema": "npuforge.aton-cosimulation/1",
        "name": network.name,
        "board": board,
        "handovers": run.handovers,
        "hardware_epochs": len(run.epochs),
        "buffers": rows,
        "differences": sum(row["different"] for row in rows),
    }
