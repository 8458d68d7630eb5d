"""Weights and biases as integers: symmetric, a scale a channel or a tensor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.graph import Array, Quantization
from npuforge.vocab import DType

Double = npt.NDArray[np.float64]

_TINY = 1e-12
"""Least scale of weights; channels of zeros have no other."""
_MOST_BIAS = float(2**30)
"""Largest stored bias: half of what int32 holds stays for the sum of products."""


def weight_peaks(weights: Array, axis: int, per_channel: bool) -> Double:
    """Largest magnitudes, one a channel or one in all."""
    others = tuple(i for i in range(weights.ndim) if i != axis)
    peaks = np.abs(weights.astype(np.float64)).max(axis=others if per_channel else None, initial=0)
    return np.atleast_1d(peaks)


def weight_scales(
    peaks: Double, bias: Double | None, input_scale: float, bits: int = 8
) -> npt.NDArray[np.float32]:
    """Scales that hold the weights, and in whose units the bias fits into int32.

    Args:
        peaks: largest magnitudes, one a channel or one in all.
        bias: real numbers, one a channel, or None.
        input_scale: of the layer's input; the bias is stored in input scale times weight scale.
        bits: of the weights; symmetric, the most negative number is not used.
    """
    scales = np.maximum(peaks / float((1 << (bits - 1)) - 1), _TINY)
    if bias is not None:
        need = np.abs(bias) / (_MOST_BIAS * input_scale)
        scales = np.maximum(scales, need if scales.size > 1 else need.max(initial=0.0))
    return scales.astype(np.float32)


def along(scales: npt.NDArray[np.float32] | Double, rank: int, axis: int) -> Double:
    """Numbers, one a channel or one in all, in the shape that fits an array of some rank."""
    shape = [1] * rank
    if scales.size > 1:
        shape[axis] = -1
    return scales.astype(np.float64).reshape(shape)


@dataclass(frozen=True, eq=False)
class Stored:
    """An integer constant.

    Attributes:
        data: stored numbers.
        dtype: their type.
        quant: their scales.
    """

    data: Array
    dtype: DType
    quant: Quantization


def stored_weights(
    weights: Array, scales: npt.NDArray[np.float32], axis: int, bits: int = 8
) -> Stored:
    """Weights rounded to nearest on their scales."""
    most = (1 << (bits - 1)) - 1
    steps = weights.astype(np.float64) / along(scales, weights.ndim, axis)
    data = np.clip(np.rint(steps), -most, most).astype(np.int8)
    per_channel = scales.size > 1
    zeros = np.zeros(scales.size, np.int64)
    quant = Quantization(scales, zeros, axis if per_channel else None)
    dtype = DType.INT8 if bits == 8 else DType.INT4
    return Stored(np.ascontiguousarray(data), dtype, quant)


def stored_bias(bias: Double, input_scale: np.float32, weights: Quantization, wide: bool) -> Stored:
    """A bias in units of input scale times weight scale; int64 beside 16-bit activations."""
    scale = np.float32(input_scale) * weights.scale
    steps = np.rint(bias / scale.astype(np.float64))
    most = float(2**31 - 1)
    kind = np.int64 if wide else np.int32
    data = np.clip(steps, -most, most).astype(kind)
    axis = 0 if weights.is_per_channel else None
    quant = Quantization(scale, np.zeros(scale.size, np.int64), axis)
    return Stored(data, DType.INT64 if wide else DType.INT32, quant)
