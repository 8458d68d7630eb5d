"""Write the planning set from models, compile reports of public projects and system descriptions.

python benchmarks/planning_instances.py --checkouts FOLDER [--output benchmarks/planning]

FOLDER holds a git directory OWNER+NAME for each public project of `REPORTS`. Names of tensors are
replaced by numbers; sizes, lives, reach and views are kept.
"""

from __future__ import annotations

import argparse
import csv
import io
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from common import ROOT, model_files

from npuforge.artefacts.c_info import CInfo, read_c_info
from npuforge.artefacts.planning_instance import (
    InstanceBuffer,
    PoolRow,
    write_buffers,
    write_pools,
)
from npuforge.explore.tiling import tile_least
from npuforge.importers import load_model
from npuforge.lowering import Schedule, lower
from npuforge.mapping import map_graph
from npuforge.memory.instances import address_clocks
from npuforge.memory.plan import traffic_of
from npuforge.memory.spans import aligned, spans_of
from npuforge.memory.system import Account, SystemDescription, read_system
from npuforge.targets import Pool, Target, Use, load_target, pool_groups

SET = ROOT / "benchmarks" / "planning"

REPORTS = {
    "face_yolov8n_256": (
        "BlaineMoon30/STM32N6-DK-Face-Object-Detection",
        "Step3_ST_Neural_ART_Compiler/st_ai_ws/neural_art__network/c_info.json",
    ),
    "tinyyolo_224": (
        "Han-Sang-min/STM32N6_AI",
        ".ai/network_1740468161566_tiny_yolo_v2_224_int8.tflite_c_info.json",
    ),
    "face_landmarks": (
        "JJtan2002/x-cube-n6-ai-hand-landmarks",
        "Model/st_ai_ws/neural_art__face_landmark/c_info.json",
    ),
    "hand_landmarks": (
        "JJtan2002/x-cube-n6-ai-hand-landmarks",
        "Model/st_ai_ws/neural_art__hand_landmark/c_info.json",
    ),
    "face_yolov8_full": (
        "JJtan2002/x-cube-n6-ai-hand-landmarks",
        "Model/st_ai_ws/neural_art__yolo_detector/c_info.json",
    ),
    "time_series": (
        "KRJames-lab/nucleo-n657x0-q_Time-series-NPU-Accle-Tutorial",
        "Appli/X-CUBE-AI/App/network_c_info.json",
    ),
    "centerface": (
        "PeleAB/STM32N6-FaceRecognition", "st_ai_ws/neural_art__face_detection/c_info.json",
    ),
    "mobilefacenet": (
        "PeleAB/STM32N6-FaceRecognition", "st_ai_ws/neural_art__face_recognition/c_info.json",
    ),
    "ocr_det_160_qdq": (
        "SanXiaCoat/OCR-and-Navigator-Based-On-STM32N6",
        "CubeProjects/OCR_Detection/OCR_model/tools/st_ai_ws/neural_art__ocr_det/c_info.json",
    ),
    "ocr_det_float": (
        "SanXiaCoat/OCR-and-Navigator-Based-On-STM32N6",
        "CubeProjects/Navigator/.ai/ocr_det_ch_PP-OCRv4_det_infer.onnx_c_info.json",
    ),
    "ocr_det_float_160": (
        "SanXiaCoat/OCR-and-Navigator-Based-On-STM32N6",
        "CubeProjects/Navigator/.ai/ocr_det_ch_PP-OCRv4_det_infer_160.onnx_c_info.json",
    ),
    "transformer": (
        "TitoNicolaDrugman/Transformer-NPU-STM32N6",
        "c_code/results/cloud/cloud_dd2QuantizedModel_C-code/network_c_info.json",
    ),
    "yolo_deer": ("s1f102300638/stm32n6570-2-", ".ai/yolo_deer_best.onnx_c_info.json"),
    "trash_detection": (
        "syafizzudin/trash-object-detection-stm32n6",
        "FSBL/Model/st_ai_ws/neural_art__network/c_info.json",
    ),
    "mobilenetv1_025_224": (
        "tintran193/NUCLEO-N65X0Q-NPU-Setup",
        ".ai/network_mobilenetv1_a025_224_fft_int8.tflite_c_info.json",
    ),
}  # fmt: skip
"""Compile reports: repository and path."""

NETWORKS = {
    # instance: (model, board, neighbouring pools of one speed joined, with its constants)
    "blazeface_128_banks": ("blazeface_front_128", "stm32n6570-dk", False, False),
    "deeplab_320_joined": ("deeplab_v3_mobilenetv2_05_16_320_fft_qdq_int8", "stm32n6570-dk", True,
                           False),
    "efficientnet_224_banks": ("zoo2__food-101__st_efficientnet_lc_v1_224_tfs_int8",
                               "stm32n6570-dk", False, True),
    "mobilenetv2_224_joined": ("mobilenet_v2_1.0_224_int8", "stm32n6570-dk", True, True),
    "mobilenetv2_035_224_joined": ("zoo2__food-101__mobilenet_v2_0.35_224_fft_int8",
                                   "nucleo-n657x0-q", True, True),
    "movenet_192_joined": ("st_movenet_lightning_heatmaps_192_int8_pc", "nucleo-n657x0-q", True,
                           True),
    "osnet_256_banks": ("osnet_a025_256_128_tfs_int8", "stm32n6570-dk", False, True),
    "ssd_416_joined": ("zoo2__coco_2017_person__ssd_mobilenet_v2_fpnlite_035_416_int8",
                       "stm32n6570-dk", True, False),
    "ssd_256_banks": ("zoo2__coco_2017_person__st_ssd_mobilenet_v1_025_256_int8",
                      "nucleo-n657x0-q", False, False),
    "yamnet_1024_banks": ("yamnet_1024_64x96_tl_qdq_int8", "stm32n6570-dk", False, True),
    "yolo11n_256_seg_banks": ("yolo11n_256_quant_pc_ii_seg_coco80-st", "stm32n6570-dk", False,
                              False),
    "yolov8n_256_pose_banks": ("yolov8n_256_quant_pc_uf_pose_coco-st", "stm32n6570-dk", False,
                               True),
    "yolov8n_416_joined": ("yolov8n_416_quant_pc_uf_od_coco-person", "nucleo-n657x0-q", True,
                           False),
    "yolox_480_joined": ("st_yolo_x_nano_480_1.0_0.25_3_st_int8", "stm32n6570-dk", True, True),
    "yunet_320_joined": ("yunetn_320_qdq_int8", "stm32n6570-dk", True, True),
    "yolo26_256_linux": ("yolo26_256_qdq_int8_od_coco-person-st", "linux-npu-generic", True, True),
    "resnet_an547": ("pretrainedResnet_quant", "mps3-an547", False, True),
    "deeplab_320_an547": ("deeplab_v3_mobilenetv2_05_16_320_fft_qdq_int8", "mps3-an547", False,
                          False),
}  # fmt: skip

TILED = {
    "mobilenetv1_05_224_tiled": ("zoo2__food-101__mobilenet_v1_0.5_224_fft_int8", "stm32n6570-dk"),
    "mobilenetv2_035_224_tiled": ("zoo2__food-101__mobilenet_v2_0.35_224_fft_int8",
                                  "stm32n6570-dk"),
    "squeezenet_224_tiled": ("zoo2__food-101__squeezenetv1.1_224_tfs_int8", "stm32n6570-dk"),
}  # fmt: skip
"""In row stripes, as low as the search finds."""

SYSTEMS = {
    # description: (networks that run one after the other, bytes of code, of static data)
    "detection_lcd": (("st_yolo_x_nano_480_1.0_0.25_3_st_int8",), 180 << 10, 60 << 10),
    "detection_usb": (("yolov8n_256_quant_pc_uf_od_coco-person",), 260 << 10, 120 << 10),
    "people_tracking": (("st_yolo_x_nano_480_1.0_0.25_3_st_int8",
                         "osnet_a025_256_128_tfs_int8"), 240 << 10, 90 << 10),
    "hand_landmarks": (("blazeface_front_128", "yolov8n_256_quant_pc_uf_pose_coco-st"),
                       220 << 10, 80 << 10),
    "doorbell": (("vww_96_int8", "kws_ref_model", "yunetn_320_qdq_int8"), 200 << 10, 64 << 10),
    "inspection": (("yolov8n_320_quant_pc_uf_od_coco-person",
                    "deeplab_v3_mobilenetv2_05_16_320_fft_qdq_int8"), 300 << 10, 96 << 10),
}  # fmt: skip
"""Systems of `systems/`; code and static data are assumptions, they are fixed in each."""

WRITE = "write"


@dataclass(frozen=True)
class Made:
    """An instance: pools, buffers, where they come from, clocks at a compiler's addresses."""

    pools: tuple[PoolRow, ...]
    buffers: tuple[InstanceBuffer, ...]
    origin: str
    compiler_clocks: str = ""


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkouts", type=Path, help="git directories OWNER+NAME")
    parser.add_argument("--output", type=Path, default=SET, help="folder of the set")
    return parser.parse_args()


def pool_rows(target: Target, joined: bool, system: bool = False) -> tuple[PoolRow, ...]:
    """The memories of a board; neighbours of one speed as one where they are joined."""
    groups: Sequence[Sequence[Pool]] = pool_groups(target, same_speed=True)
    if not joined:
        groups = [[pool] for group in groups for pool in group]
    rows = [_row(group, system) for group in groups]
    rows += [_row([pool], system) for pool in target.pools_for(Use.WEIGHTS)]
    if system:
        rows += [_row([pool], system) for pool in target.pools_for(Use.SYSTEM)]
    return tuple(rows)


def _row(group: Sequence[Pool], system: bool) -> PoolRow:
    reach = [str(one) for one in group[0].reach]
    reach += [WRITE] if group[0].writable else []
    reach += ["chip"] if system and group[0].on_chip_ram else []
    size = group[-1].end - group[0].base
    name = "+".join(pool.name for pool in group)
    return PoolRow(name, group[0].base, size, group[0].clocks_per_byte, tuple(reach))


def of_report(report: CInfo, origin: str) -> Made:
    """What the compiler placed: activations with its views, over the pools that it could use."""
    real = [p for p in report.pools if not p.parts and p.writable and p.size and p.address]
    largest = max(b.size for b in report.buffers if not b.parameter)
    bank = max((p.size for p in real if p.name.startswith("npuRAM")), default=0)
    pools: list[PoolRow] = []
    for pool in sorted(real, key=lambda pool: pool.address):
        row = PoolRow(pool.name, pool.address, pool.size, pool.ratio / pool.width)
        last = pools[-1] if pools else None
        touches = last is not None and last.base + last.size == row.base
        same = touches and last is not None and last.clocks_per_byte == row.clocks_per_byte
        if largest > bank and same and last is not None:
            name = f"{last.name}+{row.name}"
            pools[-1] = replace(last, name=name, size=last.size + row.size)
        else:
            pools.append(row)
    reads = {b.id: 0 for b in report.buffers}
    for epoch in report.epochs:
        for number in (*epoch.inputs, *epoch.outputs):
            reads[number] = reads.get(number, 0) + 1
    kept = [b for b in report.buffers if not b.parameter and b.size]
    kept.sort(key=lambda b: -b.size)
    names = {b.id: f"b{b.id}" for b in kept}
    buffers: list[InstanceBuffer] = []
    for i, b in enumerate(kept):
        at = report.address_of(b) or 0
        alignment = min(at & -at or 64, 64)
        owner = next(
            (
                (o, start)
                for o in kept[:i]
                for start in [report.address_of(o) or 0]
                if start <= at and at + b.size <= start + o.size
                and (o.first_epoch, o.last_epoch) == (b.first_epoch, b.last_epoch)
            ),
            None,
        )  # fmt: skip
        buffers.append(
            InstanceBuffer(
                names[b.id], b.first_epoch, max(b.last_epoch, b.first_epoch) + 1, b.size,
                1 if owner else alignment, reads[b.id] * b.size,
                view_of=names[owner[0].id] if owner else "",
                view_offset=at - owner[1] if owner else 0,
            )
        )  # fmt: skip
    addresses = {names[b.id]: report.address_of(b) or 0 for b in kept}
    clocks = address_clocks(pools, buffers, addresses)
    return Made(tuple(pools), tuple(buffers), origin, f"{clocks:.3f}")


def of_schedule(
    schedule: Schedule, constants: bool, prefix: str = "b", shift: int = 1
) -> tuple[list[InstanceBuffer], int]:
    """Buffers of a lowered network, and the first time behind it."""
    traffic = traffic_of(schedule)
    found = []
    for i, span in enumerate(spans_of(schedule)):
        reach = (*(str(one) for one in schedule.buffers[span.name].reach), WRITE)
        found.append(
            InstanceBuffer(
                f"{prefix}{i}", span.first + shift, span.last + shift + 1, span.size,
                span.alignment, traffic.get(span.name, 0), reach,
            )
        )  # fmt: skip
    end = max((b.upper for b in found), default=shift)
    if constants:
        for i, buffer in enumerate(schedule.constants):
            size = aligned(buffer.nbytes, buffer.alignment)
            reach = tuple(str(one) for one in buffer.reach)
            found.append(
                InstanceBuffer(f"{prefix}w{i}", 0, end, size, buffer.alignment,
                               traffic.get(buffer.name, 0), reach)
            )  # fmt: skip
    return found, end


def lowered(model: str, target: Target) -> Schedule:
    """A model of the measurement data, lowered for a board."""
    graph = load_model(model_files(model)[0])
    return lower(graph, map_graph(graph, target), target)


def of_system(description: SystemDescription, models: Sequence[str], code: int, data: int) -> Made:
    """Networks one after the other in time, and everything else alive all the time."""
    target = load_target(description.target)
    boot = target.boot()
    pools = list(pool_rows(target, joined=True, system=True))
    low, high = boot.loader_ram
    for i, pool in enumerate(pools):
        start, end = max(low, pool.base), min(high, pool.base + pool.size)
        if start < end:
            # what the boot loader copies with keeps its RAM until the program runs
            pools[i] = replace(pool, reserved=((start - pool.base, end - pool.base),))
    networks: list[InstanceBuffer] = []
    end = 1
    for n, model in enumerate(models):
        found, end = of_schedule(lowered(model, target), True, f"n{n}b", end)
        networks += found
    # constants stay for all networks
    networks = [replace(b, upper=end) if "w" in b.id else b for b in networks]
    buffers = [
        InstanceBuffer("code", 0, end, aligned(code, 32), 32, 0, ("cpu", WRITE), (boot.code,),
                       boot.offset),
        InstanceBuffer("data", 0, end, aligned(data, 32), 32, 0, ("cpu", WRITE), (boot.data[0],),
                       0),
    ]  # fmt: skip
    for i, item in enumerate(description.items):
        alignment = target.cache_line if item.dma else 8
        size = aligned(item.nbytes, alignment)
        reach = ("cpu", WRITE, "dma") if item.dma else ("cpu", WRITE, "chip")
        # a frame is written by one and read by another; the use of stacks and objects is not known
        moved = 2 * size if item.kind is Account.DATA_PATH else 0
        for n in range(item.count):
            buffers.append(InstanceBuffer(f"i{i}.{n}", 0, end, size, alignment, moved, reach))
    origin = f"systems/{description.file.name}; networks {', '.join(models)}"
    return Made(tuple(pools), (*buffers, *networks), origin)


def report_bytes(checkouts: Path, repository: str, path: str) -> bytes:
    """A file of a public project."""
    folder = checkouts / repository.replace("/", "+")
    inside = [folder, *(p for p in folder.iterdir() if p.is_dir())]
    git = next(p for p in inside if (p / "HEAD").is_file())
    command = ["git", f"--git-dir={git}", "show", f"HEAD:{path}"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def instances(checkouts: Path | None) -> Iterable[tuple[str, Made]]:
    """All of the set, by name."""
    for name, (repository, path) in REPORTS.items() if checkouts else ():
        assert checkouts is not None
        report = read_c_info(report_bytes(checkouts, repository, path), name)
        version = report.tools[1][1].split()[0] if len(report.tools) > 1 else ""
        origin = f"compiled by ST Neural-ART {version}: {repository} {path}"
        yield f"compiled_{name}", of_report(report, origin)
    for name, (model, board, joined, constants) in NETWORKS.items():
        target = load_target(board)
        buffers, _ = of_schedule(lowered(model, target), constants)
        origin = f"npuforge's lowering of {model} for {board}"
        yield f"network_{name}", Made(pool_rows(target, joined), tuple(buffers), origin)
    for name, (model, board) in TILED.items():
        target = load_target(board)
        found = tile_least(lowered(model, target))
        assert found is not None
        buffers, _ = of_schedule(found.schedule, False)
        origin = f"{model} for {board} in row stripes"
        yield name, Made(pool_rows(target, joined=False), tuple(buffers), origin)
    for name, (models, code, data) in SYSTEMS.items():
        description = read_system(SET / "systems" / f"{name}.toml")
        yield f"system_{name}", of_system(description, models, code, data)


def main() -> None:
    """Write instances, memories and the index."""
    chosen = options()
    memories: dict[str, str] = {}
    index = []
    for name, made in instances(chosen.checkouts):
        pools = write_pools(made.pools)
        memory = memories.setdefault(pools, f"memory_{len(memories) + 1:02}")
        for folder, file, text in (
            ("memories", memory, pools), ("instances", name, write_buffers(made.buffers)),
        ):  # fmt: skip
            path = chosen.output / folder / f"{file}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        index.append((name, memory, len(made.buffers), made.compiler_clocks, made.origin))
        print(*index[-1], flush=True)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("instance", "memory", "buffers", "compiler_clocks", "origin"))
    writer.writerows(index)
    (chosen.output / "index.csv").write_text(out.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    main()
