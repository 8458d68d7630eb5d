"""Rules measured on inputs that the user gives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from npuforge.graph import Array, ConvAttrs, Graph, Node
from npuforge.lint.findings import Hit, LintRule
from npuforge.lint.rules_graph import each_node, quantised_range
from npuforge.lint.subject import Range, Subject
from npuforge.passes import CHANNEL_AXIS
from npuforge.vocab import DType, Severity

SHARE_OUTSIDE = 0.01
"""Share of input values beyond the quantised range from which they are named."""
NARROW = 0.25
"""Share of the quantised range an input should use at least."""
PIXELS = 128
"""Output positions of a layer and sample at which sums are computed."""
LIMIT = (1 << 15) - 1
"""Largest 16-bit partial sum."""


def _fault(subject: Subject) -> Iterator[Hit]:
    if subject.sample_fault is not None:
        fault = subject.sample_fault
        yield str(fault.params.get("tensor", subject.file.name)), {"reason": fault.message}


def _given(subject: Subject) -> Iterator[tuple[str, Array, Range]]:
    """Inputs that hold something, with the range they are quantised over."""
    if subject.graph is not None:
        for name, values in subject.given.items():
            limits = quantised_range(subject.graph, name)
            if limits is not None and values.size:
                yield name, values, limits


def _outside(subject: Subject) -> Iterator[Hit]:
    for name, values, limits in _given(subject):
        real = values.astype(np.float64)
        step = (limits[1] - limits[0]) / 255.0
        outside = float(((real < limits[0] - step) | (real > limits[1] + step)).mean())
        if outside > SHARE_OUTSIDE:
            yield (
                name,
                {
                    "share": f"{outside:.0%}",
                    "low": f"{limits[0]:.3g}",
                    "high": f"{limits[1]:.3g}",
                    "least": f"{real.min():.3g}",
                    "most": f"{real.max():.3g}",
                },
            )


def _narrow(subject: Subject) -> Iterator[Hit]:
    for name, values, limits in _given(subject):
        used = float(values.max() - values.min()) / (limits[1] - limits[0])
        if used < NARROW:
            yield (
                name,
                {
                    "share": f"{used:.0%}",
                    "low": f"{limits[0]:.3g}",
                    "high": f"{limits[1]:.3g}",
                },
            )


def _accumulator(subject: Subject) -> Iterator[Hit]:
    for graph, node in each_node(subject):
        if not _is_layer(graph, node):
            continue
        found = overflow(graph, node, [value[str(node.inputs[0])] for value in subject.values])
        if found is not None and found[0] > 0:
            yield node.name, {"share": f"{found[0]:.1%}", "largest": f"{found[1]:.2f}"}


def _is_layer(graph: Graph, node: Node) -> bool:
    if node.op not in ("conv2d", "depthwise_conv2d", "fully_connected"):
        return False
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    return (
        x.dtype is DType.INT8
        and w.is_constant
        and w.dtype is DType.INT8
        and (x.quantization is not None)
    )


def overflow(graph: Graph, node: Node, inputs: list[Array]) -> tuple[float, float] | None:
    """How often the 16-bit sum behind a layer's first shift saturates.

    The shift is the one ST's compiler derives from the weights alone: the bits of the largest sum
    of a kernel's weights, less 7 (exact for 242 of 242 convolutions of three compiled networks).

    Args:
        graph: the network.
        node: convolution, depthwise convolution or fully connected layer on int8.
        inputs: stored values of its input, one array a sample.

    Returns:
        The share of sums that saturate, and the largest sum over the limit; None without inputs.
    """
    if not inputs:
        return None
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    weights = w.array.astype(np.int64)
    if w.quantization is not None and not w.quantization.is_per_channel:
        weights = weights - w.quant.z
    axis = CHANNEL_AXIS[node.op]
    others = tuple(i for i in range(weights.ndim) if i != axis)
    shift = max(0, int(np.abs(weights.sum(axis=others)).max()).bit_length() - 7)
    rng = np.random.default_rng(1)
    saturated = total = 0
    largest = 0.0
    for values in inputs:
        sums = np.abs(_sums(node, values.astype(np.int64) - x.quant.z, weights, rng))
        # half away from zero
        rounded = (sums + (1 << shift >> 1)) >> shift
        saturated += int((rounded > LIMIT).sum())
        total += rounded.size
        largest = max(largest, float(rounded.max(initial=0)) / LIMIT)
    return saturated / max(total, 1), largest


def _sums(
    node: Node, x: npt.NDArray[np.int64], w: npt.NDArray[np.int64], rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Exact sums of products at some output positions: [positions, channels]."""
    if node.op == "fully_connected":
        rows: npt.NDArray[np.int64] = x.reshape(-1, w.shape[1]) @ w.T
        return rows
    attrs = node.attrs
    assert isinstance(attrs, ConvAttrs)
    top, bottom, left, right = attrs.padding
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    kernel = w.shape[1:3]
    span = [(k - 1) * d + 1 for k, d in zip(kernel, attrs.dilation, strict=True)]
    counts = [
        (n - s) // step + 1
        for n, s, step in zip(padded.shape[1:3], span, attrs.stride, strict=True)
    ]
    places = rng.choice(counts[0] * counts[1], min(PIXELS, counts[0] * counts[1]), replace=False)
    windows = np.stack(
        [
            padded[
                0,
                (p // counts[1]) * attrs.stride[0] :: attrs.dilation[0],
                (p % counts[1]) * attrs.stride[1] :: attrs.dilation[1],
            ][: kernel[0], : kernel[1]]
            for p in places
        ]
    )
    if node.op == "depthwise_conv2d":
        wide = np.repeat(windows, w.shape[3] // windows.shape[3], axis=3)
        deep: npt.NDArray[np.int64] = np.einsum("pijc,ijc->pc", wide, w[0])
        return deep
    groups = np.split(windows, attrs.groups, axis=3)
    parts = np.split(w, attrs.groups, axis=0)
    sums = [
        g.reshape(len(places), -1) @ part.reshape(part.shape[0], -1).T
        for g, part in zip(groups, parts, strict=True)
    ]
    return np.concatenate(sums, axis=1)


_WARNING = Severity.WARNING
ARITHMETIC = "Neural-ART arithmetic, reproduced against board outputs and compiled networks"

RULES: tuple[LintRule, ...] = (
    LintRule("LINT-sample-shape", Severity.ERROR, "published case K18", _fault),
    LintRule("LINT-sample-range", _WARNING, "field practice: normalisation", _outside, True),
    LintRule("LINT-sample-narrow", _WARNING, "field practice: normalisation", _narrow, True),
    LintRule("LINT-accumulator", _WARNING, ARITHMETIC, _accumulator, True),
)
