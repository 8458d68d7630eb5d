"""Linker scripts: regions, symbols, sections, hostile text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from npuforge.artefacts.linker_script import evaluate, read_linker_script

SCRIPT = """
/* a comment with MEMORY { in it */
_Min_Stack_Size = 0x800;
MEMORY
{
  ROM (xrw) : ORIGIN = 0x34000400, LENGTH = 511K /* code */
  RAM (rw)  : ORIGIN = ORIGIN(ROM) + LENGTH(ROM), LENGTH = 0x100000 - 64K
  PSRAM (xrw): org = 0x90000000, len = 16M
}
_estack = ORIGIN(RAM) + LENGTH(RAM);
SECTIONS
{
  .text : { *(.text) *(.text*) } > ROM
  .data : { _sdata = .; *(.data*) } > RAM AT > ROM
  .psram (NOLOAD) : ALIGN(32) { *(.psram_bss) } > PSRAM
}
"""


def test_regions_symbols_and_sections() -> None:
    script = read_linker_script(SCRIPT)
    assert script.regions["ROM"].end == 0x34000400 + 511 * 1024
    assert script.regions["RAM"].origin == script.regions["ROM"].end
    assert script.regions["PSRAM"].length == 16 << 20
    assert script.symbols["_estack"] == script.regions["RAM"].end
    assert script.symbols["_Min_Stack_Size"] == 0x800
    data, psram = script.sections[1:]
    assert (data.region, data.load_region, data.noload) == ("RAM", "ROM", False)
    assert (psram.region, psram.noload, psram.inputs) == ("PSRAM", True, (".psram_bss",))
    assert SCRIPT.splitlines()[script.regions["ROM"].line - 1].strip().startswith("ROM")


def test_what_cannot_be_evaluated_is_none() -> None:
    script = read_linker_script("MEMORY { A (x) : ORIGIN = FOO, LENGTH = 1/0 }")
    assert script.regions["A"].origin is None
    assert script.regions["A"].length is None
    assert evaluate("(" * 150 + "1" + ")" * 20, {}, {}) is None


@given(st.text(alphabet="(){}:;=,>ABOR0123 \n*/+-.xKM", max_size=300))
def test_any_text_is_taken(text: str) -> None:
    read_linker_script("MEMORY {" + text + "}\nSECTIONS {" + text + "}")
