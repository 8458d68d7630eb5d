"""Rules are declared once and worded; projects survive hostile files; the verb's exit codes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from npuforge.api import diagnose_project, explain_finding
from npuforge.cli.main import app
from npuforge.doctor import CHECKS, RULES
from npuforge.errors import UsageError
from npuforge.messages import catalogue

BAD_LD = "MEMORY { RAM (xrw) : ORIGIN = 0x34000400, LENGTH = 8192K }\n_estack = 0x34800400;\n"
GOOD_LD = "MEMORY { RAM (xrw) : ORIGIN = 0x34000400, LENGTH = 2047K }\n"


def test_rules_are_worded() -> None:
    for rule in RULES.values():
        entry = catalogue("en")[f"DOC-{rule.id}"]
        assert set(entry) == {"message", "cause", "hint", "confirm"}, rule.id
        assert rule.words.message
    words = {c.removeprefix("DOC-") for c in catalogue("en") if c.startswith("DOC-K")}
    assert words == {rule for rule in RULES if rule.startswith("K")}


def test_every_rule_belongs_to_a_check() -> None:
    assert {rule.id for check in CHECKS for rule in check.rules} == set(RULES)


def test_verb(tmp_path: Path) -> None:
    path = tmp_path / "board.ld"
    path.write_text(BAD_LD)
    run = CliRunner().invoke(app, ["doctor", str(tmp_path), "--json"])
    document = json.loads(run.stdout)
    assert run.exit_code == 1
    assert document["failed"]
    assert document["findings"][0]["id"] == "K02-no-memory"
    assert document["findings"][0]["evidence"][0]["file"] == "board.ld"
    path.write_text(GOOD_LD)
    assert CliRunner().invoke(app, ["doctor", str(path)]).exit_code == 0
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 2


def test_explain() -> None:
    assert [rule.id for rule in explain_finding("k02-no-memory")] == ["K02-no-memory"]
    assert len(explain_finding("K02")) >= 3
    with pytest.raises(UsageError, match="DOC-003"):
        explain_finding("K99")


def test_missing_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="DOC-001"):
        diagnose_project([tmp_path / "nothing"])


def test_hostile_files(tmp_path: Path) -> None:
    (tmp_path / "huge.c").write_bytes(b"x" * (4 << 20))
    (tmp_path / "nul.ld").write_bytes(b"MEMORY {\0\0\xff\xfe" * 1000)
    (tmp_path / "gbk.c").write_bytes("/* 缓存 */ int a;".encode("gb18030"))
    (tmp_path / "cut.elf").write_bytes(b"\x7fELF\x01\x01\x01")
    (tmp_path / "bad.json").write_bytes(b'{"Profiles": [')
    (tmp_path / "bad.onnx").write_bytes(os.urandom(300))
    (tmp_path / "deep.c").write_text("void f(void) {" + "{" * 20000)
    (tmp_path / "paren.c").write_text("int x = " + "(" * 50000 + ";")
    (tmp_path / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "b.h").write_text('#include "a.h"\n')
    diagnosis = diagnose_project([tmp_path])
    assert not diagnosis.failed
