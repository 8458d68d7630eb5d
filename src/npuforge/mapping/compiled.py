"""ST's own reports beside our prediction: epochs by kind, and what leaves the NPU by operator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from npuforge.accelerators.neural_art.placement import NpuPlacement
from npuforge.artefacts.c_info import CInfo, Where, read_c_info
from npuforge.artefacts.log_text import log_from_bytes
from npuforge.artefacts.tool_log import ToolLog, read_tool_log
from npuforge.errors import UsageError
from npuforge.graph import Graph
from npuforge.mapping.npu import NpuMapping
from npuforge.messages import text

HARDWARE, HYBRID, SOFTWARE = "hardware", "hybrid", "software"

_KINDS = {
    Where.HARDWARE: HARDWARE,
    Where.BLOB: HARDWARE,
    Where.SOFTWARE: SOFTWARE,
    Where.HYBRID: HYBRID,
}
_BY_RULE: Mapping[str, tuple[str, ...]] = {
    "MAP-npu-nearest": ("DepthToSpace",),
    "MAP-npu-transpose-conv": ("Concat", "DepthToSpace"),
    "MAP-npu-dilation": ("SpaceToDepth", "DepthToSpace"),
    "MAP-npu-channel-pad": ("Transpose", "Transpose"),
    "MAP-npu-scaled-channel-pad": ("Transpose",),
    "MAP-npu-stride": ("SpaceToDepth",),
}
"""Operators of a report that one match of a rule becomes."""
_BY_OP = {
    "concat": "Concat", "softmax": "Softmax", "resize": "Resize", "transpose": "Transpose",
    "dequantize": "DequantizeLinear", "quantize": "QuantizeLinear", "prelu": "PRelu",
    "conv2d": "Conv", "depthwise_conv2d": "Conv", "matmul": "Conv", "slice": "Slice",
    "split": "Split", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "mean": "ReduceMean",
    "fully_connected": "Gemm", "logistic": "Sigmoid", "hard_sigmoid": "HardSigmoid",
    "arg_max": "ArgMax", "gather": "Gather", "power": "Pow", "relu": "Relu",
}  # fmt: skip
_SAME = {"Split": "Slice"}
"""Names of one thing in different releases."""
_CONVERSIONS = frozenset(("DequantizeLinear", "QuantizeLinear"))


@dataclass(frozen=True)
class CompiledEpochs:
    """What a compile report says of epochs.

    Attributes:
        source: kind of report.
        version: of ST Edge AI Core, "" when the report does not say.
        hardware: epochs in NPU units.
        hybrid: epochs driven by a C helper.
        software: epochs on the CPU.
        off_npu: operators of hybrid and software epochs, in execution order.
    """

    source: str
    version: str
    hardware: int
    hybrid: int
    software: int
    off_npu: tuple[str, ...]

    @property
    def release(self) -> str:
        """Major and minor number of the version, "" when there is none."""
        found = re.search(r"\b(\d{1,3}\.\d{1,3})\b", self.version)
        return found[1] if found else ""


@dataclass(frozen=True)
class Difference:
    """One operator that leaves the NPU in the report or the prediction.

    Attributes:
        operator: as the report names it.
        predicted: epochs we predict.
        compiled: epochs the report has.
        why: the likely reason of a difference; "" when there is none.
    """

    operator: str
    predicted: int
    compiled: int
    why: str


@dataclass(frozen=True)
class ReportComparison:
    """A compile report and our prediction side by side.

    Attributes:
        compiled: what the report says.
        predicted: hardware, hybrid and software epochs of the prediction.
        differences: one an operator, largest difference first.
    """

    compiled: CompiledEpochs
    predicted: tuple[int, int, int]
    differences: tuple[Difference, ...]


def read_compiled(path: str | PathLike[str]) -> CompiledEpochs:
    """The epochs of a report of ST's tool: ``*_c_info.json`` or an analyze, generate or validate
    report.

    Raises:
        NpuforgeError: the file cannot be read, or counts no epochs.
    """
    file = Path(path)
    content = file_bytes(file)
    if file.suffix.lower() == ".json":
        return epochs_of_c_info(read_c_info(content, file.name))
    return epochs_of_report(read_tool_log(log_from_bytes(content, file.name)))


def file_bytes(path: Path) -> bytes:
    """Content of a file. Raises UsageError ATN-009 when it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError("ATN-009", path=path, reason=error.strerror or str(error)) from None


def epochs_of_c_info(info: CInfo) -> CompiledEpochs:
    """The epochs of a ``c_info.json``; those that execute nothing are left out.

    Raises:
        UsageError: NPU-002, the file counts no epochs: of a network compiled for a CPU.
    """
    counts: Counter[str] = Counter()
    off = []
    for epoch in info.epochs:
        kind = _KINDS.get(epoch.where)
        names = [op.kind for op in epoch.operators if op.kind]
        if kind is None or names == ["Return"]:
            continue
        counts[kind] += 1
        if kind != HARDWARE:
            off.append(names[0] if names else "?")
    if not counts:
        raise UsageError("NPU-002")
    version = next((tool[1] for tool in info.tools), "")
    return CompiledEpochs("c_info", version, *_numbers(counts), tuple(off))


def epochs_of_report(log: ToolLog) -> CompiledEpochs:
    """The epochs of a text report (analyze, generate or validate).

    Raises:
        UsageError: NPU-002, the report counts no epochs.
    """
    total = log.epoch_counts.get("total")
    if total is None:
        raise UsageError("NPU-002")
    software = log.epoch_counts.get("sw", 0)
    hybrid = log.epoch_counts.get("hybrid", 0)
    off = [
        row.detail.strip(" ()").removesuffix("(float").strip()
        for row in log.epochs
        if "SW" in row.kind.upper() or "HYBRID" in row.kind.upper()
    ]
    hardware = log.epoch_counts.get("hw", total - software - hybrid)
    return CompiledEpochs("report", log.version, hardware, hybrid, software, tuple(off))


def _numbers(counts: Mapping[str, int]) -> tuple[int, int, int]:
    return counts.get(HARDWARE, 0), counts.get(HYBRID, 0), counts.get(SOFTWARE, 0)


def compare_report(graph: Graph, npu: NpuMapping, compiled: CompiledEpochs) -> ReportComparison:
    """Lay a compile report beside the prediction, operator by operator, with reasons."""
    own = Counter(_operators(graph, npu.placements))
    real = Counter(_SAME.get(name, name) for name in compiled.off_npu)
    differences = [
        Difference(name, own[name], real[name], _why(name, own[name], real[name], own, real))
        for name in {*own, *real}
    ]
    differences.sort(key=lambda d: (-abs(d.predicted - d.compiled), d.operator))
    predicted = (npu.hardware_epochs, npu.hybrid_epochs, npu.software_epochs)
    return ReportComparison(compiled, predicted, tuple(differences))


def _operators(graph: Graph, placements: Sequence[NpuPlacement]) -> list[str]:
    found = []
    for node, placement in zip(graph.nodes, placements, strict=True):
        count = placement.hybrid_epochs + placement.software_epochs
        if placement.rule == "MAP-npu-depthwise-split":
            found += ["DequantizeLinear", "Conv", "Cast"] * (count // 3)
        elif placement.rule == "MAP-npu-heads":
            found += ["Slice", "Slice", "Transpose"] + ["Conv"] * placement.software_epochs
        elif placement.rule in _BY_RULE:
            found += _BY_RULE[placement.rule]
        else:
            name = _BY_OP.get(node.op, node.op)
            found += [_SAME.get(name, name)] * count
    return found


def _why(
    name: str, predicted: int, compiled: int, own: Mapping[str, int], real: Mapping[str, int]
) -> str:
    if predicted == compiled:
        return ""
    if name in _CONVERSIONS:
        boundary = abs(predicted - compiled) <= 4 and not _islands(own, real)
        if boundary:
            return text("NPU-why-more-io" if compiled > predicted else "NPU-why-less-io")
        return text("NPU-why-float")
    if name == "Softmax" and compiled < predicted:
        return text("NPU-why-softmax")
    if name in ("Conv", "Gemm", "Mul", "Add", "Cast", "Sigmoid", "HardSigmoid"):
        return text("NPU-why-float" if compiled > predicted else "NPU-why-less")
    if name in ("Concat", "Slice", "Transpose", "DepthToSpace", "SpaceToDepth"):
        return text("NPU-why-layout")
    return text("NPU-why-less" if compiled < predicted else "NPU-why-version")


def _islands(own: Mapping[str, int], real: Mapping[str, int]) -> bool:
    """Whether the report has float work in the middle of the network that we do not expect."""
    return any(
        real.get(n, 0) > own.get(n, 0) for n in ("Conv", "Mul", "Add", "PRelu", "HardSigmoid")
    )
