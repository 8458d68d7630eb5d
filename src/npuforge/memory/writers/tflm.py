"""Our plan for tflite-micro: tensor offsets as its offline memory plan.

Format: public documentation of tflite-micro ("Memory management", offline planned tensor
allocations): metadata ``OfflineMemoryAllocation`` of 32-bit words, see
`npuforge.exporters.tflite.exporter`.
"""

from __future__ import annotations

from collections.abc import Mapping

from npuforge.errors import PlanError
from npuforge.exporters.tflite.exporter import export_tflite
from npuforge.graph import Graph
from npuforge.lowering import Schedule
from npuforge.memory.plan import Plan

ALIGNMENT = 16
"""Bytes: tflite-micro's arena and every tensor in it."""


def offline_offsets(graph: Graph, schedule: Schedule, plan: Plan) -> Mapping[str, int]:
    """Offset of every activation in the arena.

    tflite-micro keeps the inputs of a node until it has ended and knows nothing of our steps, so
    the plan is checked at that grain: tensors of one node, and all that are alive beside them, lie
    apart unless they are views of one buffer.

    Raises:
        PlanError: SYS-052 or SYS-053 when tflite-micro cannot run the plan.
    """
    if len(plan.regions) > 1:
        raise PlanError("SYS-053", model=graph.name, count=len(plan.regions))
    offsets = {}
    for name, place in schedule.tensors.items():
        home = plan.places[place.buffer]
        at = home.offset + place.offset
        if home.region == 0 and at % ALIGNMENT == 0:
            offsets[name] = at
    _check(graph, schedule, offsets)
    return offsets


def _check(graph: Graph, schedule: Schedule, offsets: Mapping[str, int]) -> None:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, node in enumerate(graph.nodes):
        for name in (*node.inputs, *node.outputs):
            if name is not None and name in offsets:
                first.setdefault(name, number)
                last[name] = number
    for name in graph.inputs:
        if name in offsets:
            first[name] = 0
            last.setdefault(name, 0)
    for name in graph.outputs:
        if name in offsets:
            last[name] = len(graph.nodes)
    names = sorted(first, key=lambda name: offsets[name])
    for i, one in enumerate(names):
        end = offsets[one] + graph.tensors[one].nbytes
        for other in names[i + 1 :]:
            if offsets[other] >= end:
                break
            together = first[one] <= last[other] and first[other] <= last[one]
            same = schedule.tensors[one].buffer == schedule.tensors[other].buffer
            if together and not same:
                at = min(max(first[one], first[other]), len(graph.nodes) - 1)
                where = graph.nodes[at].name
                raise PlanError("SYS-052", tensor=one, other=other, node=where)


def offline_file(graph: Graph, schedule: Schedule, plan: Plan) -> bytes:
    """A TFLite file of the graph that carries the plan.

    Raises:
        UnsupportedError: TFLite cannot express a node.
        PlanError: tflite-micro cannot run the plan.
    """
    return export_tflite(graph, offline_offsets(graph, schedule, plan))
