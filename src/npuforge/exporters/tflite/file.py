"""Plain records → the bytes of a TFLite file.

The layout is that of the TFLite schema, version 3: file identifier TFL3, buffer 0 empty, buffer
data aligned to 16 bytes as the schema demands (kernels read them in place).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npuforge.exporters.tflite.records import (
    OutModel,
    OutOperator,
    OutSubgraph,
    OutTensor,
)
from npuforge.graph import Quantization

SCHEMA_VERSION = 3
BUFFER_ALIGNMENT = 16
"""`force_align` of the field `data` of the schema's table Buffer."""
_LAST_OLD_CODE = 127
"""Operator codes above this one do not fit the field that older readers look at."""


def write_tflite(model: OutModel) -> bytes:
    """The bytes of a TFLite file; equal models give equal bytes."""
    return _Writer(model).content()


class _Writer:
    def __init__(self, model: OutModel) -> None:
        import flatbuffers
        import tflite

        size = sum(t.data.nbytes for g in model.subgraphs for t in g.tensors if t.data is not None)
        self._tflite = tflite
        self._model = model
        self._builder: Any = flatbuffers.Builder(max(size + size // 8, 1 << 12))
        self._buffers: list[npt.NDArray[np.uint8] | None] = [None]
        self._known: dict[bytes, int] = {}
        self._codes: dict[tuple[str, str], int] = {}
        self._versions: dict[tuple[str, str], int] = {}

    def content(self) -> bytes:
        t, b = self._tflite, self._builder
        for graph in self._model.subgraphs:
            for op in graph.operators:
                key = (op.kind, op.custom)
                self._codes.setdefault(key, len(self._codes))
                self._versions[key] = max(self._versions.get(key, 1), op.version)
        subgraphs = self._offsets([self._subgraph(graph) for graph in self._model.subgraphs])
        codes = self._offsets([self._code(kind, custom) for kind, custom in self._codes])
        metadata = self._metadata()
        buffers = self._offsets([self._buffer(data) for data in self._buffers])
        description = b.CreateString(self._model.description)
        t.ModelStart(b)
        t.ModelAddVersion(b, SCHEMA_VERSION)
        t.ModelAddOperatorCodes(b, codes)
        t.ModelAddSubgraphs(b, subgraphs)
        t.ModelAddDescription(b, description)
        t.ModelAddBuffers(b, buffers)
        if metadata is not None:
            t.ModelAddMetadata(b, metadata)
        b.Finish(t.ModelEnd(b), b"TFL3")
        return bytes(b.Output())

    def _metadata(self) -> int | None:
        t, b = self._tflite, self._builder
        entries = []
        for name, content in self._model.metadata:
            word = b.CreateString(name)
            number = self._buffer_number(np.frombuffer(content, np.uint8))
            t.MetadataStart(b)
            t.MetadataAddName(b, word)
            t.MetadataAddBuffer(b, number)
            entries.append(int(t.MetadataEnd(b)))
        return self._offsets(entries) if entries else None

    def _code(self, kind: str, custom: str) -> int:
        t, b = self._tflite, self._builder
        name = b.CreateString(custom) if custom else None
        number = getattr(t.BuiltinOperator, kind)
        t.OperatorCodeStart(b)
        t.OperatorCodeAddDeprecatedBuiltinCode(b, min(number, _LAST_OLD_CODE))
        t.OperatorCodeAddBuiltinCode(b, number)
        if name is not None:
            t.OperatorCodeAddCustomCode(b, name)
        t.OperatorCodeAddVersion(b, self._versions[kind, custom])
        return int(t.OperatorCodeEnd(b))

    def _buffer(self, data: npt.NDArray[np.uint8] | None) -> int:
        t, b = self._tflite, self._builder
        vector = None if data is None else self._bytes(data, BUFFER_ALIGNMENT)
        t.BufferStart(b)
        if vector is not None:
            t.BufferAddData(b, vector)
        return int(t.BufferEnd(b))

    def _subgraph(self, graph: OutSubgraph) -> int:
        t, b = self._tflite, self._builder
        tensors = self._offsets([self._tensor(tensor) for tensor in graph.tensors])
        operators = self._offsets([self._operator(op) for op in graph.operators])
        inputs, outputs = self._ints(graph.inputs), self._ints(graph.outputs)
        name = b.CreateString(graph.name)
        t.SubGraphStart(b)
        t.SubGraphAddTensors(b, tensors)
        t.SubGraphAddInputs(b, inputs)
        t.SubGraphAddOutputs(b, outputs)
        t.SubGraphAddOperators(b, operators)
        t.SubGraphAddName(b, name)
        return int(t.SubGraphEnd(b))

    def _tensor(self, tensor: OutTensor) -> int:
        t, b = self._tflite, self._builder
        shape = self._ints(tensor.shape)
        name = b.CreateString(tensor.name)
        quant = None if tensor.quantization is None else self._quantization(tensor.quantization)
        number = self._buffer_number(tensor.data)
        t.TensorStart(b)
        t.TensorAddShape(b, shape)
        t.TensorAddType(b, tensor.type)
        t.TensorAddBuffer(b, number)
        t.TensorAddName(b, name)
        if quant is not None:
            t.TensorAddQuantization(b, quant)
        t.TensorAddHasRank(b, True)
        return int(t.TensorEnd(b))

    def _buffer_number(self, data: npt.NDArray[np.uint8] | None) -> int:
        if data is None:
            return 0
        key = data.tobytes()
        if key not in self._known:
            self._known[key] = len(self._buffers)
            self._buffers.append(data)
        return self._known[key]

    def _quantization(self, quant: Quantization) -> int:
        t, b = self._tflite, self._builder
        scale = b.CreateNumpyVector(np.ascontiguousarray(quant.scale, np.float32))
        zero = b.CreateNumpyVector(np.ascontiguousarray(quant.zero_point, np.int64))
        t.QuantizationParametersStart(b)
        t.QuantizationParametersAddScale(b, scale)
        t.QuantizationParametersAddZeroPoint(b, zero)
        t.QuantizationParametersAddQuantizedDimension(b, quant.axis or 0)
        return int(t.QuantizationParametersEnd(b))

    def _operator(self, op: OutOperator) -> int:
        t, b = self._tflite, self._builder
        inputs, outputs = self._ints(op.inputs), self._ints(op.outputs)
        options = None if op.options is None else self._options(op)
        custom = None
        if op.custom_options:
            custom = self._bytes(np.frombuffer(op.custom_options, np.uint8), BUFFER_ALIGNMENT)
        t.OperatorStart(b)
        t.OperatorAddOpcodeIndex(b, self._codes[op.kind, op.custom])
        t.OperatorAddInputs(b, inputs)
        t.OperatorAddOutputs(b, outputs)
        if op.options is not None:
            number = getattr(t.BuiltinOptions, op.options.table)
            t.OperatorAddBuiltinOptionsType(b, number)
            t.OperatorAddBuiltinOptions(b, options)
        if custom is not None:
            t.OperatorAddCustomOptions(b, custom)
        return int(t.OperatorEnd(b))

    def _options(self, op: OutOperator) -> int:
        t, b = self._tflite, self._builder
        assert op.options is not None
        table = op.options.table
        values: list[tuple[str, Any]] = []
        for name, value in op.options.fields:
            if isinstance(value, str):
                values.append((name, b.CreateString(value)))
            elif isinstance(value, tuple):
                values.append((name, self._ints(value)))
            else:
                values.append((name, value))
        getattr(t, f"{table}Start")(b)
        for name, value in values:
            getattr(t, f"{table}Add{name}")(b, value)
        return int(getattr(t, f"{table}End")(b))

    def _ints(self, values: Sequence[int]) -> int:
        return int(self._builder.CreateNumpyVector(np.asarray(values, np.int32)))

    def _bytes(self, data: npt.NDArray[np.uint8], alignment: int) -> int:
        b = self._builder
        b.StartVector(1, data.size, alignment)
        head = b.Head() - data.size
        b.head = head
        b.Bytes[head : head + data.size] = data.tobytes()
        return int(b.EndVector())

    def _offsets(self, offsets: Sequence[int]) -> int:
        b = self._builder
        b.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            b.PrependUOffsetTRelative(offset)
        return int(b.EndVector())
