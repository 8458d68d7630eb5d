"""ONNX Runtime as an oracle, layer by layer.

The file is cut into pieces between quantised tensors. Each piece is run by ONNX Runtime with its
graph optimisations, so that it takes the integer kernel it would take in the whole network, and is
fed with the tensors that npuforge computed. Cutting, not exposing intermediates, keeps the fusion.
A float tensor is compared through the one node that makes it.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from npuforge.graph import Array, Graph
from npuforge.importers.onnx.importer import UNSIGNED_ZERO
from npuforge.importers.onnx.qoperator import FORMS as QOPERATORS

_QUANTISERS = frozenset({"QuantizeLinear", *QOPERATORS})
# x86 leaves int8 activations unfused unless it is told that they are meant
_SESSION_OPTIONS = {"session.qdqisint8allowed": "1"}


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of the file that makes one tensor from others.

    Attributes:
        output: name of the tensor it makes.
        feeds: names of the tensors it needs.
        session: the ONNX Runtime session that runs it.
        kernels: operators ONNX Runtime left after its optimisation.
    """

    output: str
    feeds: tuple[str, ...]
    session: Any
    kernels: tuple[str, ...]

    @property
    def is_qlinear(self) -> bool:
        """Whether integer kernels did the arithmetic (no dequantise to float left)."""
        return "DequantizeLinear" not in self.kernels


class OnnxRuntimeLayers:
    """ONNX Runtime's kernels, each fed with our tensors: the oracle of onnx_qlinear."""

    def __init__(self, graph: Graph, content: bytes, folder: Path | None = None) -> None:
        from importlib.metadata import version

        import onnx

        self.name = f"ONNX Runtime {version('onnxruntime')} on {cpu_features()}"
        self._graph = graph
        self._model = onnx.load_model_from_string(content)
        if folder is not None:
            onnx.load_external_data_for_model(self._model, str(folder))
        self._makers = {o: n for n in self._model.graph.node for o in n.output}
        self._constants = {i.name: i for i in self._model.graph.initializer}
        for node in self._model.graph.node:
            if node.op_type == "Constant":
                self._constants[node.output[0]] = None
        self._unsigned = {name for name in self._makers if self._is_unsigned(name)}
        self._unsigned -= {name for name in graph.outputs if graph.tensors[name].dtype == "uint8"}
        self.pieces: dict[str, Piece] = {}

    def tensors(
        self, inputs: Mapping[str, Array], ours: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        """What ONNX Runtime makes of each tensor's own inputs."""
        known = {**inputs, **ours}
        floats = {name for name in ours if self._graph.tensors[name].dtype.is_float}
        result = {}
        for name in ours:
            maker = self._makers.get(name)
            if maker is None or (name not in floats and maker.op_type not in _QUANTISERS):
                continue
            nodes, feeds = self._cut(name, floats if name in floats else set())
            if any(feed not in known for feed in feeds):
                continue
            arrays = {feed: self._file_order(feed, known[feed]) for feed in feeds}
            if name not in self.pieces:
                self.pieces[name] = self._piece(name, nodes, arrays)
            value = self.pieces[name].session.run(None, arrays)[0]
            result[name] = self._our_order(name, value)
        return result

    def _is_unsigned(self, name: str) -> bool:
        """Whether the file stores a tensor as uint8 that npuforge keeps as int8."""
        import onnx

        maker = self._makers[name]
        if maker.op_type not in _QUANTISERS:
            return False
        form = QOPERATORS.get(maker.op_type)
        at = 2 if form is None else form.output[1]
        if at >= len(maker.input) or not maker.input[at]:
            return True
        zero = self._constants.get(maker.input[at])
        return zero is not None and zero.data_type == onnx.TensorProto.UINT8

    def _cut(self, output: str, stops: set[str]) -> tuple[list[Any], list[str]]:
        nodes: list[Any] = []
        feeds: dict[str, None] = {}
        seen: set[str] = set()
        stack: list[tuple[str, bool]] = [(output, False)]
        while stack:
            name, done = stack.pop()
            maker = self._makers.get(name)
            if done:
                if maker is not None and not any(maker is node for node in nodes):
                    nodes.append(maker)
                continue
            if not name or name in seen:
                continue
            seen.add(name)
            quantised = maker is not None and maker.op_type in _QUANTISERS
            if maker is None or (name != output and (quantised or name in stops)):
                if name not in self._constants:
                    feeds[name] = None
                continue
            stack.append((name, True))
            stack.extend((source, False) for source in maker.input)
        return nodes, list(feeds)

    def _piece(self, output: str, nodes: list[Any], arrays: Mapping[str, Array]) -> Piece:
        import onnx
        import onnxruntime

        used = {name for node in nodes for name in node.input}
        kept = [i for n, i in self._constants.items() if i is not None and n in used]
        tensor_info = onnx.helper.make_tensor_value_info
        type_of = onnx.helper.np_dtype_to_tensor_dtype
        graph = onnx.helper.make_graph(
            nodes,
            "piece",
            [tensor_info(n, type_of(a.dtype), a.shape) for n, a in arrays.items()],
            [onnx.helper.make_empty_tensor_value_info(output)],
            kept,
        )
        model = onnx.helper.make_model(
            graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        for key, value in _SESSION_OPTIONS.items():
            options.add_session_config_entry(key, value)
        with TemporaryDirectory(prefix="npuforge-") as folder:
            optimised = Path(folder) / "optimised.onnx"
            options.optimized_model_filepath = str(optimised)
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            kernels = tuple(n.op_type for n in onnx.load(optimised).graph.node)
        return Piece(output, tuple(arrays), session, kernels)

    def _file_order(self, name: str, array: Array) -> Array:
        if name in self._unsigned:
            array = (array.astype(np.int16) + UNSIGNED_ZERO).astype(np.uint8)
        axes = self._graph.source_axes.get(name)
        if axes is None:
            return np.ascontiguousarray(array)
        return np.ascontiguousarray(array.transpose(np.argsort(axes)))

    def _our_order(self, name: str, array: Array) -> Array:
        if name in self._unsigned:
            array = (array.astype(np.int16) - UNSIGNED_ZERO).astype(np.int8)
        axes = self._graph.source_axes.get(name)
        return array if axes is None else array.transpose(axes)


def cpu_features() -> str:
    """The processor's name and the vector instructions that matter to integer kernels."""
    info = _cpu_info()
    flags: Iterable[str] = info.get("flags", info.get("Features", "")).split()
    interesting = [
        flag
        for flag in ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_int8", "asimddp", "i8mm")
        if flag in flags
    ]
    name = info.get("model name", platform.processor() or platform.machine())
    return f"{name} ({', '.join(interesting) or platform.machine()})"


def _cpu_info() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    info: dict[str, str] = {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            info.setdefault(key.strip(), value.strip())
    return info
