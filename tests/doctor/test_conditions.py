"""A finding is an error only where the files prove that its code is compiled and reached."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.doctor.case_files import BASE

from npuforge.doctor import collect, diagnose
from npuforge.doctor.conditions import Macros, compiled, conditions_at, holds
from npuforge.doctor.project import Project
from npuforge.vocab import Severity

SPOIL = """
    for (uint32_t i = 0; i < input_bytes; i++) {
      input[i] ^= 0x80;
    }
    SCB_InvalidateDCache_by_Addr(input, input_bytes);
"""


def project(folder: Path, **files: str) -> Project:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return collect([folder])


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        ("1", True), ("0", False), ("defined(ON)", True), ("!defined(ON)", False),
        ("ON == 2", True), ("ON > 3", False), ("defined ON && ON >= 1", True),
        ("BOTH == 1", None), ("defined(BOTH)", True), ("BOTH && 0", False), ("GONE", False),
        ("defined(GONE) || ON", True), ("(ON + 1) == 3", True), ("CHAIN == 2", True),
        ("MAYBE", None), ("defined(MAYBE)", None), ("ON ==", None), ("f(ON)", None), ("", None),
        ("!" * 5000 + "1", None), ("(" * 5000, None),
    ],
)  # fmt: skip
def test_conditions(condition: str, answer: bool | None, tmp_path: Path) -> None:
    made = project(
        tmp_path,
        a__h="#define ON 2\n#define BOTH 0\n#define CHAIN ON\n",
        b__h="#define BOTH 1\n",
        Makefile="C_DEFS += -DUSED\nifdef X\nC_DEFS += -DMAYBE\nendif\n",
    )
    assert holds(condition, Macros(made)) is answer


def test_without_a_build_a_name_nobody_defines_is_unknown(tmp_path: Path) -> None:
    made = project(tmp_path, a__h="#define ON 2\n")
    assert holds("GONE", Macros(made)) is None
    assert holds("ON", Macros(made)) is True


def test_lines(tmp_path: Path) -> None:
    text = (
        "#if A == 1\none\n#elif defined(B)\ntwo\n#else\nthree\n#endif\nfour\n#if C\nfive\n#endif\n"
    )
    made = project(tmp_path, a__h="#define A 0\n", Makefile="-DB\n", m__c=text)
    by_line = {n: compiled(made, "m.c", n) for n in (2, 4, 6, 8, 10)}
    assert by_line == {2: False, 4: True, 6: False, 8: True, 10: False}
    assert compiled(made, "other.c", 3) is True


def test_a_guard_and_a_default_hide_nothing(tmp_path: Path) -> None:
    made = project(tmp_path, m__c="#ifndef SIZE\n#define SIZE 4\nx\n#endif\n")
    assert compiled(made, "m.c", 3) is True


@settings(max_examples=150, deadline=None)
@given(st.text("#ifdef elsndi(A)!&|=<>01\\\n \t/*", max_size=300))
def test_any_text(text: str) -> None:
    found = conditions_at(text)
    assert [line for line, _ in found] == sorted(line for line, _ in found)
    macros = Macros(Project(()))
    for _, conditions in found:
        for condition in conditions:
            assert holds(condition.text, macros) in (True, False, None)


def spoiled(folder: Path, before: str, after: str) -> list[Severity]:
    for path in BASE.iterdir():
        shutil.copyfile(path, folder / path.name)
    main = (folder / "main.c").read_text(encoding="utf-8")
    clean = "    SCB_CleanDCache_by_Addr(input, input_bytes);\n"
    assert clean in main
    main = main.replace(clean, clean + before + SPOIL + after)
    (folder / "main.c").write_text(main, encoding="utf-8")
    found = diagnose(collect([folder])).findings
    return [item.severity for item in found if item.id == "K07-dirty-invalidated"]


def test_an_error_needs_code_that_is_compiled(tmp_path: Path) -> None:
    assert spoiled(tmp_path, "", "") == [Severity.ERROR]
    assert spoiled(tmp_path, "#if SOME_OPTION == 2\n", "#endif\n") == [Severity.WARNING]
    (tmp_path / "options.h").write_text("#define SOME_OPTION 2\n")
    assert spoiled(tmp_path, "#if SOME_OPTION == 2\n", "#endif\n") == [Severity.ERROR]


def test_an_error_needs_a_write_on_every_path(tmp_path: Path) -> None:
    for path in BASE.iterdir():
        shutil.copyfile(path, tmp_path / path.name)
    main = (tmp_path / "main.c").read_text(encoding="utf-8")
    clean = "    SCB_CleanDCache_by_Addr(input, input_bytes);\n"
    lines = (
        "    if (clamped) {\n      memset(input, 0, input_bytes);\n    }\n"
        "    SCB_InvalidateDCache_by_Addr(input, input_bytes);\n"
        "    if (clamped) {\n      continue;\n    }\n"
    )
    (tmp_path / "main.c").write_text(main.replace(clean, clean + lines), encoding="utf-8")
    found = diagnose(collect([tmp_path])).findings
    assert [f.severity for f in found if f.id.startswith("K07")] == [Severity.WARNING]


def test_a_long_region_hurts_where_something_reaches_its_end(tmp_path: Path) -> None:
    region = "MEMORY {{ RAM (xrw) : ORIGIN = 0x34000400, LENGTH = 8192K }}\n{}"
    for text, severity in (
        (region.format(""), Severity.WARNING),
        (region.format("_estack = ORIGIN(RAM) + LENGTH(RAM);\n"), Severity.ERROR),
        (region.format("_top = ORIGIN(RAM) + 64K;\n"), Severity.WARNING),
    ):
        (tmp_path / "app.ld").write_text(text, encoding="utf-8")
        found = diagnose(collect([tmp_path])).findings
        assert [f.severity for f in found if f.id == "K02-no-memory"] == [severity], text


@pytest.mark.parametrize(
    ("map_text", "severity"),
    [
        (None, Severity.ERROR),
        ("Discarded input sections\n .text.{0}\n\nMemory Configuration\n", Severity.WARNING),
        ("Discarded input sections\n\nMemory Configuration\n .text.{0}\n", Severity.ERROR),
    ],
)
def test_an_empty_cache_function_that_the_linker_dropped_hurts_nobody(
    map_text: str | None, severity: Severity, tmp_path: Path
) -> None:
    for path in BASE.iterdir():
        shutil.copyfile(path, tmp_path / path.name)
    name = "mcu_cache_clean_range"
    text = f"int {name}(uint32_t a, uint32_t b)\n{{\n  __DSB();\n  return a > b;\n}}\n"
    (tmp_path / "cache_operations.c").write_text("#include <stdint.h>\n" + text, encoding="utf-8")
    with (tmp_path / "Makefile").open("a", encoding="utf-8") as file:
        file.write("\nSOURCES = cache_operations.c\n")
    if map_text is not None:
        (tmp_path / "app.map").write_text(map_text.format(name), encoding="utf-8")
    found = diagnose(collect([tmp_path])).findings
    assert [f.severity for f in found if f.id == "K08-no-effect"] == [severity]


ENDLESS = """
void Process(void)
{
  LL_ATON_RT_RuntimeInit();
  LL_ATON_RT_Init_Network(&NN_Instance_network);
  while (1) {
    LL_ATON_RT_RetValues_t rc;
    do {
      rc = LL_ATON_RT_RunEpochBlock(&NN_Instance_network);
    } while (rc != LL_ATON_RT_DONE);
    LL_ATON_RT_Reset_Network(&NN_Instance_network);
    HERE
  }
}
int main(void)
{
  while (1) {
    Process();
  }
}
"""


@pytest.mark.parametrize(
    ("inside", "severity"),
    [
        ("", []), ("if (failed) { break; }", [Severity.ERROR]),
        ("if (failed) { return; }", [Severity.ERROR]),
        ("for (i = 0; i < 3; i++) { if (failed) { break; } }", []),
    ],
)  # fmt: skip
def test_a_function_that_stays_in_its_loop_initialises_once(
    inside: str, severity: list[Severity], tmp_path: Path
) -> None:
    made = project(tmp_path, main__c=ENDLESS.replace("HERE", inside))
    found = diagnose(made).findings
    assert [f.severity for f in found if f.id == "K11-init-in-loop"] == severity


def test_the_copy_size_is_that_of_the_boot_loader(tmp_path: Path) -> None:
    (tmp_path / "app.bin").write_bytes(b"STM2" + bytes(0x20000))
    for folder, size in (("FSBL", "0x40000"), ("ExtMemLoader", "0x10000")):
        (tmp_path / folder).mkdir()
        text = f"#define EXTMEM_LRUN_SOURCE_SIZE {size}\n"
        (tmp_path / folder / "stm32_extmem_conf.h").write_text(text, encoding="utf-8")
    ids = [f.id for f in diagnose(collect([tmp_path])).findings]
    assert "K15-copy-size" not in ids
    (tmp_path / "FSBL" / "stm32n6xx_hal_conf.h").write_text("#define HAL_MODULE_ENABLED\n")
    text = "#define EXTMEM_LRUN_SOURCE_SIZE 0x10000\n"
    (tmp_path / "FSBL" / "stm32_extmem_conf.h").write_text(text, encoding="utf-8")
    found = [f for f in diagnose(collect([tmp_path])).findings if f.id == "K15-copy-size"]
    assert [f.severity for f in found] == [Severity.ERROR]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("configure", '#! /bin/sh\n# suppresses any "Segmentation fault" message\nERROR\n'),
        (
            "messages_console.rb",
            "# error: atonn segmentation fault\n@a = 'E700(x): left unallocated'",
        ),
    ],
)
def test_programs_are_no_logs(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text * 40, encoding="utf-8")
    assert diagnose(collect([tmp_path])).findings == ()


LONG = """MEMORY {
 RAM (xrw) : ORIGIN = 0x34180000, LENGTH = 1024K
 REST (xrw) : ORIGIN = 0x343C0000, LENGTH = 64K
}
_estack = ORIGIN(%s) + LENGTH(%s);
"""


@pytest.mark.parametrize(
    ("region", "drafts", "build", "severity"),
    [
        ("RAM", 0, "", Severity.ERROR), ("REST", 0, "", Severity.WARNING),
        ("RAM", 1, "", Severity.WARNING), ("RAM", 1, "LDFLAGS = -Tapp.ld\n", Severity.ERROR),
    ],
)  # fmt: skip
def test_a_linker_script_counts_when_the_build_takes_it(
    region: str, drafts: int, build: str, severity: Severity, tmp_path: Path
) -> None:
    (tmp_path / "app.ld").write_text(LONG % (region, region), encoding="utf-8")
    good = "MEMORY { RAM (xrw) : ORIGIN = 0x34000400, LENGTH = 1023K }\n"
    for number in range(drafts):
        (tmp_path / f"draft{number}.ld").write_text(good, encoding="utf-8")
    (tmp_path / "Makefile").write_text(build or "all:\n", encoding="utf-8")
    found = diagnose(collect([tmp_path])).findings
    (finding,) = (f for f in found if f.id == "K02-off-at-reset")
    assert finding.severity is Severity.WARNING
    assert "boot" in {premise.name for premise in finding.assumed}
    (tmp_path / "fsbl.c").write_text("int main(void) { HAL_Init(); }\n", encoding="utf-8")
    found = diagnose(collect([tmp_path])).findings
    assert [f.severity for f in found if f.id == "K02-off-at-reset"] == [severity]
