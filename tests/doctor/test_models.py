"""Model files: what stops the compiler or the chip is found, sound models are left alone."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from tests.doctor.model_cases import MODELS, write_model

from npuforge.doctor import collect, diagnose


@pytest.mark.parametrize("name", sorted(MODELS))
def test_model(name: str, tmp_path: Path) -> None:
    write_model(name, tmp_path / "model.onnx")
    seen = [f.id for f in diagnose(collect([tmp_path])).findings]
    wanted = MODELS[name][0]
    if wanted:
        assert wanted in seen[:2]
    else:
        assert [rule for rule in seen if rule != "K20-dynamic-shape"] == []


def test_own_export(tmp_path: Path) -> None:
    onnx.save(MODELS["E01-good"][1](), tmp_path / "net_OE_3_2_0.onnx")
    assert [f.id for f in diagnose(collect([tmp_path])).findings] == ["K20-own-export"]


def test_exclusion_list(tmp_path: Path) -> None:
    """D08: the list names nodes that the file does not have."""
    write_model("E01-good", tmp_path / "model.onnx")
    (tmp_path / "quantize.py").write_text('nodes_to_exclude = ["/head/Conv"]\n')
    assert [f.id for f in diagnose(collect([tmp_path])).findings] == ["K20-excluded-name"]


def test_damaged_model(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"\x08\xff\xff\xff" * 50)
    (tmp_path / "bad.tflite").write_bytes(b"\x1c\0\0\0TFL3" + b"\xff" * 200)
    diagnosis = diagnose(collect([tmp_path]))
    assert len(diagnosis.unread) == 2
    assert not diagnosis.failed
