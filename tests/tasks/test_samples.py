"""Input files: shapes, sample axes, types, pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.builders import single, tensor

from npuforge.errors import UsageError
from npuforge.graph import ElementwiseAttrs, Graph, NoAttrs
from npuforge.importers import load_model
from npuforge.tasks import Axis, ImageRange, load_samples, split_samples


@pytest.fixture
def graph() -> Graph:
    return single("relu", [tensor("x", (1, 4, 3))], [tensor("y", (1, 4, 3))], NoAttrs())


def save(path: Path, array: object) -> Path:
    np.save(path, np.asarray(array))
    return path


@pytest.mark.parametrize(
    ("shape", "axis", "count", "joined"),
    [
        ((1, 4, 3), Axis.SINGLE, 1, (1, 4, 3)),
        ((5, 4, 3), Axis.BATCH, 5, (5, 4, 3)),
        ((5, 1, 4, 3), Axis.STACKED, 5, (5, 1, 4, 3)),
    ],
)
def test_sample_axis(
    graph: Graph,
    tmp_path: Path,
    shape: tuple[int, ...],
    axis: Axis,
    count: int,
    joined: tuple[int, ...],
) -> None:
    data = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int8)
    samples = load_samples([save(tmp_path / "x.npy", data)], graph)
    assert samples.axis is axis
    assert len(samples.samples) == count
    back = samples.join([{"y": sample["x"]} for sample in samples.samples])
    assert back["y"].shape == joined
    assert np.array_equal(back["y"], data)


def test_two_inputs_by_name_and_by_order(tmp_path: Path) -> None:
    two = single("add", [tensor("a", (1, 2)), tensor("b", (1, 3))], [tensor("y", (1, 3))],
                 ElementwiseAttrs())  # fmt: skip
    a, b = np.zeros((1, 2), np.int8), np.ones((1, 3), np.int8)
    path = tmp_path / "in.npz"
    np.savez(path, b=b, a=a)
    assert load_samples([path], two).samples[0]["b"].shape == (1, 3)
    np.savez(path, first=a, second=b)
    assert load_samples([path], two).samples[0]["b"].shape == (1, 3)
    np.savez(path, only=a)
    with pytest.raises(UsageError) as caught:
        load_samples([path], two)
    assert caught.value.code == "INP-007"
    assert "a, b" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        split_samples({"a": np.zeros((2, 2), np.int8), "b": np.zeros((3, 3), np.int8)}, two)
    assert caught.value.code == "INP-009"


def test_csv(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("\n".join(",".join(str(i + j) for j in range(12)) for i in range(3)))
    samples = load_samples([path], graph)
    assert len(samples.samples) == 3
    assert samples.samples[1]["x"].reshape(-1).tolist() == list(range(1, 13))


def test_real_values_are_quantised_on_request(graph: Graph, tmp_path: Path) -> None:
    path = save(tmp_path / "x.npy", np.full((1, 4, 3), 0.25, np.float32))
    with pytest.raises(UsageError) as caught:
        load_samples([path], graph)
    assert caught.value.code == "INP-003"
    assert "--real" in caught.value.hint
    assert load_samples([path], graph, real=True).samples[0]["x"][0, 0, 0] == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npy", b"not an array"),
        ("x.npy", b""),
        ("x.npz", b"PK\x03\x04 broken"),
        ("x.csv", b"a,b,c"),
    ],
)
def test_unreadable_files(graph: Graph, tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load_samples([path], graph)
    assert caught.value.code in ("INP-006", "INP-004")
    assert caught.value.exit_code == 2


def test_pickles_are_not_loaded(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array([{"a": 1}], object), allow_pickle=True)
    with pytest.raises(UsageError) as caught:
        load_samples([path], graph)
    assert caught.value.code == "INP-006"


def test_missing_file(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_samples([tmp_path / "none.npy"], graph)
    assert caught.value.code == "INP-008"


def test_pictures(example: Callable[[str], Path], tmp_path: Path) -> None:
    net = load_model(example("visual_wake_words"))
    folder = example("visual_wake_words").parent
    person = load_samples([folder / "person.png"], net)
    assert person.notes == (ImageRange.RAW.value,)
    array = person.samples[0]["input_1"]
    assert array.dtype == np.float32
    assert array.max() > 200
    both = load_samples([folder / "person.png", folder / "no_person.png"], net)
    assert len(both.samples) == 2
    unit = load_samples([folder / "person.png"], net, image_range=ImageRange.UNIT)
    assert unit.notes == ()
    assert np.allclose(unit.samples[0]["input_1"] * 255, array, atol=1e-3)
    fake = tmp_path / "fake.png"
    fake.write_bytes(b"\x89PNG but not really")
    with pytest.raises(UsageError) as caught:
        load_samples([fake], net)
    assert caught.value.code == "INP-011"


def test_quantised_picture_input(example: Callable[[str], Path]) -> None:
    net = load_model(example("image_classification"))
    cat = load_samples([example("image_classification").parent / "cat.png"], net)
    assert cat.notes == (ImageRange.SIGNED.value,)
    assert cat.samples[0][net.inputs[0]].dtype == np.int8
