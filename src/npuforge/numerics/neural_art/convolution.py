"""Convolution layers made ready to run: weights as the accelerators take them, then the stages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from npuforge import _native
from npuforge.graph import Array, ConvAttrs, Graph, Node, TransposeConvAttrs
from npuforge.numerics.neural_art.choices import ConvChoice, Form, bounds, parts
from npuforge.numerics.neural_art.requant import ConvConstants, conv_constants
from npuforge.numerics.neural_art.rules import form_of
from npuforge.numerics.neural_art.units import Ints, Pair, accumulated, requantised

LIMIT = 1 << 31
CHAIN_LIMIT = 1 << 23
Counts = tuple[int, int, int, int]
"""16-bit sums at a limit, intermediates and results that were limited, largest sum."""


@dataclass(frozen=True, eq=False)
class ConvLayer:
    """Weights and geometry of a node that the convolution accelerators compute.

    Attributes:
        weights: outputs, rows, columns, channels of a group; depthwise: rows, columns, outputs.
        depthwise: whether each channel has kernels of its own.
        groups: channel groups.
        stride: rows, columns.
        dilation: rows, columns.
        padding: top, bottom, left, right; negative numbers cut.
        spread: rows and columns from one input value to the next (transposed convolution).
        shape: images, rows, columns and channels of the input.
        out: rows and columns of the output.
        zero: zero point of the input.
    """

    weights: Ints
    depthwise: bool
    groups: int
    stride: Pair
    dilation: Pair
    padding: tuple[int, int, int, int]
    spread: Pair
    shape: tuple[int, int, int, int]
    out: Pair
    zero: int

    @property
    def map_shape(self) -> tuple[int, int, int]:
        """Rows, columns and channels of the padded map."""
        top, bottom, left, right = self.padding
        rows = (self.shape[1] - 1) * self.spread[0] + 1 + top + bottom
        columns = (self.shape[2] - 1) * self.spread[1] + 1 + left + right
        channels = self.weights.shape[2] if self.depthwise else self.shape[3]
        return rows, columns, channels

    def map_of(self, image: Array) -> npt.NDArray[np.int16]:
        """The padded map of one image: zero point subtracted, int16."""
        values = image.astype(np.int16) - np.int16(self.zero)
        if self.spread != (1, 1):
            rows = (values.shape[0] - 1) * self.spread[0] + 1
            columns = (values.shape[1] - 1) * self.spread[1] + 1
            spread = np.zeros((rows, columns, values.shape[2]), np.int16)
            spread[:: self.spread[0], :: self.spread[1]] = values
            values = spread
        if self.depthwise and self.weights.shape[2] != values.shape[2]:
            values = np.repeat(values, self.weights.shape[2] // values.shape[2], axis=2)
        if any(self.padding):
            cut = [max(0, -p) for p in self.padding]
            rows, columns = values.shape[:2]
            values = values[cut[0] : rows - cut[1], cut[2] : columns - cut[3]]
            top, bottom, left, right = (max(0, p) for p in self.padding)
            values = np.pad(values, ((top, bottom), (left, right), (0, 0)))
        return np.ascontiguousarray(values)


def conv_layer(graph: Graph, node: Node) -> ConvLayer:
    """The layer of a convolution, depthwise, transposed or fully connected node."""
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y, attrs = graph.tensor(node.outputs[0]), node.attrs
    weights = w.array.astype(np.int64)
    if isinstance(attrs, TransposeConvAttrs):
        rows, columns = w.shape[1:3]
        out = (y.shape[1], y.shape[2])
        top, left = rows - 1 - attrs.padding[0], columns - 1 - attrs.padding[2]
        spread = [(n - 1) * s + 1 for n, s in zip(x.shape[1:3], attrs.stride, strict=True)]
        bottom, right = out[0] + rows - 1 - spread[0] - top, out[1] + columns - 1 - spread[1] - left
        return ConvLayer(
            weights[:, ::-1, ::-1], False, 1, (1, 1), (1, 1), (top, bottom, left, right),
            attrs.stride, _four(x.shape), out, x.quant.z,
        )  # fmt: skip
    if isinstance(attrs, ConvAttrs):
        depthwise = node.op == "depthwise_conv2d"
        return ConvLayer(
            weights[0] if depthwise else weights, depthwise, attrs.groups, attrs.stride,
            attrs.dilation, attrs.padding, (1, 1), _four(x.shape), (y.shape[1], y.shape[2]),
            x.quant.z,
        )  # fmt: skip
    rows = x.size // w.shape[-1]
    weights = weights.reshape(w.shape[0], 1, 1, w.shape[-1])
    shape = (1, 1, rows, w.shape[-1])
    return ConvLayer(
        weights, False, 1, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), shape, (1, rows), x.quant.z
    )


def _four(shape: tuple[int, ...]) -> tuple[int, int, int, int]:
    n, rows, columns, channels = shape
    return n, rows, columns, channels


def node_constants(graph: Graph, node: Node, form: Form | None = None) -> ConvConstants:
    """Requantisation constants of a convolution or fully connected node, from the model alone."""
    x, w = graph.tensor(node.inputs[0]), graph.tensor(node.inputs[1])
    y = graph.tensor(node.outputs[0])
    weights = w.array.astype(np.int64)
    if node.op == "depthwise_conv2d":
        sums = weights.reshape(-1, w.shape[-1]).sum(axis=0)
    else:
        sums = weights.reshape(w.shape[0], -1).sum(axis=1)
    bias = np.zeros(sums.size, np.int64)
    bias_scale = x.quant.s * w.quant.scale
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        stored = graph.tensor(node.inputs[2])
        bias = stored.array.astype(np.int64).reshape(-1)
        if stored.quantization is not None:
            bias_scale = stored.quantization.scale
    return conv_constants(
        in_scale=x.quant.s,
        weight_scale=w.quant.scale,
        out_scale=y.quant.s,
        out_zero=y.quant.z,
        weight_sums=sums,
        bias=bias,
        bias_scale=bias_scale,
        form=form_of(node.contract) if form is None else form,
    )


class Convolver:
    """Runs one layer: native code where every intermediate fits its types, numpy otherwise.

    Args:
        layer: weights and geometry.
        choice: lowering.
        constants: requantisation.
        limits: smallest and largest stored output.
        native: None decides by the numbers; False takes the numpy form; "portable" the native
            loops without vector instructions.
    """

    def __init__(
        self,
        layer: ConvLayer,
        choice: ConvChoice,
        constants: ConvConstants,
        limits: Pair,
        native: bool | str | None = None,
    ) -> None:
        self.layer = layer
        self._limits = limits
        size = layer.weights.shape[2 if layer.depthwise else 0] // layer.groups
        self._groups = []
        for n in range(layer.groups):
            part = slice(n * size, (n + 1) * size)
            c = replace(constants, gain=constants.gain[part], offset=constants.offset[part])
            weights = layer.weights if layer.depthwise else layer.weights[part]
            loops = None
            if native is not False and _fits(
                _sum_bounds(weights, layer.depthwise, choice), choice, c
            ):
                loops = _loops(layer, weights, choice, c, limits, native == "portable")
            self._groups.append((weights, choice, c, loops))

    def run(self, x: Array) -> tuple[Array, Counts]:
        """All images; int8 of shape images, rows, columns, outputs, and what was limited."""
        layer = self.layer
        results, counts = [], []
        for image in x.reshape(layer.shape):
            padded = layer.map_of(image)
            made = [self._group(n, padded) for n in range(layer.groups)]
            results.append(np.concatenate([m[0] for m in made], axis=-1))
            counts += [m[1] for m in made]
        totals = [sum(c[i] for c in counts) for i in range(3)]
        return np.stack(results), (*totals, max(c[3] for c in counts))  # type: ignore[return-value]

    def _group(self, n: int, padded: npt.NDArray[np.int16]) -> tuple[Array, Counts]:
        weights, choice, c, loops = self._groups[n]
        layer = self.layer
        if layer.groups > 1:
            size = weights.shape[3]
            padded = np.ascontiguousarray(padded[..., n * size : (n + 1) * size])
        if loops is not None:
            y = np.empty((*layer.out, c.gain.size), np.int8)
            return y, loops.run(padded, y)
        y1 = accumulated(
            padded.astype(np.int64), weights, layer.stride, layer.dilation, layer.out,
            layer.depthwise, c.outshift, choice,
        )  # fmt: skip
        middle, final = requantised(y1, c)
        limited = np.clip(final, *self._limits)
        counts = (
            int(np.count_nonzero((y1 == 32767) | (y1 == -32768))),
            int(np.count_nonzero((middle > 32767) | (middle < -32768))),
            int(np.count_nonzero(limited != final)),
            int(np.abs(y1).max(initial=0)),
        )
        return limited.astype(np.int8), counts


def _sum_bounds(weights: Ints, depthwise: bool, choice: ConvChoice) -> list[int]:
    """Largest magnitude that the sum of each link can have; operands have at most 9 bits."""
    if depthwise:
        return [255 * int(np.abs(weights).sum(axis=(0, 1)).max(initial=0))]
    limits = bounds(weights.shape[3], choice)
    by_channel = np.abs(weights).sum(axis=(1, 2))
    return [255 * int(by_channel[:, a:b].sum(axis=1).max(initial=0)) for a, b in pairwise(limits)]


def _pass_bounds(sums: list[int], chain: int, outshift: int) -> list[list[int]]:
    """Largest magnitudes after each link of each pass, were nothing limited."""
    found = []
    for start in range(0, len(sums), chain):
        total = 1 << (15 + outshift) if start else 0
        found.append([total := total + s for s in sums[start : start + chain]])
    return found


def _fits(sums: list[int], choice: ConvChoice, c: ConvConstants) -> bool:
    """Whether 32 bits hold every sum."""
    largest = max(after[-1] for after in _pass_bounds(sums, choice.chain, c.outshift))
    return c.outshift < 16 and largest + CHAIN_LIMIT + (1 << c.outshift) < LIMIT


def _narrow(c: ConvConstants) -> bool:
    """Whether 32 bits hold the requantisation stages."""
    shifts = (c.gain_shift, c.global_shift)
    offset = int(np.abs(c.offset).max(initial=0))
    return all(0 < s < 30 for s in shifts) and (1 << 30) + offset + (1 << max(shifts)) < LIMIT


def _loops(
    layer: ConvLayer,
    weights: Ints,
    choice: ConvChoice,
    c: ConvConstants,
    limits: Pair,
    portable: bool,
) -> _native.NeuralArtConvolution:
    rows, columns, channels = layer.map_shape
    slices = (0, channels) if layer.depthwise else bounds(weights.shape[3], choice)
    passes = 1 if layer.depthwise else choice.passes
    sums = _sum_bounds(weights, layer.depthwise, choice)
    if not layer.depthwise and _chain_is_exact(sums, choice, c.outshift):
        slices = slices[:: choice.chain]
    four = weights[None] if layer.depthwise else weights
    geometry = (
        *(rows, columns, layer.weights.shape[2] if layer.depthwise else weights.shape[3]),
        *layer.out,
        *layer.stride,
        *layer.dilation,
    )
    stages = (
        *(c.outshift, int(c.form is Form.TWO_STAGE), int(not _narrow(c))),
        *(c.gain_shift, c.global_gain, c.global_shift, *limits),
    )
    return _native.NeuralArtConvolution(
        np.ascontiguousarray(four, np.int16),
        layer.depthwise,
        np.array(geometry, np.int32),
        np.array(parts(choice), np.int32).reshape(-1),
        np.array(slices, np.int32),
        passes,
        np.array(stages, np.int32),
        c.gain.astype(np.int32),
        np.ascontiguousarray(c.offset, np.int64),
        portable,
    )


def _chain_is_exact(sums: list[int], choice: ConvChoice, outshift: int) -> bool:
    """Whether no sum handed along a chain can saturate at 24 bits: the chain is one slice then."""
    after = _pass_bounds(sums, choice.chain, outshift)
    return all(total < CHAIN_LIMIT for links in after for total in links[:-1])
