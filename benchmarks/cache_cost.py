"""Cache maintenance of an inference: the safe runtime against the sequence a careful hand writes.

The rival cleans the lines of the inputs the CPU has written and invalidates the lines of the
outputs it is going to read, each line once, neighbouring ranges in one call, from the plan's
addresses: less would leave a line that one side has not seen. The runtime is counted in its port,
on a host build of the generated networks; all of its results are compared with the known answers.
Also: code size of the runtime without kernels on a Cortex-M55.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from common import arguments, model_files, report
from firmware_networks import NAMES

from npuforge.boards import HostBoard, write_sources
from npuforge.firmware import KnownAnswer, Network, identifier, project_files
from npuforge.firmware.project import SMALL_SOURCES, runtime_folder
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory
from npuforge.numerics import random_inputs
from npuforge.targets import load_target

LINE = 32


def by_hand(network: Network, names: Iterable[str]) -> tuple[int, int]:
    """Calls and bytes that cover some tensors in whole lines, each line once."""
    ranges = []
    for name in names:
        place = network.schedule.tensors[name]
        home = network.plan.places[place.buffer]
        start = network.plan.regions[home.region].base + home.offset + place.offset
        end = start + network.graph.tensors[name].nbytes
        ranges.append((start // LINE * LINE, -(-end // LINE) * LINE))
    calls, nbytes, last = 0, 0, -1
    for start, end in sorted(ranges):
        if start > last:
            calls += 1
            nbytes += end - start
        else:
            nbytes += max(0, end - last)
        last = max(last, end)
    return calls, nbytes


def counted(networks: list[Network], answers: list[KnownAnswer]) -> list[list[int]]:
    """Cleans, their bytes, invalidates and theirs of each network's second inference."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        files = project_files(networks, answers, load_target("mps3-an547"), "networks")
        parts = ("network/", "runtime/")
        write_sources(folder, {n: data for n, data in files.items() if n.startswith(parts)})
        sources = [*(folder / "network").glob("*.[cS]"), *(folder / "runtime/src").glob("*.c")]
        command = ["gcc", "-std=gnu11", "-O1", "-ffp-contract=off", "-Wa,--noexecstack",
                   f"-DNF_MAX_NETWORKS={len(networks)}", f"-I{folder / 'runtime/include'}",
                   f"-I{folder / 'network'}", str(Path(__file__).with_suffix(".c").resolve()),
                   *map(str, sources), "-lm", "-o", str(folder / "count")]  # fmt: skip
        subprocess.run(command, cwd=folder / "network", check=True)
        run = subprocess.run([folder / "count"], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"the firmware fails: {run.stdout}")
    return [[int(word) for word in line.split()[1:]] for line in run.stdout.splitlines()]


def small_size() -> int:
    """Bytes of code and constants of the runtime without kernels, -Os for a Cortex-M55."""
    with tempfile.TemporaryDirectory() as text:
        objects = []
        for name in SMALL_SOURCES:
            objects.append(f"{text}/{name}.o")
            subprocess.run(
                ["arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-Os",
                 "-ffunction-sections", "-fdata-sections", f"-I{runtime_folder() / 'include'}",
                 "-c", str(runtime_folder() / "src" / f"{name}.c"), "-o", objects[-1]],
                check=True,
            )  # fmt: skip
        out = subprocess.run(
            ["arm-none-eabi-size", "-t", *objects], capture_output=True, text=True, check=True
        )
    return int(out.stdout.splitlines()[-1].split()[0])


def main() -> None:
    options = arguments(__doc__)
    board = load_target("stm32n6570-dk")
    networks, answers = [], []
    for path in model_files(*NAMES):
        graph = load_model(path)
        schedule = lower(graph, map_graph(graph, board), board)
        network = Network(identifier(path.stem), graph, schedule, plan_memory(schedule, board))
        sample = random_inputs(graph, np.random.default_rng(len(networks)))
        networks.append(network)
        answers.append(
            KnownAnswer(sample, HostBoard(graph, schedule, network.plan).run(sample).outputs)
        )
    rows = []
    for network, made in zip(networks, counted(networks, answers), strict=True):
        cleans, cleaned = by_hand(network, network.graph.inputs)
        invalidates, invalidated = by_hand(network, network.graph.outputs)
        calls, nbytes = made[0] + made[2], made[1] + made[3]
        hand_calls, hand_bytes = cleans + invalidates, cleaned + invalidated
        above = calls > hand_calls or nbytes > hand_bytes
        rows.append((network.name, calls, hand_calls, nbytes, hand_bytes, "above" if above else ""))
    report(
        "cache maintenance of one inference",
        ("network", "calls", "by hand", "bytes", "by hand", "verdict"),
        rows,
        options.json,
        networks=len(rows),
        above_the_hand_written=sum(row[-1] == "above" for row in rows),
        runtime_bytes_without_kernels=small_size(),
    )


if __name__ == "__main__":
    main()
