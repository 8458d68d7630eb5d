"""Our plan in tflite-micro: it takes the offsets, and computes the same with them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tflite
from typer.testing import CliRunner

from npuforge import api
from npuforge.artefacts.minimalloc import BufferRow, read_minimalloc, write_minimalloc
from npuforge.cli.main import app
from npuforge.errors import ModelError, UsageError
from npuforge.exporters.tflite.exporter import OFFLINE_PLAN, export_tflite
from npuforge.memory.writers.tflm import offline_file, offline_offsets
from npuforge.numerics import random_inputs

NAMES = ["keyword_spotting", "image_classification", "visual_wake_words", "anomaly_detection"]


def run(content: bytes, inputs: list[np.ndarray]) -> list[bytes]:  # type: ignore[type-arg]
    micro = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter = micro.Interpreter.from_bytes(content, arena_size=2 << 20)
    for index, value in enumerate(inputs):
        interpreter.set_input(np.ascontiguousarray(value), index)
    interpreter.invoke()
    return [np.asarray(interpreter.get_output(0)).tobytes()]


@pytest.mark.parametrize("name", NAMES)
def test_tflite_micro_runs_our_plan(name: str, example: Callable[[str], Path]) -> None:
    planned, _ = api.analyze_model(example(name), "stm32n6570-dk")
    graph = planned.graph
    content = offline_file(graph, planned.schedule, planned.plan)
    sample = random_inputs(graph, np.random.default_rng(7))
    inputs = [sample[tensor] for tensor in graph.inputs]
    want = run(export_tflite(graph), inputs)
    assert run(content, inputs) == want
    # the offsets are what it works with: put everything on one place and the result breaks
    offsets = offline_offsets(graph, planned.schedule, planned.plan)
    broken = export_tflite(graph, dict.fromkeys(offsets, 0))
    assert run(broken, inputs) != want


def test_the_metadata_reads_back(example: Callable[[str], Path]) -> None:
    planned, _ = api.analyze_model(example("image_classification"), "stm32n6570-dk")
    content = offline_file(planned.graph, planned.schedule, planned.plan)
    model = tflite.Model.GetRootAsModel(content, 0)
    assert model.MetadataLength() == 1
    assert model.Metadata(0).Name() == OFFLINE_PLAN.encode()
    words = model.Buffers(model.Metadata(0).Buffer()).DataAsNumpy().view("<i4")
    graph = model.Subgraphs(0)
    assert words[:3].tolist() == [1, 0, graph.TensorsLength()]
    assert words.size == 3 + graph.TensorsLength()
    for number, offset in enumerate(words[3:].tolist()):
        name = graph.Tensors(number).Name().decode()
        place = planned.schedule.tensors.get(name)
        if place is None:
            assert offset == -1
        else:
            assert offset == planned.plan.places[place.buffer].offset + place.offset
    used = [o for o in words[3:].tolist() if o >= 0]
    assert len(used) > 5


def test_minimalloc_csv(example: Callable[[str], Path], tmp_path: Path) -> None:
    """Read back, the file is the plan: nothing overlaps in time and place."""
    path = api.export_plan(example("image_classification"), "stm32n6570-dk", tmp_path / "x.csv")
    text = path.read_text(encoding="utf-8")
    rows = read_minimalloc(text)
    assert write_minimalloc(rows) == text
    planned, _ = api.analyze_model(example("image_classification"), "stm32n6570-dk")
    assert {row.id for row in rows} == {b.name for b in planned.schedule.activations}
    assert max((row.offset or 0) + row.size for row in rows) == planned.plan.activation_bytes
    times = range(max(row.upper for row in rows))
    live = [sum(row.size for row in rows if row.lower <= t < row.upper) for t in times]
    assert max(live) == planned.plan.lower_bound
    for one, other in itertools.combinations(rows, 2):
        apart = one.upper <= other.lower or other.upper <= one.lower
        a, b = one.offset or 0, other.offset or 0
        assert apart or a + one.size <= b or b + other.size <= a
    plain = write_minimalloc([BufferRow("a", 0, 3, 4), BufferRow("b,c", 1, 2, 5)])
    assert plain == 'id,lower,upper,size\na,0,3,4\n"b,c",1,2,5\n'
    assert [row.id for row in read_minimalloc(plain)] == ["a", "b,c"]


@pytest.mark.parametrize(
    "text", ["id,lower,upper,size\na,0,x,4\n", "id,lower,upper\na,0,1\n",
             "id,lower,upper,size\na,3,1,4\n", "id,lower,upper,size\na,0,1,-4\n"]
)  # fmt: skip
def test_bad_csv(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_minimalloc(text)
    assert caught.value.code == "CMP-001"


def test_command_line(example: Callable[[str], Path], tmp_path: Path) -> None:
    model = str(example("keyword_spotting"))
    for name in ("x.tflite", "x.csv"):
        shown = CliRunner().invoke(app, ["plan", "export", model, "-o", str(tmp_path / name)])
        assert shown.exit_code == 0
        assert (tmp_path / name).stat().st_size > 100
    shown = CliRunner().invoke(app, ["plan", "export", model, "-o", str(tmp_path / "x.txt")])
    assert isinstance(shown.exception, UsageError)
    shown = CliRunner().invoke(app, ["plan", "map", model, "-o", str(tmp_path / "x.svg")])
    assert shown.exit_code == 0
