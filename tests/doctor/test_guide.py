"""The guide: questions the files answer are not asked, evidence outweighs priors, scriptable."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import npuforge.doctor.guide as guide
from npuforge.cli.main import app
from npuforge.doctor import RULES, collect, diagnose
from npuforge.doctor.guide import advise, open_questions, steps, symptoms
from npuforge.errors import UsageError
from npuforge.messages import catalogue

STALL = "time-out\nINTREG=0x0 BUSIF_ERR=0x0\nNVIC pending=0\nSTRENG0 CTRL=0x80000001\n"


def table() -> dict[str, object]:
    return tomllib.loads(Path(guide.__file__).with_name("guide.toml").read_text("utf-8"))


def test_table_is_worded_and_closed() -> None:
    document = table()
    words = catalogue("en")
    causes: set[str] = set()
    for weights in document["symptoms"].values():  # type: ignore[attr-defined]
        causes |= set(weights)
    for question in document["questions"]:  # type: ignore[attr-defined]
        assert f"GUI-ask-{question['id']}" in words
        assert set(question["symptoms"]) <= set(document["symptoms"])  # type: ignore[call-overload]
        causes |= set(question["yes"]) | set(question["no"])
        for name in question.get("files", ()):
            assert known(name), name
    for name, weights in document["evidence"].items():  # type: ignore[attr-defined]
        assert known(name), name
        causes |= set(weights)
    for cause in causes:
        assert words[f"GUI-cause-{cause}"]["hint"], cause
    declared = {code[10:] for code in words if code.startswith("GUI-cause-")}
    assert declared == causes
    assert len(steps()) == 7
    assert len(symptoms()) >= 14


FAMILIES = {"K03", "K04", "K05", "K06", "K07", "K08", "K09", "K10", "K11", "K12", "K13", "K14",
            "K15", "K16", "K17", "K18", "K19", "K01", "K02", "K25", "K27", "K28"}  # fmt: skip


def known(name: str) -> bool:
    """A finding, or a family of the catalogue."""
    return name in RULES or name in FAMILIES or name in {r.family for r in RULES.values()}


def test_files_answer_questions(tmp_path: Path) -> None:
    (tmp_path / "uart.log").write_text(STALL)
    findings = diagnose(collect([tmp_path])).findings
    asked = {question.id for question in open_questions("hang", findings, {})}
    assert "polling" not in asked, "the dump tells already"
    assert "polling" in {question.id for question in open_questions("hang", (), {})}
    advice = advise("hang", findings, {})
    assert advice.causes[0].id == "sleep"
    assert advice.causes[0].findings == ("K23-clock-gated",)
    assert "polling" in advice.known


@pytest.mark.parametrize(
    ("symptom", "answers", "first"),
    [
        ("hang", {"polling": True}, "sleep"),
        ("hang", {"banktest": False}, "power"),
        ("zeros", {"cpu_reads_weights": False}, "weights"),
        ("frozen", {"first_time": True}, "reset"),
        ("second_wrong", {"dcache_off": True}, "cache"),
        ("garbage", {"same_input_pc": True}, "preprocessing"),
        ("slow", {"report_all_npu": False}, "fallback"),
        ("drift", {"malloc": True}, "alignment"),
        ("same_code", {}, "conversion"),
        ("accuracy", {"float_good": True}, "calibration"),
        ("dead", {}, "image"),
    ],
)
def test_answers_move_causes(symptom: str, answers: dict[str, bool], first: str) -> None:
    assert advise(symptom, (), answers).causes[0].id == first


@pytest.mark.parametrize(
    ("symptom", "likely"),
    [
        ("init", {"clock", "power", "version"}),
        ("hang", {"power", "sleep"}),
        ("zeros", {"clock", "isolation"}),
        ("garbage", {"preprocessing", "quantisation"}),
        ("slow", {"fallback", "clock_low", "memory_slow", "overmaintenance"}),
        ("jitter", {"alignment", "race"}),
        ("sporadic", {"overlap", "race", "supply"}),
        ("no_fit", {"peak"}),
        ("no_region", {"reach", "padding"}),
        ("accuracy", {"calibration", "sensitive"}),
        ("power", {"dvfs"}),
        ("second_wrong", {"cache"}),
        ("drift", {"alignment", "lifetime"}),
        ("same_code", {"conversion"}),
    ],
)
def test_what_practitioners_name_is_shown_without_any_answer(
    symptom: str, likely: set[str]
) -> None:
    shown = [cause.id for cause in advise(symptom, (), {}).causes]
    assert likely <= set(shown), shown


@pytest.mark.parametrize(
    ("symptom", "answers", "first"),
    [
        ("hang", {"malloc": True}, "alignment"),
        ("hang", {"dcache_off": True}, "cache"),
        ("fault", {"malloc": True}, "alignment"),
        ("zeros", {"npu_clocked": False}, "clock"),
        ("no_fit", {"static_pools": True}, "peak"),
    ],
)
def test_an_answer_brings_up_what_was_not_likely(
    symptom: str, answers: dict[str, bool], first: str
) -> None:
    assert advise(symptom, (), answers).causes[0].id == first


def test_usage() -> None:
    with pytest.raises(UsageError, match="GUI-001"):
        advise("warm", (), {})
    with pytest.raises(UsageError, match="GUI-002"):
        advise("hang", (), {"weather": True})


def test_script_and_dialogue(tmp_path: Path) -> None:
    words = ["doctor", "--guide", "--symptom", "frozen", "--answer", "first_time=yes", "--json"]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0
    document = json.loads(run.stdout)
    assert document["causes"][0]["cause"] == "reset"
    assert document["asked"] == ["first_time"]
    # by number, then one line an answer; an empty line is "do not know"
    number = [name for name, _ in symptoms()].index("frozen") + 1
    questions = list(open_questions("frozen", (), {}))
    lines = ["y" if q.id == "first_time" else "" for q in questions]
    run = CliRunner().invoke(
        app, ["doctor", "--guide"], input="\n".join([str(number), *lines]) + "\n"
    )
    assert run.exit_code == 0
    assert "1. the network is not reset between inferences" in run.stdout
    # what is no symptom is asked again; so is an empty line
    run = CliRunner().invoke(
        app, ["doctor", "--guide"], input="\n99\nwarm\nfrozen\n" + "\n".join(lines) + "\n"
    )
    assert run.exit_code == 0
    assert "1. the network is not reset between inferences" in run.stdout
    run = CliRunner().invoke(app, ["doctor", "--symptom", "hang", "--answer", "polling=maybe"])
    assert isinstance(run.exception, UsageError)


def test_end_of_input() -> None:
    """No terminal, a pipe that ends: the list of symptoms, or the ranking of what was answered."""
    run = CliRunner().invoke(app, ["doctor", "--guide"], input="")
    assert isinstance(run.exception, UsageError)
    assert run.exception.code == "GUI-004"
    assert "second_wrong" in run.exception.hint
    run = CliRunner().invoke(app, ["doctor", "--guide"], input="nothing\n")
    assert isinstance(run.exception, UsageError)
    assert run.exception.code == "GUI-001"
    run = CliRunner().invoke(app, ["doctor", "--guide"], input="hang\n")
    assert run.exit_code == 0
    asked = [question.words[0] for question in open_questions("hang", (), {})]
    assert [words in run.stdout for words in asked[:2]] == [True, False]
    assert "1. " in run.stdout
