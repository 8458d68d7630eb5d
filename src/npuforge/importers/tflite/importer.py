"""TFLite file → Graph."""

from __future__ import annotations

import math
import struct

import numpy as np

from npuforge.errors import ModelError, NpuforgeError, UnsupportedError
from npuforge.graph import NUMPY_TYPES, Array, Graph, Quantization, Tensor
from npuforge.graph.types import Node
from npuforge.importers.tflite.context import Context
from npuforge.importers.tflite.file import (
    RawModel,
    RawOperator,
    RawSubgraph,
    RawTensor,
    names_of,
    read_tflite,
)
from npuforge.importers.tflite.operators import HANDLERS
from npuforge.importers.tflite.types import RESOURCE, TENSOR_TYPES, operator_name
from npuforge.vocab import DType

# what options that lead out of the file, and shapes and axes that fit nothing, raise
_CONTRADICTIONS = (struct.error, ArithmeticError, LookupError, TypeError, ValueError)


def import_tflite(content: bytes, name: str, path: str) -> Graph:
    """Make a Graph of a TFLite file.

    Args:
        content: the file's bytes.
        name: name of the graph.
        path: named in errors.

    Raises:
        ModelError: the file is damaged or contradicts itself.
        UnsupportedError: an operator, type or shape that npuforge does not take.
    """
    return _Importer(read_tflite(content, path), name, path).graph()


class _Importer(Context):
    def __init__(self, model: RawModel, name: str, path: str) -> None:
        self._path = path
        self._name = name
        self._model = model
        self._subgraph: RawSubgraph = model.subgraphs[0]
        self.names = names_of(self._subgraph.tensors)
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.states: dict[str, Array] = {}
        self.resources: dict[int, str] = {}
        self.open = {
            name
            for raw, name in zip(self._subgraph.tensors, self.names, strict=True)
            if raw.data is None
            and min(raw.signature, default=0) < 0
            and raw.index not in self._subgraph.inputs
        }

    def graph(self) -> Graph:
        inputs = [self.names[i] for i in self._subgraph.inputs if i >= 0]
        for raw in self._subgraph.tensors:
            self._add_tensor(raw)
        for op in self._subgraph.operators:
            self._add_operator(op)
        outputs = tuple(self.names[i] for i in self._subgraph.outputs if i >= 0)
        used: set[str | None] = {*inputs, *outputs, *self.states}
        for node in self.nodes:
            used.update(node.inputs)
            used.update(node.outputs)
        return Graph(
            name=self._name,
            tensors={name: tensor for name, tensor in self.tensors.items() if name in used},
            nodes=tuple(self.nodes),
            inputs=tuple(inputs),
            outputs=outputs,
            source="tflite",
            states=self.states,
        )

    def _add_tensor(self, raw: RawTensor) -> None:
        name = self.names[raw.index]
        if raw.type == RESOURCE:
            return
        dtype = TENSOR_TYPES.get(raw.type)
        if dtype is None:
            raise UnsupportedError("IMP-010", path=self._path, tensor=name, type=raw.type)
        if raw.is_sparse:
            raise UnsupportedError("IMP-011", path=self._path, tensor=name)
        self._check_static(raw, name)
        quantization = self.quantization(raw)
        self.tensors[name] = Tensor(
            name, raw.shape, dtype, quantization, self._data(raw, name, dtype)
        )

    def _check_static(self, raw: RawTensor, name: str) -> None:
        if raw.shape and min(raw.shape) < 0:
            raise UnsupportedError("IMP-012", path=self._path, tensor=name, shape=raw.shape)
        # a free batch axis is stored as 1 and runs as 1; any other free axis has no known size
        if (
            raw.signature
            and min(raw.signature[1:], default=0) < 0
            and (raw.index in self._subgraph.inputs)
        ):
            raise UnsupportedError("IMP-012", path=self._path, tensor=name, shape=raw.signature)

    def _data(self, raw: RawTensor, name: str, dtype: DType) -> Array | None:
        if raw.data is None:
            return None
        count = math.prod(raw.shape)
        if dtype is DType.INT4:
            return _unpack_int4(raw.data, raw.shape, name, self._path)
        want = count * dtype.nbytes
        if len(raw.data) != want:
            raise ModelError("IMP-013", path=self._path, tensor=name, want=want, got=len(raw.data))
        array = np.frombuffer(raw.data, NUMPY_TYPES[dtype]).reshape(raw.shape)
        return array if array.flags.aligned else array.copy()

    def _add_operator(self, op: RawOperator) -> None:
        kind = operator_name(op.code)
        label = kind if kind != "CUSTOM" else f"CUSTOM {op.custom}"
        handler = HANDLERS.get(label)
        if handler is None:
            place = self.names[op.outputs[0]] if op.outputs else f"#{op.index}"
            raise UnsupportedError(
                "IMP-020", path=self._path, op=label, index=op.index, output=place
            )
        try:
            handler(self, op)
        except NpuforgeError:
            raise
        except _CONTRADICTIONS as error:
            raise self.damaged(op, f"{type(error).__name__}: {error}") from None

    # what operator handlers use

    def quantization(self, raw: RawTensor) -> Quantization | None:
        quant = raw.quantization
        if quant is None or TENSOR_TYPES[raw.type].is_float:
            return None
        if quant.scale.size == 1:
            return Quantization(quant.scale, quant.zero_point, None)
        # converters leave the axis of one-dimensional tensors (bias) at that of the weights
        axis = 0 if len(raw.shape) == 1 else quant.axis
        return Quantization(quant.scale, quant.zero_point, axis)

    def subgraph(self, index: int) -> RawSubgraph | None:
        known = 0 <= index < len(self._model.subgraphs)
        return self._model.subgraphs[index] if known else None

    def refuse(self, op: RawOperator, reason: str) -> UnsupportedError:
        place = self.names[op.outputs[0]] if op.outputs else f"#{op.index}"
        return UnsupportedError(
            "IMP-021",
            path=self._path,
            op=operator_name(op.code),
            index=op.index,
            output=place,
            reason=reason,
        )

    def damaged(self, op: RawOperator, reason: str) -> ModelError:
        return ModelError(
            "IMP-022",
            path=self._path,
            op=operator_name(op.code),
            index=op.index,
            reason=reason,
        )


def _unpack_int4(data: memoryview, shape: tuple[int, ...], name: str, path: str) -> Array:
    count = math.prod(shape)
    if len(data) != (count + 1) // 2:
        raise ModelError("IMP-013", path=path, tensor=name, want=(count + 1) // 2, got=len(data))
    packed = np.frombuffer(data, np.uint8)
    both = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)[:count].astype(np.int8)
    return np.where(both > 7, both - 16, both).astype(np.int8).reshape(shape)
