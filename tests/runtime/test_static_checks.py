"""Static checks of generated firmware: runtime around the kernels, board, application, network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.static import (
    STYLE,
    chip_flags,
    clang_tidy,
    cppcheck,
    documented_rules,
    misra_rules,
)
from tests.tools import needs_clang_tidy, needs_cppcheck

from npuforge import api
from npuforge.firmware.project import SMALL_SOURCES

# port->now_us() is taken for a function without effect: two calls are not the same value
ACCEPTED = ("duplicateExpression:*runtime.c", "unsignedLessThanZero:*runtime.c")
INCLUDES = ("-Iruntime/include", "-Iboard", "-Inetwork", "-Iapp")
ST = Path(api.__file__).parent / "firmware" / "templates" / "st_port"
SHIMS = Path(api.__file__).parent / "boards" / "virtual" / "application" / "include"


@pytest.fixture(scope="module")
def firmware(
    example: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    """Folder of a board project and the sources that are checked."""
    out = tmp_path_factory.mktemp("static") / "bundle"
    api.deploy_model(
        example("visual_wake_words"), "stm32n6570-dk", out, emulate="off", frame="160x120",
        random_samples=1,
    )  # fmt: skip
    folder = out / "firmware"
    sources = [f"runtime/src/{name}.c" for name in SMALL_SOURCES]
    for part in ("board", "app", "network"):
        sources += sorted(f"{part}/{path.name}" for path in (folder / part).glob("*.c"))
    # programs of the emulator
    return folder, [s for s in sources if not s.endswith(("known_answer.c", "validate.c"))]


@needs_cppcheck
def test_cppcheck_is_clean(firmware: tuple[Path, list[str]]) -> None:
    folder, sources = firmware
    run = cppcheck(
        folder, "--error-exitcode=1", STYLE, "--suppress=unusedStructMember",
        *(f"--suppress={item}" for item in ACCEPTED), *INCLUDES, *sources,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


@needs_clang_tidy
def test_clang_tidy_is_clean(firmware: tuple[Path, list[str]]) -> None:
    folder, sources = firmware
    run = clang_tidy(folder, sources, *chip_flags(), *INCLUDES)
    assert run.returncode == 0, run.stdout


@needs_cppcheck
def test_misra_rules_are_those_of_the_page(firmware: tuple[Path, list[str]]) -> None:
    folder, sources = firmware
    assert misra_rules(folder, *INCLUDES, *sources) == documented_rules()


def st_port(folder: Path, spoil: str = "") -> tuple[list[str], list[str]]:
    """Sources of the port to ST's runtime, copied, and the folders they include from."""
    for path in ST.iterdir():
        (folder / path.name).write_text(path.read_text("utf-8"), "utf-8")
    with (folder / "nf_st.c").open("a", encoding="utf-8") as out:
        out.write(spoil)
    return [str(folder / "nf_st.c"), str(folder / "main.c")], [f"-I{folder}", f"-I{SHIMS}"]


# both tools have to see it: a pointer known to be null is read
SPOILT = """
int nf_st_spoilt(void);
int nf_st_spoilt(void)
{
    const int *none = NULL;
    return *none;
}
"""


@needs_cppcheck
@pytest.mark.parametrize("spoil", ["", SPOILT], ids=["clean", "spoilt"])
def test_cppcheck_of_the_port_to_st(
    firmware: tuple[Path, list[str]], tmp_path: Path, spoil: str
) -> None:
    sources, folders = st_port(tmp_path, spoil)
    run = cppcheck(
        firmware[0], "--error-exitcode=1", STYLE, "--suppress=unusedStructMember", *INCLUDES,
        *folders, *sources,
    )  # fmt: skip
    assert (run.returncode != 0) == bool(spoil), run.stderr


@needs_clang_tidy
@pytest.mark.parametrize("spoil", ["", SPOILT], ids=["clean", "spoilt"])
def test_clang_tidy_of_the_port_to_st(
    firmware: tuple[Path, list[str]], tmp_path: Path, spoil: str
) -> None:
    sources, folders = st_port(tmp_path, spoil)
    run = clang_tidy(firmware[0], sources, *chip_flags(), *INCLUDES, *folders)
    assert (run.returncode != 0) == bool(spoil), run.stdout


@needs_cppcheck
def test_misra_rules_of_the_port_to_st(firmware: tuple[Path, list[str]], tmp_path: Path) -> None:
    sources, folders = st_port(tmp_path)
    rules = misra_rules(firmware[0], *INCLUDES, *folders, *sources, without=str(SHIMS))
    # 5.7: the addon takes enumerations without a tag, the shim's and the runtime's, for one tag
    assert {"15.5", "15.6"} <= rules - {"5.7"} <= documented_rules()
