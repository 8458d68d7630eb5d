"""Other tools that quantise, behind one function: the same float network, data and measurement.

They are given what our own code is given, the prepared float graph as a file and the samples one by
one, and what they write is read as any other model. Neither is a dependency.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from npuforge.errors import ToolError, UsageError
from npuforge.exporters import Format, convert
from npuforge.graph import Array, Graph
from npuforge.importers import load_model
from npuforge.quantize.assign import Assignment
from npuforge.quantize.build import Quantized
from npuforge.quantize.ranges import RangeMethod
from npuforge.quantize.scheme import Granularity, Precision, Scheme, ZeroPoints
from npuforge.tasks import Dataset

Tick = Callable[[int, int], None]


class ToolName(StrEnum):
    """Who quantises."""

    OWN = "npuforge"
    AI_EDGE = "ai-edge-quantizer"
    ONNXRUNTIME = "onnxruntime"


_MODULES = {ToolName.AI_EDGE: "ai_edge_quantizer", ToolName.ONNXRUNTIME: "onnxruntime"}
_METHODS = {
    ToolName.AI_EDGE: {RangeMethod.MINMAX: ""},
    ToolName.ONNXRUNTIME: {
        RangeMethod.MINMAX: "MinMax",
        RangeMethod.ENTROPY: "Entropy",
        RangeMethod.PERCENTILE: "Percentile",
    },
}
"""Range methods of each tool, by the tool's own name."""


@dataclass(frozen=True, eq=False)
class Foreign:
    """What a tool wrote.

    Attributes:
        content: the file.
        format: its format.
        graph: the network it holds.
    """

    content: bytes
    format: Format
    graph: Graph

    def as_quantized(self, graph: Graph) -> Quantized:
        """As our own code would have made it; in TFLite files tensors keep names and axes, and so
        can be compared one by one."""
        tensors = self.graph.tensors if self.format is Format.TFLITE else {}
        kept = {
            name: name
            for name, tensor in graph.tensors.items()
            if name in tensors
            and not tensor.is_constant
            and tensors[name].quantization is not None
            and tensors[name].shape == tensor.shape
        }
        return Quantized(self.graph, Assignment({}, {}), kept, frozenset())


@dataclass
class _Samples:
    """The samples as a tool wants them: any number of times, one at a time."""

    data: Dataset
    names: Mapping[str, str]
    tick: Tick
    at: int = field(default=0)

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[dict[str, Array]]:
        for number in range(len(self.data)):
            yield self._named(number)

    def get_next(self) -> dict[str, Array] | None:
        """The next sample as ONNX Runtime's reader gives it; None at the end."""
        if self.at >= len(self.data):
            return None
        self.at += 1
        self.tick(self.at, len(self.data))
        return self._named(self.at - 1)

    def _named(self, number: int) -> dict[str, Array]:
        inputs = self.data[number].inputs
        return {new: inputs[old] for old, new in self.names.items()}


def quantize_by(
    tool: ToolName, graph: Graph, data: Dataset, scheme: Scheme, tick: Tick | None = None
) -> Foreign:
    """Have another tool quantise.

    Args:
        tool: not our own.
        graph: prepared float graph.
        data: calibration samples.
        scheme: range method, granularity of weights and precision; the types at the ends are the
            tool's.
        tick: told samples done and samples in all, where the tool lets us know.

    Raises:
        ToolError: it is not installed, or fails.
        UsageError: it cannot do what the scheme asks.
    """
    methods = _METHODS[tool]
    if scheme.method not in methods:
        known = ", ".join(methods)
        raise UsageError("QNT-012", tool=tool, what=f"--method {scheme.method}", known=known)
    plain = scheme.base is Precision.INT8 and scheme.zero_points is ZeroPoints.FREE
    if not plain or scheme.layers or scheme.methods or scheme.int4:
        known = "--activations int8 --zero-points free"
        raise UsageError("QNT-012", tool=tool, what="this scheme", known=known)
    if importlib.util.find_spec(_MODULES[tool]) is None:
        raise ToolError("QNT-004", engine=tool.value)
    run = _ai_edge if tool is ToolName.AI_EDGE else _onnxruntime
    said = io.StringIO()
    level = logging.root.manager.disable
    try:
        logging.disable(logging.WARNING)
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return run(graph, data, scheme, tick or (lambda done, total: None))
    except (RuntimeError, ValueError, KeyError, TypeError, ImportError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ToolError("QNT-005", engine=tool.value, reason=reason) from None
    finally:
        logging.disable(level)


def _ai_edge(graph: Graph, data: Dataset, scheme: Scheme, tick: Tick) -> Foreign:
    from ai_edge_quantizer import quantizer, recipe

    if scheme.weights is not Granularity.CHANNEL:
        raise UsageError(
            "QNT-012",
            tool=ToolName.AI_EDGE,
            what=f"--weights {scheme.weights}",
            known=str(Granularity.CHANNEL),
        )
    names = {name: f"x{i}" for i, name in enumerate(graph.inputs)}
    made = quantizer.Quantizer(_signed(convert(graph, Format.TFLITE).content, names))
    made.load_quantization_recipe(recipe.static_wi8_ai8())
    seen = made.calibrate({_SIGNATURE: _Samples(data, names, tick)})
    return _read(bytes(made.quantize(seen).quantized_model), Format.TFLITE)


_SIGNATURE = "serving_default"


def _signed(content: bytes, names: Mapping[str, str]) -> bytes:
    """The TFLite file with a signature, which the tool calls inputs by."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    model: Any = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    made: Any = schema.SignatureDefT()
    made.signatureKey, made.subgraphIndex = _SIGNATURE, 0

    def entry(name: str, index: int) -> Any:
        found: Any = schema.TensorMapT()
        found.name, found.tensorIndex = name, index
        return found

    inputs, outputs = model.subgraphs[0].inputs, model.subgraphs[0].outputs
    made.inputs = [entry(n, int(i)) for n, i in zip(names.values(), inputs, strict=True)]
    made.outputs = [entry(f"y{k}", int(i)) for k, i in enumerate(outputs)]
    model.signatureDefs = [made]
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _onnxruntime(graph: Graph, data: Dataset, scheme: Scheme, tick: Tick) -> Foreign:
    import onnx
    from onnxruntime import quantization as ort
    from onnxruntime.quantization.shape_inference import quant_pre_process

    content = convert(graph, Format.ONNX).content
    model = onnx.load_from_string(content)
    names = {o: e.name for o, e in zip(graph.inputs, model.graph.input, strict=True)}
    method = _METHODS[ToolName.ONNXRUNTIME][scheme.method]
    options: dict[str, Any] = {}
    if scheme.method is RangeMethod.PERCENTILE:
        options["CalibPercentile"] = scheme.percentile
    with TemporaryDirectory(prefix="npuforge-") as name:
        folder = Path(name)
        source, ready, made = (folder / f"{part}.onnx" for part in ("float", "ready", "int8"))
        source.write_bytes(content)
        # the tool's own advice: infer shapes and fold before quantising
        quant_pre_process(str(source), str(ready), skip_symbolic_shape=True)
        ort.quantize_static(
            str(ready),
            str(made),
            _Samples(data, names, tick),
            quant_format=ort.QuantFormat.QDQ,
            per_channel=scheme.weights is Granularity.CHANNEL,
            activation_type=ort.QuantType.QInt8,
            weight_type=ort.QuantType.QInt8,
            calibrate_method=ort.CalibrationMethod[method],
            extra_options=options,
        )
        return _read(made.read_bytes(), Format.ONNX)


def _read(content: bytes, kind: Format) -> Foreign:
    with TemporaryDirectory(prefix="npuforge-") as folder:
        path = Path(folder) / f"quantised.{kind}"
        path.write_bytes(content)
        return Foreign(content, kind, load_model(path))
