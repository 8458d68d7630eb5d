"""Epochs of the compiled networks in the measurement data, in the words of our own operations.

Each buffer of a compiled network names the operation that wrote it and the epoch. An epoch's
operations follow: from every buffer it writes back to values that earlier epochs left in memory.
The names of the compiler's convolutions are matched to graph nodes by the scales of their weights.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from npuforge.accelerators.neural_art.operations import Operation, Part
from npuforge.artefacts.ec_blob import read_blob
from npuforge.aton import epochs_of
from npuforge.graph import Graph

NETWORKS = {
    "mobilenet_v1_025_96": ("mobilenet_v1_0.25_96_tfs_int8.tflite", False),
    "movenet_lightning_192": ("st_movenet_lightning_heatmaps_192_int8_pc.tflite", False),
    "yolox_nano_480": ("st_yolo_x_nano_480_1.0_0.25_3_st_int8.tflite", False),
    # Compiled with integer inputs and outputs: its conversions left no software epoch.
    "deeplab_v3_mnv2_320": ("deeplab_v3_mobilenetv2_05_16_320_fft_qdq_int8.onnx", True),
}
"""Folder of a compiled network to its model file and whether inputs and outputs are integers."""

Label = tuple[str, str]
"""Node and part."""

SOFTWARE = frozenset(("Softmax", "DequantizeLinear", "QuantizeLinear", "Resize"))


@dataclass(frozen=True)
class CompiledEpoch:
    """One epoch of a compiled network.

    Attributes:
        number: the compiler's.
        kind: "hardware", "hybrid" or "software".
        made: the operations that run in it, by the value they make.
        unknown: names of buffers it writes that are no operation of ours.
    """

    number: int
    kind: str
    made: frozenset[str]
    unknown: tuple[str, ...]


def compiled_epochs(folder: Path, graph: Graph, ops: tuple[Operation, ...]) -> list[CompiledEpoch]:
    """The epochs of a compiled network, in the compiler's order."""
    description = json.loads((folder / "network.json").read_text())
    hardware = {
        epoch.number
        for blob in description["blobs"]
        for epoch in epochs_of(read_blob((folder / blob["file"]).read_bytes()))
    }
    software = {int(n): entries for n, entries in description["software_epochs"].items()}
    written: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for buffer in description["buffers"]:
        if not buffer["is_param"] and buffer["epoch"] > 1:
            written[buffer["epoch"]].append(buffer)
    names = _Names(graph, description["buffers"], ops)
    makers = {op.writes: op for op in ops}
    available: set[str] = set()
    found = []
    for number in sorted(hardware | set(software)):
        ends: list[Operation] = []
        unknown = []
        for buffer in written[number]:
            op = names.operation(buffer)
            if op is None and not _is_view(buffer, written):
                unknown.append(buffer["name"])
            elif op is None:
                continue
            elif op not in ends:
                ends.append(op)
        if number in software:
            kind = "software" if software[number][0]["kind"] in SOFTWARE else "hybrid"
            ends = names.on_cpu(software[number][0], written[number])
            unknown = []
        else:
            kind = "hardware"
        made: set[str] = set()
        stack = list(ends)
        while stack:
            op = stack.pop()
            if op.writes in available or op.writes in made:
                continue
            made.add(op.writes)
            stack += [makers[name] for name in op.reads if name in makers]
        available.update(op.writes for op in ends)
        found.append(CompiledEpoch(number, kind, frozenset(made), tuple(unknown)))
    return found


def _is_view(buffer: dict[str, Any], written: dict[int, list[dict[str, Any]]]) -> bool:
    """Whether a buffer is another one under another shape: the same bytes, made no later.

    So are the transposes of network outputs, which only name the order of the axes.
    """
    place = (buffer["base"], buffer["offset_start"], buffer["offset_end"])
    return any(
        other["name"] != buffer["name"]
        and (other["base"], other["offset_start"], other["offset_end"]) == place
        for number in (buffer["epoch"] - 1, buffer["epoch"])
        for other in written[number]
    )


class _Names:
    """The compiler's names as nodes of the graph."""

    def __init__(self, graph: Graph, buffers: list[Any], ops: tuple[Operation, ...]) -> None:
        self.graph = graph
        self.ops: dict[Label, list[Operation]] = defaultdict(list)
        for op in ops:
            self.ops[op.node, op.part.value].append(op)
        self.nodes: dict[str, str] = {}
        self.copied: dict[str, str] = {}
        self._weights([b for b in buffers if b["is_param"] and "weights" in b["name"]])
        self._pools([b for b in buffers if b["name"].startswith("MaxPool")])
        self._others([b for b in buffers if not b["is_param"] and b["epoch"] > 1])

    def _weights(self, buffers: list[Any]) -> None:
        held = {}
        for node in self.graph.nodes:
            if len(node.inputs) > 1 and node.inputs[1] is not None:
                weights = self.graph.tensors[node.inputs[1]]
                if weights.is_constant and weights.quantization is not None:
                    scale = weights.quantization.scale.astype(np.float64)
                    held[node.name] = scale
        for buffer in buffers:
            name = re.match(r"[A-Za-z0-9]+_\d+", buffer["name"])
            scale = np.array(buffer.get("scale") or [], np.float64)
            if name is None or not scale.size:
                continue
            for node, own in held.items():
                if own.size == scale.size and np.allclose(own, scale, rtol=1e-5):
                    self.nodes[name[0]] = node
                    break

    def _pools(self, buffers: list[Any]) -> None:
        """Max pools by the number of 3x3 pools they were decomposed into."""
        turns: dict[str, int] = defaultdict(int)
        for buffer in buffers:
            name = re.match(r"(MaxPool_\d+)_decomposed_(\d+)_", buffer["name"])
            if name:
                turns[name[1]] = max(turns[name[1]], int(name[2]) + 1)
        for name, count in turns.items():
            for (node, part), ops in self.ops.items():
                if part == "pool" and len(ops) == count:
                    self.nodes[name] = node

    def _others(self, buffers: list[Any]) -> None:
        kinds = {"Add": ("add",), "Relu": (), "Sigmoid": ("logistic",), "Concat": ("concat",),
                 "Quantize": ("quantize", "dequantize"), "MaxPool": ("max_pool2d",),
                 "Resize": ("resize",), "Dequantize": ("dequantize",),
                 "Softmax": ("softmax",)}  # fmt: skip
        for buffer in buffers:
            name = re.match(r"([A-Za-z]+)_\d+", buffer["name"])
            if name is None or name[0] in self.nodes or name[1] not in kinds:
                continue
            scale = (buffer.get("scale") or [0.0])[0]
            for node in self.graph.nodes:
                if node.op not in kinds[name[1]] or node.name in self.nodes.values():
                    continue
                out = self.graph.output_tensors(node)[0]
                if node.op in ("quantize", "dequantize", "softmax"):
                    source = self.graph.tensor(node.inputs[0])
                    if source.size == np.prod(buffer["shape"]):
                        self.nodes[name[0]] = node.name
                        break
                    continue
                size = np.prod(buffer["shape"])
                whole = "decomposed" in buffer["name"] or "expansion" in buffer["name"]
                if not whole and out.size != size:
                    continue
                if whole or out.quantization is None or np.isclose(out.quantization.s, scale):
                    self.nodes[name[0]] = node.name
                    break

    def on_cpu(self, entry: dict[str, Any], buffers: list[Any]) -> list[Operation]:
        """The operation of a software or hybrid epoch."""
        for text in (entry["node"], *(buffer["name"] for buffer in buffers)):
            name = re.match(r"[A-Za-z0-9]+_\d+", text)
            node = self.nodes.get(name[0]) if name else None
            if node is not None:
                part = Part.SOFTWARE if entry["kind"] in SOFTWARE else Part.HELPER
                ops = self.ops.get((node, part.value), [])
                return ops[:1] if entry["kind"] == "SpaceToDepth" else ops[-1:]
        return []

    def operation(self, buffer: dict[str, Any]) -> Operation | None:
        """The operation that made a buffer's value; None when it is none of ours."""
        match = re.match(r"([A-Za-z0-9]+_\d+)(?:_conv_\d+)?(_.*)", buffer["name"])
        if match is None:
            return None
        node, rest = self.nodes.get(match[1]), match[2]
        if match[1].startswith("Relu"):
            return self._relu(buffer)
        if node is None:
            return None
        if "expansion_concat" in rest:
            return self._one(node, "copy")
        copies = self.ops.get((node, "copy"), [])
        if (node, "helper") in self.ops and copies:
            return self._dilated(node, rest, copies)
        parts = {"zero_off": "shift", "mul_scale": "scale", "off_bias": "offset"}
        for word, part in parts.items():
            if rest.startswith(f"_{word}"):
                inner = rest.rsplit("_out_", 1)[-1]
                if "inserted" in rest or "cp_in" in inner:
                    return self._inserted(buffer, node, rest)
                return self._one(node, part)
        if rest.startswith("_out_0_inserted"):
            return self._inserted(buffer, node, rest)
        if match[1].startswith("MaxPool"):
            if "_pad_" in rest:
                return self._one(node, "pad")
            turn = re.match(r"_decomposed_(\d+)_", rest)
            return self.ops[node, "pool"][int(turn[1])] if turn else self._one(node, "pool")
        for part in ("conv", "copy", "arith", "activation", "helper", "software"):
            op = self._one(node, part)
            if op is not None:
                return op
        return None

    def _dilated(self, node: str, rest: str, copies: list[Operation]) -> Operation | None:
        """A step of a dilated convolution between space to depth and depth to space."""
        uneven = (node, "pad") in self.ops
        if rest.startswith("_zero_off"):
            if rest.count("inserted") >= 1 and "cp_in" in rest:
                return copies[1 if uneven else 0]
            if "inserted" in rest:
                return self._one(node, "pad")
            return copies[0] if "cp_in" in rest else self._one(node, "shift")
        if rest.startswith("_out_0"):
            return copies[-1] if "cp_in" in rest else self._one(node, "conv")
        parts = {"_mul_scale": "scale", "_off_bias": "offset"}
        return next(
            (self._one(node, p) for word, p in parts.items() if rest.startswith(word)), None
        )

    def _one(self, node: str, part: str) -> Operation | None:
        found = self.ops.get((node, part))
        return found[-1] if found else None

    def _relu(self, buffer: dict[str, Any]) -> Operation | None:
        for node in self.graph.nodes:
            out = self.graph.output_tensors(node)[0]
            same = out.quantization is not None and np.isclose(
                out.quantization.s, buffer["scale"][0]
            )
            if (
                same
                and out.size == np.prod(buffer["shape"])
                and (node.name, "activation") in self.ops
            ):
                return self._one(node.name, "activation")
        return None

    def _inserted(self, buffer: dict[str, Any], node: str, rest: str) -> Operation | None:
        """A piece of a concat in the concat's scale, or a copy in another layout."""
        if "cp_in" in rest and "inserted" not in rest:
            return self._one(node, "copy")
        made = next(n for n in self.graph.nodes if n.name == node).outputs[0]
        for (_, part), ops in self.ops.items():
            if part in ("arith", "copy"):
                for op in ops:
                    scaled = part == "arith" or buffer["name"] not in self.copied
                    if op.reads == (made,) and scaled and op.writes not in self.copied.values():
                        if part == "copy":
                            self.copied[buffer["name"]] = op.writes
                        elif "arith" not in op.writes:
                            continue
                        return op
        return None
