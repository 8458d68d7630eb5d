"""Faults injected into compiled programs: structural ones are named, wrong numbers are outside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.aton.chain import chain
from tests.aton.faults import CHECKED, COMPARED, NoPlaceError

from npuforge.aton.check import check_program
from npuforge.aton.compiled import Compiled
from npuforge.aton.load import load_compiled
from npuforge.importers import load_model
from npuforge.validate.program import compare_with_model

NAME = "mobilenet_v1_025_96"


@pytest.fixture(scope="module")
def network(shared: Path) -> Compiled:
    return load_compiled(shared / "aton" / NAME)


@pytest.mark.shared
@pytest.mark.parametrize("name", CHECKED)
def test_structural_faults_are_named(network: Compiled, name: str) -> None:
    try:
        wrong, epoch = CHECKED[name](network)
    except NoPlaceError:
        pytest.skip("the network has no place for it")
    found = check_program(wrong)
    assert found
    assert min(item.epoch for item in found) >= epoch
    assert all(item.message and item.hint for item in found)


@pytest.mark.parametrize(("name", "code"), [("clean", "ATC-018"), ("invalidate", "ATC-019")])
def test_missing_cache_maintenance_is_named(name: str, code: str) -> None:
    """The program of the tests states its maintenance; the shared ones do not."""
    assert not check_program(chain())
    wrong, epoch = CHECKED[f"missing {name}"](chain())
    found = check_program(wrong)
    assert {item.code for item in found} == {code}
    assert min(item.epoch for item in found) >= epoch


@pytest.mark.shared
@pytest.mark.parametrize("name", COMPARED)
def test_wrong_numbers_do_not_pass_for_the_chips_arithmetic(
    shared: Path, network: Compiled, name: str
) -> None:
    try:
        wrong, epoch = COMPARED[name](network)
    except NoPlaceError:
        pytest.skip("the network has no place for it")
    rng = np.random.default_rng(1)
    data = {b.name: rng.integers(0, 256, b.size, np.uint8).tobytes() for b in network.inputs}
    found = compare_with_model(wrong, load_model(shared / "models" / network.model), data)
    assert not found.explained
    assert found.outside[0].epoch >= epoch
