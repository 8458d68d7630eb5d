"""Output ranges of fused activations on quantised tensors."""

from __future__ import annotations

import numpy as np

from npuforge.graph import Tensor
from npuforge.numerics.fixedpoint import round_half_away
from npuforge.vocab import Activation

_BOUNDS: dict[Activation, tuple[float | None, float | None]] = {
    Activation.NONE: (None, None),
    Activation.RELU: (0.0, None),
    Activation.RELU6: (0.0, 6.0),
    Activation.RELU_N1_TO_1: (-1.0, 1.0),
}


def activation_range(tensor: Tensor, activation: Activation) -> tuple[int, int]:
    """Smallest and largest stored value an output may take.

    The bound is quantised in single precision, ties away from zero, as TensorFlow Lite does.
    """
    low, high = tensor.dtype.limits
    lower, upper = _BOUNDS[activation]
    if lower is not None:
        low = max(low, quantize_value(tensor, lower))
    if upper is not None:
        high = min(high, quantize_value(tensor, upper))
    return low, high


def quantize_value(tensor: Tensor, real: float) -> int:
    """The stored value of a real number, not clamped to the type; at most 32 bits."""
    steps = np.clip(np.float32(real) / tensor.quant.s, -(2.0**31), 2.0**31)
    return tensor.quant.z + round_half_away(float(steps))
