"""Marks of tests that take external tools: skipped, with their names, where they are missing."""

from __future__ import annotations

import shutil

import pytest

from npuforge.boards import missing_tools

needs_compiler = pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None, reason="arm-none-eabi-gcc is not on the PATH"
)
needs_emulator = pytest.mark.skipif(
    bool(missing_tools()), reason=f"not on the PATH: {', '.join(missing_tools())}"
)
