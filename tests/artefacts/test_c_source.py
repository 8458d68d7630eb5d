"""C sources: order of events, control frames, attributes, constants; hostile text."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.artefacts.c_source import constant, read_c

SOURCE = """
#define CLEAN(a, n) SCB_CleanDCache_by_Addr((uint32_t *)(a), (n))  /* flush */
#define SIZE (4u * 0x10)
__attribute__((aligned(32), section(".psram_bss"))) static uint8_t buf[3][10 * 20];
__STATIC_INLINE int f(uint8_t *p, const int n)
{
#ifdef A
  g(p);
#else
  h(p);
#endif
#if 0
  never();
#endif
  if (x == 1) { a = b ^ 0x80; } else y();
  do { r = step(&inst); if (r == WFE) wait(); } while (r != DONE);
  for (int i = 0; i < n; i++) p[i] ^= 0x80;
  (void)outer(inner(p));
  return k(p);
}
"""


def test_events_in_order() -> None:
    source = read_c(SOURCE)
    (function,) = source.functions
    assert (function.name, function.params, function.static) == ("f", ("p", "n"), True)
    calls = [event.name for event in function.calls]
    assert calls == ["g", "h", "y", "step", "wait", "inner", "outer", "k"]
    by_name = {event.name: event for event in function.calls}
    assert [f.condition for f in by_name["g"].frames] == ["defined(A)"]
    assert by_name["y"].frames[0].kind == "else"
    assert by_name["step"].target == "r"
    assert [f.kind for f in by_name["wait"].frames] == ["loop", "if"]
    assert not by_name["outer"].used
    assert by_name["inner"].used
    assert (
        by_name["step"].line
        == SOURCE.splitlines().index(
            "  do { r = step(&inst); if (r == WFE) wait(); } while (r != DONE);"
        )
        + 1
    )
    assigns = [(e.name, e.args[0]) for e in function.events if e.kind == "assign"]
    assert assigns == [("a", "="), ("r", "="), ("i", "="), ("p[i]", "^="), ("i", "++")]


def test_variables_and_macros() -> None:
    source = read_c(SOURCE)
    buffer = source.variables[0]
    assert (buffer.name, buffer.dims, buffer.section, buffer.aligned) == (
        "buf", ("3", "10 * 20"), ".psram_bss", 32,
    )  # fmt: skip
    macro = source.macros[0]
    assert macro.params == ("a", "n")
    assert macro.body == "SCB_CleanDCache_by_Addr((uint32_t *)(a), (n))"


def test_constants() -> None:
    macros = {"SIZE": "(4u * 0x10)", "LOOP": "LOOP + 1", "F": "g(1)"}
    assert constant("SIZE + sizeof(float)", macros) == 68
    assert constant("(uint32_t)0x34000000UL + (1 << 4)", macros) == 0x34000010
    assert constant("LOOP", macros) is None
    assert constant("F", macros) is None
    assert constant("unknown", macros) is None


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="#ifdefnelse (){};=&*ab0,\"'\n/\\", max_size=400))
def test_any_text_is_taken(text: str) -> None:
    read_c(text)


def test_deep_nesting_is_bounded() -> None:
    read_c("void f(void) {" + "{" * 20000)
    read_c("int x = " + "(" * 20000 + ";")
    read_c("void f(void) { x = " + "a(" * 3000 + ")" * 3000 + "; }")


def test_octal_alignment() -> None:
    (buffer,) = read_c("__attribute__((aligned(040))) static char buffer[64];").variables
    assert buffer.aligned == 32
