"""State of one export to TFLite: what the handlers of operators may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from npuforge.exporters.emission import Emission
from npuforge.exporters.tflite.records import Options, OutOperator, OutTensor
from npuforge.exporters.tflite.versions import RESOURCE, TYPE_NUMBERS, operator_version
from npuforge.graph import Array, Graph, Node, Quantization, Shape, Tensor
from npuforge.vocab import DType


class Emitter(Emission):
    """Collects the tensors and operators of a subgraph."""

    format = "TFLite"

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.tensors: list[OutTensor] = []
        self.operators: list[OutOperator] = []
        self._numbers: dict[str, int] = {}
        self._constants: dict[tuple[int, Shape, bytes], int] = {}

    # --- tensors ---

    def number(self, name: str | None) -> int:
        """Number of one of the graph's tensors; -1 for an absent one."""
        if name is None:
            return -1
        if name not in self._numbers:
            self._numbers[name] = self._add(out_tensor(self.graph.tensors[name]))
        return self._numbers[name]

    def _add(self, tensor: OutTensor) -> int:
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def constant(self, node: Node, label: str, values: object, dtype: DType = DType.INT32) -> int:
        """A parameter that the format wants as a tensor; equal ones are stored once."""
        array = np.ascontiguousarray(np.asarray(values, str(dtype)))
        if array.size == 0:
            raise self.refuse(node, f"{label} is empty", "EXP-009")
        kind = TYPE_NUMBERS[dtype]
        key = (kind, array.shape, array.tobytes())
        if key not in self._constants:
            name = self.names.fresh(f"{node.name}/{label}")
            self._constants[key] = self._add(
                OutTensor(name, array.shape, kind, None, raw_bytes(array, dtype))
            )
        return self._constants[key]

    def stored(self, node: Node, label: str, values: object, like: Tensor) -> int:
        """A constant of a tensor's type and quantisation."""
        array = np.ascontiguousarray(np.asarray(values)).astype(str(like.dtype))
        tensor = Tensor(
            self.names.fresh(f"{node.name}/{label}"),
            array.shape,
            like.dtype,
            like.quantization,
            array,
        )
        return self._add(out_tensor(tensor))

    def temporary(self, node: Node, label: str, like: Tensor, shape: Shape) -> int:
        """A computed tensor between two operators of one node."""
        name = self.names.fresh(f"{node.name}/{label}")
        kind = TYPE_NUMBERS[like.dtype]
        return self._add(OutTensor(name, shape, kind, like.quantization))

    def handle(self, variable: str) -> int:
        """A tensor that refers to a state variable."""
        return self._add(OutTensor(self.names.fresh(f"{variable}/handle"), (), RESOURCE))

    # --- operators ---

    def operator(
        self,
        kind: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: Options | None = None,
    ) -> None:
        """Append a builtin operator; its version follows from what it is used with."""
        sources = [None if i < 0 else self.tensors[i] for i in inputs]
        results = [self.tensors[i] for i in outputs]
        version = operator_version(kind, sources, results, options)
        self.operators.append(OutOperator(kind, version, tuple(inputs), tuple(outputs), options))

    def custom(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: bytes
    ) -> None:
        """Append a custom operator."""
        self.operators.append(
            OutOperator(
                "CUSTOM", 1, tuple(inputs), tuple(outputs), custom=name, custom_options=options
            )
        )


Handler = Callable[[Emitter, Node], None]


def out_tensor(tensor: Tensor) -> OutTensor:
    """A graph's tensor as the file has it."""
    data = None if tensor.data is None else raw_bytes(tensor.data, tensor.dtype)
    kind = TYPE_NUMBERS[tensor.dtype]
    return OutTensor(tensor.name, tensor.shape, kind, _scales(tensor), data)


def _scales(tensor: Tensor) -> Quantization | None:
    return None if tensor.dtype.is_float else tensor.quantization


def raw_bytes(array: Array, dtype: DType) -> npt.NDArray[np.uint8]:
    """The bytes of a buffer: little endian, int4 packed two a byte, the first one low."""
    if dtype is DType.INT4:
        nibbles = array.reshape(-1).view(np.uint8) & 15
        if nibbles.size % 2:
            nibbles = np.append(nibbles, np.uint8(0))
        return (nibbles[0::2] | (nibbles[1::2] << 4)).astype(np.uint8)
    little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return np.frombuffer(little.tobytes(), np.uint8)
