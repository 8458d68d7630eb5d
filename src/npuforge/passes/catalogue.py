"""All passes in the order they are tried."""

from __future__ import annotations

from npuforge.passes.boundary import BoundaryPass, CpuTail, IntegerInputs
from npuforge.passes.convolution import (
    AffineToDepthwise,
    DenseDilation,
    FocusToStride,
    FoldAffine,
    FoldPad,
    FoldRequantize,
    FuseActivation,
    HoistActivation,
    RegroupConvolutions,
    StrideOutOfDepthwise,
)
from npuforge.passes.elementwise import (
    GeluToSigmoid,
    IntegerIslands,
    IntegerPrelu,
    PreluToLeaky,
    SquaredDifference,
    SumToConv,
)
from npuforge.passes.framework import Pass
from npuforge.passes.movement import (
    CopiesToConcat,
    GatherToSlice,
    HoistSlices,
    LowerRank,
    LowerTransposes,
    ReduceToPool,
)
from npuforge.passes.resampling import BilinearToConv, NearestToConcat, NearestToTransposedConv
from npuforge.passes.signed import UnsignedToSigned
from npuforge.passes.tidy import (
    DropDeadCode,
    DropIdentity,
    FoldConstants,
    FreeTransposes,
    MergeEqual,
    MergeRequantize,
    MergeReshapes,
    MergeTransposes,
)
from npuforge.passes.widening import ChannelPadToConv, UnitStride, WidenGate

PASSES: tuple[Pass, ...] = (
    FoldConstants(),
    DropIdentity(),
    UnsignedToSigned(),
    IntegerIslands(),
    IntegerPrelu(),
    MergeRequantize(),
    MergeTransposes(),
    FreeTransposes(),
    LowerTransposes(),
    LowerRank(),
    RegroupConvolutions(),
    FocusToStride(),
    HoistSlices(),
    HoistActivation(),
    StrideOutOfDepthwise(),
    FoldPad(),
    FoldAffine(),
    FuseActivation(),
    FoldRequantize(),
    AffineToDepthwise(),
    DenseDilation(),
    ChannelPadToConv(),
    WidenGate(),
    UnitStride(),
    NearestToTransposedConv(),
    NearestToConcat(),
    BilinearToConv(),
    PreluToLeaky(),
    GeluToSigmoid(),
    SquaredDifference(),
    SumToConv(),
    ReduceToPool(),
    GatherToSlice(),
    CopiesToConcat(),
    MergeReshapes(),
    MergeEqual(),
    DropDeadCode(),
)
"""Rewrites in the order they are tried."""

BOUNDARY: tuple[BoundaryPass, ...] = (IntegerInputs(), CpuTail())
"""Passes that change the network's inputs and outputs; they come last, and only when asked."""
