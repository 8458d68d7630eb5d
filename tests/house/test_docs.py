"""Documentation: generated pages are up to date, links resolve, README snippets run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from npuforge.cli.reference import render

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples/README.md"])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("name", sorted(render()))
def test_generated_pages(name: str) -> None:
    path = ROOT / "docs" / "reference" / name
    assert path.read_text(encoding="utf-8") == render()[name], "run `make docs`"


def test_conformance_page(tmp_path: Path) -> None:
    """The page says what the stored results say."""
    page = tmp_path / "conformance.md"
    command = [sys.executable, ROOT / "benchmarks" / "conformance.py", "--page", page]
    subprocess.run([str(item) for item in command], check=True, timeout=60)
    stored = ROOT / "docs" / "reference" / "conformance.md"
    assert stored.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    blocks = [body for language, body in BLOCK.findall(text) if language == "sh"]
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("npuforge ")]


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "docs" / "tutorial.md"], ids=lambda p: p.name
)
def test_snippets_run(page: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    found = commands(page)
    assert found, "no command to run"
    for line in found:
        words = shlex.split(line)
        shown = subprocess.run(
            [sys.executable, "-m", "npuforge.cli.main", *words[1:]],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={**os.environ, "NPUFORGE_LANG": "en"},
        )
        assert shown.returncode == 0, f"{line}\n{shown.stderr}"


def test_python_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    blocks = [
        body
        for page in (ROOT / "README.md", ROOT / "docs" / "tutorial.md")
        for language, body in BLOCK.findall(page.read_text(encoding="utf-8"))
        if language == "python"
    ]
    assert blocks
    for body in blocks:
        exec(compile(body, "snippet", "exec"), {})
