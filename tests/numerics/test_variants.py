"""Every kernel variant of this machine yields the bytes of the portable kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.numerics.test_runtime import conv_cases
from tests.numerics.variants import EMULATED, both, emulated, variants

from npuforge import _native
from npuforge.errors import UsageError
from npuforge.importers import load_model
from npuforge.numerics import Executor, View, kernel_variant, random_inputs

SCALES = ("", "_f32scale", "_f64scale")


def scaling(rng: np.random.Generator, kind: str, outputs: int, wild: bool) -> list[np.ndarray]:
    """Multipliers and shifts, or scales; `wild` ones reach saturation and large shifts."""
    if kind == "_f32scale":
        return [(10.0 ** rng.uniform(-9 if wild else -4, 2 if wild else -2, outputs)).astype("f4")]
    if kind == "_f64scale":
        return [10.0 ** rng.uniform(-9 if wild else -4, 2 if wild else -2, outputs)]
    low, high = (-31, 8) if wild else (-12, -6)
    multiplier = rng.integers(1 << 30, (1 << 31) - 1, outputs, endpoint=True).astype(np.int32)
    multiplier[rng.random(outputs) < 0.1] = 0
    return [multiplier, rng.integers(low, high, outputs, endpoint=True).astype(np.int32)]


@given(
    conv_cases(), st.integers(1, 40), st.integers(1, 40), st.booleans(), st.booleans(),
    st.booleans(), st.sampled_from(SCALES[:2]), st.integers(1, 2), st.sampled_from((1, 1, 2, 5)),
)  # fmt: skip
@settings(max_examples=200, derandomize=True, deadline=None)
def test_convolutions(
    case: dict[str, int], c: int, o: int, depthwise: bool, wild: bool, extremes: bool, kind: str,
    batch: int, multiple: int,
) -> None:  # fmt: skip
    convolution(case, c, c * multiple if depthwise else o, depthwise, wild, extremes, kind, batch)


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize(
    ("h", "w", "c", "o", "stride"),
    [(3, 700, 5, 9, 1), (40, 90, 33, 17, 2), (30, 33, 200, 24, 1), (9, 9, 700, 33, 1)],
)
def test_convolutions_of_several_bands(
    h: int, w: int, c: int, o: int, stride: int, depthwise: bool
) -> None:
    case = {"h": h, "w": w, "kh": 3, "kw": 3, "sh": stride, "sw": stride, "dh": 1, "dw": 1,
            "top": 1, "bottom": 1, "left": 1, "right": 0, "zero": -5, "seed": w}  # fmt: skip
    convolution(case, c, c if depthwise else o, depthwise, False, False, "", 1)


def convolution(
    case: dict[str, int], c: int, o: int, depthwise: bool, wild: bool, extremes: bool, kind: str,
    batch: int,
) -> None:  # fmt: skip
    """One convolution on a tile of its output, portable and with each variant."""
    rng = np.random.default_rng(case["seed"])
    h, w, kh, kw = case["h"], case["w"], case["kh"], case["kw"]
    rows = (h + case["top"] + case["bottom"] - (kh - 1) * case["dh"] - 1) // case["sh"] + 1
    columns = (w + case["left"] + case["right"] - (kw - 1) * case["dw"] - 1) // case["sw"] + 1

    def values(shape: tuple[int, ...]) -> np.ndarray:
        if extremes:
            return rng.choice(np.array([-128, 127], np.int8), shape)
        return rng.integers(-128, 128, shape).astype(np.int8)

    bias = rng.integers(-(1 << 20), 1 << 20, o).astype(np.int32)
    low, high = sorted(int(v) for v in rng.integers(-128, 128, 2)) if wild else (-128, 127)
    params: dict[str, int | float] = {
        "kernel_h": kh, "kernel_w": kw, "stride_h": case["sh"], "stride_w": case["sw"],
        "dilation_h": case["dh"], "dilation_w": case["dw"], "pad_top": case["top"],
        "pad_left": case["left"], "in_offset": -case["zero"], "out_offset": case["zero"],
        "act_min": low, "act_max": high, "groups": 1,
    }  # fmt: skip
    weights = values((1, kh, kw, o) if depthwise else (o, kh, kw, c))
    prefix = "depthwise_conv2d_s8" if depthwise else "conv2d_s8"
    # rows y0.. of a tile of the output, written into a wider tensor
    y0 = int(rng.integers(0, rows))
    y1 = int(rng.integers(y0 + 1, rows + 1))
    pixel = o + 3 * int(rng.integers(0, 2))
    y_view = View(batch, rows, columns, o, (y1 - y0) * columns * pixel, columns * pixel, pixel,
                  1, y0, y1, 0, columns, 0, 1)  # fmt: skip
    # the rows of the input which that tile reads, in a wider tensor too
    first = max(y0 * case["sh"] - case["top"], 0)
    last = min((y1 - 1) * case["sh"] - case["top"] + (kh - 1) * case["dh"] + 1, h)
    if first >= last:
        first, last = 0, h
    gap = int(rng.integers(0, 2)) * 5
    x = values((batch, last - first, w, c + gap))
    x_view = View(batch, h, w, c, (last - first) * w * (c + gap), w * (c + gap), c + gap, 1, first,
                  last, 0, w, 0, 1)  # fmt: skip
    constants = [weights, bias, *scaling(rng, kind, o, wild)]
    both(prefix + kind, [(x, x_view)], constants, y_view, params)


@pytest.mark.parametrize("c", [1, 2, 3, 5, 8, 12, 16, 20, 24, 32, 33, 40, 48])
@pytest.mark.parametrize("w", [1, 2, 3, 6, 19, 300])
def test_narrow_depthwise(w: int, c: int) -> None:
    """Neighbours whose channels share a vector: rows shorter than their number, and no multiple."""
    for seed in range(3):
        convolution(
            {"h": 5, "w": w, "kh": 3, "kw": 3, "sh": 1, "sw": 1, "dh": 1, "dw": 1, "top": 1,
             "bottom": 1, "left": 1, "right": 1, "zero": 7, "seed": seed}, c, c, True, seed == 1,
            False, "", 2,
        )  # fmt: skip


@given(
    st.tuples(*[st.integers(1, 6)] * 6), st.integers(1, 20), st.integers(1, 40),
    st.tuples(st.integers(0, 3), st.integers(0, 3)), st.sampled_from(SCALES[:2]), st.booleans(),
    st.integers(-128, 127), st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=100, derandomize=True, deadline=None)
def test_transposed_convolutions(
    sizes: tuple[int, ...], c: int, o: int, pads: tuple[int, int], kind: str, wild: bool,
    zero: int, seed: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    h, w, kh, kw, sh, sw = sizes
    rows = max((h - 1) * sh + kh - pads[0] + int(rng.integers(-2, 3)), 1)
    columns = max((w - 1) * sw + kw - pads[1] + int(rng.integers(-2, 3)), 1)
    x = rng.integers(-128, 128, (2, h, w, c)).astype(np.int8)
    weights = rng.integers(-128, 128, (o, kh, kw, c)).astype(np.int8)
    bias = rng.integers(-(1 << 20), 1 << 20, o).astype(np.int32)
    params: dict[str, int | float] = {
        "kernel_h": kh, "kernel_w": kw, "stride_h": sh, "stride_w": sw, "pad_top": pads[0],
        "pad_left": pads[1], "in_offset": -zero, "out_offset": zero, "act_min": -128,
        "act_max": 127,
    }  # fmt: skip
    both("transpose_conv2d_s8" + kind, [(x, View.dense(x.shape, 1))],
         [weights, bias, *scaling(rng, kind, o, wild)], View.dense((2, rows, columns, o), 1),
         params)  # fmt: skip


@given(
    st.integers(1, 20), st.integers(1, 300), st.integers(1, 40), st.integers(-128, 127),
    st.sampled_from(SCALES), st.booleans(), st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=100, derandomize=True, deadline=None)
def test_fully_connected(
    rows: int, depth: int, outputs: int, zero: int, kind: str, wild: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, weights = (
        rng.integers(-128, 128, s).astype(np.int8) for s in ((rows, depth), (outputs, depth))
    )
    bias = rng.integers(-(1 << 20), 1 << 20, outputs).astype(np.int32)
    params: dict[str, int | float] = {
        "rows": rows, "depth": depth, "in_offset": -zero, "weight_offset": 0, "out_offset": zero,
        "act_min": -128, "act_max": 127,
    }  # fmt: skip
    constants = [weights, bias, *scaling(rng, kind, outputs, wild)]
    y_view = View.strided((1, 1, rows, outputs), (0, 0, outputs, 1), 1)
    kernel = "fully_connected_s8" + kind
    both(kernel, [(x, View.dense(x.shape, 1))], constants, y_view, params)
    params["weight_offset"] = 1
    both(kernel, [(x, View.dense(x.shape, 1))], constants, y_view, params, expect_variant=False)


def test_ties_of_both_roundings() -> None:
    """Accumulators around every half step of a shift, both signs, as bias of empty products."""
    bias = np.concatenate([np.arange(-600, 600), [-(1 << 31), (1 << 31) - 1]]).astype(np.int32)
    inputs = [(np.zeros((1, 1), np.int8), View.dense((1, 1), 1))]
    weights = np.zeros((bias.size, 1), np.int8)
    params: dict[str, int | float] = {
        "rows": 1, "depth": 1, "in_offset": 0, "weight_offset": 0, "out_offset": 0,
        "act_min": -128, "act_max": 127,
    }  # fmt: skip
    y_view = View.strided((1, 1, 1, bias.size), (0, 0, bias.size, 1), 1)
    for shift in range(-31, 9):
        scales = [np.full(bias.size, 1 << 30, np.int32), np.full(bias.size, shift, np.int32)]
        both("fully_connected_s8", inputs, [weights, bias, *scales], y_view, params)
    for step in (0.5, 0.25, 0.1):
        for kind, dtype in (("_f32scale", np.float32), ("_f64scale", np.float64)):
            constants = [weights, bias, np.full(bias.size, step, dtype)]
            both("fully_connected_s8" + kind, inputs, constants, y_view, params)


@pytest.mark.parametrize(
    "name", ["anomaly_detection", "image_classification", "keyword_spotting", "visual_wake_words"]
)
def test_networks(name: str, example: Callable[[str], Path]) -> None:
    """Every tensor of whole networks, with every variant."""
    graph = load_model(example(name))
    inputs = random_inputs(graph, np.random.default_rng(1))
    portable = Executor(graph, capture=True, variant="portable")
    portable.run(inputs)
    wanted = portable.read(portable.activations())
    for variant in variants():
        executor = Executor(graph, capture=True, variant=variant)
        assert executor.kernel_variants.get(variant, 0) > 0
        executor.run(inputs)
        got = executor.read(executor.activations())
        for tensor, value in wanted.items():
            assert np.array_equal(got[tensor], value), (variant, tensor)


def test_every_instruction_set_was_tried() -> None:
    """Skipped where neither the processor nor an emulation runs them all."""
    missing = {f"{name} emulated" for name in EMULATED} - set(emulated())
    missing -= {f"{name} emulated" for name in _native.variants()}
    if missing:
        pytest.skip(f"no C compiler with SIMDe headers for {', '.join(sorted(missing))}")
    for name in emulated():
        assert name in variants()
        assert kernel_variant() != name  # an emulation is never preferred


def test_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NPUFORGE_KERNELS", raising=False)
    assert kernel_variant() == _native.variants()[0]
    monkeypatch.setenv("NPUFORGE_KERNELS", "portable")
    assert kernel_variant() == "portable"
    assert kernel_variant(_native.variants()[0]) == _native.variants()[0]
    with pytest.raises(UsageError) as caught:
        kernel_variant("abacus")
    assert "portable" in caught.value.message + (caught.value.hint or "")
