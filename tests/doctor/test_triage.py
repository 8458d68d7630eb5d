"""Triage: injected faults are named, on bundled networks; recordings of every form are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from npuforge.artefacts.log_text import log_from_text
from npuforge.artefacts.serial_dump import read_dumps
from npuforge.cli.main import app
from npuforge.doctor.triage import Cause, Recorded, read_recorded, triage
from npuforge.errors import UsageError
from npuforge.graph import Array, Graph
from npuforge.importers import load_model
from npuforge.numerics import Executor

Example = Callable[[str], Path]


@pytest.fixture(scope="module")
def pixels() -> list[Array]:
    """Four pictures with structure that no mirror or rotation leaves alone."""
    rng = np.random.default_rng(3)
    rows = []
    for _ in range(4):
        y, x = np.mgrid[0:32, 0:32].astype(np.float32)
        a, b, c = rng.uniform(1, 7, 3)
        picture = np.stack([y * a, 255 - x * b, (x + y) * c], axis=-1) + rng.normal(
            0, 8, (32, 32, 3)
        )
        rows.append(np.clip(picture, 0, 255).astype(np.uint8))
    return rows


class Device:
    """image_classification on a device whose firmware is not right."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.executor = Executor(graph)

    def stored(self, real: Array) -> Array:
        """Real numbers -1..1 as the firmware should quantise them."""
        whole = np.rint(np.asarray(real, np.float64) * 128)
        return np.clip(whole, -128, 127).astype(np.int8).reshape(1, 32, 32, 3)

    def run(self, stored: Array) -> Array:
        return self.executor.run({self.graph.inputs[0]: stored})[self.graph.outputs[0]].copy()

    def recorded(self, right: Sequence[Array], outputs: Sequence[Array]) -> Recorded:
        return Recorded(
            tuple({self.graph.inputs[0]: a} for a in right),
            tuple({self.graph.outputs[0]: a} for a in outputs),
        )


@pytest.fixture(scope="module")
def device() -> Device:
    root = Path(__file__).parents[2] / "examples/image_classification"
    return Device(load_model(root / "image_classification.tflite"))


FAULTS: dict[Cause, Callable[[Array], Array]] = {
    Cause.BGR: lambda p: p[..., ::-1] / 127.5 - 1,
    Cause.RANGE: lambda p: p * 1.0,
    Cause.FLIP: lambda p: np.fliplr(p) / 127.5 - 1,
    Cause.ROTATED: lambda p: np.rot90(p) / 127.5 - 1,
    Cause.LAYOUT: lambda p: p.transpose(2, 0, 1).reshape(p.shape) / 127.5 - 1,
    Cause.CONSTANT: lambda p: np.zeros(p.shape),
    Cause.SHIFTED: lambda p: np.roll(p.ravel() / 127.5 - 1, 4),
}


@pytest.mark.parametrize("cause", FAULTS)
def test_feeding_faults(cause: Cause, device: Device, pixels: list[Array]) -> None:
    right = [device.stored(p / 127.5 - 1) for p in pixels]
    outputs = [device.run(device.stored(FAULTS[cause](p.astype(np.float64)))) for p in pixels]
    result = triage(device.graph, device.recorded(right, outputs))
    assert result.decided
    assert result.best.cause is cause
    assert result.best.message
    assert result.best.hint


def test_two_faults_at_once(device: Device, pixels: list[Array]) -> None:
    right = [device.stored(p / 127.5 - 1) for p in pixels]
    wrong = [p[..., ::-1].transpose(2, 0, 1) / 127.5 - 1 for p in pixels]
    outputs = [device.run(device.stored(w)) for w in wrong]
    result = triage(device.graph, device.recorded(right, outputs))
    assert result.best.causes == {Cause.BGR, Cause.LAYOUT}
    assert result.best.exact == len(pixels)


def test_signed_bytes_and_match(device: Device, pixels: list[Array]) -> None:
    right = [device.stored(p / 127.5 - 1) for p in pixels]
    turned = [device.run((r.view(np.uint8) ^ 0x80).view(np.int8)) for r in right]
    assert triage(device.graph, device.recorded(right, turned)).best.cause is Cause.SIGNED
    good = [device.run(r) for r in right]
    assert triage(device.graph, device.recorded(right, good)).best.cause is Cause.MATCH


def test_output_faults(device: Device, pixels: list[Array]) -> None:
    right = [device.stored(p / 127.5 - 1) for p in pixels]
    good = [device.run(r) for r in right]
    assert len({y.tobytes() for y in good}) > 1, "the pictures must not all give one output"
    cases = {
        Cause.FROZEN: [good[0]] * 4,
        Cause.ZEROS: [np.zeros_like(y) for y in good],
        Cause.LATE: [good[-1], *good[:-1]],
        Cause.OUTPUT_SCALE: [(y.astype(np.float32) + 128) / 256 * 1.7 for y in good],
    }
    for cause, outputs in cases.items():
        assert triage(device.graph, device.recorded(right, outputs)).best.cause is cause


def test_noise_is_not_explained(device: Device, pixels: list[Array]) -> None:
    """Outputs that follow from nothing must not be blamed on something."""
    rng = np.random.default_rng(1)
    right = [device.stored(p / 127.5 - 1) for p in pixels]
    outputs = [rng.integers(-128, 128, (1, 10)).astype(np.int8) for _ in right]
    result = triage(device.graph, device.recorded(right, outputs))
    assert not result.decided
    assert result.best.cause in (Cause.UNKNOWN, Cause.ONE_CLASS, Cause.SATURATED)


def test_device_buffer_decides(tmp_path: Path, device: Device, pixels: list[Array]) -> None:
    right = np.stack([device.stored(p / 127.5 - 1) for p in pixels])
    wrong = np.stack([device.stored(p[..., ::-1] / 127.5 - 1) for p in pixels])
    outputs = np.stack([device.run(w) for w in wrong])
    np.savez(tmp_path / "r.npz", input=right, device_input=wrong, output=outputs)
    result = triage(device.graph, read_recorded(tmp_path / "r.npz", device.graph))
    assert (result.buffer, result.computed) == ("wrong", True)
    np.savez(tmp_path / "r.npz", input=right, device_input=right, output=outputs)
    result = triage(device.graph, read_recorded(tmp_path / "r.npz", device.graph))
    assert (result.buffer, result.computed) == ("right", False)


def test_pixels_and_serial_dumps_are_inputs(
    tmp_path: Path, device: Device, pixels: list[Array]
) -> None:
    outputs = [device.run(device.stored(p[..., ::-1] / 127.5 - 1)) for p in pixels]
    np.savez(tmp_path / "p.npz", image=np.stack(pixels), output=np.stack(outputs))
    recorded = read_recorded(tmp_path / "p.npz", device.graph)
    first = recorded.inputs[0][device.graph.inputs[0]]
    assert np.array_equal(first, device.stored(pixels[0] / 127.5 - 1))
    lines = ["garbage \x1b[0m boot"]
    for picture, output in zip(pixels, outputs, strict=True):
        for name, kind, array in (("input", "uint8", picture), ("output", "int8", output)):
            raw = array.tobytes()
            lines.append(f"nf-dump {name} {kind} {array.size}")
            lines += [raw[i : i + 16].hex(" ") for i in range(0, len(raw), 16)]
            lines.append("nf-end")
    (tmp_path / "uart.log").write_text("\r\n".join(lines))
    recorded = read_recorded(tmp_path / "uart.log", device.graph)
    assert len(recorded.outputs) == 4
    assert triage(device.graph, recorded).best.cause is Cause.BGR


def test_damaged_dumps_are_left_out() -> None:
    text = "nf-dump a int8 4\n01 02 03\nnf-end\nnf-dump b int8 2\n01 ff\nnf-end\noutput: 1, 2, -3\n"
    arrays = read_dumps(log_from_text(text))
    assert set(arrays) == {"b", "output"}
    assert arrays["b"].tolist() == [1, -1]
    assert arrays["output"].tolist() == [1, 2, -3]


def test_refusals(tmp_path: Path, device: Device) -> None:
    path = tmp_path / "r.npz"
    path.write_bytes(b"not a zip")
    with pytest.raises(UsageError, match="INP-006"):
        read_recorded(path, device.graph)
    np.savez(path, other=np.zeros(3))
    with pytest.raises(UsageError, match="TRI-002"):
        read_recorded(path, device.graph)
    np.savez(path, input=np.zeros((1, 32, 32, 3), np.int8))
    with pytest.raises(UsageError, match="TRI-001"):
        read_recorded(path, device.graph)
    np.savez(path, input=np.zeros((1, 32, 32, 3), np.int8), output=np.zeros(7, np.int8))
    with pytest.raises(UsageError, match="TRI-003"):
        read_recorded(path, device.graph)


@given(st.text(alphabet="nf-dumpe 0123456789abcdefx:int8\n", max_size=300))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_dump_reader_survives_anything(text: str) -> None:
    read_dumps(log_from_text(text))


def test_verb(tmp_path: Path, device: Device, pixels: list[Array]) -> None:
    outputs = np.stack([device.run(device.stored(p[..., ::-1] / 127.5 - 1)) for p in pixels])
    np.savez(tmp_path / "r.npz", image=np.stack(pixels), output=outputs)
    model = Path(__file__).parents[2] / "examples/image_classification/image_classification.tflite"
    words = ["doctor", "--model", str(model), "--recorded", str(tmp_path / "r.npz")]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 1
    assert run.stdout.startswith("bgr: ")
    run = CliRunner().invoke(app, [*words, "--json"])
    document = json.loads(run.stdout)
    assert document["verdicts"][0]["cause"] == "bgr"
    assert document["verdicts"][0]["reproduces"]
    assert isinstance(CliRunner().invoke(app, words[:3]).exception, UsageError)
