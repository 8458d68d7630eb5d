"""Tensors a buffer can be: every order of axes, limits, and the way back."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from npuforge.aton.compiled import Buffer
from npuforge.graph import Graph, Quantization, Tensor
from npuforge.validate.counterparts import References
from npuforge.vocab import DType

SCALE, ZERO = 0.25, -7


def references(values: np.ndarray) -> References:
    steps = Quantization(np.array([SCALE], np.float32), np.array([ZERO]))
    tensor = Tensor("t", values.shape, DType.INT8, steps)
    return References(Graph("g", {"t": tensor}, (), ("t",), ("t",)), {"t": values})


def buffer(shape: tuple[int, ...]) -> Buffer:
    size = int(np.prod(shape))
    return Buffer(
        "b", 0, size, 1, 1, shape, "Last", 8, False, False, (SCALE,), (ZERO,), False
    )  # fmt: skip


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_a_transposed_tensor_is_found_and_turned_back(order: tuple[int, ...]) -> None:
    values = np.arange(24, dtype=np.int8).reshape(1, 2, 3, 4)
    turned = values.transpose(0, *order)
    found = references(values).candidates(buffer(turned.shape), turned.shape)
    wanted = turned.astype(float) - ZERO
    (item,) = [c for c in found if np.array_equal(c.steps, wanted)]
    assert np.array_equal(item.placed(values), wanted)
    assert np.array_equal(item.tensor_order(item.steps, values.shape), values)


def test_equal_sides_leave_several_orders() -> None:
    values = np.arange(18, dtype=np.int8).reshape(1, 3, 3, 2)
    found = references(values).candidates(buffer((1, 3, 3, 2)), (1, 3, 3, 2))
    assert [c.order for c in found] == [(0, 1, 2, 3), (0, 2, 1, 3)]


def test_limits_leave_part_of_a_tensor() -> None:

    values = np.arange(-12, 12, dtype=np.int8).reshape(1, 2, 3, 4)
    item = references(values).candidates(buffer(values.shape), values.shape)[0]
    part = replace(item, limits=(-3.0, 4.0))
    assert np.array_equal(part.steps, np.clip(values.astype(float) - ZERO, -3, 4))
    assert np.array_equal(part.placed(values + 1), np.clip(values.astype(float) + 1 - ZERO, -3, 4))
