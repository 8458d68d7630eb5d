"""Operators that our importer takes apart, written by hand and compared with LiteRT.

The exporter writes PACK as RESHAPE and CONCATENATION, and so on; here the operators themselves are
read: shapes, masks and blocks of every kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npuforge.exporters.tflite.emitter import raw_bytes
from npuforge.exporters.tflite.file import write_tflite
from npuforge.exporters.tflite.records import (
    Options,
    OutModel,
    OutOperator,
    OutSubgraph,
    OutTensor,
)
from npuforge.exporters.tflite.versions import TYPE_NUMBERS
from npuforge.graph import Array, Quantization, verify
from npuforge.importers.tflite.importer import import_tflite
from npuforge.numerics import Executor
from npuforge.vocab import DType

pytest.importorskip("ai_edge_litert")

from ai_edge_litert.interpreter import Interpreter, OpResolverType

CASES = 120
KINDS = (DType.INT8, DType.FLOAT32)


@dataclass
class Raw:
    """One subgraph under construction, with the numbers that are drawn for it."""

    draw: Callable[[Any], Any]
    tensors: list[OutTensor] = field(default_factory=list)
    operators: list[OutOperator] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def shape(self, low: int, high: int, most: int = 5) -> tuple[int, ...]:
        return tuple(self.integer(1, most) for _ in range(self.integer(low, high)))

    def tensor(self, shape: Sequence[int], kind: DType, data: Array | None = None) -> int:
        quant = Quantization.per_tensor(0.1, 3) if kind is DType.INT8 else None
        raw = None if data is None else raw_bytes(np.ascontiguousarray(data), kind)
        name = f"t{len(self.tensors)}"
        self.tensors.append(OutTensor(name, tuple(shape), TYPE_NUMBERS[kind], quant, raw))
        return len(self.tensors) - 1

    def input(self, shape: Sequence[int], kind: DType) -> int:
        number = self.tensor(shape, kind)
        self.inputs.append(number)
        return number

    def whole(self, values: object) -> int:
        array = np.asarray(values, np.int32)
        return self.tensor(array.shape, DType.INT32, array)

    def add(
        self,
        kind: str,
        inputs: Sequence[int],
        shapes: Sequence[Sequence[int]],
        dtype: DType,
        options: Options | None = None,
    ) -> list[int]:
        made = [self.tensor(shape, dtype) for shape in shapes]
        self.operators.append(OutOperator(kind, 1, tuple(inputs), tuple(made), options))
        self.outputs += made
        return made

    def content(self) -> bytes:
        graph = OutSubgraph(
            "raw",
            tuple(self.tensors),
            tuple(self.operators),
            tuple(self.inputs),
            tuple(self.outputs),
        )
        return write_tflite(OutModel("raw", (graph,)))


def pack(raw: Raw, kind: DType) -> None:
    shape, count = raw.shape(1, 3), raw.integer(1, 4)
    axis = raw.integer(-len(shape) - 1, len(shape))
    parts = [raw.input(shape, kind) for _ in range(count)]
    at = axis % (len(shape) + 1)
    fields = (("ValuesCount", count), ("Axis", axis))
    out = (*shape[:at], count, *shape[at:])
    raw.add("PACK", parts, [out], kind, Options("PackOptions", fields))


def unpack(raw: Raw, kind: DType) -> None:
    shape = raw.shape(1, 4)
    axis = raw.integer(-len(shape), len(shape) - 1)
    at = axis % len(shape)
    fields = (("Num", shape[at]), ("Axis", axis))
    rest = (*shape[:at], *shape[at + 1 :])
    x = raw.input(shape, kind)
    raw.add("UNPACK", [x], [rest] * shape[at], kind, Options("UnpackOptions", fields))


def space_to_batch(raw: Raw, kind: DType) -> None:
    n, h, w, c = (raw.integer(1, 4) for _ in range(4))
    block = (raw.integer(1, 3), raw.integer(1, 3))
    pads = []
    for size, b in ((h, block[0]), (w, block[1])):
        before = raw.integer(0, 2)
        pads.append((before, -(size + before) % b))
    rows, columns = ((s + sum(p)) // b for s, p, b in zip((h, w), pads, block, strict=True))
    x = raw.input((n, h, w, c), kind)
    out = (n * block[0] * block[1], rows, columns, c)
    raw.add("SPACE_TO_BATCH_ND", [x, raw.whole(block), raw.whole(pads)], [out], kind)


def batch_to_space(raw: Raw, kind: DType) -> None:
    n, h, w, c = (raw.integer(1, 3) for _ in range(4))
    block = (raw.integer(1, 3), raw.integer(1, 3))
    whole = (h * block[0], w * block[1])
    crops = []
    for size in whole:
        before = raw.integer(0, size - 1)
        crops.append((before, raw.integer(0, size - 1 - before)))
    rows, columns = (s - sum(k) for s, k in zip(whole, crops, strict=True))
    x = raw.input((n * block[0] * block[1], h, w, c), kind)
    inputs = [x, raw.whole(block), raw.whole(crops)]
    raw.add("BATCH_TO_SPACE_ND", inputs, [(n, rows, columns, c)], kind)


def strided_slice(raw: Raw, kind: DType) -> None:
    shape = raw.shape(1, 4)
    begins, ends, steps, out = [], [], [], []
    masks = {"BeginMask": 0, "EndMask": 0, "ShrinkAxisMask": 0}
    for axis, n in enumerate(shape):
        step = raw.draw(st.sampled_from([1, 1, 2, -1, -2]))
        begin, end = raw.integer(-n, n - 1), raw.integer(-n - 1, n + 1)
        shrink = raw.draw(st.sampled_from([False, False, True]))
        open_begin, open_end = raw.draw(st.booleans()), raw.draw(st.booleans())
        if shrink:
            step, end = 1, begin + 1
        chosen = range(n)[slice(None if open_begin else begin, None if open_end else end, step)]
        if not shrink and not len(chosen):
            begin, end, step, open_begin, open_end = 0, n, 1, False, False
            chosen = range(n)
        for name, flag in (
            ("BeginMask", open_begin and not shrink),
            ("EndMask", open_end and not shrink),
            ("ShrinkAxisMask", shrink),
        ):
            masks[name] |= int(flag) << axis
        begins.append(begin)
        ends.append(end)
        steps.append(step)
        if not shrink:
            out.append(len(chosen))
    x = raw.input(shape, kind)
    inputs = [x, raw.whole(begins), raw.whole(ends), raw.whole(steps)]
    options = Options("StridedSliceOptions", tuple(masks.items()))
    raw.add("STRIDED_SLICE", inputs, [out], kind, options)


def sliced(raw: Raw, kind: DType) -> None:
    shape = raw.shape(1, 4)
    begin = [raw.integer(0, n - 1) for n in shape]
    count = [raw.integer(1, n - b) for n, b in zip(shape, begin, strict=True)]
    stated = [-1 if b + c == n and raw.draw(st.booleans()) else c
              for n, b, c in zip(shape, begin, count, strict=True)]  # fmt: skip
    x = raw.input(shape, kind)
    raw.add("SLICE", [x, raw.whole(begin), raw.whole(stated)], [count], kind)


def squeeze(raw: Raw, kind: DType) -> None:
    shape = [raw.draw(st.sampled_from([1, 1, 3])) for _ in range(raw.integer(1, 4))]
    ones = tuple(i for i, n in enumerate(shape) if n == 1)
    chosen = ones if raw.draw(st.booleans()) else ones[:1]
    fields = (("SqueezeDims", chosen),) if chosen else ()
    gone = chosen or ones
    out = [n for i, n in enumerate(shape) if i not in gone]
    raw.add("SQUEEZE", [raw.input(shape, kind)], [out], kind, Options("SqueezeOptions", fields))


def expand_dims(raw: Raw, kind: DType) -> None:
    shape = raw.shape(1, 3)
    axis = raw.integer(-len(shape) - 1, len(shape))
    at = axis % (len(shape) + 1)
    x = raw.input(shape, kind)
    raw.add("EXPAND_DIMS", [x, raw.whole([axis])], [(*shape[:at], 1, *shape[at:])], kind)


def blocks(raw: Raw, kind: DType) -> None:
    b = raw.integer(1, 3)
    n, h, w, c = (raw.integer(1, 3) for _ in range(4))
    fields = (("BlockSize", b),)
    deep, wide = (n, h, w, c * b * b), (n, h * b, w * b, c)
    if raw.draw(st.booleans()):
        options = Options("DepthToSpaceOptions", fields)
        raw.add("DEPTH_TO_SPACE", [raw.input(deep, kind)], [wide], kind, options)
    else:
        options = Options("SpaceToDepthOptions", fields)
        raw.add("SPACE_TO_DEPTH", [raw.input(wide, kind)], [deep], kind, options)


def split_v(raw: Raw, kind: DType) -> None:
    shape = list(raw.shape(1, 4))
    axis = raw.integer(-len(shape), len(shape) - 1)
    sizes = [raw.integer(1, 3) for _ in range(raw.integer(1, 4))]
    shape[axis] = sum(sizes)
    stated = [*sizes[:-1], -1] if raw.draw(st.booleans()) else sizes
    shapes = [[n if i == axis % len(shape) else m for i, m in enumerate(shape)] for n in sizes]
    inputs = [raw.input(shape, kind), raw.whole(stated), raw.whole(axis)]
    options = Options("SplitVOptions", (("NumSplits", len(sizes)),))
    raw.add("SPLIT_V", inputs, shapes, kind, options)


def half_weights(raw: Raw, kind: DType) -> None:
    """Weights stored as float16, dequantised in front of their layer."""
    rows, depth, outputs = raw.integer(1, 3), raw.integer(1, 9), raw.integer(1, 5)
    rng = np.random.default_rng(raw.integer(0, 1 << 20))
    stored = rng.normal(size=(outputs, depth)).astype(np.float16)
    half = raw.tensor(stored.shape, DType.FLOAT16, stored)
    full = raw.tensor(stored.shape, DType.FLOAT32)
    raw.operators.append(OutOperator("DEQUANTIZE", 3, (half,), (full,)))
    x = raw.input((rows, depth), DType.FLOAT32)
    options = Options("FullyConnectedOptions", ())
    raw.add("FULLY_CONNECTED", [x, full, -1], [(rows, outputs)], DType.FLOAT32, options)


@pytest.mark.parametrize(
    "family",
    [
        *(pack, unpack, space_to_batch, batch_to_space, strided_slice, sliced, squeeze),
        *(expand_dims, blocks, split_v, half_weights),
    ],
    ids=lambda family: family.__name__,
)
def test_operator(family: Callable[[Raw, DType], None]) -> None:
    @settings(
        max_examples=CASES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def cases(data: st.DataObject) -> None:
        raw = Raw(data.draw)
        family(raw, data.draw(st.sampled_from(KINDS)))
        content = raw.content()
        graph = import_tflite(content, "raw", "raw.tflite")
        verify(graph)
        rng = np.random.default_rng(raw.integer(0, 1 << 20))
        interpreter: Any = Interpreter(
            model_content=content,
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
            num_threads=1,
        )
        interpreter.allocate_tensors()
        feeds: dict[str, Array] = {}
        for detail, name in zip(interpreter.get_input_details(), graph.inputs, strict=True):
            shape = graph.tensors[name].shape
            values: Array = rng.integers(-128, 128, shape).astype(np.int8)
            if graph.tensors[name].dtype is DType.FLOAT32:
                values = rng.normal(size=shape).astype(np.float32)
            feeds[name] = values
            interpreter.set_tensor(detail["index"], values)
        interpreter.invoke()
        ours = Executor(graph).run(feeds)
        for detail, name in zip(interpreter.get_output_details(), graph.outputs, strict=True):
            truth = interpreter.get_tensor(detail["index"])
            assert ours[name].shape == truth.shape
            if family is half_weights:
                np.testing.assert_allclose(ours[name], truth, rtol=1e-5, atol=1e-5)
            else:
                assert np.array_equal(ours[name], truth)

    cases()
