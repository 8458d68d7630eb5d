"""Marks of tests that take external tools: skipped, with their names, where they are missing."""

from __future__ import annotations

import shutil
import sys

import pytest

from npuforge.boards import missing_tools


def _needs(tool: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not on the PATH")


needs_compiler = _needs("arm-none-eabi-gcc")
needs_gcc = _needs("gcc")
needs_cmake = _needs("cmake")
needs_cppcheck = _needs("cppcheck")
needs_clang_tidy = _needs("clang-tidy")
needs_application_board = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("gcc") is None, reason="needs gcc on Linux"
)
needs_emulator = pytest.mark.skipif(
    bool(missing_tools()), reason=f"not on the PATH: {', '.join(missing_tools())}"
)
