"""Whether two graphs are the same network: equal up to the names of tensors and nodes."""

from __future__ import annotations

import numpy as np

from npuforge.graph.attrs import Attrs, StateAttrs
from npuforge.graph.types import Graph, Node, Tensor


def first_difference(a: Graph, b: Graph, *, contracts: bool = True) -> str | None:
    """Where two graphs differ first, in words; None when they are the same up to names.

    Nodes are compared in execution order. Names, sources and import statistics do not count.

    Args:
        a: one graph.
        b: the other.
        contracts: whether the nodes' contracts must agree.
    """
    return _Comparison(a, b, contracts).run()


class _Comparison:
    def __init__(self, a: Graph, b: Graph, contracts: bool) -> None:
        self._a, self._b, self._contracts = a, b, contracts
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def run(self) -> str | None:
        a, b = self._a, self._b
        for what, left, right in (
            ("inputs", a.inputs, b.inputs),
            ("nodes", a.nodes, b.nodes),
            ("outputs", a.outputs, b.outputs),
            ("states", a.states, b.states),
        ):
            if len(left) != len(right):
                return f"{len(left)} and {len(right)} {what}"
        found = self._pairs("input", a.inputs, b.inputs)
        for left_node, right_node in zip(a.nodes, b.nodes, strict=True):
            found = found or self._node(left_node, right_node)
        return found or self._pairs("output", a.outputs, b.outputs) or self._states()

    def _pairs(
        self, what: str, left: tuple[str | None, ...], right: tuple[str | None, ...]
    ) -> str | None:
        if len(left) != len(right):
            return f"{what}: {len(left)} and {len(right)} tensors"
        for m, n in zip(left, right, strict=True):
            if m is None or n is None:
                if m is not n:
                    return f"{what}: {m} and {n}"
                continue
            if m in self._names or n in self._taken:
                if self._names.get(m) != n and not self._same_constant(m, n):
                    return f"{what}: {m} is {self._names.get(m)} and {n}"
                continue
            difference = tensor_difference(self._a.tensors[m], self._b.tensors[n])
            if difference is not None:
                return f"{what}: {m} and {n}: {difference}"
            self._names[m] = n
            self._taken.add(n)
        return None

    def _same_constant(self, m: str, n: str) -> bool:
        """Equal constants may be stored once or often."""
        left, right = self._a.tensors[m], self._b.tensors[n]
        both = left.is_constant and right.is_constant
        return both and tensor_difference(left, right) is None

    def _node(self, m: Node, n: Node) -> str | None:
        what = f"node {m.name} ({m.op})"
        if m.op != n.op:
            return f"{what}: the other is {n.op}"
        if not self._same_attrs(m.attrs, n.attrs):
            return f"{what}: {m.attrs} and {n.attrs}"
        if self._contracts and m.contract is not n.contract:
            return f"{what}: {m.contract} and {n.contract}"
        return self._pairs(what, m.inputs, n.inputs) or self._pairs(what, m.outputs, n.outputs)

    def _same_attrs(self, m: Attrs, n: Attrs) -> bool:
        if isinstance(m, StateAttrs) and isinstance(n, StateAttrs):
            return self._pairs("state", (m.variable,), (n.variable,)) is None
        return m == n

    def _states(self) -> str | None:
        for name, initial in self._a.states.items():
            other = self._names.get(name)
            if other is None:
                continue
            if not np.array_equal(initial, self._b.states[other]):
                return f"state {name}: another first value"
        return None


def tensor_difference(a: Tensor, b: Tensor) -> str | None:
    """How two tensors differ apart from their names; None when they do not."""
    if a.shape != b.shape or a.dtype is not b.dtype:
        return f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
    if a.quantization is not None:
        same = a.quantization.same_as(b.quantization)
    else:
        same = b.quantization is None
    if not same:
        return f"{a.quantization} and {b.quantization}"
    if a.is_constant is not b.is_constant:
        return "one of them is constant"
    if a.data is None or b.data is None:
        return None
    if a.data.tobytes() != b.data.tobytes():
        return "other numbers"
    return None
