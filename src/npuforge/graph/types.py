"""The graph: tensors, nodes and the graph itself, all immutable.

Tensors are known by name and every name is unique in its graph. Activations are stored NHWC,
convolution weights OHWI, depthwise weights 1HWC (C = input channels times multiplier), fully
connected weights [outputs, inputs].
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from npuforge.errors import GraphError
from npuforge.graph.attrs import NO_ATTRS, Attrs
from npuforge.vocab import Contract, DType

Array = npt.NDArray[np.generic]
Shape = tuple[int, ...]

NUMPY_TYPES: Mapping[DType, npt.DTypeLike] = MappingProxyType(
    {
        DType.INT4: np.int8,
        DType.INT8: np.int8,
        DType.UINT8: np.uint8,
        DType.INT16: np.int16,
        DType.INT32: np.int32,
        DType.INT64: np.int64,
        DType.FLOAT16: np.float16,
        DType.FLOAT32: np.float32,
        DType.BOOL: np.bool_,
    }
)


@dataclass(frozen=True, eq=False)
class Quantization:
    """Affine quantisation: real = scale * (stored - zero_point).

    Attributes:
        scale: float32, one value, or one a channel of `axis`.
        zero_point: int64, as many values as `scale`.
        axis: the channel axis, or None when one scale serves the whole tensor.
    """

    scale: npt.NDArray[np.float32]
    zero_point: npt.NDArray[np.int64]
    axis: int | None = None

    # here and below: importers make thousands, and the initialiser of a frozen dataclass is slow
    def __init__(
        self,
        scale: npt.NDArray[np.float32],
        zero_point: npt.NDArray[np.int64],
        axis: int | None = None,
    ) -> None:
        """Take the fields as they are."""
        self.__dict__.update(scale=scale, zero_point=zero_point, axis=axis)

    @classmethod
    def per_tensor(cls, scale: float, zero_point: int = 0) -> Quantization:
        """One scale and zero point for the whole tensor."""
        return cls(np.array([scale], np.float32), np.array([zero_point], np.int64))

    @classmethod
    def per_channel(
        cls, scale: npt.ArrayLike, axis: int, zero_point: npt.ArrayLike | None = None
    ) -> Quantization:
        """One scale a channel; zero points default to 0."""
        scales = np.asarray(scale, np.float32).reshape(-1)
        zeros = np.zeros(scales.size, np.int64) if zero_point is None else zero_point
        return cls(scales, np.asarray(zeros, np.int64).reshape(-1), axis)

    @property
    def s(self) -> np.float32:
        """The scale of a per-tensor quantisation."""
        return np.float32(self.scale[0])

    @property
    def z(self) -> int:
        """The zero point of a per-tensor quantisation."""
        return int(self.zero_point[0])

    @property
    def is_per_channel(self) -> bool:
        """Whether there is one scale a channel."""
        return self.axis is not None

    def broadcast(self, rank: int) -> tuple[int, ...]:
        """The shape in which scales and zero points fit an array of some rank."""
        if self.axis is None:
            return ()
        shape = [1] * rank
        shape[self.axis] = -1
        return tuple(shape)

    def real(self, stored: Array) -> npt.NDArray[np.float64]:
        """Stored numbers as real ones, in double precision."""
        shape = self.broadcast(stored.ndim)
        scale = self.scale.astype(np.float64).reshape(shape)
        made: npt.NDArray[np.float64]
        made = (stored.astype(np.float64) - self.zero_point.reshape(shape)) * scale
        return made

    def real_single(self, stored: Array) -> npt.NDArray[np.float32]:
        """Stored numbers as real ones, in single precision as DequantizeLinear computes them."""
        shape = self.broadcast(stored.ndim)
        offset = stored.astype(np.int64) - self.zero_point.reshape(shape)
        made: npt.NDArray[np.float32] = offset.astype(np.float32) * self.scale.reshape(shape)
        return made

    def range_of(self, dtype: DType) -> tuple[float, float]:
        """Smallest and largest real number of a type under one scale."""
        low, high = dtype.limits
        return (low - self.z) * float(self.s), (high - self.z) * float(self.s)

    def same_as(self, other: Quantization | None) -> bool:
        """Whether both describe the same mapping, value for value."""
        if self is other:
            return True
        if other is None or self.axis != other.axis or self.scale.size != other.scale.size:
            return False
        if self.scale.size == 1 and self.zero_point.size == other.zero_point.size == 1:
            mine, theirs = self.scale.item(), other.scale.item()
            same_scale = mine == theirs or (mine != mine and theirs != theirs)
            return same_scale and self.zero_point.item() == other.zero_point.item()
        return bool(
            np.array_equal(self.scale, other.scale, equal_nan=True)
            and np.array_equal(self.zero_point, other.zero_point)
        )


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value in the graph; a constant when it carries data.

    Attributes:
        name: unique in the graph.
        shape: static, NHWC for images.
        dtype: stored element type.
        quantization: how stored integers map to real numbers, or None.
        data: the constant's array, C order, of the stored type, or None for an activation.
    """

    name: str
    shape: Shape
    dtype: DType
    quantization: Quantization | None = None
    data: Array | None = field(default=None, repr=False)

    def __init__(
        self,
        name: str,
        shape: Shape,
        dtype: DType,
        quantization: Quantization | None = None,
        data: Array | None = None,
    ) -> None:
        """Take the fields as they are."""
        self.__dict__.update(
            name=name, shape=shape, dtype=dtype, quantization=quantization, data=data
        )

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor as npuforge stores it."""
        return self.size * self.dtype.nbytes

    @property
    def is_constant(self) -> bool:
        """Whether the tensor carries data."""
        return self.data is not None

    @property
    def quant(self) -> Quantization:
        """The quantisation of a tensor that must have one.

        Raises:
            GraphError: it has none.
        """
        if self.quantization is None:
            raise GraphError("GRF-027", tensor=self.name, dtype=self.dtype)
        return self.quantization

    @property
    def array(self) -> Array:
        """The data of a tensor that must be a constant.

        Raises:
            GraphError: it is none.
        """
        if self.data is None:
            raise GraphError("GRF-028", tensor=self.name)
        return self.data


@dataclass(frozen=True)
class Node:
    """One operation.

    Attributes:
        name: unique among nodes.
        op: key of the operator schema (`npuforge.graph.ops.SCHEMAS`).
        inputs: tensor names in schema order; None where an optional input is absent.
        outputs: tensor names.
        attrs: the operator's frozen attribute record.
        contract: the arithmetic rule the node follows.
        origins: names of the nodes of the model file that a pass made it from; empty for those.
    """

    name: str
    op: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str, ...]
    attrs: Attrs = NO_ATTRS
    contract: Contract = Contract.EXACT
    origins: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        op: str,
        inputs: tuple[str | None, ...],
        outputs: tuple[str, ...],
        attrs: Attrs = NO_ATTRS,
        contract: Contract = Contract.EXACT,
        origins: tuple[str, ...] = (),
    ) -> None:
        """Take the fields as they are."""
        self.__dict__.update(
            name=name,
            op=op,
            inputs=inputs,
            outputs=outputs,
            attrs=attrs,
            contract=contract,
            origins=origins,
        )

    @property
    def input_names(self) -> Iterator[str]:
        """The inputs that are present."""
        return (name for name in self.inputs if name is not None)


@dataclass(frozen=True)
class Graph:
    """A network: nodes in execution order over named tensors.

    Attributes:
        name: shown in reports.
        tensors: all tensors by name.
        nodes: in an order in which every input is made before it is used.
        inputs: names of the network's inputs, in the model file's order.
        outputs: names of the network's outputs, in the model file's order.
        source: where the graph came from ("tflite", "onnx", or "" for a built one).
        added_transposes: transposes the importer had to insert to get to NHWC.
        source_axes: for tensors whose axes are in another order than in the file: axis i of the
            tensor is axis source_axes[name][i] in the file.
        states: tensors that keep their value between inferences, with the value before the first.
    """

    name: str
    tensors: Mapping[str, Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    source: str = ""
    added_transposes: int = 0
    source_axes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    states: Mapping[str, Array] = field(default_factory=dict)

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """Tensor name -> the node that writes it."""
        return {out: node for node in self.nodes for out in node.outputs}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """Tensor name -> the nodes that read it, in execution order, each once."""
        readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.input_names):
                readers.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in readers.items()}

    def tensor(self, name: str | None) -> Tensor:
        """The tensor of an input that must be present."""
        if name is None:
            raise KeyError("absent optional input")
        return self.tensors[name]

    def input_tensors(self, node: Node) -> tuple[Tensor | None, ...]:
        """The tensors a node reads; None where an optional input is absent."""
        return tuple(None if name is None else self.tensors[name] for name in node.inputs)

    def output_tensors(self, node: Node) -> tuple[Tensor, ...]:
        """The tensors a node writes."""
        return tuple(self.tensors[name] for name in node.outputs)

    def with_nodes(
        self, nodes: Iterable[Node], tensors: Mapping[str, Tensor] | None = None
    ) -> Graph:
        """A copy with other nodes (and tensors)."""
        return replace(
            self, nodes=tuple(nodes), tensors=self.tensors if tensors is None else tensors
        )
