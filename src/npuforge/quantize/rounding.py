"""Weights rounded so that the layer's output, not each weight, has the least error.

Each weight of an output is rounded in turn, and its error is made good by those that are not
rounded yet: the least-squares step of the optimal brain surgeon (Hassibi and Stork, 1993), in the
fixed order and with the Cholesky factor of Frantar et al., "GPTQ" (2022).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from npuforge.graph import Array, Graph, Node
from npuforge.passes import CHANNEL_AXIS
from npuforge.quantize.statistics import LayerInput, mean_error
from npuforge.quantize.weights import along

Double = npt.NDArray[np.float64]
_DAMPING = 0.01
"""Share of the mean second moment that is added to its diagonal."""


def rounded(graph: Graph, node: Node, statistics: LayerInput, scales: Double, bits: int) -> Array:
    """Stored weights of a layer, of the weights' shape.

    Args:
        graph: prepared float graph.
        node: a layer.
        statistics: of its input.
        scales: of its weights, one a channel or one in all.
        bits: of the weights.
    """
    w = graph.tensor(node.inputs[1]).array.astype(np.float64)
    most = (1 << (bits - 1)) - 1
    axis = CHANNEL_AXIS[node.op]
    channels = w.shape[axis]
    steps = np.moveaxis(w, axis, 0).reshape(channels, -1)
    steps = steps / np.broadcast_to(scales, (channels,))[:, None]
    moment = statistics.moment
    if moment is None or (moment.ndim == 2 and moment.shape[0] != steps.shape[1]):
        found = _nearest(steps, most)
    elif node.op == "depthwise_conv2d":
        repeat = channels // moment.shape[0]
        found = np.stack(
            [_compensated(steps[i : i + 1], moment[i // repeat], most)[0] for i in range(channels)]
        )
    else:
        found = _compensated(steps, moment, most)
    shape = (channels, *np.delete(np.array(w.shape), axis))
    restored = np.moveaxis(found.reshape(shape), 0, axis)
    return np.ascontiguousarray(restored.astype(np.int8))


def _nearest(steps: Double, most: int) -> Double:
    return np.asarray(np.clip(np.rint(steps), -most, most))


def _compensated(steps: Double, moment: Double, most: int) -> Double:
    """Rows of weights in steps, rounded column by column with the rest corrected."""
    depth = steps.shape[1]
    size = float(np.trace(moment)) / depth
    if size == 0.0:
        return _nearest(steps, most)
    try:
        inverse = np.linalg.inv(moment + np.eye(depth) * size * _DAMPING)
        upper = np.linalg.cholesky((inverse + inverse.T) / 2).T
    except np.linalg.LinAlgError:
        return _nearest(steps, most)
    left, found = steps.copy(), np.empty_like(steps)
    for k in range(depth):
        found[:, k] = _nearest(left[:, k], most)
        error = (left[:, k] - found[:, k]) / upper[k, k]
        left[:, k + 1 :] -= np.outer(error, upper[k, k + 1 :])
    return found


def bias_correction(
    graph: Graph, node: Node, statistics: LayerInput, stored: Array, scales: Double
) -> Double:
    """What must be added to the bias so that the outputs' means stay, one an output channel."""
    w = graph.tensor(node.inputs[1]).array.astype(np.float64)
    error = stored.astype(np.float64) * along(scales, w.ndim, CHANNEL_AXIS[node.op]) - w
    return -mean_error(node, statistics, error)
