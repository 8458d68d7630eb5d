"""What the chip may store in a tensor, as an interval a value, from tensors that are known.

The real-valued result of a node is computed from its stored inputs, and the error of all roundings,
constants and limits of the chip's arithmetic is added up. The chip's number lies within; so must
that of a compiled program, or its decoding or the program is wrong. Inner tensors that were never
stored are intervals of integers themselves, and most of them are single numbers.

CPU epochs are bounded by the definition of their operator, rounded once. Function tables are the
compiler's own fit and follow from no rule: a table that is given counts as exact, otherwise
`FUNCTION_ERROR` steps are allowed, the most seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuforge.graph import (
    NUMPY_TYPES,
    Array,
    Graph,
    Node,
    ResizeAttrs,
    SoftmaxAttrs,
    Tensor,
    is_view,
)
from npuforge.numerics.executor import Executor
from npuforge.numerics.neural_art.conv_bound import convolution_bound
from npuforge.numerics.neural_art.pointwise import (
    function_table,
    interpolated,
    resize_coordinates,
    taps,
)
from npuforge.numerics.neural_art.record import Choices
from npuforge.numerics.neural_art.requant import (
    average_multiplier,
    product_constants,
    scale_constants,
    sum_constants,
)
from npuforge.numerics.neural_art.rules import (
    CLIP_OPS,
    CONTRACTS,
    CONV_OPS,
    FUNCTION_ERROR,
    FUNCTION_OPS,
    float_resize,
    output_range,
    same_scale,
    window,
)
from npuforge.numerics.ranges import activation_range
from npuforge.numerics.types import is_int8
from npuforge.vocab import Activation, Contract

Reals = npt.NDArray[np.float64]
_SLACK = 1e-6
"""For the double precision of the bound itself."""
_REAL = 2e-6
"""Relative error of one operator in single precision."""


@dataclass(frozen=True, eq=False)
class Interval:
    """Stored values from ``low`` to ``high``, both included, of the tensor's shape.

    Attributes:
        low: smallest value the chip may store.
        high: largest value the chip may store.
    """

    low: Array
    high: Array

    @property
    def exact(self) -> bool:
        """Whether every value is known."""
        return self.low is self.high or bool(np.array_equal(self.low, self.high))

    def hull(self, other: Interval) -> Interval:
        """The smallest interval with all values of both."""
        return Interval(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def outside(self, values: Array) -> int:
        """How many values are not within."""
        beyond = np.less(values, self.low) | np.greater(values, self.high)
        return int(np.count_nonzero(beyond))


class Enclosure:
    """Intervals of a graph's tensors under a neural_art contract.

    Args:
        graph: with nodes under the contract.
        choices: lowering of its convolutions; tables where a program gives them.
    """

    def __init__(self, graph: Graph, choices: Choices) -> None:
        self.graph, self.choices = graph, choices
        self._makers = {name: node for node in graph.nodes for name in node.outputs}

    def sources(self, name: str, known: frozenset[str]) -> frozenset[str] | None:
        """The known tensors that a tensor is computed from; None when something else is needed.

        A tensor is never its own source here: the question is what its node reads.
        """
        found: set[str] = set()
        waiting, seen = [name], {name}
        while waiting:
            node = self._makers.get(waiting.pop())
            if node is None:
                return None
            for source in node.input_names:
                if self.graph.tensors[source].data is not None or source in seen:
                    continue
                if source in known:
                    found.add(source)
                else:
                    waiting.append(source)
                    seen.add(source)
        return frozenset(found)

    def between(self, name: str, known: frozenset[str]) -> tuple[str, ...]:
        """Names of the nodes that compute a tensor from known ones."""
        return tuple(node.name for node in self._behind(name, known))

    def _behind(self, name: str, known: frozenset[str]) -> tuple[Node, ...]:
        found, waiting, seen = [], [name], {name}
        while waiting:
            node = self._makers.get(waiting.pop())
            if node is None:
                continue
            found.append(node)
            fresh = [
                n
                for n in node.input_names
                if self.graph.tensors[n].data is None and n not in known and n not in seen
            ]
            waiting += fresh
            seen.update(fresh)
        return tuple(found)

    def derived(self, name: str, known: frozenset[str]) -> bool:
        """Whether a tensor's bound follows from the arithmetic alone.

        Not so for function tables that no program gives, slopes made of such tables, and operators
        of the CPU without a rule: their steps are the most that was seen.
        """
        return not any(self._observed(node) for node in self._behind(name, known))

    def _observed(self, node: Node) -> bool:
        if is_view(node) or (node.contract in CONTRACTS and node.op in CONV_OPS):
            return False
        if node.contract in CONTRACTS and node.op in FUNCTION_OPS:
            return node.name not in self.choices.tables
        if self._rule(node) is not None:
            return node.op == "prelu"
        return node.contract is not Contract.EXACT and node.op not in _RISING

    def of(self, name: str, known: Mapping[str, Array]) -> Interval | None:
        """What the chip may store in a tensor when its `known` ancestors are what they are.

        Args:
            name: of the tensor; its own entry in `known` is not used.
            known: stored values of tensors.

        Returns:
            None when it hangs on a tensor that is not known, or on an operator without a bound.
        """
        if self.sources(name, frozenset(known)) is None:
            return None
        held: dict[str, Interval] = {}

        def value(source: str) -> Interval | None:
            tensor = self.graph.tensors[source]
            if tensor.data is not None:
                return Interval(tensor.data, tensor.data)
            if source in known and source != name:
                return Interval(known[source], known[source])
            if source not in held:
                made = self._made(self._makers[source], value)
                if made is None:
                    return None
                held[source] = made
            return held[source]

        return value(name)

    def _made(self, node: Node, value: Callable[[str], Interval | None]) -> Interval | None:
        if len(node.outputs) != 1:
            return None
        inputs = [value(name) for name in node.input_names]
        if any(item is None for item in inputs):
            return None
        return self.node(node, [item for item in inputs if item is not None])

    def node(self, node: Node, inputs: Sequence[Interval]) -> Interval | None:
        """The interval of a node's only output; None when its operator has no bound."""
        y = self.graph.tensor(node.outputs[0])
        if is_view(node):
            return Interval(inputs[0].low.reshape(y.shape), inputs[0].high.reshape(y.shape))
        if node.contract in CONTRACTS and node.op in CONV_OPS:
            choice = self.choices.convolutions[node.name]
            value, error = convolution_bound(
                self.graph, node, choice, inputs[0].low, inputs[0].high
            )
            return self._stored(node, value - error, value + error)
        rule = self._rule(node)
        if rule is not None:
            return rule(node, inputs)
        if node.contract is Contract.EXACT or node.op in _RISING:
            return self._by_kernel(node, inputs)
        return self._near_kernel(node, inputs)

    def _rule(self, node: Node) -> Callable[[Node, Sequence[Interval]], Interval | None] | None:
        if float_resize(self.graph, node):
            return self._resize
        if node.op in ("dequantize", "quantize"):
            return self._conversion
        if node.op == "prelu" and is_int8(self.graph.tensor(node.outputs[0])):
            return self._slope
        if node.op == "softmax":
            return self._softmax
        if node.contract not in CONTRACTS:
            return None
        named = {
            "add": self._sum,
            "sub": self._sum,
            "mul": self._product,
            "minimum": self._extreme,
            "maximum": self._extreme,
            "concat": self._concat,
            **dict.fromkeys(CLIP_OPS, self._clip),
            **dict.fromkeys(FUNCTION_OPS, self._function),
        }
        return named.get(node.op, self._average)

    def _stored(self, node: Node, low: Reals, high: Reals) -> Interval:
        """Integers within real bounds, within the output's range."""
        y = self.graph.tensor(node.outputs[0])
        limits = output_range(self.graph, node) if is_int8(y) else y.dtype.limits
        kind = NUMPY_TYPES[y.dtype]
        first, last = np.ceil(low - _SLACK), np.floor(high + _SLACK)
        return Interval(
            np.clip(first, *limits).astype(kind).reshape(y.shape),
            np.clip(last, *limits).astype(kind).reshape(y.shape),
        )

    def _sum(self, node: Node, inputs: Sequence[Interval]) -> Interval:
        a, b = (self.graph.tensor(name) for name in node.inputs)
        y = self.graph.tensor(node.outputs[0])
        sign = -1.0 if node.op == "sub" else 1.0
        out = float(y.quant.s)
        rx, ry = float(a.quant.s) / out, sign * float(b.quant.s) / out
        c = sum_constants(
            *(float(a.quant.s), a.quant.z, sign * float(b.quant.s), b.quant.z), *(out, y.quant.z)
        )
        offset = y.quant.z - rx * a.quant.z - ry * b.quant.z
        ends = [_scaled(inputs[0], rx), _scaled(inputs[1], ry)]
        # gains half a unit off on stored values up to 128, both cut, the constant rounded
        unit = 2.0**-c.shift
        error = 0.5 + unit * (
            64 * 2.0**-c.ax + 64 * 2.0**-c.by + bool(c.ax) + bool(c.by) + 2.0**c.cs
        )
        low, high = (ends[0][i] + ends[1][i] + offset for i in (0, 1))
        return self._stored(node, low - error, high + error)

    def _product(self, node: Node, inputs: Sequence[Interval]) -> Interval:
        a, b = (self.graph.tensor(name) for name in node.inputs)
        y = self.graph.tensor(node.outputs[0])
        ratio = float(a.quant.s) * float(b.quant.s) / float(y.quant.s)
        x, gate = (b, a) if b.size > a.size else (a, b)
        c = product_constants(
            *(float(x.quant.s), x.quant.z, float(gate.quant.s), gate.quant.z),
            *(float(y.quant.s), y.quant.z),
        ).rescale
        ends = [
            (i.astype(np.float64) - a.quant.z) * (k.astype(np.float64) - b.quant.z)
            for i in (inputs[0].low, inputs[0].high)
            for k in (inputs[1].low, inputs[1].high)
        ]
        low, high = np.minimum.reduce(ends) * ratio, np.maximum.reduce(ends) * ratio
        held = 128.0 * (128 + abs(gate.quant.z))  # largest product less the zero point
        error = (
            0.5
            + ratio * max(0.0, held - 32767)
            + 2.0**-c.shift
            * (held * 0.5 * 2.0**-c.ax + 64 * 2.0**-c.by + bool(c.ax) + bool(c.by) + 2.0**c.cs)
        )
        return self._stored(node, low + y.quant.z - error, high + y.quant.z + error)

    def _rescaled(self, item: Interval, x: Tensor, y: Tensor) -> tuple[Reals, Reals]:
        """Bounds of a tensor on another scale, rounded once; as it is on the same one."""
        low, high = item.low.astype(np.float64), item.high.astype(np.float64)
        if same_scale(x, y):
            return low, high
        ratio = float(x.quant.s) / float(y.quant.s)
        shift = scale_constants(float(x.quant.s), x.quant.z, float(y.quant.s), y.quant.z).shift
        error = 0.5 + 65.5 * 2.0**-shift
        ends = [(v - x.quant.z) * ratio + y.quant.z for v in (low, high)]
        return (
            np.clip(np.ceil(ends[0] - error - _SLACK), -128, 127),
            np.clip(np.floor(ends[1] + error + _SLACK), -128, 127),
        )

    def _extreme(self, node: Node, inputs: Sequence[Interval]) -> Interval:
        y = self.graph.tensor(node.outputs[0])
        pick = np.minimum if node.op == "minimum" else np.maximum
        ends = [
            self._rescaled(item, self.graph.tensor(name), y)
            for item, name in zip(inputs, node.input_names, strict=True)
        ]
        return self._stored(node, pick(ends[0][0], ends[1][0]), pick(ends[0][1], ends[1][1]))

    def _concat(self, node: Node, inputs: Sequence[Interval]) -> Interval:
        y = self.graph.tensor(node.outputs[0])
        axis = node.attrs.axis  # type: ignore[attr-defined]
        ends = [
            self._rescaled(item, self.graph.tensor(name), y)
            for item, name in zip(inputs, node.input_names, strict=True)
        ]
        low, high = (np.concatenate([end[i] for end in ends], axis=axis) for i in (0, 1))
        return self._stored(node, low, high)

    def _clip(self, node: Node, inputs: Sequence[Interval]) -> Interval:
        x, y = self.graph.tensor(node.inputs[0]), self.graph.tensor(node.outputs[0])
        limits = activation_range(y, Activation(node.op))
        low, high = (np.clip(end, *limits) for end in self._rescaled(inputs[0], x, y))
        return self._stored(node, low, high)

    def _function(self, node: Node, inputs: Sequence[Interval]) -> Interval:
        given = self.choices.tables.get(node.name)
        error = FUNCTION_ERROR if given is None else 0
        table = function_table(self.graph, node) if given is None else given
        at = np.arange(-128, 128).astype(np.int8).view(np.uint8)
        ordered = table.astype(np.float64)[at]
        low = ordered[inputs[0].low.astype(np.int64) + 128]
        if inputs[0].exact:
            return self._stored(node, low - error, low + error)
        # smallest and largest of the table over each interval, step by step
        high = low.copy()
        reach = inputs[0].high.astype(np.int64) - inputs[0].low.astype(np.int64)
        for step in range(1, int(reach.max()) + 1):
            place = np.minimum(inputs[0].low.astype(np.int64) + step, inputs[0].high) + 128
            low, high = np.minimum(low, ordered[place]), np.maximum(high, ordered[place])
        return self._stored(node, low - error, high + error)

    def _slope(self, node: Node, inputs: Sequence[Interval]) -> Interval | None:
        """Compilers make it of a table for what is positive, a product for the rest, and a sum."""
        x, alpha, y = (self.graph.tensor(n) for n in (*node.input_names, *node.outputs))
        if alpha.data is None or x.dtype.is_float:
            return None
        slope = _reals(alpha.data, alpha)
        ends = [_reals(value, x) for value in (inputs[0].low, inputs[0].high)]
        made = [np.where(end > 0, end, end * slope) for end in ends]
        # where the interval has both signs, zero is in it
        made.append(np.where((ends[0] < 0) & (ends[1] > 0), 0.0, made[0]))
        steps = [value / float(y.quant.s) + y.quant.z for value in made]
        error = FUNCTION_ERROR + 1.5
        return self._stored(
            node, np.minimum.reduce(steps) - error, np.maximum.reduce(steps) + error
        )

    def _average(self, node: Node, inputs: Sequence[Interval]) -> Interval | None:
        x, y = self.graph.tensor(node.inputs[0]), self.graph.tensor(node.outputs[0])
        found = window(node, x)
        if found is None:
            return None
        (rows, columns), (down, across) = found.kernel, found.stride
        ends = []
        for value in (inputs[0].low, inputs[0].high):
            view = np.lib.stride_tricks.sliding_window_view(value, found.kernel, (1, 2))
            sums = view[:, ::down, ::across].sum(axis=(-2, -1), dtype=np.int64)
            ends.append(sums.astype(np.float64) / (rows * columns))
        multiplier, shift = average_multiplier(rows * columns)
        # the multiplier is rounded: the average is off by that share of itself
        share = abs(multiplier * 2.0**-shift * rows * columns - 1.0)
        if found.kernel != x.shape[1:3]:
            low, high = (np.clip(e, -128, 127) for e in ends)
            held = Interval(
                np.ceil(low - 0.5 - 128 * share - _SLACK),
                np.floor(high + 0.5 + 128 * share + _SLACK),
            )
            return self._stored(node, *self._rescaled(held, x, y))
        ratio = float(x.quant.s) / float(y.quant.s)
        unit = (
            2.0
            ** -scale_constants(
                *(float(x.quant.s), x.quant.z), *(float(y.quant.s), y.quant.z)
            ).shift
        )
        # 16-bit average of 256ths, its gain half a unit off, cut, the offset cut
        error = ratio * (0.5 / 256 + 128 * share) + 64 * unit + 2.5 * unit + 0.5
        low, high = ((e - x.quant.z) * ratio + y.quant.z for e in ends)
        return self._stored(node, low - error, high + error)

    def _resize(self, node: Node, inputs: Sequence[Interval]) -> Interval:
        x, y = self.graph.tensor(node.inputs[0]), self.graph.tensor(node.outputs[0])
        attrs = node.attrs
        assert isinstance(attrs, ResizeAttrs)
        ends = []
        for value in (inputs[0].low, inputs[0].high):
            real = (value.astype(np.float64) - x.quant.z) * float(x.quant.s)
            for axis in (1, 2):
                at = resize_coordinates(attrs.coordinates, x.shape[axis], y.shape[axis])
                real = interpolated(real, axis, taps(real.shape[axis], at))
            ends.append(real / float(y.quant.s) + y.quant.z)
        return self._stored(node, ends[0] - _CPU, ends[1] + _CPU)

    def _conversion(self, node: Node, inputs: Sequence[Interval]) -> Interval | None:
        """Real numbers and steps: each in the other, rounded once."""
        x, y = self.graph.tensor(node.inputs[0]), self.graph.tensor(node.outputs[0])
        ends = [_reals(value, x) for value in (inputs[0].low, inputs[0].high)]
        if y.dtype.is_float:
            reach = np.maximum(np.abs(ends[0]), np.abs(ends[1])) * _REAL
            return Interval(ends[0] - reach, ends[1] + reach)
        if y.quantization is None or y.quantization.scale.size != 1:
            return None
        low, high = (end / float(y.quant.s) + y.quant.z for end in ends)
        if not x.dtype.is_float and float(x.quant.s) == float(y.quant.s):
            return self._stored(node, low, high)
        if is_int8(x) and is_int8(y):
            return self._stored(node, *self._rescaled(inputs[0], x, y))
        return self._stored(node, low - _CPU, high + _CPU)

    def _softmax(self, node: Node, inputs: Sequence[Interval]) -> Interval | None:
        x, y = self.graph.tensor(node.inputs[0]), self.graph.tensor(node.outputs[0])
        if not isinstance(node.attrs, SoftmaxAttrs):
            return None
        low, high = (
            _reals(value, x) * node.attrs.beta for value in (inputs[0].low, inputs[0].high)
        )
        axis = node.attrs.axis
        top = high.max(axis=axis, keepdims=True)
        least, most = np.exp(low - top), np.exp(high - top)
        # a share is smallest with its own number low and all others high
        sums = [v.sum(axis=axis, keepdims=True) for v in (least, most)]
        ends = [least / (sums[1] - most + least), most / (sums[0] - least + most)]
        if y.dtype.is_float:
            return Interval(ends[0] - _REAL, ends[1] + _REAL)
        steps = [end / float(y.quant.s) + y.quant.z for end in ends]
        return self._stored(node, steps[0] - _CPU, steps[1] + _CPU)

    def _by_kernel(self, node: Node, inputs: Sequence[Interval]) -> Interval:
        """Movement of data, and operators that never fall when an input rises: both ends."""
        low = self._run(node, [item.low for item in inputs])
        if all(item.exact for item in inputs):
            return Interval(low, low)
        return Interval(low, self._run(node, [item.high for item in inputs]))

    def _near_kernel(self, node: Node, inputs: Sequence[Interval]) -> Interval | None:
        """An operator of the CPU without a rule here: the model file's result, a step off."""
        y = self.graph.tensor(node.outputs[0])
        if not all(item.exact for item in inputs):
            return None
        value = self._run(node, [item.low for item in inputs]).astype(np.float64)
        if y.dtype.is_float:
            reach = np.maximum(np.abs(value), np.abs(value).max(initial=0.0) * 0.1) * 1e-4
            return Interval(value - reach, value + reach)
        return self._stored(node, value - 1, value + 1)

    def _run(self, node: Node, values: Sequence[Array]) -> Array:
        graph = self.graph
        given = {
            name: value.astype(NUMPY_TYPES[graph.tensors[name].dtype], copy=False)
            for name, value in zip(node.input_names, values, strict=True)
            if graph.tensors[name].data is None
        }
        names = (*node.input_names, *node.outputs)
        tensors = {name: graph.tensors[name] for name in names}
        small = Graph(graph.name, tensors, (node,), tuple(given), node.outputs)
        return Executor(small).run(given)[node.outputs[0]]


_CPU = 0.5 + 1e-3
"""Rounded once from a result in single precision."""
_RISING = frozenset(("max_pool2d", "relu", "relu6", "maximum", "minimum"))


def _scaled(item: Interval, factor: float) -> tuple[Reals, Reals]:
    ends = item.low.astype(np.float64) * factor, item.high.astype(np.float64) * factor
    return ends if factor >= 0 else ends[::-1]


def _reals(value: Array, x: Tensor) -> Reals:
    held = value.astype(np.float64)
    if x.dtype.is_float or x.quantization is None:
        return held
    return (held - x.quant.z) * float(x.quant.s)
