"""A TFLite file as plain records: the flatbuffer read completely, nothing interpreted.

Hostile files are met here: every read goes through the flatbuffers library, sizes are bounded by
the file's own size, and whatever goes wrong ends in one ModelError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from npuforge.errors import ModelError, NpuforgeError

IDENTIFIER = b"TFL3"
MAX_OPERATORS = 65_000
MAX_TENSORS = 400_000
MAX_RANK = 8


@dataclass(frozen=True, eq=False)
class RawQuantization:
    """QuantizationParameters of a tensor as stored."""

    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int64]
    axis: int


@dataclass(frozen=True, eq=False)
class RawTensor:
    """One tensor of a subgraph; `data` is the raw bytes of its buffer, or None."""

    index: int
    name: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    type: int
    quantization: RawQuantization | None
    data: bytes | None
    is_variable: bool
    is_sparse: bool


@dataclass(frozen=True, eq=False)
class RawOperator:
    """One operator; `options` is the flatbuffer table of its builtin options, or None.

    `custom_options` are the bytes of a custom operator's options.
    """

    index: int
    code: int
    custom: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Any
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
    except Exception as error:  # the flatbuffers library raises many types on damaged files
        reason = f"{type(error).__name__}: {error}"
        raise ModelError("IMP-004", path=path, reason=reason) from None


class _Reader:
    def __init__(self, content: bytes, path: str) -> None:
        import tflite

        self._tflite = tflite
        self._path = path
        self._size = len(content)
        self._root = tflite.Model.GetRootAsModel(content, 0)

    def _damaged(self, reason: str) -> ModelError:
        return ModelError("IMP-004", path=self._path, reason=reason)

    def _count(self, value: int, limit: int, what: str) -> int:
        # a vector of offsets takes four bytes an entry, so a longer one cannot be in the file
        if not 0 <= value <= min(limit, self._size // 4):
            raise self._damaged(f"{value} {what}")
        return value

    def model(self) -> RawModel:
        root = self._root
        count = self._count(root.SubgraphsLength(), 1000, "subgraphs")
        if count == 0:
            raise self._damaged("no subgraph")
        buffers = self._count(root.BuffersLength(), MAX_TENSORS, "buffers")
        codes = [
            root.OperatorCodes(i)
            for i in range(self._count(root.OperatorCodesLength(), 10_000, "operator codes"))
        ]
        graphs = tuple(self._subgraph(root.Subgraphs(i), buffers, codes) for i in range(count))
        return RawModel(_text(root.Description()), graphs)

    def _subgraph(self, graph: Any, buffers: int, codes: list[Any]) -> RawSubgraph:
        tensor_count = self._count(graph.TensorsLength(), MAX_TENSORS, "tensors")
        operator_count = self._count(graph.OperatorsLength(), MAX_OPERATORS, "operators")
        tensors = tuple(self._tensor(i, graph.Tensors(i), buffers) for i in range(tensor_count))
        operators = tuple(
            self._operator(i, graph.Operators(i), codes, tensor_count)
            for i in range(operator_count)
        )
        inputs = self._indices(graph.InputsAsNumpy(), tensor_count, "subgraph inputs")
        outputs = self._indices(graph.OutputsAsNumpy(), tensor_count, "subgraph outputs")
        return RawSubgraph(_text(graph.Name()), tensors, operators, inputs, outputs)

    def _indices(self, values: Any, count: int, what: str) -> tuple[int, ...]:
        indices = _ints(values)
        if any(not -1 <= i < count for i in indices):
            raise self._damaged(f"{what} name tensors that do not exist")
        return indices

    def _tensor(self, index: int, tensor: Any, buffers: int) -> RawTensor:
        shape = _ints(tensor.ShapeAsNumpy())
        signature = _ints(tensor.ShapeSignatureAsNumpy())
        if len(shape) > MAX_RANK or len(signature) > MAX_RANK:
            raise self._damaged(f"tensor {index} has rank {max(len(shape), len(signature))}")
        number = tensor.Buffer()
        if not 0 <= number < max(buffers, 1):
            raise self._damaged(f"tensor {index} names buffer {number}")
        return RawTensor(
            index=index,
            name=_text(tensor.Name()),
            shape=shape,
            signature=signature,
            type=int(tensor.Type()),
            quantization=self._quantization(tensor.Quantization()),
            data=self._buffer(number) if number else None,
            is_variable=bool(tensor.IsVariable()),
            is_sparse=tensor.Sparsity() is not None,
        )

    def _buffer(self, number: int) -> bytes | None:
        buffer = self._root.Buffers(number)
        if buffer is None or buffer.DataLength() == 0:
            return None
        return bytes(buffer.DataAsNumpy().tobytes())

    def _quantization(self, quant: Any) -> RawQuantization | None:
        if quant is None or quant.ScaleLength() == 0:
            return None
        scale = np.array(quant.ScaleAsNumpy(), np.float32)
        zero = np.zeros(scale.size, np.int64)
        if quant.ZeroPointLength():
            stored = np.array(quant.ZeroPointAsNumpy(), np.int64)
            zero = np.broadcast_to(stored, scale.shape).copy() if stored.size == 1 else stored
        return RawQuantization(scale, zero, int(quant.QuantizedDimension()))

    def _operator(self, index: int, op: Any, codes: list[Any], tensors: int) -> RawOperator:
        number = op.OpcodeIndex()
        if not 0 <= number < len(codes):
            raise self._damaged(f"operator {index} names operator code {number}")
        code = codes[number]
        return RawOperator(
            index=index,
            # files made before the field was widened only fill the deprecated one
            code=max(code.BuiltinCode(), code.DeprecatedBuiltinCode()),
            custom=_text(code.CustomCode()),
            version=code.Version(),
            inputs=self._indices(op.InputsAsNumpy(), tensors, f"operator {index}"),
            outputs=self._indices(op.OutputsAsNumpy(), tensors, f"operator {index}"),
            options=op.BuiltinOptions(),
            custom_options=(
                bytes(op.CustomOptionsAsNumpy().tobytes()) if op.CustomOptionsLength() else b""
            ),
        )


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


def _ints(values: Any) -> tuple[int, ...]:
    # absent vectors come back as the number 0
    return () if isinstance(values, int) else tuple(int(v) for v in values)


def read_options(kind: type[Any], operator: RawOperator) -> Any:
    """The builtin options of an operator as the given table class; defaults when absent."""
    options = kind()
    if operator.options is not None:
        options.Init(operator.options.Bytes, operator.options.Pos)
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
