"""Model files changed where it means something: an error or a graph, never a crash or a hang.

The files run in a child process with a limit on each one's time and on the memory of all.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.importers.mutations import Flatbuffer, mutated_tflite
from tests.importers.test_fuzz import small_onnx
from tests.importers.trial import survived
from tests.lite_cases import FAMILIES, Case, Family

from npuforge.errors import UnsupportedError
from npuforge.exporters import export_onnx, export_tflite
from npuforge.importers.tflite.importer import import_tflite

MUTATIONS = int(os.environ.get("NPUFORGE_FUZZ", "1500"))
"""For each of the three kinds of mutation."""
SECONDS = 300


def networks(family: Family, kind: str) -> list[bytes]:
    """A few layers of a family as files; fewer where ONNX has no form for them."""
    files: list[bytes] = []

    @settings(
        max_examples=3,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        case = Case(data)
        family(case)
        with contextlib.suppress(UnsupportedError):
            graph = case.graph()
            files.append(export_tflite(graph) if kind == "flatbuffer" else export_onnx(graph))

    draw()
    return files


def sources(kind: str, folder: Path) -> list[Path]:
    """Small networks of every operator family, written as files."""
    folder.mkdir()
    contents = [content for family in FAMILIES.values() for content in networks(family, kind)]
    if kind != "flatbuffer":
        contents.append(small_onnx(folder.parent / "small.onnx").read_bytes())
    suffix = "tflite" if kind == "flatbuffer" else "onnx"
    files = [folder / f"source{number:03}.{suffix}" for number in range(len(contents))]
    for path, content in zip(files, contents, strict=True):
        path.write_bytes(content)
    return files


@pytest.mark.parametrize("kind", ["flatbuffer", "messages", "wire"])
def test_meaningful_changes(kind: str, tmp_path: Path) -> None:
    files = sources(kind, tmp_path / "sources")
    assert len(files) > 25
    outcome = survived(kind, files, MUTATIONS, SECONDS, tmp_path, largest=2_000_000)
    assert outcome.graphs > MUTATIONS // 100
    assert len(outcome.codes) >= 3, outcome.codes


def test_every_kind_of_site_is_found(tmp_path: Path) -> None:
    """The walker knows the file: offsets, lengths, indices, scales and parameters."""
    kinds: set[str] = set()
    for path in sources("flatbuffer", tmp_path / "sources"):
        content = path.read_bytes()
        sites = Flatbuffer(content).sites
        kinds |= {site.kind for site in sites}
        assert all(0 <= site.at < len(content) for site in sites)
        changed = mutated_tflite(content, sites, np.random.default_rng(0))
        assert len(changed) == len(content)
        import_tflite(content, path.name, path.name)
    assert kinds >= {"offset", "length", "H", "I", "i", "b", "f", "q"}
