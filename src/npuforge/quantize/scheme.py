"""What is asked of a quantisation: widths, granularity, zero points, types at the ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from npuforge.quantize.ranges import RangeMethod
from npuforge.vocab import DType


class Precision(StrEnum):
    """In what a node computes."""

    INT8 = "int8"
    """8-bit activations, 8-bit weights."""
    INT16 = "int16"
    """16-bit activations, 8-bit weights (16x8)."""
    FLOAT = "float"
    """Single precision, on the CPU."""

    @property
    def dtype(self) -> DType:
        """Element type of activations."""
        return DType.FLOAT32 if self is Precision.FLOAT else DType(self.value)


class Granularity(StrEnum):
    """How many scales weights have."""

    CHANNEL = "channel"
    TENSOR = "tensor"


class ZeroPoints(StrEnum):
    """Which zero points 8-bit activations may have."""

    FREE = "free"
    """Any: the range is used to the full."""
    NPU = "npu"
    """-128 or 0 wherever a convolution reads: Neural-ART then multiplies 8 by 8 bits."""


class EndType(StrEnum):
    """Element type of the network's inputs or outputs."""

    INT8 = "int8"
    UINT8 = "uint8"
    FLOAT = "float"


@dataclass(frozen=True)
class Scheme:
    """A quantisation in numbers.

    Attributes:
        method: how ranges are chosen.
        percentile: for `RangeMethod.PERCENTILE`, 0..100.
        weights: scales of weights.
        zero_points: of activations.
        signed_share: a range whose negative part is up to this share of the whole may be cut to
            zero point -128 under `ZeroPoints.NPU`; else it becomes symmetric. 0 never cuts.
        inputs: element type of the network's inputs.
        outputs: of its outputs.
        base: precision of nodes that `layers` does not name.
        layers: precision by node name.
        methods: range method by tensor name, where it is another.
        int4: names of nodes whose weights have 4 bits.
    """

    method: RangeMethod = RangeMethod.MSE
    percentile: float = 99.99
    weights: Granularity = Granularity.CHANNEL
    zero_points: ZeroPoints = ZeroPoints.FREE
    signed_share: float = 0.0
    inputs: EndType = EndType.INT8
    outputs: EndType = EndType.INT8
    base: Precision = Precision.INT8
    layers: Mapping[str, Precision] = field(default_factory=dict)
    methods: Mapping[str, RangeMethod] = field(default_factory=dict)
    int4: frozenset[str] = frozenset()
