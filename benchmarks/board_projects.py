"""Board projects of networks of different families: both STM32N6 boards, no warning, no vendor source.

Each network (without its known answer) is compiled with -Wall -Wextra -Werror and linked with warnings as errors; the table says what
the linker refused. Rival: none; a link either succeeds or does not.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import numpy as np
from common import arguments, model_files, report
from firmware_networks import NAMES

from npuforge.artefacts.elf import read_elf
from npuforge.boards import HostBoard, write_sources
from npuforge.firmware import identifier
from npuforge.firmware.project import runtime_folder, template_files
from npuforge.firmware.stm32n6 import answer_bytes, board_files, board_layout
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory.writers.link_script import network_sections
from npuforge.numerics import random_inputs
from npuforge.targets import load_target

FLAGS = (
    "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard -std=gnu11 -O2 -Wall -Wextra -Werror "
    "-ffunction-sections -fdata-sections -ffp-contract=off"
).split()
LINK = (
    "-nostartfiles --specs=nosys.specs -Wl,--gc-sections -Wl,--fatal-warnings "
    "-Wl,--no-warn-rwx-segments"
).split()
MAIN = """
#include "board.h"
#include "memory.h"
#include "networks.h"
static nf_runtime runtime;
static nf_config config;
int main(void)
{
    board_init();
    config.port = &nf_board_port;
    config.pools = nf_pools;
    config.pool_count = nf_pool_count;
    config.zones = nf_zones;
    config.zone_count = nf_zone_count;
    config.models = nf_models;
    config.model_count = nf_model_count;
    return nf_init(&runtime, &config) == NF_OK && nf_run(&runtime, 0, 1000000u) == NF_OK ? 0 : 1;
}
"""


def compile_runtime(folder: Path) -> list[str]:
    """Objects of the runtime, once for all networks."""
    runtime = runtime_folder()
    sources = [str(path) for path in (runtime / "src").glob("*.c")]
    command = ["arm-none-eabi-gcc", *FLAGS, f"-I{runtime / 'include'}", "-c", *sources]
    subprocess.run(command, cwd=folder, check=True, timeout=300)
    return [str(path) for path in folder.glob("*.o")]


def build(path: Path, board: str, objects: list[str]) -> tuple[str, int]:
    """What came of a project, and the bytes of its program."""
    target, graph = load_target(board), load_model(path)
    name = identifier(path.stem)
    schedule = lower(graph, map_graph(graph, target), target)
    layout = board_layout([(name, schedule)], target, name)
    sample = random_inputs(graph, np.random.default_rng(0))
    outputs = HostBoard(graph, schedule, layout.networks[0].plan).run(sample).outputs
    answer = answer_bytes(graph, sample, outputs)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        files = board_files(layout, {name: graph}, {name: answer}, "nominal")
        write_sources(folder, files | template_files("board", "stm32n6"))
        (folder / "main.c").write_text(MAIN)
        sources = [folder / "main.c", *(folder / "board").glob("*.c")]
        sources += (folder / "network").glob("*.[cS]")
        places = (folder / "board", folder / "network", runtime_folder() / "include")
        command = ["arm-none-eabi-gcc", *FLAGS, *(f"-I{place}" for place in places)]
        command += [*map(str, sources), *objects, *LINK, f"-T{folder / 'board' / 'link.ld'}"]
        command += ["-o", "image.elf", "-lm"]
        result = subprocess.run(
            command,
            cwd=folder / "network",
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if result.returncode != 0 or result.stderr:
            return result.stderr.strip().splitlines()[-1][:60], 0
        linked = read_elf((folder / "network" / "image.elf").read_bytes())
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
        objects = compile_runtime(Path(text))
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
