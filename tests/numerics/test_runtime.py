"""The executor and the runtime's kernels against plain, slow definitions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import single, tensor

from npuforge import _native
from npuforge.errors import UnsupportedError, UsageError
from npuforge.graph import (
    ConcatAttrs,
    ConvAttrs,
    ElementwiseAttrs,
    Graph,
    PadAttrs,
    Quantization,
    ReshapeAttrs,
    SliceAttrs,
    SoftmaxAttrs,
    Tensor,
    TransposeAttrs,
    verify,
)
from npuforge.numerics import (
    Executor,
    first_fit,
    kernel_table,
    param_words,
    random_inputs,
    run_graph,
)
from npuforge.numerics.bind_elementwise import broadcast_views
from npuforge.numerics.fixedpoint import quantize_multiplier
from npuforge.vocab import Contract, DType


def int8(rng: np.random.Generator, shape: tuple[int, ...]) -> npt.NDArray[np.int8]:
    return rng.integers(-128, 128, shape).astype(np.int8)


@st.composite
def conv_cases(draw: st.DrawFn) -> dict[str, int]:
    size = st.integers
    case = {
        "h": draw(size(1, 9)),
        "w": draw(size(1, 9)),
        "c": draw(size(1, 5)),
        "o": draw(size(1, 5)),
        "kh": draw(size(1, 4)),
        "kw": draw(size(1, 4)),
        "sh": draw(size(1, 3)),
        "sw": draw(size(1, 3)),
        "dh": draw(size(1, 2)),
        "dw": draw(size(1, 2)),
        "top": draw(size(0, 2)),
        "bottom": draw(size(0, 2)),
        "left": draw(size(0, 2)),
        "right": draw(size(0, 2)),
        "zero": draw(size(-128, 127)),
        "seed": draw(size(0, 1000)),
    }
    case["h"] = max(case["h"], (case["kh"] - 1) * case["dh"] + 1)
    case["w"] = max(case["w"], (case["kw"] - 1) * case["dw"] + 1)
    return case


@given(conv_cases(), st.booleans())
@settings(max_examples=120, derandomize=True, deadline=None)
def test_convolution_is_its_definition(case: dict[str, int], depthwise: bool) -> None:
    """Real-number convolution of the dequantised data, rounded, within half a step."""
    rng = np.random.default_rng(case["seed"])
    channels = case["c"] * case["o"] if depthwise else case["o"]
    shape = (
        (1, case["kh"], case["kw"], channels)
        if depthwise
        else (case["o"], case["kh"], case["kw"], case["c"])
    )
    weights, bias = int8(rng, shape), rng.integers(-500, 500, channels)
    scales = rng.uniform(0.001, 0.02, channels).astype(np.float32)
    attrs = ConvAttrs(
        (case["sh"], case["sw"]),
        (case["dh"], case["dw"]),
        (case["top"], case["bottom"], case["left"], case["right"]),
    )
    x = int8(rng, (1, case["h"], case["w"], case["c"]))
    spread = ((case["top"], case["bottom"]), (case["left"], case["right"]))
    real = np.pad((x[0].astype(np.float64) - case["zero"]) * 0.05, (*spread, (0, 0)))
    rows = (real.shape[0] - (case["kh"] - 1) * case["dh"] - 1) // case["sh"] + 1
    columns = (real.shape[1] - (case["kw"] - 1) * case["dw"] - 1) // case["sw"] + 1
    want = np.zeros((rows, columns, channels))
    for y in range(rows):
        for column in range(columns):
            patch = real[
                y * case["sh"] : y * case["sh"] + (case["kh"] - 1) * case["dh"] + 1 : case["dh"],
                column * case["sw"] : column * case["sw"]
                + (case["kw"] - 1) * case["dw"]
                + 1 : case["dw"],
            ]
            for o in range(channels):
                if depthwise:
                    total = np.sum(patch[:, :, o // case["o"]] * weights[0, :, :, o])
                else:
                    total = np.sum(patch * weights[o])
                want[y, column, o] = (total + bias[o] * 0.05) * scales[o]
    want = np.clip(want / 0.4 + 3, -128, 127)

    axis = 3 if depthwise else 0
    graph = single(
        "depthwise_conv2d" if depthwise else "conv2d",
        [
            tensor("x", x.shape, quant=(0.05, case["zero"])),
            tensor("w", shape, quant=Quantization.per_channel(scales, axis), data=weights),
            tensor("b", (channels,), DType.INT32, data=bias),
        ],
        [tensor("y", (1, rows, columns, channels), quant=(0.4, 3))],
        attrs,
    )
    verify(graph)
    got = run_graph(graph, {"x": x})["y"][0]
    # the second of the two roundings adds 2**-(shift + 1), at most 1/256 for these scales
    assert np.max(np.abs(got - want)) <= 0.5 + 1 / 256


@given(
    st.lists(st.integers(1, 4), min_size=0, max_size=5),
    st.integers(0, 31),
    st.integers(0, 31),
)
@settings(max_examples=200, derandomize=True)
def test_broadcast_views_walk_like_numpy(shape: list[int], ones_a: int, ones_b: int) -> None:
    a = tuple(1 if ones_a >> i & 1 else n for i, n in enumerate(shape))
    b = tuple(1 if ones_b >> i & 1 else n for i, n in enumerate(shape))
    out = np.broadcast_shapes(a, b)
    views = broadcast_views([a, b], out, [1, 1, 1])
    if views is None:
        return
    for view, source in zip(views, (a, b, out), strict=True):
        flat = np.arange(int(np.prod(source)))
        walked = np.lib.stride_tricks.as_strided(
            flat,
            (view.n, view.h, view.w, view.c),
            [s * flat.itemsize for s in (view.sn, view.sh, view.sw, view.sc)],
        )
        assert np.array_equal(walked.reshape(out), np.broadcast_to(flat.reshape(source), out))


def test_add_with_broadcast() -> None:
    rng = np.random.default_rng(0)
    a, b = int8(rng, (1, 3, 4, 5)), int8(rng, (1, 1, 1, 5))
    for contract in (Contract.TFLITE_REFERENCE, Contract.ONNX_QLINEAR):
        graph = single(
            "add",
            [tensor("a", a.shape, quant=(0.2, 7)), tensor("b", b.shape, quant=(0.3, -9))],
            [tensor("y", a.shape, quant=(0.5, 2))],
            ElementwiseAttrs(),
            contract,
        )
        real = 0.2 * (a.astype(np.float64) - 7) + 0.3 * (b.astype(np.float64) + 9)
        want = np.clip(real / 0.5 + 2, -128, 127)
        got = run_graph(graph, {"a": a, "b": b})["y"]
        assert np.max(np.abs(got - want)) <= 0.5 + 1e-4


def test_softmax_sums_to_one_and_keeps_order() -> None:
    rng = np.random.default_rng(1)
    x = int8(rng, (4, 10))
    graph = single(
        "softmax",
        [tensor("x", x.shape, quant=(0.1, 4))],
        [tensor("y", x.shape, quant=(1 / 256, -128))],
        SoftmaxAttrs(1),
    )
    got = run_graph(graph, {"x": x})["y"]
    real = 0.1 * x.astype(np.float64)
    want = np.exp(real) / np.exp(real).sum(axis=1, keepdims=True)
    assert np.max(np.abs((got.astype(np.float64) + 128) / 256 - want)) < 1 / 256


@pytest.mark.parametrize("dtype", [DType.INT8, DType.FLOAT32, DType.INT32, DType.INT64])
def test_data_movement(dtype: DType) -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(-100, 100, (2, 3, 4, 5)).astype(str(dtype))
    source = tensor("x", x.shape, dtype)

    graph = single("transpose", [source], [tensor("y", (5, 3, 2, 4), dtype)],
                   TransposeAttrs((3, 1, 0, 2)), Contract.EXACT)  # fmt: skip
    verify(graph)
    assert np.array_equal(run_graph(graph, {"x": x})["y"], x.transpose(3, 1, 0, 2))

    attrs = PadAttrs((0, 1, 2, 3), (1, 0, 1, 0), value=7)
    graph = single("pad", [source], [tensor("y", (3, 4, 7, 8), dtype)], attrs, Contract.EXACT)
    verify(graph)
    want = np.pad(x, ((0, 1), (1, 0), (2, 1), (3, 0)), constant_values=7)
    assert np.array_equal(run_graph(graph, {"x": x})["y"], want)

    attrs = PadAttrs((1, 2, 1, 0), (0, 0, 3, 0), value=-3)  # whole rows at once
    graph = single("pad", [source], [tensor("y", (3, 5, 8, 5), dtype)], attrs, Contract.EXACT)
    verify(graph)
    want = np.pad(x, ((1, 0), (2, 0), (1, 3), (0, 0)), constant_values=-3)
    assert np.array_equal(run_graph(graph, {"x": x})["y"], want)

    attrs2 = SliceAttrs((0, 2, 0, 4), (1, -1, 2, -2), (2, 3, 2, 2))
    graph = single("slice", [source], [tensor("y", (2, 3, 2, 2), dtype)], attrs2, Contract.EXACT)
    verify(graph)
    assert np.array_equal(run_graph(graph, {"x": x})["y"], x[:, 2::-1, ::2, 4:1:-2])

    other = tensor("z", x.shape, dtype)
    graph = single("concat", [source, other], [tensor("y", (2, 6, 4, 5), dtype)], ConcatAttrs(1),
                   Contract.EXACT)  # fmt: skip
    verify(graph)
    got = run_graph(graph, {"x": x, "z": x + 1})["y"]
    assert np.array_equal(got, np.concatenate([x, x + 1], 1))


def test_views_share_memory_and_are_captured() -> None:
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    graph = single("reshape", [tensor("x", (2, 3))], [tensor("y", (6,))], ReshapeAttrs((6,)),
                   Contract.EXACT)  # fmt: skip
    executor = Executor(graph, capture=True)
    executor.run({"x": x})
    assert np.array_equal(executor.read(["y"])["y"], x.reshape(6))
    assert executor.arena_bytes == 64


def test_input_arrays_are_checked() -> None:
    graph = single("relu", [tensor("x", (1, 4, 4, 3))], [tensor("y", (1, 4, 4, 3))])
    executor = Executor(graph)
    cases = [
        ({}, "INP-001"),
        ({"x": np.zeros((1, 4, 4, 3), np.uint8)}, "INP-002"),
        ({"x": np.zeros((1, 4, 4, 3), np.float32)}, "INP-003"),
        ({"x": np.zeros((1, 5, 4, 3), np.int8)}, "INP-004"),
        ({"x": np.zeros((1, 3, 4, 4), np.int8)}, "INP-005"),
    ]
    for inputs, code in cases:
        with pytest.raises(UsageError) as caught:
            executor.run(inputs)
        assert caught.value.code == code
        assert "x" in caught.value.message


def test_uncaptured_tensors_are_not_shown() -> None:
    graph = single("relu", [tensor("x", (1, 4))], [tensor("y", (1, 4))])
    executor = Executor(graph)
    executor.run({"x": np.zeros((1, 4), np.int8)})
    with pytest.raises(ValueError, match="not captured"):
        executor.read(["x"])


def test_unsupported_types_are_refused_by_name() -> None:
    graph = single(
        "conv2d",
        [tensor("x", (1, 3, 3, 1), DType.FLOAT16), tensor("w", (1, 1, 1, 1), data=[1])],
        [tensor("y", (1, 3, 3, 1), DType.FLOAT16)],
        ConvAttrs(),
    )
    with pytest.raises(UnsupportedError) as caught:
        Executor(graph)
    assert caught.value.code == "NUM-001"
    assert "x" in caught.value.message


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 6), st.integers(1, 5000)),
        min_size=1,
        max_size=40,
    )
)
@settings(max_examples=200, derandomize=True)
def test_first_fit_never_overlaps(items: list[tuple[int, int, int]]) -> None:
    spans = [(a, a + length, size, str(i)) for i, (a, length, size) in enumerate(items)]
    offsets, top = first_fit(spans)
    for i, (s1, e1, n1, k1) in enumerate(spans):
        assert offsets[k1] % 64 == 0
        assert offsets[k1] + n1 <= top
        for s2, e2, n2, k2 in spans[i + 1 :]:
            if s1 <= e2 and s2 <= e1:
                assert offsets[k1] + n1 <= offsets[k2] or offsets[k2] + n2 <= offsets[k1]


def test_parameters_are_checked_against_the_kernel() -> None:
    fields = [name for _, name in kernel_table()["lut_8"].fields]
    assert param_words("lut_8", dict.fromkeys(fields, 3)) == [3] * len(fields)
    with pytest.raises(ValueError, match="count"):
        param_words("lut_8", {"rows": 1, "x_row": 1, "y_row": 1})


def test_native_program_refuses_bad_tables() -> None:
    def program(**changes: object) -> _native.Program:
        row = [1, 0, 1, 1, 1, 4, 4, 4, 4, 1, 0, 1, 0, 1, 0]
        arrays: dict[str, object] = {
            "kernels": np.array([kernel_table()["copy"].number], np.int32),
            "nodes": np.zeros(1, np.int32),
            "operand_start": np.array([0, 2], np.int32),
            "operands": np.array([row, row], np.int64),
            "param_start": np.array([0, 1], np.int32),
            "params": np.ones(1, np.int32),
            "constants": np.zeros(0, np.uint8),
            "space_bytes": [16],
        }
        return _native.Program(**{**arrays, **changes})  # type: ignore[arg-type]

    assert program().step_count == 1
    with pytest.raises(ValueError, match="kernel"):
        program(kernels=np.array([9999], np.int32))
    with pytest.raises(ValueError, match="address"):
        program(space_bytes=[3])
    with pytest.raises(ValueError, match="operand range"):
        program(operand_start=np.array([0, 3], np.int32))
    with pytest.raises(ValueError, match="parameter range"):
        program(param_start=np.array([0, 0], np.int32))
    with pytest.raises(IndexError):
        program().run(0, 2)


def test_output_that_is_a_view_of_a_constant() -> None:
    graph = single(
        "reshape",
        [tensor("c", (2, 3), data=np.arange(6).reshape(2, 3))],
        [tensor("y", (6,))],
        ReshapeAttrs((6,)),
    )
    assert Executor(graph).run({})["y"].tolist() == [0, 1, 2, 3, 4, 5]


def test_random_inputs_of_a_boolean() -> None:
    flags = Tensor("x", (64,), DType.BOOL)
    graph = Graph("flags", {"x": flags}, (), ("x",), ("x",))
    assert set(random_inputs(graph, np.random.default_rng(0))["x"].tolist()) == {False, True}


@pytest.mark.parametrize("real", [float("inf"), 1e39])
def test_multiplier_of_an_endless_scale(real: float) -> None:
    assert quantize_multiplier(real) == ((1 << 31) - 1, 30)
