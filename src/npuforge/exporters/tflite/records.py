"""A TFLite file as plain records, before a byte of it is laid out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.graph import Quantization

FieldValue = int | float | bool | str | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class OutTensor:
    """One tensor of a subgraph.

    Attributes:
        name: as other tools show it.
        shape: static.
        type: number of the element type in the schema.
        quantization: scales and zero points, or None.
        data: the bytes of its buffer, or None for a computed tensor.
    """

    name: str
    shape: tuple[int, ...]
    type: int
    quantization: Quantization | None = None
    data: npt.NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class Options:
    """The options table of a builtin operator.

    Attributes:
        table: name of the table in the schema, for example "Conv2DOptions".
        fields: name in the schema's generated code ("StrideH") and value; what is left out keeps
            the schema's default.
    """

    table: str
    fields: tuple[tuple[str, FieldValue], ...] = ()


@dataclass(frozen=True)
class OutOperator:
    """One operator; tensors by number, -1 for an absent optional input.

    Attributes:
        kind: name of the builtin operator, or "CUSTOM".
        version: version of the operator that first knew everything that is used of it.
        inputs: tensor numbers.
        outputs: tensor numbers.
        options: options table of a builtin operator.
        custom: name of a custom operator.
        custom_options: its options.
    """

    kind: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Options | None = None
    custom: str = ""
    custom_options: bytes = b""


@dataclass(frozen=True, eq=False)
class OutSubgraph:
    """One subgraph."""

    name: str
    tensors: tuple[OutTensor, ...]
    operators: tuple[OutOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class OutModel:
    """A TFLite file; `metadata` are named buffers of the model."""

    description: str
    subgraphs: tuple[OutSubgraph, ...]
    metadata: tuple[tuple[str, bytes], ...] = ()
