"""A TFLite file as plain records: the flatbuffer read completely, nothing interpreted.

Hostile files are met here: every read stays inside of the file, sizes are bounded by the file's own
size, and whatever goes wrong ends in one ModelError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from npuforge.errors import ModelError, NpuforgeError
from npuforge.importers.tflite.flat import Buffer, OptionTable, Table

IDENTIFIER = b"TFL3"
MAX_OPERATORS = 65_000
MAX_TENSORS = 400_000
MAX_RANK = 8


class RawQuantization(NamedTuple):
    """QuantizationParameters of a tensor as stored."""

    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int64]
    axis: int


@dataclass(eq=False, slots=True)
class RawTensor:
    """One tensor of a subgraph; `data` is its buffer, a view of the file, or None."""

    index: int
    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    type: int
    quantization: RawQuantization | None
    data: memoryview | None
    is_variable: bool
    is_sparse: bool


@dataclass(eq=False, slots=True)
class RawOperator:
    """One operator; `options` is the table of its builtin options, or None.

    `custom_options` are the bytes of a custom operator's options.
    """

    index: int
    code: int
    custom: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Table | None
    custom_options: bytes = b""


@dataclass(frozen=True, eq=False)
class RawSubgraph:
    """One subgraph."""

    name: str
    tensors: tuple[RawTensor, ...]
    operators: tuple[RawOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RawModel:
    """A TFLite file."""

    description: str
    subgraphs: tuple[RawSubgraph, ...]


def read_tflite(content: bytes, path: str) -> RawModel:
    """Read a whole TFLite file.

    Args:
        content: the file's bytes.
        path: named in errors.

    Raises:
        ModelError: the file is damaged; no other exception leaves this function.
    """
    try:
        return _Reader(content, path).model()
    except NpuforgeError:
        raise
    except (MemoryError, RecursionError) as error:
        raise ModelError("IMP-004", path=path, reason=type(error).__name__) from None
    except Exception as error:  # readers of damaged files raise many types
        reason = f"{type(error).__name__}: {error}"
        raise ModelError("IMP-004", path=path, reason=reason) from None


class Field:
    """Numbers of the fields read, by table of the TFLite schema (version 3)."""

    MODEL_OPERATOR_CODES = 1
    MODEL_SUBGRAPHS = 2
    MODEL_DESCRIPTION = 3
    MODEL_BUFFERS = 4
    CODE_DEPRECATED_BUILTIN = 0
    CODE_CUSTOM = 1
    CODE_VERSION = 2
    CODE_BUILTIN = 3
    GRAPH_TENSORS = 0
    GRAPH_INPUTS = 1
    GRAPH_OUTPUTS = 2
    GRAPH_OPERATORS = 3
    GRAPH_NAME = 4
    TENSOR_SHAPE = 0
    TENSOR_TYPE = 1
    TENSOR_BUFFER = 2
    TENSOR_NAME = 3
    TENSOR_QUANTIZATION = 4
    TENSOR_IS_VARIABLE = 5
    TENSOR_SPARSITY = 6
    TENSOR_SHAPE_SIGNATURE = 7
    QUANTIZATION_SCALE = 2
    QUANTIZATION_ZERO_POINT = 3
    QUANTIZATION_AXIS = 6
    OPERATOR_CODE = 0
    OPERATOR_INPUTS = 1
    OPERATOR_OUTPUTS = 2
    OPERATOR_OPTIONS = 4
    OPERATOR_CUSTOM_OPTIONS = 5
    BUFFER_DATA = 0
    BUFFER_OFFSET = 1
    BUFFER_SIZE = 2


@dataclass(frozen=True)
class _Code:
    builtin: int
    custom: str
    version: int


class _Reader:
    def __init__(self, content: bytes, path: str) -> None:
        self._path = path
        self._content = content
        self._root = Buffer(content).root()

    def _damaged(self, reason: str) -> ModelError:
        return ModelError("IMP-004", path=self._path, reason=reason)

    def _tables(self, table: Table, field: int, limit: int, what: str) -> list[Table]:
        count = table.table_count(field)
        if count > limit:
            raise self._damaged(f"{count} {what}")
        return table.tables(field)

    def model(self) -> RawModel:
        graphs = self._tables(self._root, Field.MODEL_SUBGRAPHS, 1000, "subgraphs")
        if not graphs:
            raise self._damaged("no subgraph")
        buffers = [
            self._data(table)
            for table in self._tables(self._root, Field.MODEL_BUFFERS, MAX_TENSORS, "buffers")
        ]
        codes = [
            _Code(
                # files made before the field was widened only fill the deprecated one
                max(code.int32(Field.CODE_BUILTIN), code.int8(Field.CODE_DEPRECATED_BUILTIN)),
                code.text(Field.CODE_CUSTOM),
                code.int32(Field.CODE_VERSION, 1),
            )
            for code in self._tables(
                self._root, Field.MODEL_OPERATOR_CODES, 10_000, "operator codes"
            )
        ]
        return RawModel(
            self._root.text(Field.MODEL_DESCRIPTION),
            tuple(self._subgraph(graph, buffers, codes) for graph in graphs),
        )

    def _data(self, buffer: Table) -> memoryview:
        """A buffer's bytes, within the flatbuffer or, as in files beyond 2 GB and those of
        ai-edge-quantizer, behind it."""
        offset, size = buffer.uint64(Field.BUFFER_OFFSET), buffer.uint64(Field.BUFFER_SIZE)
        if offset <= 1:  # 1 is what writers put while they do not know yet
            return buffer.bytes(Field.BUFFER_DATA)
        if offset + size > len(self._content):
            raise self._damaged(f"a buffer of {size} bytes at {offset} leaves the file")
        return memoryview(self._content)[offset : offset + size]

    def _subgraph(self, graph: Table, buffers: list[memoryview], codes: list[_Code]) -> RawSubgraph:
        tensors = self._tables(graph, Field.GRAPH_TENSORS, MAX_TENSORS, "tensors")
        operators = self._tables(graph, Field.GRAPH_OPERATORS, MAX_OPERATORS, "operators")
        count = len(tensors)
        return RawSubgraph(
            graph.text(Field.GRAPH_NAME),
            tuple(self._tensor(i, table, buffers) for i, table in enumerate(tensors)),
            tuple(self._operator(i, table, codes, count) for i, table in enumerate(operators)),
            self._indices(graph.int32s(Field.GRAPH_INPUTS), count, "a subgraph"),
            self._indices(graph.int32s(Field.GRAPH_OUTPUTS), count, "a subgraph"),
        )

    def _indices(self, indices: tuple[int, ...], count: int, what: str) -> tuple[int, ...]:
        for index in indices:
            if not -1 <= index < count:
                raise self._damaged(f"{what} names tensor {index}, which does not exist")
        return indices

    def _tensor(self, index: int, tensor: Table, buffers: list[memoryview]) -> RawTensor:
        shape = tensor.int32s(Field.TENSOR_SHAPE)
        signature = tensor.int32s(Field.TENSOR_SHAPE_SIGNATURE)
        if len(shape) > MAX_RANK or len(signature) > MAX_RANK:
            raise self._damaged(f"tensor {index} has rank {max(len(shape), len(signature))}")
        number = tensor.uint32(Field.TENSOR_BUFFER)
        if number >= max(len(buffers), 1):
            raise self._damaged(f"tensor {index} names buffer {number}")
        data = buffers[number] if number else None
        return RawTensor(
            index=index,
            name=tensor.text(Field.TENSOR_NAME),
            shape=shape,
            signature=signature,
            type=tensor.int8(Field.TENSOR_TYPE),
            quantization=self._quantization(tensor.table(Field.TENSOR_QUANTIZATION)),
            data=data if data else None,
            is_variable=bool(tensor.uint8(Field.TENSOR_IS_VARIABLE)),
            is_sparse=tensor.has(Field.TENSOR_SPARSITY),
        )

    def _quantization(self, quant: Table | None) -> RawQuantization | None:
        if quant is None:
            return None
        scale = quant.float32_array(Field.QUANTIZATION_SCALE)
        if scale.size == 0:
            return None
        zero = quant.int64_array(Field.QUANTIZATION_ZERO_POINT)
        if zero.size == 0:
            zero = np.zeros(scale.size, np.int64)
        elif zero.size == 1 and scale.size != 1:
            zero = np.broadcast_to(zero, scale.shape).copy()
        return RawQuantization(scale, zero, quant.int32(Field.QUANTIZATION_AXIS))

    def _operator(self, index: int, op: Table, codes: list[_Code], tensors: int) -> RawOperator:
        number = op.uint32(Field.OPERATOR_CODE)
        if number >= len(codes):
            raise self._damaged(f"operator {index} names operator code {number}")
        code = codes[number]
        return RawOperator(
            index=index,
            code=code.builtin,
            custom=code.custom,
            version=code.version,
            inputs=self._indices(op.int32s(Field.OPERATOR_INPUTS), tensors, "an operator"),
            outputs=self._indices(op.int32s(Field.OPERATOR_OUTPUTS), tensors, "an operator"),
            options=op.table(Field.OPERATOR_OPTIONS),
            custom_options=(
                bytes(op.bytes(Field.OPERATOR_CUSTOM_OPTIONS))
                if op.has(Field.OPERATOR_CUSTOM_OPTIONS)
                else b""
            ),
        )


def read_options(kind: type[Any], operator: RawOperator) -> Any:
    """The builtin options of an operator as the given table class; defaults when absent."""
    options = kind()
    if operator.options is not None:
        options._tab = OptionTable(operator.options)
        return options
    empty = _EMPTY_TABLE
    options.Init(empty, len(empty) - 4)
    return options


# a table without fields: a vtable of two words, then its offset
_EMPTY_TABLE = bytes([4, 0, 4, 0, 4, 0, 0, 0])

OptionReader = Callable[[RawOperator], Any]


def names_of(tensors: Iterable[RawTensor]) -> list[str]:
    """A unique name for each tensor: its own where it has one nobody used before."""
    used: set[str] = set()
    names = []
    for tensor in tensors:
        name = tensor.name or f"tensor_{tensor.index}"
        if name in used:
            name = f"{name}#{tensor.index}"
        while name in used:
            name += "'"
        used.add(name)
        names.append(name)
    return names
