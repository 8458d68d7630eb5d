"""An ONNX file as plain records: nodes, constants and the interface, nothing interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from npuforge.graph import Array

AttrValue = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Array


@dataclass(frozen=True, eq=False)
class RawNode:
    """One ONNX node; `index` is its position in the file."""

    index: int
    name: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, AttrValue]


@dataclass(frozen=True)
class RawValue:
    """An input or output of the network; a free dimension is its name, or None without one."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, eq=False)
class RawOnnx:
    """An ONNX file."""

    name: str
    opset: int
    nodes: tuple[RawNode, ...]
    constants: Mapping[str, Array]
    inputs: tuple[RawValue, ...]
    outputs: tuple[RawValue, ...]
