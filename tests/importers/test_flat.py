"""The TFLite reader against the classes that the schema compiler generated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite

from npuforge.errors import ModelError
from npuforge.importers.tflite.file import RawTensor, read_tflite

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.tflite"))


def ints(values: Any) -> tuple[int, ...]:
    return () if isinstance(values, int) else tuple(int(v) for v in values)


def text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")


def same_tensor(raw: RawTensor, tensor: Any, model: Any) -> None:
    assert raw.name == text(tensor.Name())
    assert raw.shape == ints(tensor.ShapeAsNumpy())
    assert raw.signature == ints(tensor.ShapeSignatureAsNumpy())
    assert raw.type == tensor.Type()
    assert raw.is_variable == bool(tensor.IsVariable())
    assert raw.is_sparse == (tensor.Sparsity() is not None)
    buffer = model.Buffers(tensor.Buffer())
    stored = b"" if tensor.Buffer() == 0 or buffer.DataLength() == 0 else (
        buffer.DataAsNumpy().tobytes())  # fmt: skip
    assert bytes(raw.data or b"") == stored
    quant = tensor.Quantization()
    if quant is None or quant.ScaleLength() == 0:
        assert raw.quantization is None
        return
    assert raw.quantization is not None
    assert np.array_equal(raw.quantization.scale, quant.ScaleAsNumpy())
    assert raw.quantization.axis == quant.QuantizedDimension()
    if quant.ZeroPointLength() == quant.ScaleLength():
        assert np.array_equal(raw.quantization.zero_point, quant.ZeroPointAsNumpy())
    else:
        assert len(set(raw.quantization.zero_point.tolist())) == 1


def same_file(path: Path) -> None:
    content = path.read_bytes()
    raw = read_tflite(content, path.name)
    model = tflite.Model.GetRootAsModel(content, 0)
    assert raw.description == text(model.Description())
    assert len(raw.subgraphs) == model.SubgraphsLength()
    for number, graph in enumerate(raw.subgraphs):
        theirs = model.Subgraphs(number)
        assert graph.name == text(theirs.Name())
        assert graph.inputs == ints(theirs.InputsAsNumpy())
        assert graph.outputs == ints(theirs.OutputsAsNumpy())
        assert len(graph.tensors) == theirs.TensorsLength()
        for i, tensor in enumerate(graph.tensors):
            same_tensor(tensor, theirs.Tensors(i), model)
        assert len(graph.operators) == theirs.OperatorsLength()
        for i, op in enumerate(graph.operators):
            other = theirs.Operators(i)
            code = model.OperatorCodes(other.OpcodeIndex())
            assert op.code == max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
            assert (op.custom, op.version) == (text(code.CustomCode()), code.Version())
            assert op.inputs == ints(other.InputsAsNumpy())
            assert op.outputs == ints(other.OutputsAsNumpy())
            options = other.BuiltinOptions()
            assert (op.options and op.options.position) == (options and options.Pos)
            custom = other.CustomOptionsAsNumpy() if other.CustomOptionsLength() else b""
            assert op.custom_options == bytes(custom)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples(path: Path) -> None:
    same_file(path)


@pytest.mark.parametrize("pattern", ["s*.tflite", "person_detect.tflite", "yolo11n*pose*.tflite"])
def test_measurement_data(shared: Path, pattern: str) -> None:
    files = sorted((shared / "models").glob(pattern))
    assert files
    for path in files:
        same_file(path)


def test_every_offset_out_of_the_file() -> None:
    """Any aligned word set to an offset that leaves the file: an error, or harmless."""
    content = EXAMPLES[0].read_bytes()
    whole = read_tflite(content, "whole")
    refused = 0
    for at in range(0, len(content) - 3, max(len(content) // 400 * 4, 4)):
        for word in (0xFFFFFFFF, 0x7FFFFFFF, len(content)):
            damaged = content[:at] + word.to_bytes(4, "little") + content[at + 4 :]
            try:
                read = read_tflite(damaged, "damaged")
            except ModelError:
                refused += 1
                continue
            assert len(read.subgraphs) <= len(whole.subgraphs)
    assert refused > 0
