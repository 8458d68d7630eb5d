"""Model files that are no models, damaged, or say something impossible."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from npuforge.errors import ModelError, NpuforgeError, UnsupportedError, UsageError
from npuforge.graph import Graph
from npuforge.importers import load_model

FOLDER = Path(__file__).parents[2] / "examples"


def refused(path: Path, kind: type[NpuforgeError], code: str) -> NpuforgeError:
    with pytest.raises(kind) as caught:
        load_model(path)
    assert caught.value.code == code
    assert str(path) in caught.value.message
    assert caught.value.hint
    return caught.value


def test_missing_folder_empty(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.tflite", UsageError, "IMP-001").exit_code == 2
    refused(tmp_path, UsageError, "IMP-002")
    empty = tmp_path / "empty.tflite"
    empty.touch()
    assert refused(empty, ModelError, "IMP-003").exit_code == 1


@pytest.mark.parametrize("content", [b"hello world, not a model", bytes(100), b"\x89PNG\r\n\x1a\n"])
def test_not_a_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    refused(path, ModelError, "IMP-007")


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.9, 0.999])
def test_truncated_tflite(tmp_path: Path, share: float, example: Callable[[str], Path]) -> None:
    content = example("keyword_spotting").read_bytes()
    path = tmp_path / "cut.tflite"
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ModelError):
        load_model(path)


def test_random_bytes_behind_the_identifier(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    path = tmp_path / "noise.tflite"
    for _ in range(50):
        content = bytearray(rng.integers(0, 256, 4096, np.uint8).tobytes())
        content[4:8] = b"TFL3"
        path.write_bytes(content)
        with pytest.raises(ModelError):
            load_model(path)


def test_names_are_unique_and_shapes_static(example: Callable[[str], Path]) -> None:
    graph: Graph = load_model(example("anomaly_detection"))
    assert all(n > 0 for t in graph.tensors.values() for n in t.shape)
    # the shape arithmetic in front of the last reshape is computed while reading
    assert {node.op for node in graph.nodes} == {
        "quantize",
        "reshape",
        "fully_connected",
        "dequantize",
    }


def test_unsupported_operator_is_named(tmp_path: Path, example: Callable[[str], Path]) -> None:
    """Renumber one operator code: the file stays sound, the operator is one nobody takes."""
    import tflite

    content = bytearray(example("keyword_spotting").read_bytes())
    model = tflite.Model.GetRootAsModel(content, 0)
    for i in range(model.OperatorCodesLength()):
        code = model.OperatorCodes(i)
        if max(code.BuiltinCode(), code.DeprecatedBuiltinCode()) == tflite.BuiltinOperator.SOFTMAX:
            for field in (4, 10):  # deprecated and current code
                offset = code._tab.Offset(field)
                if offset:
                    content[code._tab.Pos + offset] = tflite.BuiltinOperator.WHERE
    path = tmp_path / "where.tflite"
    path.write_bytes(content)
    error = refused(path, UnsupportedError, "IMP-020")
    assert "WHERE" in error.message
    assert "number 13" in error.message


# --- buffers behind the flatbuffer ---


def _with_buffers_behind(content: bytes) -> bytes:
    """The same file with every constant moved behind the flatbuffer, as ai-edge-quantizer does."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    def packed() -> bytes:
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    moved = [buffer for buffer in model.buffers if buffer.data is not None and len(buffer.data)]
    parts = [bytes(np.asarray(buffer.data, np.uint8)) for buffer in moved]
    for buffer, part in zip(moved, parts, strict=True):
        buffer.data, buffer.offset, buffer.size = None, 1 << 20, len(part)
    at = len(packed())
    for buffer, part in zip(moved, parts, strict=True):
        buffer.offset, at = at, at + len(part)
    return packed() + b"".join(parts)


def test_constants_behind_the_flatbuffer(tmp_path: Path, example: Callable[[str], Path]) -> None:
    pytest.importorskip("ai_edge_litert")
    content = example("keyword_spotting").read_bytes()
    path = tmp_path / "apart.tflite"
    path.write_bytes(_with_buffers_behind(content))
    plain, apart = load_model(example("keyword_spotting")), load_model(path)
    constants = [t for t in plain.tensors.values() if t.data is not None]
    assert len(constants) > 10
    for tensor in constants:
        np.testing.assert_array_equal(apart.tensors[tensor.name].array, tensor.array)
    path.write_bytes(path.read_bytes()[:-1])
    refused(path, ModelError, "IMP-004")
