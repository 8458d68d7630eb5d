"""Mutated model files: an error or a graph, never a crash, a hang or a flood of memory.

The mutations run in a child process with a time limit and a limit on its memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MUTATIONS = 1100
"""For each of the two formats; the bar is 2,000 a run in all."""
MEMORY = 1 << 30
SECONDS = 240

CHILD = r"""
import json, resource, sys, tempfile, warnings
from pathlib import Path
import numpy as np
from npuforge.errors import NpuforgeError
from npuforge.importers import load_model
from npuforge.numerics import Executor, random_inputs

warnings.simplefilter("ignore")
source, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
original = source.read_bytes()
rng = np.random.default_rng(seed)
WORDS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]

def mutate():
    data = bytearray(original)
    # structure lies at the ends of these files, weights in the middle: aim at both
    for _ in range(rng.integers(1, 9)):
        edge = rng.random() < 0.8
        span = min(len(data), 6000)
        at = int(rng.integers(0, span)) if edge else int(rng.integers(0, len(data)))
        if edge and rng.random() < 0.5:
            at = len(data) - 1 - at
        kind = rng.integers(0, 6)
        if kind == 0:
            data[at] = int(rng.integers(0, 256))
        elif kind == 1:
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 2:
            word = WORDS[int(rng.integers(0, len(WORDS)))]
            data[at : at + 4] = word.to_bytes(4, "little")[: len(data) - at]
        elif kind == 3:
            other = int(rng.integers(0, len(data) - 16))
            data[at : at + 16] = data[other : other + 16][: len(data) - at]
        elif kind == 4:
            del data[at : at + int(rng.integers(1, 64))]
        else:
            data[at:at] = bytes(int(rng.integers(1, 64)))
    return bytes(data)

outcome = {"graphs": 0, "errors": 0}
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / source.name
    for _ in range(count):
        path.write_bytes(mutate())
        try:
            graph = load_model(path)
            if graph.tensors and sum(t.size for t in graph.tensors.values()) < 5_000_000:
                Executor(graph).run(random_inputs(graph, rng))
            outcome["graphs"] += 1
        except NpuforgeError:
            outcome["errors"] += 1
outcome["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps(outcome))
"""


def small_onnx(path: Path) -> Path:
    """A quantised network of a few layers, as an ONNX file."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    constants: list[TensorProto] = []

    def const(name: str, value: object, dtype: str) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    nodes = []

    def quantized(name: str, source: str, scale: float, zero: int) -> str:
        s, z = const(f"{name}_s", scale, "float32"), const(f"{name}_z", zero, "int8")
        nodes.append(helper.make_node("QuantizeLinear", [source, s, z], [f"{name}_q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", s, z], [f"{name}_dq"]))
        return f"{name}_dq"

    x = quantized("x", "x", 0.02, 3)
    w = const("w", rng.integers(-99, 99, (4, 3, 3, 3)), "int8")
    ws, wz = const("ws", rng.uniform(0.001, 0.01, 4), "float32"), const("wz", [0] * 4, "int8")
    nodes.append(helper.make_node("DequantizeLinear", [w, ws, wz], ["w_dq"], axis=0))
    nodes.append(helper.make_node("Conv", [x, "w_dq"], ["c"], pads=[1, 1, 1, 1]))
    nodes.append(helper.make_node("Relu", ["c"], ["r"]))
    r = quantized("r", "r", 0.03, -128)
    nodes.append(helper.make_node("GlobalAveragePool", [r], ["g"]))
    g = quantized("g", "g", 0.02, -100)
    nodes.append(helper.make_node("Flatten", [g], ["y"]))
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4))],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("kind", ["tflite", "onnx"])
def test_mutated_files(kind: str, tmp_path: Path) -> None:
    if kind == "tflite":
        source = ROOT / "examples" / "keyword_spotting" / "keyword_spotting.tflite"
    else:
        source = small_onnx(tmp_path / "small.onnx")
    child = tmp_path / "child.py"
    child.write_text(CHILD, encoding="utf-8")
    result = subprocess.run(
        [sys.executable, str(child), str(source), str(MUTATIONS), "1"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    outcome = json.loads(result.stdout)
    assert outcome["graphs"] + outcome["errors"] == MUTATIONS
    assert outcome["errors"] > MUTATIONS // 10
    assert outcome["graphs"] > 0
    assert outcome["peak"] < MEMORY
