"""Firmware of networks of different families: one project without warnings, equal to the host.

All networks are linked into one image for mps3-an547 with the safe runtime, and QEMU runs each on a
random input: every output byte is compared with the host's result. Also: code size of the runtime
without kernels.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from common import arguments, model_files, report

from npuforge.boards import HostBoard, build_project, find_toolchain, write_sources
from npuforge.boards.qemu import machine_command
from npuforge.boards.toolchain import run_tool
from npuforge.firmware import KnownAnswer, Network, identifier, project_files
from npuforge.firmware.project import SMALL_SOURCES
from npuforge.importers import load_model
from npuforge.lowering import lower
from npuforge.mapping import map_graph
from npuforge.memory import plan_memory
from npuforge.numerics import random_inputs
from npuforge.targets import load_target

NAMES = (
    "kws_ref_model",
    "pretrainedResnet_quant",
    "vww_96_int8",
    "ad01_int8",
    "micro_speech_quantized",
    "person_detect",
    "mobilenet_v1_0.25_96_tfs_int8",
    "zoo2__st_mnist_v1_28_tfs_int8",
    "zoo2__cifar10__resnet_v1_8_32_tfs_int8",
    "zoo2__esc10__yamnet_256_64x96_tl_int8",
    "blazeface_front_128",
    "zoo2__food-101__fdmobilenet_0.25_128_tfs_int8",
    "baseline_conv2d_3x3_int8",
    "keyword_spotting",
    "image_classification",
)


def main() -> None:
    options = arguments(__doc__)
    machine, board = load_target("mps3-an547"), load_target("stm32n6570-dk")
    networks, answers, rows = [], [], []
    for path in model_files(*NAMES):
        graph = load_model(path)
        schedule = lower(graph, map_graph(graph, board), board)
        network = Network(identifier(path.stem), graph, schedule, plan_memory(schedule, board))
        sample = random_inputs(graph, np.random.default_rng(len(networks)))
        host = HostBoard(graph, schedule, network.plan)
        networks.append(network)
        answers.append(KnownAnswer(sample, host.run(sample).outputs))
        rows.append((path.stem, len(schedule.steps), schedule.macs))
    tools = find_toolchain()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_sources(folder, project_files(networks, answers, machine, "networks"))
        begin = time.perf_counter()
        build_project(folder, folder / "build", tools)
        built = time.perf_counter() - begin
        image = folder / "build" / "known_answer.elf"
        result = run_tool(machine_command(tools, image), 600, folder)
        objects = [
            str(path)
            for path in (folder / "build").rglob("*.c.o*")
            if path.name.split(".")[0] in SMALL_SOURCES and "nf_runtime" in str(path)
        ]
        size = subprocess.run(
            ["arm-none-eabi-size", "-t", *objects], capture_output=True, text=True, check=True
        ).stdout.splitlines()[-1]
    output = result.stdout + result.stderr
    equal = output.count("known answer reproduced")
    if result.returncode != 0:
        print(output)
    report(
        "networks of different families in one image, run in QEMU",
        ("network", "steps", "MAC"),
        rows,
        options.json,
        networks=len(networks),
        equal_to_the_host=equal,
        exit_code=result.returncode,
        runtime_bytes_without_kernels=int(size.split()[0]),
        build_seconds=round(built),
    )


if __name__ == "__main__":
    main()
