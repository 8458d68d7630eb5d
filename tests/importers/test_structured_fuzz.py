"""Model files changed where it means something: an error or a graph, never a crash or a hang.

The files run in a child process with a limit on each one's time and on the memory of all.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.importers.mutations import Flatbuffer, mutated_tflite
from tests.importers.test_fuzz import small_onnx
from tests.lite_cases import FAMILIES, Case, Family

from npuforge.errors import UnsupportedError
from npuforge.exporters import export_onnx, export_tflite
from npuforge.importers.tflite.importer import import_tflite

MUTATIONS = int(os.environ.get("NPUFORGE_FUZZ", "1500"))
"""For each of the three kinds of mutation."""
MEMORY = 1 << 30
SECONDS = 300

CHILD = r"""
import json, resource, signal, sys, warnings
from pathlib import Path
import numpy as np
import onnx
sys.path.insert(0, sys.argv[5])
from tests.importers.mutations import Flatbuffer, mutated_onnx, mutated_tflite
from tests.importers.mutations import wire_fields, wire_mutation
from npuforge.errors import NpuforgeError
from npuforge.importers import load_model
from npuforge.numerics import Executor, random_inputs

warnings.simplefilter("ignore")
folder, kind, count, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
rng = np.random.default_rng(seed)
sources = [path.read_bytes() for path in sorted(folder.glob("source*"))]
path = folder / ("case.tflite" if kind == "flatbuffer" else "case.onnx")
if kind == "flatbuffer":
    known = [Flatbuffer(content).sites for content in sources]
elif kind == "messages":
    known = [onnx.load_from_string(content) for content in sources]
else:
    known = [list(wire_fields(content, 0, len(content))) for content in sources]

def hang(number, frame):
    raise TimeoutError

signal.signal(signal.SIGALRM, hang)
outcome = {"graphs": 0, "errors": 0, "wrong": [], "codes": {}}
for turn in range(count):
    which = int(rng.integers(len(sources)))
    if kind == "flatbuffer":
        content = mutated_tflite(sources[which], known[which], rng)
    elif kind == "messages":
        content = mutated_onnx(known[which], rng)
    else:
        content = wire_mutation(sources[which], known[which], rng)
    path.write_bytes(content)
    signal.alarm(10)
    try:
        graph = load_model(path)
        if sum(t.size for t in graph.tensors.values()) < 2_000_000:
            Executor(graph).run(random_inputs(graph, rng))
        outcome["graphs"] += 1
    except NpuforgeError as error:
        outcome["errors"] += 1
        outcome["codes"][error.code] = outcome["codes"].get(error.code, 0) + 1
    except Exception as error:
        import traceback
        calls = traceback.extract_tb(error.__traceback__)[-4:]
        place = " ".join(f"{Path(c.filename).name}:{c.lineno}" for c in calls)
        text = f"{type(error).__name__}: {str(error)[:200]} in {place}"
        outcome["wrong"].append(f"case {turn}: {text}")
        keep = folder.parent / f"wrong-{kind}-{turn}{path.suffix}"
        keep.write_bytes(content)
    finally:
        signal.alarm(0)
outcome["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps(outcome))
"""


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


def sources(kind: str, folder: Path) -> int:
    """Writes small networks of every operator family; returns how many."""
    folder.mkdir()
    files = [content for family in FAMILIES.values() for content in networks(family, kind)]
    if kind != "flatbuffer":
        files.append(small_onnx(folder.parent / "small.onnx").read_bytes())
    for number, content in enumerate(files):
        (folder / f"source{number:03}").write_bytes(content)
    return len(files)


@pytest.mark.parametrize("kind", ["flatbuffer", "messages", "wire"])
def test_meaningful_changes(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "sources"
    assert sources(kind, folder) > 25
    child = tmp_path / "child.py"
    child.write_text(CHILD, encoding="utf-8")
    root = Path(__file__).parents[2]
    command = [sys.executable, child, folder, kind, str(MUTATIONS), "1", root]
    result = subprocess.run(
        [str(item) for item in command],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    outcome = json.loads(result.stdout)
    assert outcome["wrong"] == [], "\n".join(outcome["wrong"][:20])
    assert outcome["graphs"] + outcome["errors"] == MUTATIONS
    assert outcome["errors"] > MUTATIONS // 10
    assert outcome["graphs"] > MUTATIONS // 100
    assert len(outcome["codes"]) >= 3, outcome["codes"]
    assert outcome["peak"] < MEMORY


def test_every_kind_of_site_is_found(tmp_path: Path) -> None:
    """The walker knows the file: offsets, lengths, indices, scales and parameters."""
    folder = tmp_path / "sources"
    sources("flatbuffer", folder)
    kinds: set[str] = set()
    for path in folder.iterdir():
        content = path.read_bytes()
        sites = Flatbuffer(content).sites
        kinds |= {site.kind for site in sites}
        assert all(0 <= site.at < len(content) for site in sites)
        changed = mutated_tflite(content, sites, np.random.default_rng(0))
        assert len(changed) == len(content)
        import_tflite(content, path.name, path.name)
    assert kinds >= {"offset", "length", "H", "I", "i", "b", "f", "q"}
