"""All files of a layout by name."""

from __future__ import annotations

from collections.abc import Mapping

from npuforge.memory.layout import SystemLayout
from npuforge.memory.writers.link_script import system_linker_script
from npuforge.memory.writers.mpool import mpool_file, profile_file
from npuforge.memory.writers.mpu import mpu_header, mpu_regions, mpu_source


def layout_files(layout: SystemLayout) -> Mapping[str, bytes]:
    """Linker script, memory protection and, where there is a Neural-ART, its pools, by file name.

    Raises:
        PlanError: the memory protection unit cannot express the layout.
    """
    title = layout.description.name
    files = {
        "link.ld": system_linker_script(layout, title).encode(),
        "nf_mpu.h": mpu_header().encode(),
        "nf_mpu.c": mpu_source(mpu_regions(layout)).encode(),
    }
    if layout.target.has_neural_art:
        files["npu.mpool"] = mpool_file(layout)
        files["neural_art.json"] = profile_file("npu.mpool")
    return files
