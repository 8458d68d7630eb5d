"""Other ways to have the same problem: what must not change a diagnosis.

A variation rewrites the folder of a built case in place: other names, other log prefixes, other
folders and build systems, other line ends and encodings. The finding must stay first or second, and
correct code must stay without errors and warnings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.doctor.case_files import Case

from npuforge.artefacts.c_source import read_c
from npuforge.doctor import collect, diagnose
from npuforge.vocab import Severity

LOGS = (".log", ".txt")
SOURCES = (".c", ".h")
_WORD = re.compile(r"[A-Za-z_]\w*")
# names that are an interface: of the runtime, the HAL, an RTOS, the C library, the linker
_FIXED = re.compile(
    r"main|app_main|usermain|_sbrk|_end|end|_estack|_ebss|\w*_IRQHandler|\w*_Handler|\w*MspInit|"
    r"\w*(?:SystemClock|EXTMEM|BSP|HAL|LL_|ll_|stai|STAI|NN_|MX_|RCC|RIF|XSPI|DUMMY|LCD|LAYER)\w*|"
    r"mcu_\w+|npu_\w+|ethosu\w*|tx_\w+|[A-Z][A-Z0-9_]*|\w*Default\w*|x[A-Z]\w+|"
    r"v[A-Z]\w+|\w+_t|TfLite\w*|\w*(?:Hook|Callback)\w*|in|out"
)


def _files(folder: Path, *suffixes: str) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in suffixes:
            yield path


def _is_text(path: Path) -> bool:
    return b"\0" not in path.read_bytes()


def rename(folder: Path) -> None:
    """Own functions, variables and parameters get longer names, the same in every file."""
    _rename(folder, lambda name: f"app2_{name}_h")


def anonymous(folder: Path) -> None:
    """They get names that say nothing."""
    known: dict[str, str] = {}
    _rename(folder, lambda name: known.setdefault(name, f"q{len(known)}x"))


def _rename(folder: Path, make: Callable[[str], str]) -> None:
    own: set[str] = set()
    texts = {path: path.read_text(encoding="utf-8") for path in _files(folder, *SOURCES)}
    for path, text in texts.items():
        if "EpochBlock_ItemTypeDef" in text or path.name == "network.c":
            continue
        code = read_c(text)
        own |= {function.name for function in code.functions}
        own |= {name for function in code.functions for name in function.params}
        own |= {variable.name for variable in code.variables}
    own = {name for name in own if name and not _FIXED.fullmatch(name)}
    members = {name for text in texts.values() for name in re.findall(r"(?:\.|->)\s*(\w+)", text)}
    own -= members
    for path, text in texts.items():
        pieces = re.split(r'("(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*)', text, flags=re.DOTALL)
        for at in range(0, len(pieces), 2):
            pieces[at] = _WORD.sub(lambda m: make(m[0]) if m[0] in own else m[0], pieces[at])
        path.write_text("".join(pieces), encoding="utf-8")


def split(folder: Path) -> None:
    """The helpers of each source move to a file of their own; main and its like stay."""
    for path in list(_files(folder, ".c")):
        text = path.read_text(encoding="utf-8")
        if "EpochBlock_ItemTypeDef" in text:
            continue
        lines = text.split("\n")
        moved = [
            function
            for function in read_c(text).functions
            if function.static and not function.frames
        ]
        if not moved:
            continue
        parts = [line for line in lines if line.startswith("#include")]
        for function in moved:
            body = "\n".join(lines[function.line - 1 : function.end])
            parts += ["", re.sub(r"^static\s+(?:inline\s+)?", "", body)]
        for function in reversed(moved):
            del lines[function.line - 1 : function.end]
        rest = re.sub(r"^static\s+", "", "\n".join(lines), flags=re.MULTILINE)
        path.write_text(rest, encoding="utf-8")
        path.with_name(f"{path.stem}_parts.c").write_text("\n".join(parts) + "\n", "utf-8")


def cpp(folder: Path) -> None:
    """The application as C++."""
    for path in list(_files(folder, ".c")):
        text = path.read_text(encoding="utf-8")
        if "EpochBlock_ItemTypeDef" not in text:
            path.write_text('extern "C" {\n}\n' + text, encoding="utf-8")
            path.rename(path.with_suffix(".cpp"))


def _prefix(make: Callable[[int], str]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        for path in _files(folder, *LOGS):
            text = path.read_text(encoding="utf-8", errors="replace")
            if not _is_text(path) or path.name.endswith("report.txt") or "dmesg" in path.name:
                continue
            lines = text.split("\n")
            path.write_text(
                "\n".join(make(i) + line if line.strip() else line for i, line in enumerate(lines)),
                encoding="utf-8",
            )

    return apply


def windows(folder: Path) -> None:
    """CRLF everywhere, a byte-order mark, blanks at line ends of logs."""
    for path in _files(folder, *SOURCES, *LOGS, ".ld"):
        if not _is_text(path):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix in LOGS:
            text = text.replace("\n", "  \n")
        path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())


def utf16(folder: Path) -> None:
    """Logs as PowerShell redirects them."""
    for path in _files(folder, *LOGS):
        if _is_text(path):
            text = path.read_text(encoding="utf-8", errors="replace")
            path.write_bytes(text.replace("\n", "\r\n").encode("utf-16"))


def chinese(folder: Path) -> None:
    """Comments in GB 18030 in the sources, some with what a rule looks for."""
    for path in _files(folder, *SOURCES):
        text = path.read_text(encoding="utf-8", errors="replace")
        head = "/* 神经网络应用，缓存维护见下。 */\n"
        path.write_bytes((head + text).encode("gb18030"))


def layout(folder: Path) -> None:
    """The folders of a CubeMX project for several cores."""
    for path in sorted(folder.iterdir()):
        if not path.is_file():
            continue
        place = {".c": "Appli/Core/Src", ".h": "Appli/Core/Inc", ".ld": "STM32CubeIDE/Appli"}
        target = folder / "fw v2" / place.get(path.suffix, ".")
        target.mkdir(parents=True, exist_ok=True)
        path.rename(target / path.name)


def _makefile(folder: Path) -> tuple[Path, str] | None:
    path = next(iter(sorted(folder.rglob("Makefile"))), None)
    return None if path is None else (path, path.read_text(encoding="utf-8"))


def cmake(folder: Path) -> None:
    """The Makefile's switches as CMake, its commands as a shell script."""
    made = _makefile(folder)
    if made is None:
        return
    path, text = made
    defines = re.findall(r"-D([\w]+(?:=\S+)?)", text)
    flags = " ".join(re.findall(r"(?<!\S)--?[su][^\n]*", text))
    script = re.search(r"\b(\w+\.ld)\b", text)
    body = ["cmake_minimum_required(VERSION 3.20)", "project(app C)", "add_executable(app main.c)"]
    body += [f"target_compile_definitions(app PRIVATE {' '.join(defines)})"]
    body += [f"# board {m}" for m in re.findall(r"BOARD\s*=\s*(\S+)", text)]
    if script:
        body.append(f"target_link_options(app PRIVATE -T${{CMAKE_SOURCE_DIR}}/{script[1]} {flags})")
    (path.parent / "CMakeLists.txt").write_text("\n".join(body) + "\n", encoding="utf-8")
    commands = [line.strip() for line in text.split("\n") if line.startswith("\t")]
    (path.parent / "flash.sh").write_text("#!/bin/sh\n" + "\n".join(commands) + "\n", "utf-8")
    path.unlink()


def cubeide(folder: Path) -> None:
    """The Makefile's switches as STM32CubeIDE keeps them, its commands as a batch file."""
    made = _makefile(folder)
    if made is None:
        return
    path, text = made
    if (path.parent / ".cproject").exists():
        return
    values = "".join(
        f'<listOptionValue builtIn="false" value="{name}"/>\n'
        for name in re.findall(r"-D([\w]+(?:=\S+)?)", text)
    )
    nano = '<option superClass="linker.runtimelibrary_c.nano"/>' if "nano.specs" in text else ""
    real = '<option superClass="linker.option.nanoprintffloat" value="true"/>'
    script = re.search(r"\b(\w+\.ld)\b", text)
    body = (
        '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n<cproject>\n'
        f'<option superClass="compiler.option.definedsymbols">\n{values}</option>\n{nano}\n'
        + (real if "_printf_float" in text else "")
        + (f'<option value="${{workspace_loc:/${{ProjName}}/{script[1]}}}"/>' if script else "")
        + "".join(f"<!-- {m} -->" for m in re.findall(r"BOARD\s*=\s*(\S+)", text))
        + "\n</cproject>\n"
    )
    (path.parent / ".cproject").write_text(body, encoding="utf-8")
    commands = [line.strip() for line in text.split("\n") if line.startswith("\t")]
    (path.parent / "flash.bat").write_text("@echo off\n" + "\n".join(commands) + "\n", "utf-8")
    path.unlink()


def style(folder: Path) -> None:
    """Tabs, braces on lines of their own, a licence in front, comments between."""
    licence = "/**\n * @file\n * @brief Part of the application.\n */\n\n"
    for path in _files(folder, *SOURCES):
        text = path.read_text(encoding="utf-8", errors="replace")
        text = re.sub(r"^(?:  )+", lambda m: "\t" * (len(m[0]) // 2), text, flags=re.MULTILINE)
        text = re.sub(r"(\)|else|do) \{\n", r"\1\n{\n", text)
        text = re.sub(r";\n", "; /* checked */\n", text, count=20)
        path.write_text(licence + text, encoding="utf-8")


VARIATIONS: dict[str, Callable[[Path], None]] = {
    "names": rename,
    "anonymous": anonymous,
    "split": split,
    "c++": cpp,
    "clock prefix": _prefix(lambda i: f"[{i // 60:02}:{i % 60:02}:07.{i % 1000:03}] "),
    "terminal prefix": _prefix(lambda i: f"14:{i // 60 % 60:02}:{i % 60:02}.250 -> "),
    "level prefix": _prefix(lambda i: "[INFO] app: " if i % 2 else "I (1250) main: "),
    "windows": windows,
    "utf-16 logs": utf16,
    "gb18030 sources": chinese,
    "folders": layout,
    "cmake": cmake,
    "cubeide": cubeide,
    "style": style,
}
"""Every variation by name."""


def judge(case: Case, folder: Path) -> str:
    """What is wrong with the diagnosis of a case's folder; "" when it is right."""
    findings = diagnose(collect([folder])).findings
    seen = [finding.id for finding in findings]
    if not case.expect:
        bad = [f.id for f in findings if f.severity is not Severity.INFO]
        return f"false: {', '.join(bad)}" if bad else ""
    if set(seen[:2]) & set(case.expect):
        return ""
    return f"missed, seen {', '.join(seen[:3]) or 'nothing'}"
