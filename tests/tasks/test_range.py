"""The range of a picture's numbers, told from what an input stores."""

from __future__ import annotations

import numpy as np
import pytest

from npuforge.graph import Graph, NoAttrs, Node, Quantization, Tensor
from npuforge.tasks.images import ImageRange, guess_range
from npuforge.vocab import DType

RANGES = {ImageRange.UNIT: (0.0, 1.0), ImageRange.SIGNED: (-1.0, 1.0), ImageRange.RAW: (0.0, 255.0)}


def quantised(dtype: DType, low: float, high: float) -> Quantization:
    first, last = dtype.limits
    scale = (high - low) / (last - first)
    return Quantization.per_tensor(scale, first - round(low / scale))


@pytest.mark.parametrize("wanted", RANGES)
@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, DType.INT16])
@pytest.mark.parametrize("behind", [False, True])
def test_range_of_every_stored_type(wanted: ImageRange, dtype: DType, behind: bool) -> None:
    """At the input itself, and behind a float input that a quantise node reads."""
    shape = (1, 4, 4, 3)
    stored = Tensor("stored", shape, dtype, quantised(dtype, *RANGES[wanted]))
    if behind:
        x = Tensor("x", shape, DType.FLOAT32)
        node = Node("stored", "quantize", ("x",), ("stored",), NoAttrs())
        graph = Graph("g", {"x": x, "stored": stored}, (node,), ("x",), ("stored",))
        assert guess_range(graph, x) is wanted
    else:
        graph = Graph("g", {"stored": stored}, (), ("stored",), ("stored",))
        assert guess_range(graph, stored) is wanted


def test_unit_range_without_quantisation() -> None:
    x = Tensor("x", (1, 4, 4, 3), DType.FLOAT32)
    graph = Graph("g", {"x": x}, (), ("x",), ("x",))
    assert guess_range(graph, x) is ImageRange.UNIT
    assert np.isfinite(ImageRange.UNIT.apply(np.zeros(3, np.float32))).all()
