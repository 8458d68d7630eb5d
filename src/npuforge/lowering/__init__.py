"""The lowering room: a mapped graph as ordered steps over buffers."""

from npuforge.lowering.lower import lower
from npuforge.lowering.schedule import (
    Buffer,
    BufferKind,
    Lifetime,
    RowPiece,
    Schedule,
    Step,
    StepOperand,
    TensorPlace,
)

__all__ = [
    "Buffer",
    "BufferKind",
    "Lifetime",
    "RowPiece",
    "Schedule",
    "Step",
    "StepOperand",
    "TensorPlace",
    "lower",
]
