"""Metrics against their definitions, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.builders import single, tensor

from npuforge.validate import Comparer, all_metrics

R = np.array([[1.0, 2.0, 3.0], [4.0, 0.0, -4.0]])
P = np.array([[1.0, 2.0, 5.0], [4.0, 1.0, -4.0]])


def test_by_hand() -> None:
    m = all_metrics(R, P)
    errors = [0.0, 0.0, -2.0, 0.0, -1.0, 0.0]
    assert m["rmse"] == pytest.approx(math.sqrt(5 / 6))
    assert m["mae"] == pytest.approx(0.5)
    assert m["l2r"] == pytest.approx(math.sqrt(5) / math.sqrt(1 + 4 + 25 + 16 + 1 + 16))
    assert m["mean"] == pytest.approx(-0.5)
    assert m["std"] == pytest.approx(np.std(errors, ddof=1))
    total = sum((v - 1.0) ** 2 for v in (1, 2, 3, 4, 0, -4))
    assert m["nse"] == pytest.approx(1 - 5 / total)
    assert m["snr"] == pytest.approx(10 * math.log10(total / 5))
    first = (1 + 4 + 15) / math.sqrt(14 * 30)
    second = 32 / math.sqrt(32 * 33)
    assert m["cosine"] == pytest.approx((first + second) / 2)
    assert m["top1"] == 1.0


def test_equal_tensors() -> None:
    m = all_metrics(R, R)
    assert (m["rmse"], m["mae"], m["l2r"], m["nse"], m["top1"]) == (0, 0, 0, 1, 1)
    assert m["cosine"] == pytest.approx(1)
    assert m["snr"] == math.inf


def test_constant_and_zero_tensors() -> None:
    zero = np.zeros((2, 2))
    assert all_metrics(zero, zero)["cosine"] == 1.0
    assert all_metrics(zero, zero)["nse"] == 1.0
    assert all_metrics(zero, zero + 1)["nse"] == -math.inf
    assert all_metrics(zero + 1, zero)["l2r"] == math.inf


def test_argmax_moves() -> None:
    assert all_metrics(R, R[:, ::-1])["top1"] == 0.0


def test_comparer_names_the_first_difference() -> None:
    from dataclasses import replace

    graph = single("relu", [tensor("x", (4,))], [tensor("y", (4,))])
    last = replace(graph.nodes[0], name="n2", inputs=("y",), outputs=("z",))
    graph = replace(
        graph,
        nodes=(*graph.nodes, last),
        tensors={**graph.tensors, "z": tensor("z", (4,))},
        outputs=("z",),
    )
    same = {"y": np.array([1, 2, 3, 4], np.int8), "z": np.array([1, 2, 3, 4], np.int8)}
    wrong = {"y": np.array([1, 3, 3, 2], np.int8), "z": np.array([1, 2, 3, 5], np.int8)}
    comparer = Comparer(graph)
    comparer.add(same, same)
    assert comparer.result().first_divergence is None
    comparer.add(same, wrong)
    result = comparer.result()
    first = result.first_divergence
    assert first is not None
    assert (first.tensor, first.mismatches, first.largest) == ("y", 2, 2.0)
    assert first.histogram == {-2: 1, 1: 1}
    assert result.mismatches == 3
    assert result.samples == 2
