"""Random networks in random stripes: every tensor the same, byte for byte, and every plan sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import tensor

from npuforge.boards import HostBoard
from npuforge.errors import UnsupportedError
from npuforge.explore.order import best_order
from npuforge.explore.tiling import Tiler, tile_least
from npuforge.graph import (
    Array,
    Attrs,
    ConcatAttrs,
    ConvAttrs,
    Graph,
    Node,
    PadAttrs,
    PoolAttrs,
    ResizeAttrs,
    SplitAttrs,
    Tensor,
    verify,
)
from npuforge.graph.attrs import (
    NO_ATTRS,
    CoordinateMode,
    ElementwiseAttrs,
    ResizeMode,
    TransposeConvAttrs,
)
from npuforge.graph.ops import schema
from npuforge.graph.shapes import ShapeMismatch
from npuforge.lowering import Schedule, lower
from npuforge.lowering.stripes import Run, Stripes
from npuforge.lowering.tile import tile
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory, verify_plan
from npuforge.memory.shortfall import bytes_needed
from npuforge.numerics import random_inputs
from npuforge.targets import load_target
from npuforge.vocab import Contract, DType

BOARD = load_target("mps3-an547")
LARGEST = 6000
"""Elements of a tensor; larger ones are not built."""
KINDS = ("conv", "depthwise", "transposed", "max", "average", "nearest", "bilinear", "add", "mul",
         "concat", "split", "pad", "logistic", "relu")  # fmt: skip


class Random:
    """A network that grows by random operators over random earlier tensors."""

    def __init__(self, seed: int, dtype: DType) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.zero = 0 if dtype is DType.INT16 else 3
        self.tensors: dict[str, Tensor] = {}
        self.nodes: list[Node] = []
        sides = self.rng.integers(5, 20, 2).tolist()
        self.known = [self.tensor("x", (1, *sides, self.pick(1, 3, 4)))]

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def tensor(self, name: str, shape: Sequence[int], scale: float = 0.05) -> Tensor:
        made = tensor(name, shape, self.dtype, (scale, self.zero))
        self.tensors[name] = made
        return made

    def weights(self, shape: Sequence[int], channels: int) -> list[Tensor]:
        """Weights and bias in the types that go with the activations."""
        name = f"n{len(self.nodes)}"
        values = self.rng.integers(-127, 128, tuple(shape))
        if self.dtype is DType.FLOAT32:
            made = [
                tensor(f"{name}/w", shape, DType.FLOAT32, data=values / 300),
                tensor(
                    f"{name}/b", (channels,), DType.FLOAT32, data=self.rng.normal(size=channels)
                ),
            ]
        else:
            wide = DType.INT64 if self.dtype is DType.INT16 else DType.INT32
            bias = self.rng.integers(-900, 900, channels)
            made = [
                tensor(f"{name}/w", shape, DType.INT8, (0.004, 0), values),
                tensor(f"{name}/b", (channels,), wide, (0.0002, 0), bias),
            ]
        self.tensors |= {t.name: t for t in made}
        return made

    def node(self, op: str, inputs: Sequence[Tensor], attrs: Attrs = NO_ATTRS) -> bool:
        """Append an operator where its kernel takes this type and these shapes."""
        try:
            shapes = schema(op).infer(list(inputs), attrs)
        except ShapeMismatch:
            return False
        if any(min(s) < 1 or np.prod(s) > LARGEST for s in shapes):
            return False
        name = f"n{len(self.nodes)}"
        outs = [self.tensor(f"{name}:{i}", shape) for i, shape in enumerate(shapes)]
        contract = Contract.TFLITE_REFERENCE
        if self.dtype is DType.FLOAT32:
            contract = Contract.FLOAT32
        added = Node(
            name, op, tuple(t.name for t in inputs), tuple(t.name for t in outs), attrs, contract
        )
        names = [t.name for t in (*inputs, *outs)]
        alone = Graph(
            "alone", {n: self.tensors[n] for n in names}, (added,),
            tuple(dict.fromkeys(t.name for t in inputs if t.data is None)),
            tuple(t.name for t in outs),
        )  # fmt: skip
        try:
            lower(alone, map_graph(alone, BOARD), BOARD)
        except UnsupportedError:
            for out in outs:
                del self.tensors[out.name]
            return False
        self.nodes.append(added)
        self.known += outs
        return True

    def grow(self, kind: str) -> bool:
        """One operator of a kind on a tensor that is there, the latest more often."""
        weights = np.arange(1, len(self.known) + 1) ** 2.0
        at = int(self.rng.choice(len(self.known), p=weights / weights.sum()))
        x = self.known[at]
        return getattr(self, f"_{kind}")(x)  # type: ignore[no-any-return]

    def _window(self) -> tuple[int, int, int, tuple[int, int, int, int]]:
        kernel, stride, dilation = self.pick(1, 2, 3, 4), self.pick(1, 1, 2, 3), self.pick(1, 1, 2)
        most = (kernel - 1) * dilation
        pads = tuple(int(self.rng.integers(0, most + 1)) for _ in range(4))
        return kernel, stride, dilation, (pads[0], pads[1], pads[2], pads[3])

    def _conv(self, x: Tensor) -> bool:
        kernel, stride, dilation, padding = self._window()
        channels = self.pick(1, 3, 4, 6)
        w, b = self.weights((channels, kernel, self.pick(1, 3), x.shape[3]), channels)
        return self.node("conv2d", (x, w, b), ConvAttrs((stride, stride), (dilation, 1), padding))

    def _depthwise(self, x: Tensor) -> bool:
        kernel, stride, dilation, padding = self._window()
        w, b = self.weights((1, kernel, kernel, x.shape[3]), x.shape[3])
        attrs = ConvAttrs((stride, stride), (dilation, dilation), padding)
        return self.node("depthwise_conv2d", (x, w, b), attrs)

    def _transposed(self, x: Tensor) -> bool:
        kernel, channels = self.pick(1, 2, 3, 4), self.pick(1, 3)
        w, b = self.weights((channels, kernel, kernel, x.shape[3]), channels)
        top, bottom = self.rng.integers(0, kernel, 2).tolist()
        stride = self.pick(1, 2, 3)
        attrs = TransposeConvAttrs((stride, stride), (top, bottom, 0, 0))
        return self.node("transpose_conv2d", (x, w, b), attrs)

    def _max(self, x: Tensor) -> bool:
        kernel, stride, _, _ = self._window()
        pads = self.rng.integers(0, kernel, 2).tolist()
        attrs = PoolAttrs((kernel, kernel), (stride, stride), (*pads, 0, 0))
        return self.node("max_pool2d", (x,), attrs)

    def _average(self, x: Tensor) -> bool:
        kernel, stride, _, _ = self._window()
        pads = self.rng.integers(0, kernel, 2).tolist()
        attrs = PoolAttrs((kernel, kernel), (stride, stride), (*pads, 0, 0))
        return self.node("average_pool2d", (x,), attrs)

    def _resized(self, x: Tensor, mode: ResizeMode) -> bool:
        sides = tuple(int(self.rng.integers(1, 2 * side + 2)) for side in x.shape[1:3])
        modes = (CoordinateMode.ASYMMETRIC, CoordinateMode.HALF_PIXEL, CoordinateMode.ALIGN_CORNERS)
        attrs = ResizeAttrs((sides[0], sides[1]), mode, modes[self.pick(0, 1, 2)])
        return self.node("resize", (x,), attrs)

    def _nearest(self, x: Tensor) -> bool:
        return self._resized(x, ResizeMode.NEAREST)

    def _bilinear(self, x: Tensor) -> bool:
        return self._resized(x, ResizeMode.BILINEAR)

    def _fitting(self, x: Tensor) -> Tensor:
        same = [t for t in self.known if t.shape == x.shape]
        return same[int(self.rng.integers(len(same)))]

    def _add(self, x: Tensor) -> bool:
        return self.node("add", (x, self._fitting(x)), ElementwiseAttrs())

    def _mul(self, x: Tensor) -> bool:
        return self.node("mul", (x, self._fitting(x)), ElementwiseAttrs())

    def _concat(self, x: Tensor) -> bool:
        axis = self.pick(1, 3, 3)
        beside = [n for n in range(4) if n != axis]
        others = [t for t in self.known if all(t.shape[n] == x.shape[n] for n in beside)]
        chosen = [others[int(self.rng.integers(len(others)))] for _ in range(self.pick(1, 2))]
        return self.node("concat", (x, *chosen), ConcatAttrs(axis))

    def _split(self, x: Tensor) -> bool:
        axis = self.pick(1, 3, 3)
        if x.shape[axis] < 2:
            return False
        at = int(self.rng.integers(1, x.shape[axis]))
        return self.node("split", (x,), SplitAttrs(axis, (at, x.shape[axis] - at)))

    def _pad(self, x: Tensor) -> bool:
        rows = self.rng.integers(0, 3, 4).tolist()
        attrs = PadAttrs((0, *rows[:2], 0), (0, *rows[2:], 0), value=float(self.zero))
        return self.node("pad", (x,), attrs)

    def _logistic(self, x: Tensor) -> bool:
        return self.node("logistic", (x,))

    def _relu(self, x: Tensor) -> bool:
        return self.node("relu", (x,))

    def graph(self) -> Graph:
        read = {name for node in self.nodes for name in node.inputs}
        outs = tuple(o for node in self.nodes for o in node.outputs if o not in read)
        used = {n for node in self.nodes for n in (*node.input_names, *node.outputs)}
        tensors = {n: t for n, t in self.tensors.items() if n in used}
        made = Graph("random", tensors, tuple(self.nodes), ("x",), outs)
        verify(made)
        return made


def network(seed: int, dtype: DType) -> Graph | None:
    """A network of three to ten operators; None when none of them takes the input."""
    made = Random(seed, dtype)
    for _ in range(int(made.rng.integers(3, 11))):
        made.grow(str(made.rng.choice(KINDS)))
    if not made.nodes or not any("x" in node.inputs for node in made.nodes):
        return None
    return made.graph()


def random_runs(schedule: Schedule, seed: int) -> list[Stripes]:
    """Runs anywhere in the parts that can be cut, in stripes of any height."""
    rng = np.random.default_rng(seed)
    tiler, chosen = Tiler(schedule), []
    for first, end in tiler.segments():
        at = first + int(rng.integers(0, end - first - 1))
        while end - at >= 2:
            stop = int(rng.integers(at + 2, end + 1))
            members = [row for row in tiler.rows[at:stop] if row is not None]
            lines = int(rng.integers(1, members[0].rows + 1))
            chosen.append(Run(schedule, members).stripes(lines))
            at = stop + int(rng.integers(0, 2))
    return chosen


def tensors_of(graph: Graph, schedule: Schedule) -> dict[str, Array]:
    plan = plan_memory(schedule, BOARD)
    verify_plan(schedule, plan, BOARD)
    sample = random_inputs(graph, np.random.default_rng(7))
    return dict(HostBoard(graph, schedule, plan).run(sample, capture=True).tensors)


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.FLOAT32])
@given(st.integers(0, 1 << 32))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_any_network_in_any_stripes(dtype: DType, seed: int) -> None:
    graph = network(seed, dtype)
    if graph is None:
        return
    whole = lower(graph, map_graph(graph, BOARD), BOARD)
    want = tensors_of(graph, whole)
    least = tile_least(whole)
    variants = [tile(whole, random_runs(whole, seed)), best_order(whole).schedule]
    if least is not None:
        assert least.after == bytes_needed(least.schedule) < least.before
        variants.append(least.schedule)
    for schedule in variants:
        assert schedule.macs == whole.macs
        got = tensors_of(graph, schedule)
        assert set(got) == set(want)
        for name, values in want.items():
            assert got[name].tobytes() == values.tobytes(), name


@pytest.mark.parametrize("dtype", [DType.INT8, DType.INT16, DType.FLOAT32])
def test_the_networks_have_what_they_should(dtype: DType) -> None:
    """Every operator is cut into stripes in every type, in networks with branches."""
    cut: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    branches = 0
    for seed in range(120):
        graph = network(seed, dtype)
        if graph is None:
            continue
        whole = lower(graph, map_graph(graph, BOARD), BOARD)
        for stripes in random_runs(whole, seed):
            if len(stripes.ends) > 1:
                cut.update({whole.steps[n].op for n in range(stripes.first, stripes.end)})
                kernels.update({whole.steps[n].kernel for n in range(stripes.first, stripes.end)})
        read = Counter(n for node in graph.nodes for n in node.input_names)
        branches += max(read.values()) > 1
    assert set(cut) == {
        "conv2d", "depthwise_conv2d", "transpose_conv2d", "max_pool2d", "average_pool2d",
        "resize", "add", "mul", "concat", "split", "pad", "logistic", "relu",
    }  # fmt: skip
    assert kernels["resize_nearest"]
    bilinear = any(name.startswith("resize_bilinear") for name in kernels)
    assert bilinear == (dtype is not DType.INT16)
    assert branches > 40
