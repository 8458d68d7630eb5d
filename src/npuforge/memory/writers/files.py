"""All files of a layout by name."""

from __future__ import annotations

from collections.abc import Mapping

from npuforge.memory.layout import SystemLayout
from npuforge.memory.writers.link_script import system_linker_script
from npuforge.memory.writers.mpu import mpu_header, mpu_regions, mpu_source


def layout_files(layout: SystemLayout) -> Mapping[str, bytes]:
    """Linker script and memory protection of a layout, by file name.

    Raises:
        PlanError: the memory protection unit cannot express the layout.
    """
    title = layout.description.name
    return {
        "link.ld": system_linker_script(layout, title).encode(),
        "nf_mpu.h": mpu_header().encode(),
        "nf_mpu.c": mpu_source(mpu_regions(layout)).encode(),
    }
