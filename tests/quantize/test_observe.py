"""Streaming histograms and the ranges taken from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from npuforge.quantize.observe import BINS, Histogram, Observer
from npuforge.quantize.ranges import Range, RangeMethod, choose_range, squared_errors

FLOATS = st.floats(-1e6, 1e6, width=32)
PARTS = st.lists(
    hnp.arrays(np.float32, st.integers(1, 40), elements=FLOATS), min_size=1, max_size=6
)


@settings(max_examples=200, deadline=None)
@given(PARTS)
def test_histogram_counts_everything_once(parts: list[np.ndarray]) -> None:
    """Whatever the order of magnitudes: counts equal those of a histogram made at the end."""
    made = Histogram()
    for part in parts:
        made.add(part, float(part.min()), float(part.max()))
    values = np.concatenate(parts).astype(np.float64)
    nonzero = values[values != 0]
    assert made.zeros == values.size - nonzero.size
    assert made.counts.sum() == nonzero.size
    if nonzero.size:
        assert np.log2(made.width) == round(np.log2(made.width))
        bins = np.floor(nonzero / made.width).astype(np.int64) - made.first
        assert bins.min() >= 0
        assert bins.max() < BINS
        assert np.array_equal(np.bincount(bins, minlength=BINS), made.counts)


@settings(max_examples=100, deadline=None)
@given(PARTS, st.sampled_from(list(RangeMethod)))
def test_state_round_trip(parts: list[np.ndarray], method: RangeMethod) -> None:
    """An observer that was stored and restored half-way ends like one that was not."""
    whole, resumed = Observer(), Observer()
    for i, part in enumerate(parts):
        whole.add(part)
        resumed.add(part)
        if i == len(parts) // 2:
            resumed = Observer.restored(resumed.state())
    assert choose_range(whole, method) == choose_range(resumed, method)


@settings(max_examples=200, deadline=None)
@given(PARTS, st.sampled_from(list(RangeMethod)))
def test_ranges_lie_within_what_was_seen(parts: list[np.ndarray], method: RangeMethod) -> None:
    observer = Observer()
    for part in parts:
        observer.add(part)
    found = choose_range(observer, method)
    assert found.low <= 0 <= found.high
    assert min(observer.low, 0) <= found.low
    assert found.high <= max(observer.high, 0)


def heavy_tails(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_t(3, 16000).astype(np.float32)


def true_error(values: np.ndarray, span: Range) -> float:
    scale = span.width / 255
    zero = np.rint(-span.low / scale)
    stored = np.clip(np.rint(values / scale) + zero, 0, 255)
    return float(np.sum(((stored - zero) * scale - values) ** 2))


def test_mse_is_the_least_error_of_a_grid() -> None:
    """Against brute force over both ends, on the values themselves, not their histogram."""
    values = np.random.default_rng(0).normal(size=16000).astype(np.float32)
    outlier = np.array([40.0], np.float32)
    repeats = 500
    observer = Observer()
    observer.add(outlier)
    for _ in range(repeats):
        observer.add(values)

    def error(span: Range) -> float:
        return repeats * true_error(values, span) + true_error(outlier, span)

    found = choose_range(observer, RangeMethod.MSE)
    shares = np.linspace(0.1, 1, 40)
    best = min(error(Range(observer.low * a, observer.high * b)) for a in shares for b in shares)
    assert error(found) <= 1.05 * best
    assert error(found) < 0.5 * error(choose_range(observer, RangeMethod.MINMAX))


def test_histogram_error_is_the_true_error() -> None:
    values = heavy_tails()
    observer = Observer()
    observer.add(values)
    assert observer.histogram is not None
    points, counts = observer.histogram.points()
    for high in (3.0, 8.0, 20.0):
        predicted = squared_errors(points, counts, np.array([-high]), np.array([high]))[0]
        assert predicted == pytest.approx(true_error(values, Range(-high, high)), rel=0.1)


def test_percentile_is_numpys() -> None:
    values = heavy_tails()
    observer = Observer()
    observer.add(values)
    found = choose_range(observer, RangeMethod.PERCENTILE, 99.0)
    assert observer.histogram is not None
    width = observer.histogram.width
    low, high = np.percentile(values, [0.5, 99.5])
    assert found.low == pytest.approx(low, abs=2 * width)
    assert found.high == pytest.approx(high, abs=2 * width)


def test_entropy_cuts_outliers_and_keeps_clean_data() -> None:
    rng = np.random.default_rng(0)
    clean, spoilt = Observer(), Observer()
    values = rng.uniform(0, 1, 16000).astype(np.float32)
    clean.add(values)
    spoilt.add(np.append(values, np.float32(50.0)))
    assert choose_range(clean, RangeMethod.ENTROPY).high > 0.9
    assert choose_range(spoilt, RangeMethod.ENTROPY).high < 25


def test_moving_average_forgets_one_outlier() -> None:
    observer = Observer(momentum=0.1)
    for i in range(50):
        observer.add(np.array([0.0, 100.0 if i == 10 else 1.0], np.float32))
    assert choose_range(observer, RangeMethod.MINMAX).high == 100
    assert choose_range(observer, RangeMethod.MOVING).high < 2


def test_values_that_are_no_numbers_are_counted_apart() -> None:
    observer = Observer()
    observer.add(np.array([np.nan, np.inf, 1.0, -2.0], np.float32))
    observer.add(np.array([np.nan], np.float32))
    assert (observer.bad, observer.low, observer.high) == (3, -2.0, 1.0)


def test_large_tensors_are_sampled_but_limits_are_not() -> None:
    values = np.zeros((512, 512), np.float32)
    values[77, 123] = 9.0
    observer = Observer()
    observer.add(values)
    assert observer.high == 9.0
    assert observer.histogram is not None
    assert observer.histogram.zeros + observer.histogram.counts.sum() <= 16384


def test_a_sample_that_explodes_does_not_set_the_steps_of_the_others() -> None:
    """One sample of two hundred is a thousand times larger: the others keep their resolution."""
    rng = np.random.default_rng(5)
    usual = [rng.normal(size=2000).astype(np.float32) for _ in range(200)]
    alone, mixed = Observer(), Observer()
    for number, values in enumerate(usual):
        alone.add(values)
        mixed.add(values * 1000 if number == 77 else values)
    expected = choose_range(alone, RangeMethod.MSE)
    found = choose_range(mixed, RangeMethod.MSE)
    assert mixed.high > 1000
    assert found.width < 20 * expected.width
    again = Observer.restored(mixed.state())
    assert choose_range(again, RangeMethod.MSE) == found
    again.add(usual[0])
    mixed.add(usual[0])
    assert again.energy == mixed.energy
