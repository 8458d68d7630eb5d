"""Threads that share a step yield the bytes of one thread, for every kernel and variant."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.numerics.variants import one_step

from npuforge import _native, api
from npuforge.errors import UsageError
from npuforge.importers import load_model
from npuforge.numerics import (
    Executor,
    PlacedOperand,
    PlacedStep,
    View,
    all_cores,
    build_program,
    kernel_threads,
    random_inputs,
)

COUNTS = (2, 3, 7, 64)
KINDS = {
    "conv2d_s8": (np.int8, np.int8, np.int32),
    "conv2d_s8_f32scale": (np.int8, np.int8, np.int32),
    "conv2d_u8": (np.uint8, np.uint8, np.int32),
    "conv2d_s16": (np.int16, np.int8, np.int64),
    "conv2d_f32": (np.float32, np.float32, np.float32),
}


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    if dtype is np.float32:
        return rng.standard_normal(shape, np.float32)
    info = np.iinfo(dtype)
    bound = min(info.max, 1 << 20)
    return rng.integers(max(info.min, -bound), bound, shape).astype(dtype)


def same(
    kernel: str, inputs: list[tuple[np.ndarray, View]], constants: list[np.ndarray], y: View,
    params: dict[str, int | float],
) -> None:  # fmt: skip
    """One thread against several, portable and with the best variant."""
    for variant in dict.fromkeys(("portable", _native.variants()[0])):
        alone, wanted = one_step(kernel, inputs, constants, y, params, variant)
        assert alone.divided == 0
        for threads in COUNTS:
            program, got = one_step(kernel, inputs, constants, y, params, variant, threads)
            assert program.divided == 1
            assert program.variants == alone.variants
            assert np.array_equal(got, wanted), (variant, threads)


@given(
    st.sampled_from(sorted(KINDS)), st.booleans(),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)), st.integers(1, 3), st.integers(1, 2),
    st.integers(1, 2), st.integers(1, 9), st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=60, derandomize=True, deadline=None)
def test_convolutions(
    kernel: str, depthwise: bool, size: tuple[int, int], window: tuple[int, int], stride: int,
    dilation: int, batch: int, gap: int, seed: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    x_type, w_type, b_type = KINDS[kernel]
    rows, columns = (size[0] + 1, size[1]) if max(size) == 1 else size
    # as many channels as make the step worth sharing
    taps = window[0] * window[1] * rows * columns * batch
    channels = 1
    while taps * channels * (1 if depthwise else channels) < 100_000:
        channels += 1
    h, w = rows * stride, columns * stride
    item = np.dtype(x_type).itemsize
    params: dict[str, int | float] = {
        "kernel_h": window[0], "kernel_w": window[1], "stride_h": stride, "stride_w": stride,
        "dilation_h": dilation, "dilation_w": dilation, "pad_top": window[0] // 2,
        "pad_left": window[1] // 2, "groups": 1,
    }  # fmt: skip
    if x_type is np.float32:
        params |= {"low": -1e30, "high": 1e30}
    else:
        info = np.iinfo(x_type)
        params |= {"act_min": int(info.min), "act_max": int(info.max)}
    if x_type in (np.int8, np.uint8):
        params |= {"in_offset": 3, "out_offset": -5}
    if x_type is np.uint8:
        params["weight_offset"] = -7
    shape = (1, *window, channels) if depthwise else (channels, *window, channels)
    constants = [values(rng, shape, w_type), values(rng, (channels,), b_type)]
    if kernel.endswith("f32scale"):
        constants.append(rng.uniform(1e-4, 1e-2, channels).astype(np.float32))
    elif x_type is not np.float32:
        constants.append(rng.integers(1 << 30, (1 << 31) - 1, channels).astype(np.int32))
        constants.append(rng.integers(-12, -6, channels).astype(np.int32))
    x = values(rng, (batch, h, w, channels), x_type)
    pitch = (channels + gap) * item
    y = View(batch, rows, columns, channels, rows * columns * pitch, columns * pitch, pitch, item,
             0, rows, 0, columns, 0, item)  # fmt: skip
    name = "depthwise_" + kernel if depthwise else kernel
    same(name, [(x, View.dense(x.shape, item))], constants, y, params)


@pytest.mark.parametrize("channels", [1, 2, 4, 8])
def test_narrow_depthwise_of_one_row(channels: int) -> None:
    """Columns are shared: some threads have fewer than the kernel takes side by side."""
    rng = np.random.default_rng(channels)
    columns = 120_000 // (49 * channels)
    shape = (1, 1, columns, channels)
    params: dict[str, int | float] = {
        "kernel_h": 7, "kernel_w": 7, "stride_h": 1, "stride_w": 1, "dilation_h": 1,
        "dilation_w": 1, "pad_top": 3, "pad_left": 3, "groups": 1, "in_offset": 3,
        "out_offset": -5, "act_min": -128, "act_max": 127,
    }  # fmt: skip
    constants = [
        values(rng, (1, 7, 7, channels), np.int8), values(rng, (channels,), np.int32),
        rng.integers(1 << 30, (1 << 31) - 1, channels).astype(np.int32),
        rng.integers(-12, -6, channels).astype(np.int32),
    ]  # fmt: skip
    view = View.dense(shape, 1)
    same("depthwise_conv2d_s8", [(values(rng, shape, np.int8), view)], constants, view, params)


@pytest.mark.parametrize("kernel", ["max_pool2d_s8", "average_pool2d_s8", "max_pool2d_u8"])
@pytest.mark.parametrize("shape", [(2, 60, 30, 9), (1, 3, 900, 20)])
def test_pools(kernel: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = values(rng, shape, np.uint8 if kernel.endswith("u8") else np.int8)
    params: dict[str, int | float] = {
        "kernel_h": 3, "kernel_w": 3, "stride_h": 1, "stride_w": 1, "dilation_h": 1,
        "dilation_w": 1, "pad_top": 1, "pad_left": 1, "act_min": -100, "act_max": 100,
    }  # fmt: skip
    view = View.dense(shape, 1)
    same(kernel, [(x, view)], [], view, params)


def test_output_over_its_input_is_not_shared() -> None:
    """Rows written by one thread would be read by another."""
    shape = (1, 40, 40, 10)
    params: dict[str, int | float] = {
        "kernel_h": 3, "kernel_w": 3, "stride_h": 1, "stride_w": 1, "dilation_h": 1,
        "dilation_w": 1, "pad_top": 1, "pad_left": 1, "act_min": -128, "act_max": 127,
    }  # fmt: skip
    view = View.dense(shape, 1)
    for offset, divided in ((0, 0), (15999, 0), (16000, 1)):
        operands = (PlacedOperand(1, 0, view), PlacedOperand(1, offset, view))
        step = PlacedStep("max_pool2d_s8", 0, operands, params)
        program = build_program([step], np.zeros(0, np.uint8), [40000], threads=2)
        assert program.divided == divided


@pytest.mark.parametrize("name", ["image_classification", "visual_wake_words"])
def test_networks(name: str, example: Callable[[str], Path]) -> None:
    """Every tensor, over several runs of one executor."""
    graph = load_model(example(name))
    alone = Executor(graph, capture=True)
    assert alone.shared_steps == 0
    for threads in COUNTS:
        executor = Executor(graph, capture=True, threads=threads)
        assert executor.shared_steps > 0
        for seed in range(5):
            inputs = random_inputs(graph, np.random.default_rng(seed))
            alone.run(inputs)
            executor.run(inputs)
            wanted, got = (e.read(e.activations()) for e in (alone, executor))
            assert all(np.array_equal(got[tensor], value) for tensor, value in wanted.items())


def test_number_of_threads(monkeypatch: pytest.MonkeyPatch, example: Callable[[str], Path]) -> None:
    monkeypatch.delenv("NPUFORGE_THREADS", raising=False)
    assert kernel_threads() == 1
    assert all_cores() == os.cpu_count()
    monkeypatch.setenv("NPUFORGE_THREADS", "3")
    assert kernel_threads() == all_cores() == 3
    assert kernel_threads(2) == 2
    for count in (0, -1, 257):
        with pytest.raises(UsageError, match=str(count)):
            kernel_threads(count)
    monkeypatch.setenv("NPUFORGE_THREADS", "many")
    with pytest.raises(UsageError, match="many"):
        kernel_threads()
    monkeypatch.delenv("NPUFORGE_THREADS")
    graph = api.load_graph(example("image_classification"), "neural_art")
    api.make_executor(graph, threads=1)
    with pytest.raises(UsageError, match="neural_art"):
        api.make_executor(graph, threads=2)
