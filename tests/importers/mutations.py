"""Mutations of model files: of any bytes, and of TFLite flatbuffers and ONNX protobufs.

Random bytes mostly break a file where every reader notices. The others know the structure and
change one thing that has a meaning: an offset, a vector's length, an index, a dimension, an axis, a
scale, a wire length.
"""

from __future__ import annotations

import contextlib
import copy
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Rng = np.random.Generator
NUMBERS = (
    *(-(1 << 31), -(1 << 16), -100, -9, -5, -2, -1, 0, 1, 2, 3, 5, 9, 100, 255, 256, 65535),
    *(65536, 1 << 24, (1 << 30) + 1, (1 << 31) - 1),
)
WORDS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
LONG_NUMBERS = (*NUMBERS, 1 << 32, (1 << 62) + 3, (1 << 63) - 1, -(1 << 63))
REALS = (0.0, -0.0, -1.0, 1e-45, 1e-38, 1e38, float("inf"), float("-inf"), float("nan"))


def mutated_bytes(content: bytes, rng: Rng) -> bytes:
    """One to eight places changed, doubled, cut or filled, wherever they are."""
    data = bytearray(content)
    # structure lies at the ends of these files, weights in the middle: aim at both
    for _ in range(int(rng.integers(1, 9))):
        edge = rng.random() < 0.8
        span = min(len(data), 6000)
        at = int(rng.integers(0, span)) if edge else int(rng.integers(0, len(data)))
        if edge and rng.random() < 0.5:
            at = len(data) - 1 - at
        kind = rng.integers(0, 6)
        if kind == 0:
            data[at] = int(rng.integers(0, 256))
        elif kind == 1:
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 2:
            word = WORDS[int(rng.integers(0, len(WORDS)))]
            data[at : at + 4] = word.to_bytes(4, "little")[: len(data) - at]
        elif kind == 3:
            other = int(rng.integers(0, len(data) - 16))
            data[at : at + 16] = data[other : other + 16][: len(data) - at]
        elif kind == 4:
            del data[at : at + int(rng.integers(1, 64))]
        else:
            data[at:at] = bytes(int(rng.integers(1, 64)))
    return bytes(data)


# --- TFLite ---


@dataclass(frozen=True)
class Site:
    """A place in a flatbuffer that means something.

    Attributes:
        at: byte position.
        kind: struct letter of a scalar, "offset" or "length".
    """

    at: int
    kind: str


# by table: slot -> what it holds: a struct letter, "[x" a vector of it, a table's name,
# "[Table" a vector of tables, "any" a table whose type a neighbour tells
TABLES: dict[str, dict[int, str]] = {
    "Model": {4: "I", 6: "[OperatorCode", 8: "[SubGraph", 12: "[Buffer"},
    "OperatorCode": {4: "b", 6: "[b", 8: "i", 10: "i"},
    "SubGraph": {4: "[Tensor", 6: "[i", 8: "[i", 10: "[Operator", 12: "[b"},
    "Tensor": {
        4: "[i", 6: "b", 8: "I", 10: "[b", 12: "Quantization", 14: "b", 16: "any", 18: "[i",
        20: "b",
    },
    "Quantization": {4: "[f", 6: "[f", 8: "[f", 10: "[q", 12: "b", 14: "any", 16: "i"},
    "Operator": {
        4: "I", 6: "[i", 8: "[i", 10: "b", 12: "any", 14: "[b", 16: "b", 18: "[b", 20: "[i",
    },
    "Buffer": {4: "[data", 6: "Q", 8: "Q"},
}  # fmt: skip
SMALL_BUFFER = 64
"""Constants up to this many bytes are parameters (shapes, axes, paddings), not weights."""


class Flatbuffer:
    """Finds the sites of a TFLite file."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.sites: list[Site] = []
        self._table("Model", self._follow(0))

    def _read(self, letter: str, at: int) -> int:
        return int(struct.unpack_from(f"<{letter}", self.content, at)[0])

    def _follow(self, at: int) -> int:
        self.sites.append(Site(at, "offset"))
        return at + self._read("I", at)

    def _table(self, kind: str, at: int) -> None:
        vtable = at - self._read("i", at)
        self.sites += [Site(at, "offset"), Site(vtable, "H"), Site(vtable + 2, "H")]
        slots = range(4, self._read("H", vtable), 2)
        for slot in slots:
            offset = self._read("H", vtable + slot)
            if not offset:
                continue
            self.sites.append(Site(vtable + slot, "H"))
            self._field(TABLES.get(kind, {}).get(slot, "I"), at + offset)

    def _field(self, holds: str, at: int) -> None:
        if holds.startswith("["):
            self._vector(holds[1:], self._follow(at))
        elif holds == "any":
            self._table("any", self._follow(at))
        elif holds in TABLES:
            self._table(holds, self._follow(at))
        else:
            self.sites.append(Site(at, holds))

    def _vector(self, holds: str, at: int) -> None:
        self.sites.append(Site(at, "length"))
        count = self._read("I", at)
        if holds == "data":
            if count <= SMALL_BUFFER:
                self.sites += [Site(at + 4 + i, "i") for i in range(0, count - 3, 4)]
        elif holds in TABLES:
            for i in range(count):
                self._table(holds, self._follow(at + 4 + 4 * i))
        else:
            size = struct.calcsize(holds)
            self.sites += [Site(at + 4 + size * i, holds) for i in range(min(count, 64))]


def mutated_tflite(content: bytes, sites: list[Site], rng: Rng) -> bytes:
    """One to three sites changed to values that a reader may trip over."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        site = sites[int(rng.integers(len(sites)))]
        if site.kind in ("offset", "length"):
            choice = int(rng.integers(6))
            near = (0, 1, 4, len(data) - site.at, 0x7FFFFFFF, 0xFFFFFFFF)
            value: float = near[choice]
            # half of the offsets lead to another sound place of the file
            if site.kind == "offset" and rng.random() < 0.5:
                value = (sites[int(rng.integers(len(sites)))].at - site.at) & 0xFFFFFFFF
            letter = "I"
        elif site.kind == "f":
            letter, value = "f", REALS[int(rng.integers(len(REALS)))]
        else:
            letter = site.kind
            bits = 8 * struct.calcsize(letter)
            number = LONG_NUMBERS[int(rng.integers(len(LONG_NUMBERS)))]
            if rng.random() < 0.3:
                number = int(rng.integers(0, 40))
            value = number & ((1 << bits) - 1)
            letter = letter.upper()
        struct.pack_into(f"<{letter}", data, site.at, value)
    return bytes(data)


# --- ONNX ---


def wire_fields(content: bytes, begin: int, end: int, depth: int = 0) -> Iterator[tuple[int, int]]:
    """Position and number of bytes of every length in a protobuf, nested messages included."""
    at = begin
    while at < end:
        tag, at = _varint(content, at, end)
        wire = tag & 7
        if wire == 0:
            _, at = _varint(content, at, end)
        elif wire == 1:
            at += 8
        elif wire == 5:
            at += 4
        elif wire == 2:
            start = at
            size, at = _varint(content, at, end)
            if at + size > end:
                raise ValueError
            yield start, at - start
            if depth < 8 and size > 2:
                # a string or packed numbers are no message
                with contextlib.suppress(ValueError):
                    yield from list(wire_fields(content, at, at + size, depth + 1))
            at += size
        else:
            raise ValueError


def _varint(content: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError


def _encode(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def wire_mutation(content: bytes, fields: list[tuple[int, int]], rng: Rng) -> bytes:
    """One length of the file replaced by another."""
    at, size = fields[int(rng.integers(len(fields)))]
    old, _ = _varint(content, at, len(content))
    new = (old + 1, max(old - 1, 0), 0, 1 << 31, (1 << 63) + 5, len(content), old * 2)
    return content[:at] + _encode(new[int(rng.integers(len(new)))]) + content[at + size :]


def _pick(rng: Rng, items: Any) -> Any:
    return items[int(rng.integers(len(items)))] if len(items) else None


def _dimension(model: Any, rng: Rng) -> None:
    tensor = _pick(rng, model.graph.initializer)
    if tensor is not None and len(tensor.dims):
        tensor.dims[int(rng.integers(len(tensor.dims)))] = _pick(rng, LONG_NUMBERS[:-2])


def _more_dimensions(model: Any, rng: Rng) -> None:
    tensor = _pick(rng, model.graph.initializer)
    if tensor is not None:
        tensor.dims.extend([1 << 20] * int(rng.integers(1, 12)))


def _element_type(model: Any, rng: Rng) -> None:
    tensor = _pick(rng, model.graph.initializer)
    if tensor is not None:
        tensor.data_type = int(rng.integers(0, 26))


def _payload(model: Any, rng: Rng) -> None:
    tensor = _pick(rng, model.graph.initializer)
    if tensor is not None:
        cut = int(rng.integers(0, len(tensor.raw_data) + 1))
        tensor.raw_data = tensor.raw_data[:cut]


def _parameters(model: Any, rng: Rng) -> None:
    """Numbers in a small constant: shapes, axes, paddings, scales, zero points."""
    small = [t for t in model.graph.initializer if 0 < len(t.raw_data) <= SMALL_BUFFER]
    tensor = _pick(rng, small)
    if tensor is None:
        return
    data = bytearray(tensor.raw_data)
    if len(data) % 8 == 0 and tensor.data_type == 7:
        struct.pack_into(
            "<q", data, 8 * int(rng.integers(len(data) // 8)), _pick(rng, LONG_NUMBERS)
        )
    elif len(data) % 4 == 0:
        struct.pack_into("<f", data, 4 * int(rng.integers(len(data) // 4)), _pick(rng, REALS))
    else:
        data[int(rng.integers(len(data)))] ^= 0x80
    tensor.raw_data = bytes(data)


def _input_shape(model: Any, rng: Rng) -> None:
    value = _pick(rng, [*model.graph.input, *model.graph.output])
    shape = value.type.tensor_type.shape
    if len(shape.dim) and rng.random() < 0.7:
        _pick(rng, shape.dim).dim_value = _pick(rng, LONG_NUMBERS)
    elif len(shape.dim) and rng.random() < 0.5:
        _pick(rng, shape.dim).dim_param = "n"
    else:
        value.type.Clear()


def _attribute(model: Any, rng: Rng) -> None:
    nodes = [n for n in model.graph.node if len(n.attribute)]
    node = _pick(rng, nodes)
    if node is None:
        return
    attribute = _pick(rng, node.attribute)
    choice = int(rng.integers(5))
    if choice == 0 and len(attribute.ints):
        attribute.ints[int(rng.integers(len(attribute.ints)))] = _pick(rng, LONG_NUMBERS)
    elif choice == 1 and len(attribute.ints):
        del attribute.ints[0]
    elif choice == 2:
        attribute.ints.extend([int(_pick(rng, NUMBERS))] * int(rng.integers(1, 9)))
    elif choice == 3:
        attribute.type = int(rng.integers(0, 15))
    else:
        attribute.i = _pick(rng, LONG_NUMBERS)


def _new_attribute(model: Any, rng: Rng) -> None:
    import onnx

    node = _pick(rng, model.graph.node)
    name = _pick(rng, ("axis", "group", "keepdims", "strides", "pads", "dilations", "kernel_shape"))
    value: Any = _pick(rng, NUMBERS)
    if name in ("strides", "pads", "dilations", "kernel_shape"):
        value = [value] * int(rng.integers(1, 6))
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])


def _wiring(model: Any, rng: Rng) -> None:
    """A node reads something else: its own result, a later one, nothing, a constant."""
    node = _pick(rng, model.graph.node)
    names = [o for n in model.graph.node for o in n.output] + [""]
    names += [t.name for t in model.graph.initializer] + ["nobody"]
    if len(node.input):
        node.input[int(rng.integers(len(node.input)))] = _pick(rng, names)


def _arity(model: Any, rng: Rng) -> None:
    node = _pick(rng, model.graph.node)
    side = node.input if rng.random() < 0.6 else node.output
    if len(side) and rng.random() < 0.6:
        del side[-1]
    else:
        side.append(_pick(rng, ["extra", "", *node.output]))


def _operator(model: Any, rng: Rng) -> None:
    node = _pick(rng, model.graph.node)
    names = ("Conv", "Reshape", "Concat", "Slice", "Pad", "Resize", "Gemm", "If", "Loop", "Nope")
    node.op_type = _pick(rng, (*names, "Softmax", "Transpose", "Split", "MaxPool", "MatMul"))


def _duplicate(model: Any, rng: Rng) -> None:
    model.graph.node.insert(int(rng.integers(len(model.graph.node))), _pick(rng, model.graph.node))


def _opset(model: Any, rng: Rng) -> None:
    if rng.random() < 0.3:
        del model.opset_import[:]
    elif len(model.opset_import):
        model.opset_import[0].version = _pick(rng, LONG_NUMBERS)
    model.ir_version = abs(int(_pick(rng, NUMBERS)))


def _nesting(model: Any, rng: Rng) -> None:
    """Subgraphs in subgraphs in subgraphs."""
    import onnx

    inner = onnx.helper.make_graph([], "g", [], [])
    for _ in range(int(rng.integers(1, 30))):
        node = onnx.helper.make_node("If", [model.graph.input[0].name], ["y"])
        node.attribute.append(onnx.helper.make_attribute("then_branch", inner))
        node.attribute.append(onnx.helper.make_attribute("else_branch", inner.__class__()))
        inner = onnx.helper.make_graph([node], "g", [], [])
    model.graph.node.insert(0, inner.node[0])


def _function(model: Any, rng: Rng) -> None:
    """A local function that calls itself."""
    import onnx

    call = onnx.helper.make_node("again", ["x"], ["y"], domain="local")
    version = [onnx.helper.make_opsetid("local", 1)]
    model.functions.append(
        onnx.helper.make_function("local", "again", ["x"], ["y"], [call], version)
    )
    model.opset_import.extend(version)
    node = _pick(rng, model.graph.node)
    node.op_type, node.domain = "again", "local"


def _elsewhere(model: Any, rng: Rng) -> None:
    """Data kept outside of the file, in places that must not be read."""
    tensor = _pick(rng, model.graph.initializer)
    if tensor is None:
        return
    places = (
        "/etc/passwd",
        "../../../../etc/passwd",
        "a/../../x",
        "",
        "\0",
        ".",
        "~/x",
        "x" * 5000,
    )
    tensor.ClearField("raw_data")
    tensor.data_location = 1
    tensor.external_data.add(key="location", value=_pick(rng, places))
    if rng.random() < 0.7:
        key = _pick(rng, ("offset", "length"))
        tensor.external_data.add(key=key, value=_pick(rng, ("-1", "x", "1e3", str(1 << 70), "0")))


ONNX_MUTATIONS: tuple[Callable[[Any, Rng], None], ...] = (
    *(_dimension, _more_dimensions, _element_type, _payload, _parameters, _input_shape),
    *(_attribute, _new_attribute, _wiring, _arity, _operator, _duplicate, _opset, _nesting),
    *(_function, _elsewhere),
)


def mutated_onnx(model: Any, rng: Rng) -> bytes:
    """One or two mutations of a model's messages."""
    changed = copy.deepcopy(model)
    for _ in range(int(rng.integers(1, 3))):
        _pick(rng, ONNX_MUTATIONS)(changed, rng)
    content: bytes = changed.SerializeToString()
    return content
