"""Who runs the float network while ranges are observed: our executor, or ONNX Runtime.

Both hand out every activation of the prepared graph by name, one sample at a time, so that nothing
else depends on the choice.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from npuforge.errors import ToolError, UnsupportedError
from npuforge.exporters import Format, convert
from npuforge.graph import Array, Graph, is_view
from npuforge.numerics import Executor, all_cores


class EngineName(StrEnum):
    """Engines for the float network."""

    OWN = "own"
    ONNXRUNTIME = "onnxruntime"


class FloatEngine(Protocol):
    """Runs a float graph and shows its activations."""

    def tensors(self, inputs: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
        """Every wanted activation of one sample, by name."""


def wanted_tensors(graph: Graph) -> list[str]:
    """Real activations whose range matters: inputs, and outputs of nodes that are no views."""
    names = [name for name in graph.inputs if graph.tensors[name].dtype.is_float]
    for node in graph.nodes:
        if not is_view(node):
            names += [t.name for t in graph.output_tensors(node) if t.dtype.is_float]
    return names


def float_engine(name: EngineName, graph: Graph, wanted: Sequence[str]) -> FloatEngine:
    """The engine of a name.

    Raises:
        ToolError: it is not installed, or cannot take the graph.
    """
    if name is EngineName.OWN:
        return OwnEngine(graph, wanted)
    if importlib.util.find_spec("onnxruntime") is None:
        raise ToolError("QNT-004", engine=name.value)
    try:
        return OnnxRuntimeEngine(graph, wanted)
    except UnsupportedError as error:
        raise ToolError("QNT-005", engine=name.value, reason=error.message) from None


def captured(executor: Executor, inputs: Mapping[str, Array], name: str) -> Array:
    """A tensor of the sample that a capturing executor ran last; inputs are as they were given."""
    return inputs[name] if name in inputs else executor.read([name])[name]


class OwnEngine:
    """Our executor on all cores, keeping every tensor of one sample."""

    def __init__(self, graph: Graph, wanted: Sequence[str]) -> None:
        self._executor = Executor(graph, capture=True, threads=all_cores())
        self._wanted = wanted

    def tensors(self, inputs: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
        """See `FloatEngine`."""
        self._executor.run(inputs)
        for name in self._wanted:
            yield name, captured(self._executor, inputs, name)


class OnnxRuntimeEngine:
    """ONNX Runtime on the same graph written as ONNX, its activations declared as outputs.

    Fusion is held back by that, which is wanted: every tensor must exist.
    """

    def __init__(self, graph: Graph, wanted: Sequence[str]) -> None:
        import onnx
        import onnxruntime as ort

        made = convert(graph, Format.ONNX)
        model = onnx.load_from_string(made.content)
        known = {name for node in model.graph.node for name in node.output}
        self._inputs = [name for name in wanted if name in graph.inputs]
        self._made = [name for name in wanted if name not in graph.inputs and name in known]
        self._graph = graph
        missing = [name for name in wanted if name not in graph.inputs and name not in known]
        # what the file calls by another name is taken from our executor
        self._rest = OwnEngine(graph, missing) if missing else None
        have = {output.name for output in model.graph.output}
        for name in self._made:
            if name not in have:
                kind = onnx.TensorProto.FLOAT
                model.graph.output.append(onnx.helper.make_tensor_value_info(name, kind, None))
        options = ort.SessionOptions()
        options.log_severity_level = 3
        self._session: Any = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self._names = [entry.name for entry in self._session.get_inputs()]

    def tensors(self, inputs: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
        """See `FloatEngine`."""
        feed = dict(zip(self._names, (inputs[n] for n in self._graph.inputs), strict=True))
        results = self._session.run(self._made, feed)
        for name in self._inputs:
            yield name, inputs[name]
        for name, value in zip(self._made, results, strict=True):
            yield name, np.asarray(value)
        if self._rest is not None:
            yield from self._rest.tensors(inputs)
