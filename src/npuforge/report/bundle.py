"""The bundle: a folder that appears complete or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from npuforge import __version__
from npuforge.errors import UsageError
from npuforge.report.documents import SCHEMAS


@contextmanager
def new_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to fill that takes its place at the end, when nothing went wrong.

    Args:
        path: where the folder will be.
        replace: whether an existing folder may be replaced.

    Raises:
        UsageError: the path exists and may not be replaced, or cannot be written.
    """
    if path.exists() and not (replace and path.is_dir()):
        code = "OUT-001" if path.is_dir() else "OUT-002"
        raise UsageError(code, path=path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise UsageError("OUT-003", path=path, reason=error.strerror) from None
    try:
        inner = work / "new"
        inner.mkdir()
        yield inner
        if path.exists():
            path.rename(work / "old")
        inner.rename(path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def check_writable(path: Path, *, replace: bool) -> None:
    """Refuse a file that exists, unless it may be replaced, and a folder always.

    Raises:
        UsageError: there is something that must stay.
    """
    if path.is_dir() or (path.exists() and not replace):
        raise UsageError("OUT-005", path=path)


def write_file(path: Path, content: bytes) -> None:
    """Write a file so that it is either there completely or as it was before.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except OSError as error:
        raise UsageError("OUT-003", path=path, reason=error.strerror) from None


def json_bytes(document: Mapping[str, Any]) -> bytes:
    """A document as it is stored."""
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def sha256(content: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(content).hexdigest()


def write_bundle(
    folder: Path,
    files: Mapping[str, bytes],
    *,
    inputs: Mapping[str, bytes],
    tools: Mapping[str, str],
    options: Mapping[str, Any],
) -> None:
    """Write all files and the manifest that names and hashes them.

    Args:
        folder: exists and is empty.
        files: contents by relative path.
        inputs: contents of what the bundle was made from, by name.
        tools: versions of the tools that took part.
        options: backend, target and what else the user chose.
    """
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    manifest = {
        "schema": SCHEMAS["manifest"],
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "tools": {"npuforge": __version__, **tools},
        "options": dict(options),
        "inputs": {name: sha256(content) for name, content in inputs.items()},
        "files": {name: sha256(content) for name, content in sorted(files.items())},
    }
    (folder / "manifest.json").write_bytes(json_bytes(manifest))
