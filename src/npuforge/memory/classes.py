"""Which class of the ledger a piece of a linked program belongs to.

A piece is classed by where the linker put it, then by what its object file or the variable in it is
called. The names are those of npuforge's own projects, of the run-times that such firmware is built
with, and of applications for the STM32N6 whose maps are public.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from npuforge.artefacts.elf import Section
from npuforge.artefacts.map_pieces import MapPiece
from npuforge.memory.system import Account


@dataclass(frozen=True)
class ClassRule:
    """A rule: the class of what matches.

    Attributes:
        account: the class.
        section: expression for the output or input section, "" for any.
        object: expression for the object file, "" for any.
        why: said in the ledger's origin column.
        written: only of memory that is written: a table about buffers is none.
    """

    account: Account
    section: str
    object: str
    why: str
    written: bool = False

    def matches(self, piece: MapPiece) -> bool:
        """Whether a piece falls under it."""
        names = f"{piece.section} {piece.name}"
        source = "" if _TEMPORARY.search(piece.object) else piece.object
        return bool(
            re.search(self.section, names) and re.search(self.object, source, re.IGNORECASE)
        )


_TEMPORARY = re.compile(r"^(?:/|[A-Za-z]:).*[/\\]cc\w{6}\.o$")
"""Object that gcc makes between compiler and linker: its random letters say nothing."""


SECTION_RULES = (
    ClassRule(Account.WEIGHTS, r"\.nf_\w+_weights\b|atonbuf|\.nn_weights", "", "weights section"),
    ClassRule(Account.ACTIVATIONS, r"\.nf_\w+_region_\d+|\.nn_activations", "",
              "activation section"),
    ClassRule(Account.DATA_PATH, r"\.mem_data_", "", "item of the description"),
    ClassRule(Account.NPU_RUNTIME, r"\.mem_npu_", "", "item of the description"),
    ClassRule(Account.SYSTEM, r"\.mem_sys_", "", "item of the description"),
    ClassRule(Account.SYSTEM, r"\.(?:\w*_)?(?:stack|heap)\b", "", "stack or heap section"),
    ClassRule(Account.DATA_PATH, r"\.(?:dma|frame(?!work)|camera)\w*\b", "", "data path section"),
)  # fmt: skip
"""Decided by the section, for code and data alike."""

DATA_RULES = (
    ClassRule(Account.NPU_RUNTIME, r"", r"(?:^|/)network/(?!networks\.)[^/]*\.c\.o(?:bj)?$",
              "step table of a network"),
    ClassRule(Account.NPU_RUNTIME, r"", r"ll_aton|ecloader|ecblobs|npu_cache|network_\w*blob|stai_",
              "NPU driver or program"),
    ClassRule(Account.NPU_RUNTIME, r"\._?ec_blob_|\.NN_Instance|\.NN_Interface", "",
              "epoch program of a network"),
    ClassRule(Account.SYSTEM, r"", r"tx_\w+\.o|freertos|tasks\.c|queue\.c|heap_\d\.c|cmsis_os"
              r"|tkernel/|threadx", "object of the operating system"),
    ClassRule(Account.SYSTEM, r"\.\w+_stack\b|\.ucHeap\b|\.\w+_(?:tcb|thread)\b", "",
              "stack, heap or task by name"),
    ClassRule(Account.DATA_PATH, r"\.(?:psram|uncached)_(?:bss|data|section)\b", "",
              "section for frames and DMA buffers"),
    ClassRule(Account.DATA_PATH, r"(?i)\.\w*(?:_(?:in|out)(?:put)?_?buffers?|frame(?!work)|lcd_"
              r"|capture|display|screen|camera|venc|uvc_|uart|usb|_[rt]x_|ring_?buf|audio|mic_)"
              r"\w*\b", "",
              "buffer by name", written=True),
    ClassRule(Account.DATA_PATH, r"", r"postprocess|(?:^|[/_])pp_", "post-processing"),
    ClassRule(Account.DATA_PATH, r"", r"cam|dcmi|isp|lcd|display|usb|uart|frame", "driver's data"),
)  # fmt: skip
"""Decided by the object, or the variable where the compiler gives each a section; for data only:
code is code whoever wrote it."""


def classify(piece: MapPiece, section: Section) -> tuple[Account, str]:
    """Class of a piece and the reason.

    Args:
        piece: from the map.
        section: the output section it lies in, from the ELF.
    """
    for rule in SECTION_RULES:
        if rule.matches(piece):
            return rule.account, rule.why
    constant = not section.writable
    if constant and (piece.name.startswith((".text", ".vectors", ".init", ".fini", ".isr_vector"))):
        return Account.CODE, "code"
    for rule in DATA_RULES:
        if rule.matches(piece) and not (constant and rule.written):
            return rule.account, rule.why
    if constant and section.code and not piece.name.startswith((".rodata", ".ARM", ".eh_frame")):
        return Account.CODE, "code"
    return (Account.READ_ONLY, "constant") if constant else (Account.SYSTEM, "static data")
