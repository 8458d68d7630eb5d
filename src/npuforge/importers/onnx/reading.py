"""What all ONNX handlers share: attributes, and whether a node computes on integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npuforge.importers.onnx.importer import Importer, Target, Value
from npuforge.importers.onnx.records import RawNode
from npuforge.vocab import Contract

Handler = Callable[[Importer, RawNode], None]


def ints(node: RawNode, key: str, default: Sequence[int]) -> tuple[int, ...]:
    """A list attribute of whole numbers."""
    value = node.attrs.get(key, tuple(default))
    if not isinstance(value, tuple):
        raise TypeError(f"attribute {key} is no list")
    return tuple(int(v) for v in value)


def integer(node: RawNode, key: str, default: int) -> int:
    """A whole-number attribute."""
    value = node.attrs.get(key, default)
    if not isinstance(value, int):
        raise TypeError(f"attribute {key} is no integer")
    return value


def text(node: RawNode, key: str, default: str) -> str:
    """A text attribute."""
    return str(node.attrs.get(key, default))


def contract_of(value: Value, target: Target | None) -> Contract:
    """QLinear arithmetic where quantised numbers go in and come out, float elsewhere."""
    return Contract.ONNX_QLINEAR if value.real and target is not None else Contract.FLOAT32


def integer_target(
    importer: Importer, node: RawNode, values: Sequence[Value], *, activations: bool = False
) -> Target | None:
    """What the result is quantised to, when all operands are quantised; None otherwise."""
    if not all(value.real for value in values):
        return None
    return importer.target(node.outputs[0], activations=activations)


def settle(importer: Importer, value: Value, target: Target | None) -> Value:
    """The value as the arithmetic needs it: quantised when the result is, else real floats."""
    return value if value.real and target is not None else importer.as_float(value)
