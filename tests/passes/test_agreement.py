"""Agreement of largest values: equal ones share the answer."""

from __future__ import annotations

import numpy as np

from npuforge.passes.measure import kept_argmax


def test_equal_values_share_the_answer() -> None:
    reference = np.array([[1.0, 3.0, 2.0, 0.0]])
    for result, share in (
        ([0.0, 9.0, 1.0, 1.0], 1.0),
        ([5.0, 5.0, 5.0, 5.0], 0.25),
        ([0.0, 7.0, 7.0, 1.0], 0.5),
        ([9.0, 8.0, 0.0, 0.0], 0.0),
    ):
        assert kept_argmax(reference, np.array([result]))[0] == share


def test_the_same_row_agrees_with_itself() -> None:
    rows = np.array([[2.0, 2.0, 1.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    assert kept_argmax(rows, rows).tolist() == [1.0, 1.0, 1.0]


def test_no_number_is_no_agreement() -> None:
    assert kept_argmax(np.array([1.0, 2.0]), np.array([np.nan, np.nan])).tolist() == [0.0]
