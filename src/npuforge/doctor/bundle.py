"""An archive for a support request: what decides, without names, addresses and weights.

The same files give the same bytes. Names of users in paths, mail and network addresses, serial
numbers and values of secrets are replaced by numbered stand-ins, the same one for the same value.
Models, weights and binaries stay out; their size and SHA-256 are in the manifest.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from npuforge import __version__
from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import decode
from npuforge.doctor.project import Artefact, Project

MAX_FILE = 2 << 20
"""Bytes of one file that are kept; of a longer one the first and last half of that."""
MAX_TOTAL = 24 << 20
_TEXT_KINDS = frozenset(Kind) - {
    Kind.ELF, Kind.TFLITE, Kind.ONNX, Kind.KERAS, Kind.BOOT_IMAGE, Kind.RAW_IMAGE, Kind.IHEX,
    Kind.OTHER,
}  # fmt: skip
_EPOCH = (1980, 1, 1, 0, 0, 0)

_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("user", re.compile(r"(?<=[/\\]home[/\\])[^/\\\s\"':;,]+|(?<=[/\\]Users[/\\])[^/\\\s\"':;,]+|"
                        r"(?<=[/\\]用户[/\\])[^/\\\s\"':;,]+", re.IGNORECASE)),
    ("mail", re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+\b")),
    ("secret", re.compile(
        r"(?:password|passwd|passphrase|secret|api[_-]?key|token|psk|ssid)\w*"
        r"[\"']?\s*(?:[:=]|\s)\s*[\"']([^\"'\s]{4,200})[\"']|"
        r"(?:password|passwd|passphrase|secret|api[_-]?key|token)\s*[:=]\s*([^\s\"',;]{4,200})",
        re.IGNORECASE)),
    ("secret", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,255}|AKIA[0-9A-Z]{16}|"
                          r"sk-[A-Za-z0-9_-]{20,200}|"
                          r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,})")),
    ("serial", re.compile(r"(?:ST-?LINK SN|serial(?: ?(?:no|number|nr))?|\bS/N|unique id|"
                          r"\bUID)\s*[:=]\s*([0-9A-Fa-f]{8,32})\b", re.IGNORECASE)),
    ("mac", re.compile(r"\b[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}\b")),
    ("ip", re.compile(r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|"
                      r"1?\d?\d)(?![\d.])")),
)  # fmt: skip
_HARMLESS = {"127.0.0.1", "0.0.0.0", "255.255.255.255", "public", "shared", "default"}


@dataclass
class Redactor:
    """Replaces private values; the same value gets the same stand-in in all files."""

    known: dict[tuple[str, str], str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> str:
        """The text with stand-ins."""
        for kind, pattern in _PATTERNS:
            text = pattern.sub(partial(self._replace, kind), text)
        for (kind, value), stand_in in self.known.items():
            # a user's name shows up outside of paths too
            if kind == "user" and len(value) >= 4:
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", stand_in, text)
        return text

    def _replace(self, kind: str, found: re.Match[str]) -> str:
        index = next((i for i, group in enumerate(found.groups(), 1) if group), 0)
        value = found.group(index)
        if value.lower() in _HARMLESS or (kind == "ip" and _version_like(found)):
            return found.group(0)
        key = (kind, value)
        if key not in self.known:
            number = sum(1 for other, _ in self.known if other == kind) + 1
            self.known[key] = f"<{kind}{number}>"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        begin, end = found.start(index) - found.start(), found.end(index) - found.start()
        return found.group(0)[:begin] + self.known[key] + found.group(0)[end:]


def _version_like(found: re.Match[str]) -> bool:
    """Whether four numbers with dots are a version rather than an address."""
    before = found.string[max(0, found.start() - 12) : found.start()].lower()
    return before.endswith("v") or "version" in before or "rev" in before


def bundle(project: Project, documents: Mapping[str, Any]) -> bytes:
    """A zip archive.

    Args:
        project: the files.
        documents: JSON documents to put beside them, by file name (the diagnosis, for example).

    Returns:
        Bytes that depend on nothing but the arguments.
    """
    redact = Redactor()
    entries: dict[str, bytes] = {}
    rows: list[dict[str, Any]] = []
    total = 0
    for item in project.artefacts:
        data = project.data(item)
        name = redact(item.name)
        row: dict[str, Any] = {
            "file": name,
            "kind": item.kind.value,
            "bytes": item.size,
            "sha256": hashlib.sha256(data).hexdigest(),
            "included": False,
        }
        if item.kind in _TEXT_KINDS and total < MAX_TOTAL and _wanted(item):
            content = redact(_shortened(decode(data))).encode("utf-8")
            entries[f"files/{_safe(name)}"] = content
            total += len(content)
            row |= {"included": True, "shortened": len(data) > MAX_FILE}
        rows.append(row)
    for name, document in sorted(documents.items()):
        body = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True)
        entries[name] = redact(body).encode("utf-8")
    manifest = {
        "schema": "npuforge.support/1",
        "npuforge": __version__,
        "files": rows,
        "replaced": dict(sorted(redact.counts.items())),
        "skipped": project.skipped,
    }
    entries["manifest.json"] = json.dumps(manifest, indent=1, ensure_ascii=False).encode("utf-8")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, content in sorted(entries.items()):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            info.create_system = 3
            archive.writestr(info, content)
    return buffer.getvalue()


def _wanted(item: Artefact) -> bool:
    name = item.path.name.lower()
    return not name.startswith(".env") and not name.endswith((".pem", ".key", ".p12", ".pfx"))


def _shortened(text: str) -> str:
    if len(text) <= MAX_FILE:
        return text
    half = MAX_FILE // 2
    return f"{text[:half]}\n[…]\n{text[-half:]}"


def _safe(name: str) -> str:
    """A relative path that cannot leave the archive's folder."""
    parts = [p for p in name.replace("\\", "/").split("/") if p not in ("", ".", "..")]
    return "/".join(re.sub(r"[<>:\"|?*\x00-\x1f]", "_", part) for part in parts) or "file"
