"""ST's compiler, where it is installed: found, probed, run with a time limit, its output kept.

Command line, options and files: ST Edge AI Core's documentation and its published logs. Nothing of
ST's is part of npuforge; the tool is the user's.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from npuforge.artefacts.c_info import CInfo, read_c_info
from npuforge.artefacts.log_text import LogText
from npuforge.artefacts.tool_log import ToolLog, read_tool_log
from npuforge.boards.toolchain import run_tool
from npuforge.errors import ModelError, ToolError

TOOL = "stedgeai"
PROBE_SECONDS = 60.0
COMPILE_SECONDS = 1800.0
"""A search for a memory layout takes minutes for large networks, and some never end."""

_VERSION = re.compile(r"v(\d+\.\d+\.\d+(?:-\w+)*)")


class StStatus(StrEnum):
    """How a compilation ended."""

    DONE = "done"
    FAILED = "failed"
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class StTool:
    """The installed tool: its path, and its version, "" when it does not say."""

    path: str
    version: str


@dataclass(frozen=True, eq=False)
class StRun:
    """One compilation.

    Attributes:
        objective: name of the profile.
        status: how it ended.
        seconds: how long it took.
        log: file with everything the tool wrote.
        read: what that says.
        info: what the compiler says of its result; None without one.
        source: the generated network; None without one.
    """

    objective: str
    status: StStatus
    seconds: float
    log: Path
    read: ToolLog
    info: CInfo | None
    source: Path | None


def find_stedgeai() -> StTool | None:
    """The tool on the PATH, asked for its version; None where there is none.

    Raises:
        ToolError: it is there and cannot be started, or does not answer.
    """
    path = shutil.which(TOOL)
    if path is None:
        return None
    output = run_tool([path, "--version"], PROBE_SECONDS)
    match = _VERSION.search(output.stdout + output.stderr)
    return StTool(path, match[1] if match else "")


def generate_command(
    tool: str, model: Path, profiles: Path, objective: str, name: str, output: Path
) -> list[str]:
    """The command line that compiles a model with a profile.

    Args:
        tool: path of the tool.
        model: model file.
        profiles: profile file.
        objective: profile in it.
        name: C name of the network.
        output: folder of the result; the tool's working files go beside it.
    """
    return [
        tool, "generate", "--model", str(model), "--target", "stm32n6",
        "--st-neural-art", f"{objective}@{profiles}", "--name", name,
        "--output", str(output), "--workspace", str(output / "workspace"),
    ]  # fmt: skip


def compile_network(
    tool: StTool,
    model: Path,
    profiles: Path,
    objective: str,
    name: str,
    output: Path,
    seconds: float = COMPILE_SECONDS,
) -> StRun:
    """Run one compilation; a failure is a result, not an exception.

    Args:
        tool: from `find_stedgeai`.
        model: see `generate_command`.
        profiles: see `generate_command`.
        objective: see `generate_command`.
        name: see `generate_command`.
        output: see `generate_command`; it is made.
        seconds: time limit.

    Raises:
        ToolError: the tool cannot be started.
    """
    output.mkdir(parents=True, exist_ok=True)
    command = generate_command(tool.path, model, profiles, objective, name, output)
    begin, log = time.monotonic(), output / "stedgeai.log"
    # the tool resolves pool files against its working folder
    code = _logged(command, seconds, log, profiles.parent)
    status = StStatus.DONE if code == 0 else StStatus.FAILED
    if code is None:
        status = StStatus.TIMEOUT
    text = log.read_text(encoding="utf-8", errors="replace")
    read = read_tool_log(LogText(log.name, text))
    if read.messages and status is StStatus.DONE:
        status = StStatus.FAILED
    info, source = _result(output, name)
    if status is StStatus.DONE and source is None:
        status = StStatus.FAILED
    return StRun(objective, status, time.monotonic() - begin, log, read, info, source)


def _logged(command: list[str], seconds: float, log: Path, folder: Path) -> int | None:
    """Exit code of a tool that writes into a file; None when it was stopped after its time.

    The tool is a launcher: what it started is stopped with it where the system has process groups.
    """
    with log.open("w", encoding="utf-8") as file:
        file.write("$ " + " ".join(command) + "\n")
        file.flush()
        try:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                start_new_session=hasattr(os, "killpg"),
            )  # fmt: skip
        except OSError as error:
            raise ToolError("BRD-003", tool=command[0], reason=error.strerror) from None
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                if hasattr(os, "killpg"):
                    os.killpg(process.pid, signal.SIGKILL)
                process.kill()
                process.wait()


def _result(output: Path, name: str) -> tuple[CInfo | None, Path | None]:
    info = None
    for path in sorted(output.rglob(f"{name}_c_info.json")):
        try:
            info = read_c_info(path.read_bytes(), path.name)
        except ModelError:
            continue
        break
    sources = sorted(output.rglob(f"{name}.c"))
    return info, sources[0] if sources else None
