"""The roofline picture: well-formed, inside its frame, no epoch above its roof."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cost.test_puzzles import BOARD, averaged, timed

from npuforge.cost import NpuCost
from npuforge.importers import load_model
from npuforge.report.roofline import (
    HEIGHT,
    MACS_PER_CLOCK,
    WIDTH,
    roofline_points,
    roofline_svg,
)

SVG = "{http://www.w3.org/2000/svg}"


def costs(example: Callable[[str], Path]) -> list[NpuCost]:
    files = sorted(example("x").parent.parent.glob("*/*.tflite"))
    assert files
    return [timed(load_model(path), BOARD, "4.0", controller=True) for path in files]


def test_epochs_stay_below_the_machine(example: Callable[[str], Path]) -> None:
    for cost in costs(example):
        points = roofline_points(cost)
        assert points
        for point in points:
            assert point.gmacs <= MACS_PER_CLOCK * BOARD.npu_mhz / 1e3
            assert point.gmacs <= point.intensity * BOARD.flash_mhz * 2 / 1e3 * 1.01


def test_the_picture_is_well_formed_and_inside_its_frame(
    example: Callable[[str], Path],
) -> None:
    for cost in costs(example):
        root = ET.fromstring(roofline_svg(cost, "a <name> & more"))
        circles = [c for c in root.iter(f"{SVG}circle") if c.find(f"{SVG}title") is not None]
        assert len(circles) == len(roofline_points(cost))
        for circle in circles:
            assert 0 < float(circle.attrib["cx"]) < WIDTH
            assert 0 < float(circle.attrib["cy"]) < HEIGHT
        texts = [t.text for t in root.iter(f"{SVG}text")]
        assert "a <name> & more" in texts
        assert any("288" in (text or "") for text in texts)


@pytest.mark.parametrize("flash", [0.0, 1.0, 400.0])
def test_odd_clocks_and_no_convolution_still_give_a_picture(flash: float) -> None:
    cost = timed(averaged(3, 16), replace(BOARD, flash_mhz=flash), "4.0")
    ET.fromstring(roofline_svg(cost, "x"))
    ET.fromstring(roofline_svg(replace(cost, epochs=()), "x"))
