"""Calibration: engines agree, interrupted runs go on, foreign states are refused."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from tests.quantize.networks import small_network, write_samples

from npuforge.errors import UsageError
from npuforge.quantize import EngineName, RangeMethod, Scheme, calibrate, prepared
from npuforge.quantize import calibrate as calibrate_function
from npuforge.quantize.engines import OwnEngine, float_engine, wanted_tensors
from npuforge.tasks import Dataset, open_dataset

GRAPH = prepared(small_network())


@pytest.fixture
def data(tmp_path: Path) -> Dataset:
    return open_dataset([write_samples(GRAPH, tmp_path / "d.npz", 40)], GRAPH)


def test_engines_show_the_same_tensors(data: Dataset) -> None:
    wanted = wanted_tensors(GRAPH)
    own = dict(float_engine(EngineName.OWN, GRAPH, wanted).tensors(data[0].inputs))
    other = dict(float_engine(EngineName.ONNXRUNTIME, GRAPH, wanted).tensors(data[0].inputs))
    assert list(own) == wanted
    assert set(other) == set(wanted)
    for name in wanted:
        # ONNX has the channels first: the same values in another order
        found, truth = np.sort(other[name], axis=None), np.sort(own[name], axis=None)
        np.testing.assert_allclose(found, truth, atol=1e-5, err_msg=name)


class Interrupted(Exception):
    pass


def test_interrupted_run_goes_on(
    data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme = Scheme(method=RangeMethod.ENTROPY)
    whole = calibrate(GRAPH, data).ranges(GRAPH, scheme)
    state = tmp_path / "state.npz"

    def stop(done: int, total: int) -> None:
        if done == 37:
            raise Interrupted

    with pytest.raises(Interrupted):
        calibrate(GRAPH, data, state=state, tick=stop)
    runs = 0
    plain = OwnEngine.tensors

    def counted(self: OwnEngine, inputs: dict[str, np.ndarray]) -> object:
        nonlocal runs
        runs += 1
        return plain(self, inputs)

    monkeypatch.setattr(OwnEngine, "tensors", counted)
    again = calibrate(GRAPH, data, state=state)
    assert (again.samples, again.resumed, runs) == (40, 32, 8)
    assert again.ranges(GRAPH, scheme) == whole


def test_foreign_and_damaged_states_are_refused(data: Dataset, tmp_path: Path) -> None:
    state = tmp_path / "state.npz"
    calibrate(GRAPH, data, state=state)
    with pytest.raises(UsageError, match="QNT-007"):
        calibrate(prepared(small_network(seed=5)), data, state=state)
    with pytest.raises(UsageError, match="QNT-007"):
        calibrate(GRAPH, data.some([0, 1]), state=state)
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    for damage in (b"", b"PK\x03\x04 no zip", state.read_bytes()[:200], array.getvalue()):
        state.write_bytes(damage)
        with pytest.raises(UsageError, match="QNT-006"):
            calibrate_function(GRAPH, data, state=state)


def test_a_state_in_a_folder_that_is_not_there(data: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="OUT-003"):
        calibrate(GRAPH, data.some([0]), state=tmp_path / "no" / "state.npz")


def test_memory_is_bounded(tmp_path: Path) -> None:
    """Ten times the samples, the same peak."""
    import tracemalloc

    def peak(count: int) -> int:
        path = tmp_path / f"{count}.npy"
        np.save(path, np.zeros((count, *GRAPH.tensors["x"].shape), np.float32))
        few = open_dataset([path], GRAPH)
        tracemalloc.start()
        calibrate(GRAPH, few)
        _, high = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return high

    peak(2)
    assert peak(100) < peak(20) * 1.2
