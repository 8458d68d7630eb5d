"""How far a convolution on the chip may be from its real-valued result, derived stage by stage.

Nothing here reads a program's constants: the stages are bounded by the rule that makes them
(`requant.conv_constants`), half a unit a rounding. A gain that is wrong by more than that is
outside, whatever the program says.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from npuforge.graph import Array, Graph, Node
from npuforge.numerics.neural_art.choices import ConvChoice, Form, bounds, parts
from npuforge.numerics.neural_art.convolution import (
    CHAIN_LIMIT,
    ConvLayer,
    conv_layer,
    node_constants,
)
from npuforge.numerics.neural_art.requant import COEFFICIENTS, ConvConstants
from npuforge.numerics.neural_art.units import Ints, exact_sums

Reals = npt.NDArray[np.float64]
SINGLE = 2.0**-23
"""Relative error of a constant that passes through single precision."""
TOP, BOTTOM = 32767.0, -32768.0


@dataclass(frozen=True, eq=False)
class _Sum:
    """Sums in units of 2^OUTSHIFT: real value, and how far the chip's 16-bit sum may be off."""

    value: Reals
    error: Reals


def convolution_bound(
    graph: Graph, node: Node, choice: ConvChoice, low: Array, high: Array
) -> tuple[Reals, Reals]:
    """The real-valued result in output steps, and the largest error of the chip's.

    Args:
        graph: of the node.
        node: a convolution, depthwise, transposed or fully connected layer.
        choice: its lowering: form, passes, chain and kernel parts.
        low: smallest stored value of every input.
        high: largest stored value of every input.

    Returns:
        Both of the output's shape, before the limits of the output. The error holds wherever both
        are limited alike, since limiting brings no two numbers further apart.
    """
    layer = conv_layer(graph, node)
    constants = node_constants(graph, node, choice.form)
    both = []
    for one, other in zip(low.reshape(layer.shape), high.reshape(layer.shape), strict=True):
        both.append(_image(layer, choice, constants.outshift, one, other))
    found = _Sum(np.stack([b.value for b in both]), np.stack([b.error for b in both]))
    value, error = _requantised(graph, node, constants, found)
    shape = graph.tensor(node.outputs[0]).shape
    return value.reshape(shape), error.reshape(shape)


def _image(layer: ConvLayer, choice: ConvChoice, outshift: int, low: Array, high: Array) -> _Sum:
    maps = [layer.map_of(image).astype(np.int64) for image in (low, high)]
    found = []
    for n in range(layer.groups):
        weights, pair = layer.weights, maps
        if layer.groups > 1:
            size, channels = weights.shape[0] // layer.groups, weights.shape[3]
            weights = weights[n * size : (n + 1) * size]
            pair = [m[..., n * channels : (n + 1) * channels] for m in maps]
        found.append(_group(layer, weights, choice, outshift, pair[0], pair[1]))
    return _Sum(*(np.concatenate([getattr(f, k) for f in found], -1) for k in ("value", "error")))


def _group(
    layer: ConvLayer, weights: Ints, choice: ConvChoice, outshift: int, low: Ints, high: Ints
) -> _Sum:
    """One channel group: parts of the kernel, each its passes, each its chain."""
    unit, rounding = 2.0**-outshift, 0.5 if outshift else 0.0
    doubled, spread = low + high, high - low
    exact = not spread.any()
    limits = (0, low.shape[2]) if layer.depthwise else bounds(low.shape[2], choice)
    links = 1 if layer.depthwise else choice.chain
    window = (layer.stride, layer.dilation, layer.out, layer.depthwise)
    total: _Sum | None = None
    for row, height, column, width in parts(choice):
        rows, columns = slice(row, row + height), slice(column, column + width)
        taps = weights[rows, columns] if layer.depthwise else weights[:, rows, columns]
        views = [
            m[row * layer.dilation[0] :, column * layer.dilation[1] :] for m in (doubled, spread)
        ]
        value: Reals = np.zeros((*layer.out, taps.shape[2 if layer.depthwise else 0]))
        error = np.zeros_like(value)
        for link, (first, last) in enumerate(pairwise(limits)):
            kernel = taps if layer.depthwise else taps[..., first:last]
            value = value + exact_sums(views[0][..., first:last], kernel, *window) * (unit / 2)
            if not exact:
                reach = exact_sums(views[1][..., first:last], np.abs(kernel), *window)
                error = error + reach * (unit / 2)
            if (link + 1) % links:
                top = CHAIN_LIMIT * unit
                error = error + _excess(value, top - unit, -top)
            else:
                error = error + rounding + _excess(value, TOP, BOTTOM)
        if total is None:
            total = _Sum(value, error)
        else:
            value, error = total.value + value, total.error + error
            total = _Sum(value, error + _excess(value, TOP, BOTTOM))
    assert total is not None
    return total


def _excess(value: Reals, top: float, bottom: float) -> Reals:
    """How far the real value is beyond a limit; what comes out is at most that much further off."""
    beyond: Reals = np.maximum(0.0, np.maximum(value - top, bottom - value))
    return beyond


def _requantised(graph: Graph, node: Node, c: ConvConstants, y1: _Sum) -> tuple[Reals, Reals]:
    """The stages behind the 16-bit sum."""
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    out = float(y.quant.s)
    scale = float(x.quant.s) * w.quant.scale.astype(np.float64)
    bias = np.zeros(1)
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        stored = graph.tensor(node.inputs[2])
        held = scale if stored.quantization is None else stored.quantization.scale
        bias = stored.array.astype(np.float64).reshape(-1) * held.astype(np.float64)
    gain = scale * 2.0**c.outshift / out
    offset = bias / out
    real = y1.value * gain + offset + float(y.quant.z)
    unit = 2.0**-c.global_shift
    # the offset is cut to its unit; the bias before it is single precision
    cut = 1.5 * unit + np.abs(offset) * SINGLE
    if c.form is Form.MERGED:
        slack = 0.5 * unit + gain * SINGLE
        error = y1.error * (gain + slack) + np.abs(y1.value) * slack + cut + 0.5
        return real, error
    # the intermediate's step is a power of two: the global gain says which
    step = 2.0 ** np.round(np.log2(c.global_gain * unit * out)) / out
    first = gain / step
    slack = 0.5 * 2.0**-c.gain_shift + first * SINGLE
    middle = y1.value * first
    error = y1.error * (first + slack) + np.abs(y1.value) * slack + 0.5
    error = error + _excess(middle, TOP, BOTTOM)
    coarse = 0.5 * unit + step * SINGLE
    reach = np.minimum(np.abs(middle) + error, -BOTTOM)
    if c.gain.size > COEFFICIENTS:
        # bias and offset are streamed: the bias in steps of the intermediate
        cut = 0.5 * step + (np.abs(offset) / step + 1) * coarse + np.abs(offset) * SINGLE
    return real, error * step + reach * coarse + cut + 0.5
