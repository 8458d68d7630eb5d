"""What a file is, from its name and its first bytes; nothing is parsed here."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

HEAD = 16384
"""Bytes looked at."""


class Kind(StrEnum):
    """Kinds of files a deployment leaves behind."""

    C_SOURCE = "c_source"
    C_HEADER = "c_header"
    NETWORK_C = "network_c"
    EC_BLOBS = "ec_blobs"
    LINKER_SCRIPT = "linker_script"
    ELF = "elf"
    MAP = "map"
    IOC = "ioc"
    BOOT_IMAGE = "boot_image"
    RAW_IMAGE = "raw_image"
    IHEX = "ihex"
    MPOOL = "mpool"
    MDESC = "mdesc"
    PROFILE = "profile"
    C_INFO = "c_info"
    ST_REPORT = "st_report"
    LOG = "log"
    LINUX_LOG = "linux_log"
    BUILD = "build"
    SCRIPT = "script"
    DEVICETREE = "devicetree"
    TFLITE = "tflite"
    ONNX = "onnx"
    KERAS = "keras"
    JSON = "json"
    TEXT = "text"
    OTHER = "other"


_SUFFIX = {
    ".h": Kind.C_HEADER, ".hpp": Kind.C_HEADER, ".c": Kind.C_SOURCE, ".cpp": Kind.C_SOURCE,
    ".cc": Kind.C_SOURCE, ".cxx": Kind.C_SOURCE, ".hh": Kind.C_HEADER, ".inc": Kind.C_HEADER,
    ".ld": Kind.LINKER_SCRIPT,
    ".lds": Kind.LINKER_SCRIPT, ".icf": Kind.LINKER_SCRIPT, ".sct": Kind.LINKER_SCRIPT,
    ".map": Kind.MAP, ".ioc": Kind.IOC, ".mpool": Kind.MPOOL, ".mdesc": Kind.MDESC,
    ".log": Kind.LOG, ".mk": Kind.BUILD, ".cmake": Kind.BUILD, ".cproject": Kind.BUILD,
    ".dts": Kind.DEVICETREE, ".dtsi": Kind.DEVICETREE, ".overlay": Kind.DEVICETREE,
    ".sh": Kind.SCRIPT, ".bat": Kind.SCRIPT, ".cmd": Kind.SCRIPT, ".ps1": Kind.SCRIPT,
    ".py": Kind.SCRIPT, ".tflite": Kind.TFLITE, ".onnx": Kind.ONNX, ".h5": Kind.KERAS,
    ".keras": Kind.KERAS, ".hex": Kind.IHEX, ".ihex": Kind.IHEX, ".raw": Kind.RAW_IMAGE,
}  # fmt: skip
_NAMES = {
    "makefile": Kind.BUILD, "gnumakefile": Kind.BUILD, "cmakelists.txt": Kind.BUILD,
    "prj.conf": Kind.BUILD, ".config": Kind.BUILD, ".cproject": Kind.BUILD,
    "cmakepresets.json": Kind.BUILD, ".mxproject": Kind.OTHER,
}  # fmt: skip
LOG_NAME = re.compile(
    r"(?<![a-z])(?:logs?|uart|console|serial|dmesg|putty|minicom|teraterm)(?![a-z])|"
    r"(?<![a-z])(?:uart|serial|build|boot|run|test|error|debug|device|board|kernel)logs?(?![a-z])"
)
"""File names, in lower case, that say log; catalogues and dialogues do not."""
_LOG_SUFFIXES = ("", ".log", ".txt", ".out", ".err", ".cap", ".trace", ".capture")
# drawings, what build tools write and programs: none is anything a board said
_NO_SPEECH = {
    ".dot", ".gv", ".svg", ".css", ".d", ".su", ".cyclo", ".ninja", ".ewp", ".ewd", ".ewt",
    ".eww", ".uvprojx", ".uvoptx", ".launch", ".make", ".internal", ".mxproject", ".filters",
    ".list", ".lst", ".lss", ".dis", ".s", ".asm",
    ".rb", ".pl", ".pm", ".lua", ".java", ".kt", ".go", ".rs", ".swift", ".php", ".m4", ".ac",
    ".am", ".in", ".po", ".pot", ".tcl", ".gradle", ".m", ".r", ".el", ".vim",
}  # fmt: skip
_BOOT_MAGIC = b"STM2"
_NETWORK = re.compile(rb"EpochBlock_ItemTypeDef|LL_ATON_VERSION_MAJOR|LL_ATON_EB_")
_REPORT = re.compile(
    rb"ST Edge AI Core v|STEdgeAI Core|STMicroelectronics - AI|Exec/report summary|stm32ai .*report"
)
_LINUX = re.compile(rb"^(?:<\d+>)?\[ *\d+\.\d{6}\] ", re.MULTILINE)
_MAP = re.compile(
    rb"^(?:Memory Configuration|Linker script and memory map|Archive member included)",
    re.MULTILINE,
)
_LD = re.compile(rb"^[ \t]*+(?:MEMORY|SECTIONS)\s*+\{", re.MULTILINE)
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+[<"]', re.MULTILINE)
"""C under a name that is none of C: what an editor keeps, a template, a patch."""
_LOGLINE = re.compile(
    rb"(?:^|\n)(?:\[?\d\d:\d\d:\d\d|\[[^\]\n]{1,24}\]\s|.{0,40}\b(?:HardFault|CFSR|NPU|E\d{3}\(|"
    rb"TOOL ERROR|ERROR|error:|LL_ATON))",
    re.IGNORECASE,
)


def recognise(path: Path, head: bytes, size: int) -> Kind:
    """Kind of a file.

    Args:
        path: its name decides among text formats.
        head: its first `HEAD` bytes; content wins over the name where they disagree.
        size: its length in bytes.
    """
    name, suffix = path.name.lower(), path.suffix.lower()
    binary = _binary(head, name)
    if binary is not None:
        return binary
    kind = _NAMES.get(name) or _SUFFIX.get(suffix)
    if kind in (Kind.C_SOURCE, Kind.C_HEADER):
        return _c_kind(kind, name, head)
    if kind is not None:
        return kind
    if suffix in (".json", ".jsonc") or head.lstrip()[:1] == b"{":
        return _json_kind(name, head)
    return _text_kind(name, head)


def _binary(head: bytes, name: str) -> Kind | None:
    if head.startswith(b"\x7fELF"):
        return Kind.ELF
    if head.startswith(_BOOT_MAGIC):
        return Kind.BOOT_IMAGE
    if head[4:8] == b"TFL3":
        return Kind.TFLITE
    if head.startswith(b"\x89HDF"):
        return Kind.KERAS
    suffixes = Path(name).suffix
    if suffixes == ".onnx":
        return Kind.ONNX
    if suffixes == ".keras":
        return Kind.KERAS
    utf16 = head[:2] in (b"\xff\xfe", b"\xfe\xff")
    if b"\0" in head and not utf16 and suffixes not in (".log", ".txt"):
        return Kind.RAW_IMAGE if suffixes in (".bin", ".raw", ".img") else Kind.OTHER
    if suffixes in (".bin", ".raw"):
        return Kind.RAW_IMAGE
    return None


def _c_kind(kind: Kind, name: str, head: bytes) -> Kind:
    if "ecblob" in name:
        return Kind.EC_BLOBS
    if kind is Kind.C_SOURCE and _NETWORK.search(head) and b"ll_aton_NN_interface.h" in head:
        return Kind.NETWORK_C
    return kind


def _json_kind(name: str, head: bytes) -> Kind:
    if name.endswith("c_info.json") or (b'"memory_pools"' in head and b'"graphs"' in head):
        return Kind.C_INFO
    if b'"mempools"' in head:
        return Kind.MPOOL
    if b'"Profiles"' in head:
        return Kind.PROFILE
    return Kind.JSON


def _text_kind(name: str, head: bytes) -> Kind:
    if _REPORT.search(head) and "report" in name:
        return Kind.ST_REPORT
    if _LINUX.search(head) or "dmesg" in name:
        return Kind.LINUX_LOG
    if _MAP.search(head):
        return Kind.MAP
    if _LD.search(head) and not name.endswith((".md", ".rst", ".html")):
        return Kind.LINKER_SCRIPT
    if _INCLUDE.search(head) or head.startswith(b"#!"):
        return Kind.OTHER
    suffix = Path(name).suffix
    rotated = re.fullmatch(r"\.\d+", suffix) and LOG_NAME.search(name)
    named = suffix in _LOG_SUFFIXES or rotated
    if named and (LOG_NAME.search(name) or _LOGLINE.search(head)):
        return Kind.LOG
    return Kind.OTHER if suffix in _NO_SPEECH or ".c." in name else Kind.TEXT
