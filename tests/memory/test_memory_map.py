"""The picture shows the plan: every buffer where and when it lies, and nothing from outside."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from npuforge import api
from npuforge.errors import UsageError
from npuforge.report import memory_document
from npuforge.report.memory_map import (
    LANE,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    live_bytes,
    memory_page,
    memory_svg,
    shown_buffers,
)

SVG = "{http://www.w3.org/2000/svg}"


def drawn(path: Path) -> tuple[dict, list[str]]:  # type: ignore[type-arg]
    planned, _ = api.analyze_model(path, "stm32n6570-dk")
    nodes = [step.node for step in planned.schedule.steps]
    return memory_document(planned.schedule, planned.plan), nodes


def test_rectangles_are_the_plan(example: Callable[[str], Path]) -> None:
    memory, nodes = drawn(example("image_classification"))
    (region,) = (r for r in memory["regions"] if r["holds"] == "activations")
    root = ET.fromstring(memory_svg(memory, nodes, "title"))
    rects = {int(r.attrib["data-b"]): r for r in root.iter(f"{SVG}rect") if "data-b" in r.attrib}
    buffers = shown_buffers(memory)
    assert len(rects) == len(buffers)
    steps = len(live_bytes(memory))
    for number, buffer in enumerate(buffers):
        x, y, width, height = (
            float(rects[number].attrib[key]) for key in ("x", "y", "width", "height")
        )
        scale = (WIDTH - RIGHT - LEFT) / steps
        assert (x - LEFT) / scale == pytest.approx(buffer["first_step"] + 1, abs=0.02)
        life = buffer["last_step"] - buffer["first_step"] + 1
        assert width / scale == pytest.approx(life, abs=0.02)
        bottom = (TOP + LANE - y - height) / LANE * region["used"]
        assert bottom == pytest.approx(buffer["offset"], abs=region["used"] / LANE)
        assert height / LANE * region["used"] == pytest.approx(
            buffer["bytes"], abs=region["used"] / LANE
        )
    texts = "".join(t.text or "" for t in root.iter(f"{SVG}text"))
    assert f"peak: 48 KiB at step {memory['peak_step']}" in texts
    assert f"{region['base']:#010x}" in texts


def test_live_bytes_are_the_bound(example: Callable[[str], Path]) -> None:
    memory, _ = drawn(example("visual_wake_words"))
    live = live_bytes(memory)
    assert max(live) == memory["lower_bound"]
    assert live.index(max(live)) - 1 == memory["peak_step"]


def test_hostile_names_stay_text(example: Callable[[str], Path]) -> None:
    memory, nodes = drawn(example("keyword_spotting"))
    evil = "</script><script>alert(1)</script>\"'&<b>"
    for buffer in memory["buffers"]:
        buffer["name"] = evil
    page = memory_page(memory, [evil] * len(nodes), evil)
    assert page.count("<script>") == 1
    assert page.count("</script>") == 1
    assert "<b>" not in page.partition("<script>")[0]
    packed = re.search(r'data-map="([^"]*)"', page)
    assert packed is not None
    data = json.loads(unescape(packed[1]))
    assert len(data["buffers"]) == len(shown_buffers(memory))
    ET.fromstring(memory_svg(memory, [evil] * len(nodes), evil))


def test_files(example: Callable[[str], Path], tmp_path: Path) -> None:
    for name in ("a.svg", "a.html"):
        path = api.draw_memory(example("anomaly_detection"), "stm32n6570-dk", tmp_path / name)
        text = path.read_text(encoding="utf-8")
        outside = re.findall(r'(?:src|href)=|url\(|@import|https?://[^"\s]+', text)
        assert set(outside) <= {"http://www.w3.org/2000/svg"}
    with pytest.raises(UsageError) as caught:
        api.draw_memory(example("anomaly_detection"), "stm32n6570-dk", tmp_path / "a.png")
    assert caught.value.code == "SYS-051"
