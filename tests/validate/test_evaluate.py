"""Networks at their task: figures that can be checked by hand, contracts side by side."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.quantize.networks import Net, classifier, write_float
from typer.testing import CliRunner

from npuforge import api
from npuforge.cli.main import app
from npuforge.errors import UsageError
from npuforge.exporters import Format, convert
from npuforge.graph import Graph, SoftmaxAttrs
from npuforge.numerics import Executor
from npuforge.quantize import Scheme, quantize
from npuforge.tasks import open_dataset
from npuforge.validate.evaluate import TaskName

TASK = classifier(hard=False, count=300)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("evaluate")
    found = {
        "float": write_float(TASK.graph, folder / "float.tflite"),
        "fit": TASK.write(folder / "fit.npz", 0, 200),
        "test": TASK.write(folder / "test.npz", 200, 300),
    }
    made = quantize(TASK.graph, open_dataset([found["fit"]], TASK.graph), Scheme(), measured_on=0)
    found["int8"] = folder / "int8.tflite"
    found["int8"].write_bytes(convert(made.made.graph, Format.TFLITE).content)
    return found


def test_classes_under_each_contract(files: dict[str, Path]) -> None:
    task, count, found = api.evaluate_model(
        files["int8"],
        data=[files["test"]],
        reference=files["float"],
        contracts=["own", "tflite_micro", "neural_art"],
        top=(1, 3),
    )
    assert (task, count, len(found)) == (TaskName.CLASSES, 100, 4)
    executor = Executor(TASK.graph)
    name = TASK.graph.outputs[0]
    scores = np.stack([executor.run({"x": x[None]})[name][0] for x in TASK.inputs[200:300]])
    labels = TASK.labels[200:300]
    assert found[0].figures["top-1"] == pytest.approx(np.mean(scores.argmax(1) == labels))
    third = np.argsort(-scores, axis=1)[:, :3]
    assert found[0].figures["top-3"] == pytest.approx(np.mean((third == labels[:, None]).any(1)))
    assert found[0].sqnr is None
    for item in found[1:]:
        assert item.sqnr is not None
        assert item.sqnr > 15
        assert abs(item.figures["top-1"] - found[0].figures["top-1"]) <= 0.05
    assert [item.name for item in found] == [
        *("float.tflite", "int8.tflite", "int8.tflite as tflite_micro"),
        "int8.tflite as neural_art",
    ]


def test_tensors_without_labels(files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "plain.npz"
    np.savez(path, x=TASK.inputs[:20, None])
    options = {"data": [path]}
    task, _, found = api.evaluate_model(files["int8"], reference=files["float"], **options)
    assert task is TaskName.TENSORS
    assert found[1].agreement is not None
    assert found[1].agreement > 0.9
    with pytest.raises(UsageError, match="EVL-005"):
        api.evaluate_model(files["int8"], **options)


def segmenter() -> Graph:
    net = Net((1, 12, 12, 3), 4)
    x = net.conv("x", 6)
    return net.graph(net.add("softmax", net.conv(x, 3, 1), attrs=SoftmaxAttrs(3)))


def test_masks(tmp_path: Path) -> None:
    graph = segmenter()
    model = write_float(graph, tmp_path / "seg.tflite")
    inputs = np.random.default_rng(0).normal(size=(5, 1, 12, 12, 3)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=inputs)
    executor = Executor(graph)
    drawn = np.stack([executor.run({"x": x})[graph.outputs[0]][0].argmax(-1) for x in inputs])
    masks = drawn.astype(np.uint8)
    masks[:, :2] = 255  # not labelled
    np.save(tmp_path / "m.npy", masks)
    options = {"data": [tmp_path / "d.npz"], "masks": tmp_path / "m.npy"}
    task, _, found = api.evaluate_model(model, **options)
    assert task is TaskName.SEGMENTATION
    assert found[0].figures == {"mIoU": 1.0, "pixels": 1.0}
    masks[:, 2:7] = (masks[:, 2:7] + 1) % 3  # five of ten rows wrong
    np.save(tmp_path / "m.npy", masks)
    assert api.evaluate_model(model, **options)[2][0].figures["pixels"] == pytest.approx(0.5)
    # twice the size: the same classes
    np.save(tmp_path / "m.npy", masks.repeat(2, axis=1).repeat(2, axis=2))
    assert api.evaluate_model(model, **options)[2][0].figures["pixels"] == pytest.approx(0.5)
    np.save(tmp_path / "m.npy", masks[:3])
    with pytest.raises(UsageError, match="EVL-007"):
        api.evaluate_model(model, **options)


def detector(tmp_path: Path) -> tuple[Path, Path]:
    """A network whose answer is the same box whatever it sees: a constant head; and pictures."""
    net = Net((1, 16, 16, 3), 1)
    head = np.zeros((1, 6, 7), np.float32)
    head[0, :, 2] = [0.5, 0.5, 0.5, 0.25, 0.0, 0.9]
    flat = net.flat("x")
    zero = (net.constant(np.zeros((42, 768))), net.constant(head.reshape(-1)))
    from npuforge.graph import FullyConnectedAttrs, ReshapeAttrs

    y = net.add("fully_connected", flat, *zero, attrs=FullyConnectedAttrs())
    graph = net.graph(net.add("reshape", y, attrs=ReshapeAttrs((1, 6, 7))))
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("a", "b"):
        Image.fromarray(np.zeros((40, 80, 3), np.uint8)).save(folder / f"{name}.png")
    return write_float(graph, tmp_path / "det.tflite"), folder


def test_objects(tmp_path: Path) -> None:
    model, folder = detector(tmp_path)
    # 80 x 40 cut to the middle 40 x 40: the box lies at x 20 + 10, y 15, 20 wide, 10 high
    document = {
        "images": [
            {"id": i + 1, "file_name": f"pictures/{n}.png", "width": 80, "height": 40}
            for i, n in enumerate("ab")
        ],
        "categories": [{"id": 3}, {"id": 9}],
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 9, "bbox": [30, 15, 20, 10]},
            {"id": 2, "image_id": 2, "category_id": 9, "bbox": [0, 0, 20, 10]},
        ],
    }
    truth = tmp_path / "truth.json"
    truth.write_text(json.dumps(document))
    task, count, found = api.evaluate_model(model, data=[folder], truth=truth)
    assert (task, count) == (TaskName.DETECTION, 2)
    # one of two objects is found, by one of two detections with the same score
    assert found[0].figures["AP50"] == pytest.approx(51 / 101)
    truth.write_text("{}")
    with pytest.raises(UsageError, match="EVL-001"):
        api.evaluate_model(model, data=[folder], truth=truth)


def test_command(files: dict[str, Path]) -> None:
    arguments = ["evaluate", str(files["int8"]), "--data", str(files["test"])]
    more = ["--reference", str(files["float"]), "--contract", "own", "--contract", "neural_art"]
    result = CliRunner().invoke(app, [*arguments, *more, "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["task"] == "classes"
    assert [row["name"] for row in document["networks"]][-1] == "int8.tflite as neural_art"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "top-1" in result.output
