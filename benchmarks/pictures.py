"""Made-up network inputs that are not noise."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from npuforge.graph import NUMPY_TYPES, Array, Tensor


def smooth(tensor: Tensor, rng: np.random.Generator) -> Array:
    """A few slow waves over the whole range of the type (floats: 0 to 1)."""
    grids = np.meshgrid(*(np.linspace(0, 1, n) for n in tensor.shape), indexing="ij")
    field = np.zeros(tensor.shape)
    for _ in range(4):
        phase = rng.uniform(0, 2 * math.pi)
        field += np.sin(sum(rng.uniform(-9, 9) * grid for grid in grids) + phase)
    field -= field.min(initial=0.0)
    field /= max(float(field.max(initial=0.0)), 1e-9)
    return spread(tensor, field)


def patches(tensor: Tensor, rng: np.random.Generator) -> Array:
    """Blocks that hold the smallest or the largest value of the type (floats: 0 or 1)."""
    coarse = rng.integers(0, 2, [-(-n // 5) for n in tensor.shape]).astype(float)
    for axis, size in enumerate(tensor.shape):
        coarse = np.take(coarse, np.arange(size) // 5, axis=axis)
    return spread(tensor, coarse)


def spread(tensor: Tensor, unit: npt.NDArray[np.float64]) -> Array:
    """Numbers from 0 to 1 over the whole range of the type (floats: as they are)."""
    dtype = NUMPY_TYPES[tensor.dtype]
    if tensor.dtype.is_float:
        return unit.astype(dtype)
    low, high = tensor.dtype.limits
    return np.rint(low + unit * (high - low)).astype(dtype)
