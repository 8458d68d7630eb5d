"""Running epochs: data as stated, faults by name, a compiled network against LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuforge.aton import Memory, assemble, epochs_of, run_epoch
from npuforge.aton.load import load_compiled
from npuforge.errors import ModelError
from npuforge.importers import load_model
from npuforge.numerics.fixedpoint import rounding_shift
from npuforge.validate.program import compare_with_model

BASE = 0x34000000
SCALE = """
label 1
  write STRENG0.ADDR 0x34000000
  load STRENG0.FSIZE 0x8
  write STRENG0.LIMIT 0x1
  write STRENG0.CTRL 0x8c101
  write STRENG1.ADDR 0x34000100
  load STRENG1.FSIZE 0x8
  write STRENG1.LIMIT 0x1
  write STRENG1.CTRL 0x80109
  write ARITH0.COEFFAC 0x20003
  write ARITH0.SHIFT 0x8000
  write ARITH0.INSHIFTER 0x1
  write ARITH0.CTRL 0x5000061
  write STRSWITCH0.STRENG1_0 0x25
  write STRSWITCH0.ARITH0_0 0x1
  poll STRENG1.CTRL[31] 0x64 0x0
"""
INPUT = np.array([-128, -3, -1, 0, 1, 2, 42, 127], np.int8)


def memory() -> Memory:
    made = Memory({BASE: np.zeros(4096, np.uint8)})
    made.load(BASE, INPUT.tobytes())
    return made


def test_a_scaled_copy_rounds_halves_away_from_zero() -> None:
    space = memory()
    (epoch,) = epochs_of(assemble(SCALE))
    run_epoch(epoch, space)
    exact = (3 * INPUT.astype(np.float64) + 2) / 2
    wanted = np.clip(np.sign(exact) * np.floor(np.abs(exact) + 0.5), -128, 127).astype(np.int8)
    assert np.array_equal(np.frombuffer(space.peek(BASE + 0x100, 8), np.int8), wanted)


@pytest.mark.parametrize(
    ("old", "new", "code", "unit"),
    [
        ("load STRENG1.FSIZE 0x8", "load STRENG1.FSIZE 0x9", "ATN-006", "STRENG1"),
        ("load STRENG1.FSIZE 0x8", "load STRENG1.FSIZE 0x7", "ATN-006", "STRENG1"),
        ("STRENG1.LIMIT 0x1", "STRENG1.LIMIT 0x0", "ATN-006", "STRENG1"),
        ("ARITH0_0 0x1", "ARITH0_0 0x0", "ATN-006", "ARITH0"),
        ("ARITH0_0 0x1", "ARITH0_0 0x5", "ATN-006", "STRENG2"),
        ("ARITH0_0 0x1", "ARITH0_0 0x25", "ATN-006", "ARITH0"),
        ("0x5000061", "0x5000261", "ATN-007", "ARITH0"),
        ("STRENG0.ADDR 0x34000000", "STRENG0.ADDR 0x34000040", "ATN-011", "STRENG0"),
        ("STRENG1.ADDR 0x34000100", "STRENG1.ADDR 0x34000ffc", "ATN-008", "STRENG1"),
        ("STRENG0.ADDR 0x34000000", "STRENG0.ADDR 0x33fffff8", "ATN-008", "STRENG0"),
    ],
)
def test_faults_are_named(old: str, new: str, code: str, unit: str) -> None:
    assert SCALE.count(old) == 1
    (epoch,) = epochs_of(assemble(SCALE.replace(old, new)))
    with pytest.raises(ModelError) as caught:
        run_epoch(epoch, memory())
    assert (caught.value.code, caught.value.params["unit"]) == (code, unit)


def test_ties_as_the_board_needs_them() -> None:
    sums = np.array([-427112, -449416, -454088], np.int64)
    assert rounding_shift(sums * 16384, 18).tolist() == [-26695, -28089, -28381]


NETWORKS = {
    "mobilenet_v1_025_96": (31, 33, 1),
    "movenet_lightning_192": (69, 75, 6),
    "yolox_nano_480": (219, 289, 6),
    "deeplab_v3_mnv2_320": (57, 60, 4),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", NETWORKS)
def test_compiled_networks_agree_with_their_models(shared: Path, name: str) -> None:
    """Every buffer within one step of the reference kernels, or with its cause stated."""
    network = load_compiled(shared / "aton" / name)
    graph = load_model(shared / "models" / network.model)
    rng = np.random.default_rng(1)
    data = {b.name: rng.integers(0, 256, b.size, np.uint8).tobytes() for b in network.inputs}
    found = compare_with_model(network, graph, data)
    epochs, compared, beyond = NETWORKS[name]
    assert len(found.run.epochs) == epochs
    assert len(found.buffers) >= compared
    assert found.explained
    assert sum(entry.largest > 1 for entry in found.buffers) <= beyond
    differing = sum(entry.differing for entry in found.buffers)
    assert differing <= 0.021 * sum(entry.values for entry in found.buffers)
