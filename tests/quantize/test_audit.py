"""Faults of calibration samples, injected one by one, are named; sound samples are left alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.quantize.networks import classifier, small_network, write_float
from typer.testing import CliRunner

from npuforge.cli.main import app
from npuforge.messages import catalogue
from npuforge.quantize import Fault, audit, prepared, survey
from npuforge.quantize.survey import Survey
from npuforge.report.audit import audit_document, finding_words, sound_words
from npuforge.tasks import open_dataset

GRAPH = prepared(small_network())
COUNT = 120


def pictures(seed: int, count: int = COUNT) -> np.ndarray:
    """Bytes of blobs in warm colours before a dark ground, as floats 0..255."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:16, 0:16] / 15.0
    found = []
    for _ in range(count):
        ground = rng.uniform(20, 90) * np.array([1.0, 0.9, 0.8])
        picture = np.zeros((16, 16, 3)) + ground
        for _ in range(3):
            cx, cy, size = *rng.uniform(0, 1, 2), rng.uniform(0.1, 0.4)
            blob = np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / size**2)
            picture += blob[..., None] * rng.uniform(60, 160) * np.array([1.0, 0.7, 0.45])
        found.append(picture + rng.normal(size=picture.shape) * 6)
    return np.clip(np.rint(np.stack(found)), 0, 255)


def looked(values: np.ndarray, folder: Path, labels: np.ndarray | None = None) -> Survey:
    path = folder / "d.npz"
    more = {} if labels is None else {"labels": labels}
    np.savez(path, x=values[:, None].astype(np.float32), **more)
    return survey(GRAPH, open_dataset([path], GRAPH))


CLASSES = np.arange(COUNT) % 5
BRIGHTER = (np.arange(COUNT) % 4)[:, None, None, None]
FAULTS: dict[str, tuple[Fault, Callable[[np.ndarray], np.ndarray]]] = {
    "ten": (Fault.FEW, lambda x: x[:10] / 255),
    "copies": (Fault.DUPLICATES, lambda x: x[np.arange(COUNT) % 30] / 255),
    "frames": (
        Fault.DUPLICATES,
        lambda x: np.clip(x[np.arange(COUNT) // 4] + BRIGHTER, 0, 255) / 255,
    ),
    "256": (Fault.SCALE_256, lambda x: x / 256),
    "bytes": (Fault.NORMALISATION, lambda x: x),
    "signed": (Fault.NORMALISATION, lambda x: x / 127.5 - 1),
    "offset": (Fault.NORMALISATION, lambda x: x / 255 - 0.5),
    "bgr": (Fault.COLOUR_ORDER, lambda x: x[..., ::-1] / 255),
    "dark": (Fault.DRIFT, lambda x: np.rint(x * 0.4) / 255),
    "flat": (Fault.DRIFT, lambda x: np.rint(x * 0.3 + 60) / 255),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_first(name: str, tmp_path: Path) -> None:
    fault, change = FAULTS[name]
    reference = looked(pictures(1) / 255, tmp_path, CLASSES)
    own = looked(change(pictures(2)), tmp_path, None)
    found = audit(own, reference)
    assert [item.fault for item in found][:1] == [fault]
    message, hint = finding_words(found[0])
    assert "{" not in message
    assert hint


@pytest.mark.parametrize("seed", range(4))
def test_sound_samples_are_left_alone(seed: int, tmp_path: Path) -> None:
    reference = looked(pictures(10 + seed) / 255, tmp_path, CLASSES)
    own = looked(pictures(20 + seed) / 255, tmp_path, np.roll(CLASSES, seed))
    assert audit(own, reference) == ()
    assert audit(own) == ()
    assert "120" in sound_words(own, reference)


def test_one_class_by_labels(tmp_path: Path) -> None:
    reference = looked(pictures(1) / 255, tmp_path, CLASSES)
    own = looked(pictures(2) / 255, tmp_path, np.full(COUNT, 3))
    for other in (reference, None):
        found = audit(own, other)
        assert found[0].fault is Fault.ONE_CLASS
        assert found[0].figures["class_number"] == "3"


def test_a_quiet_class_is_not_another_scale(tmp_path: Path) -> None:
    """Flat samples at many levels: little contrast in each, but the usual range over all."""
    rng = np.random.default_rng(5)

    def real(values: np.ndarray) -> np.ndarray:
        return values + rng.normal(size=values.shape) * 1e-3  # no grid

    flat = pictures(2) / 255
    level = np.linspace(0.1, 0.9, COUNT)[:, None, None, None]
    flat = level + 0.1 * (flat - flat.mean(axis=(1, 2, 3), keepdims=True))
    reference = looked(real(pictures(1) / 255), tmp_path, CLASSES)
    found = audit(looked(real(flat), tmp_path, np.full(COUNT, 3)), reference)
    assert found[0].fault is Fault.ONE_CLASS
    assert Fault.NORMALISATION not in {item.fault for item in found}


def test_one_class_by_what_the_network_sees(tmp_path: Path) -> None:
    task = classifier(hard=False, count=1200)
    graph = prepared(task.graph)

    def unlabelled(chosen: np.ndarray) -> Survey:
        path = tmp_path / "d.npz"
        np.savez(path, x=task.inputs[chosen][:, None])
        return survey(graph, open_dataset([path], graph))

    reference = unlabelled(np.arange(300))
    assert len(set(reference.predicted)) == 6
    others = unlabelled(np.arange(300, 1200))
    chosen = 300 + np.flatnonzero(np.array(others.predicted) == 2)
    assert len(chosen) >= 60
    found = audit(unlabelled(chosen), reference)
    assert [item.fault for item in found][:1] == [Fault.ONE_CLASS]
    assert found[0].figures["class_number"] == "2"
    assert Fault.ONE_CLASS not in {item.fault for item in audit(others, reference)}


def test_missing_classes(tmp_path: Path) -> None:
    reference = looked(pictures(1) / 255, tmp_path, CLASSES)
    own = looked(pictures(2) / 255, tmp_path, CLASSES % 4)
    found = audit(own, reference)
    assert [(item.fault, item.figures["missing"]) for item in found] == [(Fault.CLASSES, "4")]


def test_ranges_that_other_samples_leave(tmp_path: Path) -> None:
    values = pictures(1) / 255
    own = looked(np.clip(pictures(2), 0, 150) / 255, tmp_path)
    found = audit(own, looked(values, tmp_path))
    assert found[0].fault in (Fault.RANGES, Fault.DRIFT)
    bright = (values > 150 / 255).mean()
    stated = found[0].figures.get("share", found[0].figures.get("outside", ""))
    assert float(stated.rstrip("%")) >= 99 * bright


def test_figures_are_those_of_the_samples(tmp_path: Path) -> None:
    values = pictures(3) / 255
    own = looked(values, tmp_path)
    stored = values.astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(own.means, stored.mean(axis=(1, 2)))
    np.testing.assert_allclose(own.deviations, stored.std(axis=(1, 2)), rtol=1e-6)
    np.testing.assert_allclose(own.step, 1 / 255, rtol=1e-4)
    np.testing.assert_allclose(own.low, stored.min((0, 1, 2)))
    np.testing.assert_allclose(own.high, stored.max((0, 1, 2)))
    noise = looked(np.random.default_rng(0).normal(size=(40, 16, 16, 3)), tmp_path)
    assert not noise.step.any()
    document = audit_document("net", own, None, audit(own))
    assert json.loads(json.dumps(document))["samples"] == COUNT


def test_every_fault_has_words() -> None:
    for language in ("en", "zh"):
        for fault in Fault:
            assert set(catalogue(language)[fault.value]) == {"message", "hint"}


def test_command(tmp_path: Path) -> None:
    model = write_float(small_network(), tmp_path / "net.tflite")
    paths = {}
    for name, values in (("own", pictures(1) / 256), ("other", pictures(2) / 255)):
        paths[name] = tmp_path / f"{name}.npz"
        np.savez(paths[name], x=values[:, None].astype(np.float32))
    run = CliRunner()
    both = [str(model), "--data", str(paths["own"]), "--validate", str(paths["other"])]
    result = run.invoke(app, ["audit", *both])
    assert result.exit_code == 1
    assert "AUD-scale-256" in result.output
    result = run.invoke(app, ["audit", *both, "--json"])
    assert json.loads(result.stdout)["findings"][0]["fault"] == "AUD-scale-256"
    result = run.invoke(app, ["audit", str(model), "--data", str(paths["own"])])
    assert result.exit_code == 0
    assert "120 samples" in result.output
