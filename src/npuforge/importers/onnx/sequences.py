"""Windows over one axis (Conv1d and pools of sequences) as windows over images of one row.

Kernels know images only. A row axis is put before and taken away behind, which moves no byte, and
the window's attributes get the row's part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npuforge.graph import Array, Names
from npuforge.importers.onnx.records import AttrValue, RawNode, RawOnnx

_WINDOWS = frozenset({"Conv", "ConvTranspose", "MaxPool", "AveragePool"})
_ROW_AXIS = 2
# attributes with one number an axis, and the row's part of each
_BY_AXIS = {"kernel_shape": 1, "strides": 1, "dilations": 1, "output_padding": 0, "output_shape": 1}


def as_images(model: RawOnnx) -> RawOnnx:
    """The model with every window over one axis made one over two; others stay as they are."""
    rewriting = _Rewriting(model)
    if not any(rewriting.is_sequence(node) for node in model.nodes):
        return model
    for node in model.nodes:
        if rewriting.is_sequence(node):
            rewriting.take(node)
        else:
            rewriting.add(node)
    return replace(model, nodes=tuple(rewriting.nodes), constants=rewriting.constants)


class _Rewriting:
    def __init__(self, model: RawOnnx) -> None:
        self.constants: dict[str, Array] = dict(model.constants)
        self.nodes: list[RawNode] = []
        self._makers = {name: node for node in model.nodes for name in node.outputs}
        used = {name for node in model.nodes for name in (*node.inputs, *node.outputs)}
        self._names = Names(used | set(self.constants))
        self._images: dict[str, str] = {}

    def is_sequence(self, node: RawNode) -> bool:
        """Whether a node's window has one axis: by its kernel, else by its weights."""
        if node.op not in _WINDOWS or node.domain or not node.inputs:
            return False
        kernel = node.attrs.get("kernel_shape")
        if isinstance(kernel, tuple) and kernel:
            return len(kernel) == 1
        weights = self._stored(node.inputs[1]) if len(node.inputs) > 1 else None
        return weights is not None and weights.ndim == 3

    def _stored(self, name: str) -> Array | None:
        """The array of weights, which may be quantised; None when they are computed."""
        maker = self._makers.get(name)
        if maker is not None and maker.op == "DequantizeLinear" and maker.inputs:
            name = maker.inputs[0]
        return self.constants.get(name)

    def take(self, node: RawNode) -> None:
        """Append the node between the two changes of shape."""
        image, result = (
            self._names.fresh(f"{name}/image") for name in (node.inputs[0], node.outputs[0])
        )
        axes: dict[str, AttrValue] = {"axes": (_ROW_AXIS,)}
        self._append(node, "Unsqueeze", (node.inputs[0],), image, axes)
        inputs = [image, *node.inputs[1:]]
        if node.op.startswith("Conv") and len(inputs) > 1:
            inputs[1] = self._weights(inputs[1])
        outputs = (result, *node.outputs[1:])
        self.add(replace(node, inputs=tuple(inputs), outputs=outputs, attrs=_widened(node.attrs)))
        self._append(node, "Squeeze", (result,), node.outputs[0], axes)

    def _weights(self, name: str) -> str:
        """Weights with a row axis; computed ones stay, to be refused by name."""
        stored = self._stored(name)
        if stored is None or stored.ndim != 3:
            return name
        if name in self._images:
            return self._images[name]
        image = self._names.fresh(f"{name}/image")
        maker = self._makers.get(name)
        array = stored.reshape(*stored.shape[:_ROW_AXIS], 1, *stored.shape[_ROW_AXIS:])
        if maker is None:
            self.constants[image] = array
        else:
            integers = self._names.fresh(f"{maker.inputs[0]}/image")
            self.constants[integers] = array
            attrs = dict(maker.attrs)
            axis = attrs.get("axis", 1)
            if isinstance(axis, int):
                axis %= stored.ndim
                attrs["axis"] = axis + (axis >= _ROW_AXIS)
            self._append(maker, maker.op, (integers, *maker.inputs[1:]), image, attrs)
        self._images[name] = image
        return image

    def add(self, node: RawNode) -> None:
        """Append a node under its new position."""
        self.nodes.append(replace(node, index=len(self.nodes)))

    def _append(
        self,
        node: RawNode,
        op: str,
        inputs: Sequence[str],
        output: str,
        attrs: Mapping[str, AttrValue],
    ) -> None:
        name = f"{node.name}/{op}"
        self.add(RawNode(0, name, op, "", tuple(inputs), (output,), attrs))


def _widened(attrs: Mapping[str, AttrValue]) -> dict[str, AttrValue]:
    """Window attributes with the row's part first."""
    made = dict(attrs)
    for key, value in attrs.items():
        if isinstance(value, tuple) and len(value) == 1 and key in _BY_AXIS:
            made[key] = (_BY_AXIS[key], int(value[0]))
        elif key == "pads" and isinstance(value, tuple) and len(value) == 2:
            made[key] = (0, int(value[0]), 0, int(value[1]))
    return made
