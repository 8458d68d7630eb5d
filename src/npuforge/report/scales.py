"""The scales of a quantisation as a file for training that knows of it (QAT).

Fake quantisation computes scale * (clip(round(x / scale) + zero_point, low, high) - zero_point);
with these numbers a training framework computes on the grid the integer network computes on.
"""

from __future__ import annotations

from typing import Any

from npuforge.passes import CHANNEL_AXIS
from npuforge.quantize import Session
from npuforge.quantize.build import layer_weights


def scales_document(session: Session) -> dict[str, Any]:
    """Scales of every activation and of the weights of every layer, by the float network's names.

    Weights are named by their layer, whose axis of output channels is `axis` (TFLite's layout: 0
    of a convolution's OHWI and of a dense layer's rows, 3 of a depthwise 1HWC).
    """
    graph, made = session.prepared, session.made
    activations = {}
    for name, stored in made.stored_as.items():
        tensor = made.graph.tensors.get(stored)
        if tensor is None or tensor.quantization is None:
            continue
        low, high = tensor.dtype.limits
        node = graph.producers.get(name)
        activations[name] = {
            "node": "" if node is None else node.name,
            "scale": float(tensor.quant.s),
            "zero_point": tensor.quant.z,
            "low": low,
            "high": high,
        }
    weights = {}
    for node in graph.nodes:
        known = layer_weights(made, node.name) if node.op in CHANNEL_AXIS else None
        if known is None:
            continue
        _, scales, bits = known
        most = (1 << (bits - 1)) - 1
        weights[node.name] = {
            "op": node.op,
            "axis": CHANNEL_AXIS[node.op] if scales.size > 1 else None,
            "scale": scales.tolist(),
            "low": -most,
            "high": most,
        }
    return {
        "schema": "npuforge.scales/1",
        "model": session.original.name,
        "activations": activations,
        "weights": weights,
        "float_nodes": sorted(
            name for name, kind in made.assignment.precisions.items() if kind == "float"
        ),
    }
