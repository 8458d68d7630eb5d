"""SARIF output has the structure that the 2.1.0 schema demands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from npuforge.cli.main import app
from npuforge.errors import UsageError

# The parts of the OASIS schema that apply to this document: required members, types, enumerations.
LOG = {"required": ("version", "runs"), "version": "2.1.0"}
LEVELS = {"none", "note", "warning", "error"}


def check_message(message: Any) -> None:
    assert isinstance(message, dict)
    assert isinstance(message["text"], str)
    assert message["text"]


def check_location(location: dict[str, Any]) -> None:
    physical = location["physicalLocation"]
    assert set(physical) & {"artifactLocation", "address"}, "one of the two is required"
    uri = physical["artifactLocation"]["uri"]
    assert isinstance(uri, str)
    assert " " not in uri
    assert not uri.startswith("/")
    assert "\\" not in uri
    region = physical.get("region")
    if region is not None:
        assert isinstance(region["startLine"], int)
        assert region["startLine"] >= 1
    address = physical.get("address")
    if address is not None:
        assert isinstance(address["absoluteAddress"], int)
        assert address["absoluteAddress"] >= -1


def check_log(document: dict[str, Any]) -> None:
    assert document["version"] == LOG["version"]
    assert isinstance(document["runs"], list)
    for run in document["runs"]:
        driver = run["tool"]["driver"]
        assert driver["name"]
        rules = driver["rules"]
        assert len({rule["id"] for rule in rules}) == len(rules), "uniqueItems"
        for rule in rules:
            check_message(rule["shortDescription"])
            check_message(rule["help"])
            assert rule["defaultConfiguration"]["level"] in LEVELS
            tags = rule["properties"]["tags"]
            assert len(set(tags)) == len(tags)
        for result in run["results"]:
            check_message(result["message"])
            assert result["level"] in LEVELS
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            assert -1 <= result["rank"] <= 100
            assert result["locations"]
            for location in (*result["locations"], *result.get("relatedLocations", ())):
                check_location(location)
            for location in result.get("relatedLocations", ()):
                assert isinstance(location["id"], int)
            assert all(isinstance(v, str) for v in result["partialFingerprints"].values())
        for invocation in run["invocations"]:
            assert isinstance(invocation["executionSuccessful"], bool)
            for note in invocation["toolExecutionNotifications"]:
                check_message(note["message"])
                assert note["level"] in LEVELS


def test_sarif(tmp_path: Path) -> None:
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "bad link.ld").write_text(
        "MEMORY {\n RAM (xrw) : ORIGIN = 0x34000400, LENGTH = 8192K\n}\n"
        "_estack = ORIGIN(RAM) + LENGTH(RAM);\n"
    )
    out = tmp_path / "out.sarif"
    run = CliRunner().invoke(app, ["doctor", str(folder), "--sarif", str(out)])
    assert run.exit_code == 1
    document = json.loads(out.read_text(encoding="utf-8"))
    check_log(document)
    (result,) = [r for r in document["runs"][0]["results"] if r["ruleId"] == "K02-no-memory"]
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"]["uri"] == "bad%20link.ld"
    assert physical["region"]["startLine"] == 2
    run = CliRunner().invoke(app, ["doctor", str(folder), "--sarif", str(out)])
    assert isinstance(run.exception, UsageError), "an existing file is not replaced unasked"
    run = CliRunner().invoke(app, ["doctor", str(folder), "--sarif", str(out), "--force"])
    assert run.exit_code == 1


def test_sarif_without_findings(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("nothing")
    out = tmp_path / "out.sarif"
    run = CliRunner().invoke(app, ["doctor", str(tmp_path / "a.txt"), "--sarif", str(out)])
    assert run.exit_code == 0
    document = json.loads(out.read_text(encoding="utf-8"))
    check_log(document)
    assert document["runs"][0]["results"] == []
