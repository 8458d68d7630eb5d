"""Board projects of networks of different families for both STM32N6 boards, no vendor source.

Each network, without its known answer, is compiled with -Wall -Wextra -Werror and linked with
warnings as errors; the table says what the linker refused.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from common import arguments, model_files, report
from firmware_networks import NAMES

from npuforge.artefacts.elf import read_elf
from npuforge.boards import HostBoard, compile_runtime, link_board, write_sources
from npuforge.errors import ToolError
from npuforge.firmware import KnownAnswer, identifier
from npuforge.firmware.project import runtime_folder, template_files
from npuforge.firmware.stm32n6 import board_files, board_layout
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory.writers.link_script import network_sections
from npuforge.numerics import random_inputs
from npuforge.targets import load_target

MAIN = """
#include "setup.h"
int main(void)
{
    return start() == NF_OK && nf_run(&runtime, 0, 1000000u) == NF_OK ? 0 : 1;
}
"""


def build(path: Path, board: str, objects: list[Path]) -> tuple[str, int]:
    """What came of a project, and the bytes of its program."""
    target, graph = load_target(board), load_model(path)
    name = identifier(path.stem)
    schedule = lower(graph, map_graph(graph, target), target)
    layout = board_layout([(name, schedule)], target, name)
    sample = random_inputs(graph, np.random.default_rng(0))
    host = HostBoard(graph, schedule, layout.networks[0].plan)
    answer = KnownAnswer(sample, host.run(sample).outputs)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        files = board_files(layout, {name: graph}, {name: answer}, "nominal")
        files |= template_files("board", "stm32n6") | template_files("app", "app")
        write_sources(folder, files | {"main.c": MAIN.encode()})
        try:
            image = link_board(folder, folder / "main.c", runtime_folder(), objects)
        except ToolError as error:
            return error.message.splitlines()[-1][:60], 0
        linked = read_elf(image.read_bytes())
    found = {section.name: section for section in linked.sections}
    for want in network_sections(layout):
        place = found[want.section]
        if (place.address, place.size) != (want.address, want.nbytes):
            return f"{want.section} is not where the plan says", 0
    return "linked", found[".text"].size


def main() -> None:
    options = arguments(__doc__)
    rows = []
    with tempfile.TemporaryDirectory() as text:
        objects = compile_runtime(runtime_folder(), Path(text))
        for path in model_files(*NAMES):
            for board in ("stm32n6570-dk", "nucleo-n657x0-q"):
                outcome, size = build(path, board, objects)
                rows.append((path.stem, board, outcome, size))
                print(rows[-1], flush=True)
    report(
        "board projects of networks of different families",
        ("network", "board", "outcome", "program bytes"),
        rows,
        options.json,
        projects=len(rows),
        linked=sum(row[2] == "linked" for row in rows),
    )


if __name__ == "__main__":
    main()
