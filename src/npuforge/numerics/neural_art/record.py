"""Everything beside the model that fixes a run: one frozen record a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from npuforge.graph import Array
from npuforge.numerics.neural_art.choices import ConvChoice
from npuforge.numerics.neural_art.requant import (
    AverageConstants,
    ConvConstants,
    ProductConstants,
    SumConstants,
)


@dataclass(frozen=True)
class Choices:
    """Lowering choices and constants by node name; what is absent is computed from the model.

    Attributes:
        convolutions: lowering of each convolution, transposed or fully connected layer.
        constants: their requantisation constants, where a program gives them.
        sums: constants of additions and subtractions.
        products: constants of elementwise products.
        averages: constants of global averages.
        tables: of activation functions: 256 stored outputs, indexed by the stored input byte.
    """

    convolutions: Mapping[str, ConvChoice] = field(default_factory=dict)
    constants: Mapping[str, ConvConstants] = field(default_factory=dict)
    sums: Mapping[str, SumConstants] = field(default_factory=dict)
    products: Mapping[str, ProductConstants] = field(default_factory=dict)
    averages: Mapping[str, AverageConstants] = field(default_factory=dict)
    tables: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class StageCounts:
    """Values that a node's stages limited in the last run.

    Attributes:
        node: its name.
        values: outputs of the node.
        shift: 16-bit sums at their limit.
        gain: 16-bit intermediates beyond their limit.
        output: results beyond the range of the output.
        headroom: unused bits of the 16-bit sum's largest magnitude.
    """

    node: str
    values: int
    shift: int
    gain: int
    output: int
    headroom: int
