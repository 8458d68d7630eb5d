"""ONNX file → Graph: quantise/dequantise pairs become quantised tensors, images channels last.

An integer tensor between a QuantizeLinear and its DequantizeLinear is one tensor of the graph. An
operator whose float inputs are dequantised and whose float result is quantised becomes one integer
node. Transposes are only made where an operator needs another order of the bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from npuforge.errors import ModelError, NpuforgeError, UnsupportedError, UsageError
from npuforge.graph import (
    NUMPY_TYPES,
    Array,
    Attrs,
    Graph,
    NoAttrs,
    Node,
    Quantization,
    ReshapeAttrs,
    Shape,
    Tensor,
    TransposeAttrs,
)
from npuforge.graph.ops import SCHEMAS, ShapeMismatch
from npuforge.importers.onnx.file import read_onnx
from npuforge.importers.onnx.folding import FOLDED, fold
from npuforge.importers.onnx.layout import (
    Layout,
    identity,
    keeps_order,
    onnx_shape,
    our_shape,
    permutation,
)
from npuforge.importers.onnx.records import RawNode, RawOnnx, RawValue
from npuforge.vocab import Activation, Contract, DType

UNSIGNED_ZERO = 128
"""What uint8 numbers are lowered by to become int8."""
VIEW_OPS = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity"})
_DTYPES = {np.dtype(kind): dtype for dtype, kind in NUMPY_TYPES.items() if dtype != DType.INT4}


@dataclass(frozen=True)
class Value:
    """What an ONNX name stands for: one of our tensors, in a layout.

    `real` says that ONNX sees real numbers here although the tensor holds quantised ones.
    """

    name: str
    layout: Layout
    real: bool = False


@dataclass(frozen=True, eq=False)
class Constant:
    """A constant in ONNX's own layout; quantised when it came through a DequantizeLinear."""

    array: Array
    quantization: Quantization | None = None


@dataclass(frozen=True, eq=False)
class Target:
    """What the result of an operator is quantised to, found by looking ahead.

    Attributes:
        name: name of the quantised tensor.
        dtype: its element type.
        quantization: its scale and zero point.
        activation: activation met on the way, to be fused.
        absorbed: indices of the activation nodes on the way.
    """

    name: str
    dtype: DType
    quantization: Quantization
    activation: Activation = Activation.NONE
    absorbed: tuple[int, ...] = ()


def import_onnx(
    content: bytes, name: str, path: str, shapes: Mapping[str, tuple[int, ...]] = {}
) -> Graph:
    """Make a Graph of an ONNX file.

    Args:
        content: the file's bytes.
        name: name of the graph.
        path: named in errors; external data is read from its folder.
        shapes: fixed shapes by the name of an input, or one number by the name of a dimension.

    Raises:
        ModelError: the file is damaged or contradicts itself.
        UnsupportedError: an operator, type or shape that npuforge does not take.
    """
    return Importer(read_onnx(content, path), name, path, shapes).graph()


class Importer:
    """State of one import; operator handlers work on it."""

    def __init__(
        self, model: RawOnnx, name: str, path: str, shapes: Mapping[str, tuple[int, ...]]
    ) -> None:
        self.model = model
        self.path = path
        self._name = name
        self._shapes = shapes
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        self.values: dict[str, Value] = {}
        self.constants: dict[str, Constant] = {
            key: Constant(array) for key, array in model.constants.items()
        }
        self.added_transposes = 0
        self._absorbed: set[int] = set()
        self._reordered: dict[tuple[str, Layout], str] = {}
        self._outputs = {value.name for value in model.outputs}
        self._readers: dict[str, list[RawNode]] = {}
        for node in model.nodes:
            for item in node.inputs:
                self._readers.setdefault(item, []).append(node)

    def graph(self) -> Graph:
        """Translate the whole file."""
        from npuforge.importers.onnx.operators import HANDLERS

        self._check_shape_names()
        for raw in self.model.inputs:
            self._add_input(raw)
        self._check_nodes({*HANDLERS, *FOLDED})
        for node in self.model.nodes:
            if self._fold(node):
                continue
            if node.op not in HANDLERS:
                raise UnsupportedError("IMP-030", path=self.path, node=node.name, op=node.op)
            if node.index in self._absorbed:
                self.values[node.outputs[0]] = self.values[node.inputs[0]]
                continue
            try:
                HANDLERS[node.op](self, node)
            except (ShapeMismatch, ArithmeticError, LookupError, TypeError, ValueError) as error:
                raise self.refuse(node, f"{type(error).__name__}: {error}") from None
        outputs = tuple(self._finish_output(value.name) for value in self.model.outputs)
        return Graph(
            name=self._name,
            tensors=self._used_tensors(outputs),
            nodes=tuple(self.nodes),
            inputs=tuple(raw.name for raw in self.model.inputs),
            outputs=outputs,
            source="onnx",
            added_transposes=self.added_transposes,
            source_axes=self._source_axes(),
        )

    def _check_nodes(self, known: Collection[str]) -> None:
        """Refuse unknown operators and inputs that nothing makes before anything is translated."""
        made = {*self.values, *self.constants, ""}
        for node in self.model.nodes:
            if node.domain != "" or node.op not in known or not node.outputs:
                raise UnsupportedError("IMP-030", path=self.path, node=node.name, op=node.op)
            for name in node.inputs:
                if name not in made:
                    raise ModelError(
                        "IMP-035", path=self.path, node=node.name, op=node.op, tensor=name
                    )
            made.update(node.outputs)

    def _source_axes(self) -> dict[str, Layout]:
        return {
            value.name: value.layout
            for key, value in self.values.items()
            if value.name == key and value.layout != identity(len(value.layout))
        }

    def _used_tensors(self, outputs: Sequence[str]) -> dict[str, Tensor]:
        used = {raw.name for raw in self.model.inputs} | set(outputs)
        for node in self.nodes:
            used.update(node.input_names, node.outputs)
        return {name: tensor for name, tensor in self.tensors.items() if name in used}

    def _fold(self, node: RawNode) -> bool:
        """Compute a node whose inputs are all plain constants; False when it is none."""
        if any(name and name not in self.constants for name in node.inputs):
            return False
        plain = {name: self.constants[name] for name in node.inputs if name}
        if any(constant.quantization is not None for constant in plain.values()):
            return False
        arrays = {name: constant.array for name, constant in plain.items()}
        try:
            results = fold(node, arrays, self.model.opset)
        except Exception as error:  # the evaluator raises many types on contradictions
            raise self.refuse(node, f"{type(error).__name__}: {error}") from None
        for name, array in zip(node.outputs, results or (), strict=False):
            self.constants[name] = Constant(array)
        return results is not None

    def _check_shape_names(self) -> None:
        free = {n for raw in self.model.inputs for n in raw.shape or () if isinstance(n, str)}
        known = {raw.name for raw in self.model.inputs} | free
        for name in self._shapes:
            if name not in known:
                listed = ", ".join(sorted(known))
                raise UsageError("IMP-037", path=self.path, name=name, known=listed)

    def _add_input(self, raw: RawValue) -> None:
        name = raw.name
        dtype = _DTYPES.get(np.dtype(raw.dtype)) if raw.dtype != "?" else None
        if dtype is None:
            raise UnsupportedError("IMP-010", path=self.path, tensor=name, type=raw.dtype)
        fixed = self._fixed_shape(raw)
        self.tensors[name] = Tensor(name, fixed, dtype)
        self.values[name] = Value(name, identity(len(fixed)))

    def _fixed_shape(self, raw: RawValue) -> Shape:
        """The shape of an input with its free dimensions fixed; a free batch axis runs as 1."""
        stated = raw.shape
        wanted = self._shapes.get(raw.name)
        if wanted is not None:
            # older exporters write -1 for a free dimension
            fits = stated is None or (
                len(stated) == len(wanted)
                and all(
                    not isinstance(n, int) or n in (0, -1, w)
                    for n, w in zip(stated, wanted, strict=True)
                )
            )
            if not fits:
                raise UnsupportedError(
                    "IMP-038", path=self.path, tensor=raw.name, shape=stated, wanted=wanted
                )
            return wanted
        fixed = []
        for axis, n in enumerate(stated or ()):
            if isinstance(n, str) and n in self._shapes:
                fixed.append(self._shapes[n][0])
            elif isinstance(n, int) and n > 0:
                fixed.append(n)
            elif axis == 0:
                fixed.append(1)
            else:
                raise UnsupportedError("IMP-032", path=self.path, tensor=raw.name, shape=stated)
        if stated is None:
            raise UnsupportedError("IMP-032", path=self.path, tensor=raw.name, shape=stated)
        return tuple(fixed)

    def _finish_output(self, name: str) -> str:
        if name in self.constants:
            if self.constants[name].quantization is not None:
                raise self.refuse_output(name, "is a quantised constant")
            return self.constant_value(name, identity(self.constants[name].array.ndim)).name
        if name not in self.values:
            raise self.refuse_output(name, "is never made")
        value = self.values[name]
        value = self._as_filed(self.as_float(self.in_order(value), name), name)
        made = value.name
        inputs = {raw.name for raw in self.model.inputs}
        if made == name or made in inputs or made in self._outputs:
            return made
        if name in self.tensors:
            # a quantised tensor on the way carries the name of the output
            self._rename(name, self.fresh(f"{name}/stored"))
        self._rename(made, name)
        return name

    def _as_filed(self, value: Value, name: str) -> Value:
        """An output whose file type is uint8 leaves the network as such."""
        kind = next(item.dtype for item in self.model.outputs if item.name == name)
        tensor = self.tensor_of(value)
        if kind != "uint8" or tensor.dtype is not DType.INT8 or tensor.quantization is None:
            return value
        quant = tensor.quantization
        key = self.fresh(f"{name}/unsigned")
        unsigned = Quantization(quant.scale, quant.zero_point + UNSIGNED_ZERO)
        self.tensors[key] = Tensor(key, tensor.shape, DType.UINT8, unsigned)
        self.nodes.append(Node(key, "quantize", (tensor.name,), (key,), NoAttrs()))
        return Value(key, value.layout)

    def _rename(self, old: str, new: str) -> None:
        """Give a tensor another name wherever it is mentioned."""
        tensor = self.tensors.pop(old)
        self.tensors[new] = Tensor(
            new, tensor.shape, tensor.dtype, tensor.quantization, tensor.data
        )
        for i, node in enumerate(self.nodes):
            if old in node.inputs or old in node.outputs:
                self.nodes[i] = Node(
                    node.name,
                    node.op,
                    tuple(new if n == old else n for n in node.inputs),
                    tuple(new if n == old else n for n in node.outputs),
                    node.attrs,
                    node.contract,
                )
        for key, value in self.values.items():
            if value.name == old:
                self.values[key] = Value(new, value.layout, value.real)

    # --- errors ---

    def refuse(self, node: RawNode, reason: str) -> NpuforgeError:
        """The error for a node that is not taken."""
        return UnsupportedError(
            "IMP-031", path=self.path, node=node.name, op=node.op, reason=reason
        )

    def refuse_output(self, name: str, reason: str) -> NpuforgeError:
        """The error for an impossible network output."""
        return ModelError("IMP-036", path=self.path, tensor=name, reason=reason)

    # --- reading inputs ---

    def constant(self, node: RawNode, index: int, what: str) -> Array:
        """The data of an input that must be known before the network runs."""
        found = self.optional_constant(node, index)
        if found is None:
            raise self.refuse(node, f"{what} is computed while the network runs or absent")
        return found

    def optional_constant(self, node: RawNode, index: int) -> Array | None:
        """The data of an optional input; None when it is absent.

        Raises:
            UnsupportedError: it is there but not constant.
        """
        if index >= len(node.inputs) or not node.inputs[index]:
            return None
        name = node.inputs[index]
        if name not in self.constants:
            raise self.refuse(node, f"{name} is computed while the network runs")
        return self.constants[name].array

    def tensor_of(self, value: Value) -> Tensor:
        """Our tensor behind a value."""
        return self.tensors[value.name]

    def shape_of(self, name: str) -> Shape:
        """The ONNX shape of a name."""
        if name in self.constants:
            return self.constants[name].array.shape
        value = self.values[name]
        return onnx_shape(self.tensor_of(value).shape, value.layout)

    def input_value(self, node: RawNode, index: int) -> Value:
        """An input as a value; constants become constant tensors in ONNX's own layout."""
        name = node.inputs[index]
        if name in self.values:
            return self.values[name]
        return self.constant_value(name, identity(self.constants[name].array.ndim))

    def constant_value(self, name: str, layout: Layout) -> Value:
        """A constant as a tensor of the given layout."""
        constant = self.constants[name]
        rank = len(layout)
        array = constant.array
        if array.ndim < rank:
            array = array.reshape((1,) * (rank - array.ndim) + array.shape)
        array = np.ascontiguousarray(array.transpose(layout))
        key = name if layout == identity(rank) else f"{name}:{','.join(map(str, layout))}"
        if key not in self.tensors:
            quant = constant.quantization
            if quant is not None and quant.axis is not None:
                axis = layout.index(quant.axis + rank - constant.array.ndim)
                quant = Quantization(quant.scale, quant.zero_point, axis)
            dtype = self.dtype_of(array, name)
            self.tensors[key] = Tensor(key, array.shape, dtype, quant, array)
        return Value(key, layout, real=constant.quantization is not None)

    def dtype_of(self, array: Array, name: str) -> DType:
        """Our element type of an array."""
        dtype = _DTYPES.get(array.dtype)
        if dtype is None:
            raise UnsupportedError("IMP-010", path=self.path, tensor=name, type=array.dtype)
        return dtype

    # --- layouts and types ---

    def in_layout(self, value: Value, layout: Layout) -> Value:
        """The same value with its bytes in another order; adds a transpose where bytes move."""
        if value.layout == layout:
            return value
        tensor = self.tensor_of(value)
        perm = permutation(value.layout, layout)
        key = (value.name, layout)
        if key not in self._reordered:
            name = self.fresh(f"{value.name}/as_{''.join(map(str, layout))}")
            shape = tuple(tensor.shape[axis] for axis in perm)
            self.tensors[name] = Tensor(name, shape, tensor.dtype, tensor.quantization)
            if keeps_order(tensor.shape, perm):
                node = Node(name, "reshape", (value.name,), (name,), ReshapeAttrs(shape))
            else:
                self.added_transposes += 1
                node = Node(name, "transpose", (value.name,), (name,), TransposeAttrs(perm))
            self.nodes.append(node)
            self._reordered[key] = name
        return Value(self._reordered[key], layout, value.real)

    def in_order(self, value: Value) -> Value:
        """The value with its bytes in ONNX's own order."""
        return self.in_layout(value, identity(len(value.layout)))

    def as_float(self, value: Value, name: str = "") -> Value:
        """A value whose tensor really holds floats when ONNX sees floats."""
        if not value.real:
            return value
        source = self.tensor_of(value)
        key = name if name and name not in self.tensors else self.fresh(f"{source.name}/real")
        self.tensors[key] = Tensor(key, source.shape, DType.FLOAT32)
        self.nodes.append(
            Node(key, "dequantize", (source.name,), (key,), NoAttrs(), Contract.ONNX_QLINEAR)
        )
        return Value(key, value.layout)

    def fresh(self, name: str) -> str:
        """A tensor name nobody uses yet."""
        while name in self.tensors or name in self.constants:
            name += "'"
        return name

    # --- results ---

    def target(self, name: str, *, activations: bool = False) -> Target | None:
        """What a float result is quantised to, when that is all that happens to it.

        Follows shape changes and, if asked, one activation. None when the result is used as floats.
        """
        readers = self._readers.get(name, [])
        if name in self._outputs or not readers:
            return None
        first = readers[0]
        if first.op == "QuantizeLinear":
            targets = [self._quantized(node) for node in readers]
            found = targets[0]
            if found is None or any(
                t is None or not found.quantization.same_as(t.quantization) for t in targets
            ):
                return None
            return found
        if len(readers) != 1:
            return None
        if first.op in VIEW_OPS:
            found = self.target(first.outputs[0], activations=activations)
            return found and replace(found, name=name)
        if activations:
            activation = self.activation_of(first)
            found = self.target(first.outputs[0]) if activation is not None else None
            if found is not None and activation is not None:
                return Target(
                    found.name, found.dtype, found.quantization, activation, (first.index,)
                )
        return None

    def _quantized(self, node: RawNode) -> Target | None:
        quant = self.quantization_of(node)
        if quant is None or quant[0].axis is not None or quant[1] is not DType.INT8:
            return None
        return Target(node.outputs[0], quant[1], quant[0])

    def quantization_of(self, node: RawNode) -> tuple[Quantization, DType] | None:
        """Scale, zero point and integer type of a quantise or dequantise node; None if computed."""
        names = node.inputs[1:3]
        if any(name and name not in self.constants for name in names):
            return None
        scale = self.constants[names[0]].array.astype(np.float32).reshape(-1)
        if len(names) > 1 and names[1]:
            stored = self.constants[names[1]].array
            zero = stored.astype(np.int64).reshape(-1)
            if zero.shape != scale.shape:
                zero = np.broadcast_to(zero, scale.shape).copy()
            dtype = self.dtype_of(stored, names[1])
        else:
            zero = np.zeros(scale.size, np.int64)
            dtype = self._stored_type(node)
        if dtype is DType.UINT8:
            # the same real numbers on the signed scale, which the integer kernels work on
            zero, dtype = zero - UNSIGNED_ZERO, DType.INT8
        if scale.size == 1:
            return Quantization(scale, zero), dtype
        rank = len(self.shape_of(node.inputs[0])) if self.known(node.inputs[0]) else 0
        axis = node.attrs.get("axis", 1)
        if not isinstance(axis, int):
            return None
        return Quantization(scale, zero, axis % rank if rank else axis), dtype

    def _stored_type(self, node: RawNode) -> DType:
        """The integer type of a quantise or dequantise node that states no zero point."""
        name = node.inputs[0]
        if node.op == "QuantizeLinear":
            return DType.UINT8
        if name in self.constants:
            return self.dtype_of(self.constants[name].array, name)
        return self.tensor_of(self.values[name]).dtype

    def known(self, name: str) -> bool:
        """Whether a name already has a value."""
        return name in self.values or name in self.constants

    def activation_of(self, node: RawNode) -> Activation | None:
        """The activation a node is, when it is one that can be fused."""
        if node.op == "Relu":
            return Activation.RELU
        bounds = self.clip_bounds(node) if node.op == "Clip" else None
        known: dict[tuple[float | None, float | None], Activation] = {
            (0.0, 6.0): Activation.RELU6,
            (0.0, None): Activation.RELU,
            (-1.0, 1.0): Activation.RELU_N1_TO_1,
        }
        return None if bounds is None else known.get(bounds)

    def clip_bounds(self, node: RawNode) -> tuple[float | None, float | None] | None:
        """Lower and upper limit of a Clip; None where there is none, or when they are computed."""
        bounds: list[float | None] = []
        for index, key in ((1, "min"), (2, "max")):
            name = node.inputs[index] if index < len(node.inputs) else ""
            if name and name not in self.constants:
                return None
            stated = node.attrs.get(key)
            if name:
                bounds.append(float(self.constants[name].array.reshape(-1)[0]))
            else:
                bounds.append(float(stated) if isinstance(stated, (int, float)) else None)
        return bounds[0], bounds[1]

    def emit(
        self,
        node: RawNode,
        op: str,
        inputs: Sequence[str | None],
        attrs: Attrs,
        layout: Layout,
        *,
        target: Target | None = None,
        like: Tensor | None = None,
        contract: Contract = Contract.EXACT,
    ) -> Value:
        """Append a node for the ONNX node's only output and give that name its value.

        Args:
            node: the ONNX node.
            op: our operator.
            inputs: names of our tensors.
            attrs: our attributes.
            layout: layout of the result.
            target: quantisation of the result, from `target`.
            like: a tensor whose type and quantisation the result keeps (data movement).
            contract: arithmetic of the node.
        """
        onnx_name = node.outputs[0]
        dtype, quant, name = DType.FLOAT32, None, onnx_name
        if target is not None:
            dtype, quant, name = target.dtype, target.quantization, target.name
            self._absorbed.update(target.absorbed)
        elif like is not None:
            dtype, quant = like.dtype, like.quantization
            name = self._name_when_quantized(onnx_name, like)
        name = self.fresh(name) if name in self.tensors else name
        tensors = [None if item is None else self.tensors[item] for item in inputs]
        shape = SCHEMAS[op].infer(tensors, attrs)[0]
        self.tensors[name] = Tensor(name, shape, dtype, quant)
        self.nodes.append(Node(name, op, tuple(inputs), (name,), attrs, contract))
        value = Value(name, layout, real=quant is not None and not dtype.is_float)
        self.values[onnx_name] = value
        return value

    def emit_moved(
        self,
        node: RawNode,
        op: str,
        inputs: Sequence[str],
        attrs: Attrs,
        layout: Layout,
        like: Tensor,
    ) -> None:
        """Append a node that moves data into all outputs of the ONNX node."""
        shapes = SCHEMAS[op].infer([self.tensors[name] for name in inputs], attrs)
        names = []
        for onnx_name, shape in zip(node.outputs, shapes, strict=True):
            name = self.fresh(self._name_when_quantized(onnx_name, like))
            self.tensors[name] = Tensor(name, shape, like.dtype, like.quantization)
            real = like.quantization is not None and not like.dtype.is_float
            self.values[onnx_name] = Value(name, layout, real)
            names.append(name)
        self.nodes.append(Node(names[0], op, tuple(inputs), tuple(names), attrs))

    def step(
        self,
        node: RawNode,
        label: str,
        op: str,
        inputs: Sequence[str],
        attrs: Attrs,
        like: Tensor,
        contract: Contract = Contract.EXACT,
    ) -> str:
        """Append a helper node of an ONNX node and return the name of the tensor it makes."""
        name = self.fresh(f"{node.outputs[0]}/{label}")
        shape = SCHEMAS[op].infer([self.tensors[source] for source in inputs], attrs)[0]
        self.tensors[name] = Tensor(name, shape, like.dtype, like.quantization)
        self.nodes.append(Node(name, op, tuple(inputs), (name,), attrs, contract))
        return name

    def add_constant(self, name: str, array: Array, quant: Quantization | None) -> str:
        """A constant tensor made of another one; returns its name."""
        name = self.fresh(name)
        data = np.ascontiguousarray(array)
        self.tensors[name] = Tensor(name, data.shape, self.dtype_of(data, name), quant, data)
        return name

    def _name_when_quantized(self, name: str, like: Tensor) -> str:
        """The name a quantise node gives a result that already is what it makes of it."""
        readers = self._readers.get(name, [])
        if name in self._outputs or not readers or readers[0].op != "QuantizeLinear":
            return name
        target = self._quantized(readers[0])
        same = target is not None and target.quantization.same_as(like.quantization)
        return readers[0].outputs[0] if same else name

    def layout_shape(self, name: str, layout: Layout) -> Shape:
        """Our shape of an ONNX name under a layout."""
        return our_shape(self.shape_of(name), layout)
