"""Why a convolution on the chip differs from exact arithmetic: the stage that made the difference.

The stages are undone one after the other: with all of them exact the result is the real number's
nearest output; then the shift to 16 bit is let in, then the gain a channel, then the global gain
and offset. A value's difference belongs to the stage from which on it stays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from npuforge.graph import Array, Graph, Node
from npuforge.numerics.neural_art.choices import ConvChoice, Form
from npuforge.numerics.neural_art.convolution import ConvLayer, conv_layer
from npuforge.numerics.neural_art.requant import ConvConstants
from npuforge.numerics.neural_art.rules import output_range
from npuforge.numerics.neural_art.units import Ints, accumulated, exact_sums, requantised

Reals = npt.NDArray[np.float64]


class Stage(StrEnum):
    """Where a value departs from the reference."""

    REFERENCE = "reference"
    """The reference itself is not the nearest output of the exact sum."""
    SHIFT = "shift"
    """Rounding of sums to 16 bit: OUTSHIFT, and every pass and part of a kernel."""
    GAIN = "gain"
    """The 16-bit gain of the channel, and the rounding behind it."""
    GLOBAL = "global"
    """The global gain and offset, and the rounding to 8 bit."""
    SATURATION = "saturation"
    """A 16-bit value at its limit."""
    UNIT = "unit"
    """The single rounding of another unit, or the CPU's."""


def explain_convolution(
    graph: Graph,
    node: Node,
    choice: ConvChoice,
    constants: ConvConstants,
    x: Array,
    reference: Array,
) -> Mapping[Stage, int]:
    """How many values of one convolution each stage moved from a reference's output.

    Args:
        graph: that has the node under a neural_art contract.
        node: the convolution.
        choice: its lowering.
        constants: its requantisation.
        x: stored input.
        reference: stored output to compare with.
    """
    layer = conv_layer(graph, node)
    low, high = output_range(graph, node)
    scale, offset = _real_stages(graph, node)
    parts = [_sums(layer, image, choice, constants) for image in x.reshape(layer.shape)]
    exact, y1 = (np.stack([part[i] for part in parts]) for i in (0, 1))
    middle, final = requantised(y1, constants)
    met = (np.abs(y1) >= 32767) | (np.abs(middle) > 32767)

    def nearest(real: Reals) -> Ints:
        away = np.trunc(real + np.copysign(0.5, real)).astype(np.int64)
        return np.clip(away, low, high)

    stages: list[tuple[Stage, Ints]] = [
        (Stage.REFERENCE, nearest(exact * scale + offset)),
        (Stage.SHIFT, nearest(y1 * 2.0**constants.outshift * scale + offset)),
    ]
    if constants.form is Form.TWO_STAGE:
        step = _step(graph, node, constants)
        stages.append((Stage.GAIN, nearest(np.clip(middle, -32768, 32767) * step + offset)))
        stages.append((Stage.GLOBAL, np.clip(final, low, high)))
    else:
        stages.append((Stage.GAIN, np.clip(final, low, high)))
    wanted = reference.astype(np.int64).reshape(final.shape)
    return _attributed(stages, wanted, met)


def _attributed(
    stages: list[tuple[Stage, Ints]], wanted: Ints, met: npt.NDArray[np.bool_]
) -> dict[Stage, int]:
    left = stages[-1][1] != wanted
    counts = {Stage.SATURATION: int(np.count_nonzero(left & met))}
    left &= ~met
    # backwards: a difference belongs to the earliest stage after which it never goes away
    for (stage, _), (_, before) in zip(stages[:0:-1], stages[-2::-1], strict=True):
        already = before != wanted
        counts[stage] = int(np.count_nonzero(left & ~already))
        left &= already
    counts[stages[0][0]] = int(np.count_nonzero(left))
    return {stage: counts.get(stage, 0) for stage in Stage if stage in counts}


def _sums(
    layer: ConvLayer, image: Array, choice: ConvChoice, c: ConvConstants
) -> tuple[Ints, Ints]:
    """Exact sums and the chip's 16-bit sums of one image."""
    padded = layer.map_of(image).astype(np.int64)
    exact, rounded = [], []
    for n in range(layer.groups):
        weights, part = layer.weights, padded
        if layer.groups > 1:
            size, channels = weights.shape[0] // layer.groups, weights.shape[3]
            weights = weights[n * size : (n + 1) * size]
            part = padded[..., n * channels : (n + 1) * channels]
        window = (layer.stride, layer.dilation, layer.out, layer.depthwise)
        exact.append(exact_sums(part, weights, *window))
        rounded.append(accumulated(part, weights, *window, c.outshift, choice))
    return np.concatenate(exact, axis=-1), np.concatenate(rounded, axis=-1)


def _real_stages(graph: Graph, node: Node) -> tuple[Reals, Reals]:
    """Output steps of one unit of a sum, and the offset in output steps, a channel each."""
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    out = float(y.quant.s)
    product = float(x.quant.s) * w.quant.scale.astype(np.float64)
    offset = np.full(1, float(y.quant.z))
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        bias = graph.tensor(node.inputs[2])
        scale = product if bias.quantization is None else bias.quantization.scale.astype(np.float64)
        offset = offset + bias.array.astype(np.float64).reshape(-1) * scale / out
    return product / out, offset


def _step(graph: Graph, node: Node, c: ConvConstants) -> float:
    """Output steps of one unit of the 16-bit intermediate, whose own step is a power of two."""
    out = float(graph.tensor(node.outputs[0]).quant.s)
    exponent = round(math.log2(c.global_gain * 2.0**-c.global_shift * out))
    return float(2.0**exponent / out)
