"""Calibration data from folders, arrays, tables and recordings; the declared preprocessing."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tests.builders import single, tensor

from npuforge.errors import UsageError
from npuforge.graph import Graph
from npuforge.tasks import (
    Colour,
    Fit,
    ImageRange,
    Preprocessing,
    load_preprocessing,
    load_samples,
    open_dataset,
)
from npuforge.vocab import Contract, DType


def network(*shape: int) -> Graph:
    x = tensor("x", shape, DType.FLOAT32)
    return single("relu", [x], [tensor("y", shape, DType.FLOAT32)], contract=Contract.FLOAT32)


def picture(path: Path, values: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values.astype(np.uint8)).save(path)
    return path


def test_folders_are_classes(tmp_path: Path) -> None:
    for name, grey in (("b", 20), ("a", 10)):
        for i in range(2):
            picture(tmp_path / name / f"{i}.png", np.full((6, 4, 3), grey + i))
    data = open_dataset([tmp_path], network(1, 4, 4, 3))
    assert data.classes == ("a", "b")
    assert data.labels == (0, 0, 1, 1)
    assert [float(s.inputs["x"].max()) * 255 for s in data] == pytest.approx([10, 11, 20, 21])
    assert data[0].inputs["x"].shape == (1, 4, 4, 3)


def test_channels_first_and_bgr(tmp_path: Path) -> None:
    path = picture(tmp_path / "p.png", np.broadcast_to([10, 20, 30], (5, 5, 3)))
    pre = Preprocessing(colour=Colour.BGR, scale=1.0)
    (sample,) = open_dataset([path], network(1, 3, 8, 8), pre)
    assert sample.inputs["x"][0, :, 0, 0].tolist() == [30, 20, 10]


def test_fits(tmp_path: Path) -> None:
    values = np.zeros((10, 20, 3))
    values[:, 10:] = 255
    path = picture(tmp_path / "p.png", values)

    def columns(fit: Fit, **more: float) -> list[float]:
        pre = Preprocessing(fit=fit, scale=1.0, background=7, **more)  # type: ignore[arg-type]
        return open_dataset([path], network(1, 10, 10, 3), pre)[0].inputs["x"][0, :, :, 0]

    assert columns(Fit.CROP)[0, 0] == 0
    assert columns(Fit.CROP)[0, 9] == 255
    boxed = columns(Fit.LETTERBOX)
    assert boxed[0, 0] == 7
    assert boxed[5, 9] == 255
    assert columns(Fit.STRETCH)[0, 9] == 255
    assert columns(Fit.CROP, crop=0.5)[0, 0] == 0


def test_arrays_labels_and_tables(tmp_path: Path) -> None:
    graph = network(1, 2, 3, 1)
    rng = np.random.default_rng(0)
    values = rng.random((4, 2, 3)).astype(np.float32)
    np.savez(tmp_path / "a.npz", x=values, labels=[3, 1, 0, 2])
    np.save(tmp_path / "b.npy", values[:, None, :, :, None])
    np.savetxt(tmp_path / "c.csv", np.hstack([values.reshape(4, 6), [[1]] * 4]), delimiter=",")
    a, b, c = (open_dataset([tmp_path / n], graph) for n in ("a.npz", "b.npy", "c.csv"))
    assert a.labels == (3, 1, 0, 2)
    assert c.labels == (1, 1, 1, 1)
    for i in range(4):
        for data in (a, b, c):
            np.testing.assert_allclose(data[i].inputs["x"].reshape(2, 3), values[i], rtol=1e-6)
    assert [s.source for s in a.spread(2)] == [
        f"{tmp_path / 'a.npz'}[0]",
        f"{tmp_path / 'a.npz'}[3]",
    ]


def test_recordings(tmp_path: Path) -> None:
    path = tmp_path / "w.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(np.array([[16384, 0], [-32768, 0]], "<i2").tobytes())
    (sample,) = open_dataset([tmp_path], network(1, 4))
    assert sample.inputs["x"].tolist() == [[0.5, -1.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    ("content", "name", "code"),
    [
        (b"no picture", "p.png", "INP-011"),
        (b"RIFF", "w.wav", "INP-006"),
        (b"", "a.npz", "INP-006"),
        (b"1,2\n3", "t.csv", "INP-006"),
        (b"1,2\n", "t.csv", "INP-004"),
    ],
)
def test_hostile_files(content: bytes, name: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=code):
        _ = open_dataset([path], network(1, 4, 4, 3))[0]


def test_the_other_kind_of_array_file(tmp_path: Path) -> None:
    values = np.zeros((2, 4, 4, 3), np.float32)
    np.save(tmp_path / "one.npy", values)
    np.savez(tmp_path / "many.npz", x=values)
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    (tmp_path / "many.npz").rename(tmp_path / "many.npy")
    for name in ("one.npz", "many.npy"):
        for read in (open_dataset, load_samples):
            with pytest.raises(UsageError, match="INP-006"):
                read([tmp_path / name], network(1, 4, 4, 3))


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="DAT-001"):
        open_dataset([tmp_path], network(1, 4, 4, 3))
    with pytest.raises(UsageError, match="INP-008"):
        open_dataset([tmp_path / "no"], network(1, 4, 4, 3))


NUMBERS = st.floats(-4, 4).filter(lambda v: abs(v) > 1e-3)


@settings(max_examples=100, deadline=None)
@given(
    st.builds(
        Preprocessing,
        fit=st.sampled_from(list(Fit)),
        crop=st.floats(0.1, 1),
        background=st.integers(0, 255),
        colour=st.sampled_from(list(Colour)),
        scale=NUMBERS,
        mean=st.lists(NUMBERS, min_size=1, max_size=3).map(tuple),
        std=st.lists(NUMBERS, min_size=1, max_size=3).map(tuple),
    )
)
def test_declaration_round_trip(pre: Preprocessing) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "p.toml"
        path.write_text(pre.to_toml(), encoding="utf-8")
        assert load_preprocessing(path) == pre


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "PRE-001"),
        ("[image", "PRE-001"),
        ("[image]\nsize = 3", "PRE-002"),
        ("[image]\nfit = 'no'", "PRE-004"),
        ("[image]\nstd = 0", "PRE-004"),
        ("[image]\nmean = []", "PRE-004"),
        ("[image]\nscale = nan", "PRE-004"),
        ("[image]\ncrop = 2", "PRE-004"),
    ],
)
def test_declarations_that_say_nonsense(text: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=code):
        load_preprocessing(path)


def test_ranges_are_declarations() -> None:
    greys = np.arange(256, dtype=np.float32)
    for span in ImageRange:
        values = Preprocessing.of_range(span).values(1)[:, 0]
        np.testing.assert_allclose(values, span.apply(greys), atol=1e-6)


def test_wrong_number_of_means(tmp_path: Path) -> None:
    path = picture(tmp_path / "p.png", np.zeros((5, 5, 3)))
    data = open_dataset([path], network(1, 4, 4, 3), Preprocessing(mean=(1.0, 2.0)))
    with pytest.raises(UsageError, match="PRE-003"):
        _ = data[0]
