"""Shared by the benchmarks: timing as medians, tables on the terminal, results as JSON."""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def shared_folder() -> Path | None:
    """The measurement data: NPUFORGE_SHARED, or a folder `shared` beside the checkout."""
    stated = os.environ.get("NPUFORGE_SHARED")
    candidates = [Path(stated)] if stated else [ROOT.parent / "shared"]
    return next((path for path in candidates if (path / "models").is_dir()), None)


def required_shared_folder() -> Path:
    """The measurement data; the program ends where it is not present."""
    folder = shared_folder()
    if folder is None:
        raise SystemExit("the measurement data is not present: set NPUFORGE_SHARED")
    return folder


def model_files(*names: str) -> list[Path]:
    """Example networks, and files of the measurement data where it is present."""
    found = [ROOT / "examples" / name / f"{name}.tflite" for name in names]
    files = [path for path in found if path.is_file()]
    shared = shared_folder()
    if shared is not None:
        files += [p for n in names for p in sorted((shared / "models").glob(f"{n}.*"))]
    return files


def every_model() -> list[Path]:
    """All model files of the measurement data, else those of the examples."""
    shared = shared_folder()
    folder = ROOT / "examples" if shared is None else shared / "models"
    return sorted(p for p in folder.rglob("*") if p.suffix in (".tflite", ".onnx"))


@dataclass(frozen=True)
class Published:
    """A model file and the published rows it stands for: row id to how it matches ("" exact)."""

    file: str
    rows: dict[str, str]


SAME_TOPOLOGY = frozenset(("", "same-name", "arch-equivalent"))
"""Matches of the exact file, one of the same name, or the same topology retrained."""


def csv_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by column name."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def published_models(shared: Path) -> list[Published]:
    """Model files with the rows of the measurement data that they match in topology."""
    found = []
    for model in csv_rows(shared / "groundtruth" / "models.csv"):
        entries = (item.partition("[") for item in model["row_ids"].split())
        rows = {key: tag.rstrip("]") for key, _, tag in entries}
        kept = {key: tag for key, tag in rows.items() if tag in SAME_TOPOLOGY}
        found.append(Published(model["file_name"], kept))
    return found


def median_seconds(call: Callable[[], object], runs: int) -> float:
    """Median wall time of a call."""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def least_cpu_seconds(call: Callable[[], object], runs: int) -> float:
    """Processor time of the fastest of several calls: noise only adds."""
    times = []
    for _ in range(runs):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def interleaved_ms(
    calls: Sequence[Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> list[float]:
    """Milliseconds of the fastest of several rounds of each call, after one round to warm up.

    In each round every call runs once, so that what slows the machine down slows them all.

    Args:
        calls: what is compared.
        rounds: that count.
        clock: seconds: `time.process_time` or `time.perf_counter`.
    """
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds + 1):
        for call, kept in zip(calls, times, strict=True):
            begin = clock()
            call()
            kept.append((clock() - begin) * 1e3)
    return [min(kept[1:]) for kept in times]


def lite_interpreter(model: Path | bytes, *, reference: bool = True, threads: int = 1) -> Any:
    """LiteRT on a model file or its content, ready to be given inputs.

    Args:
        model: a TFLite file.
        reference: whether with the reference kernels, else as LiteRT is by default (XNNPACK).
        threads: how many it may use.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    source = {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
    interpreter = Interpreter(**source, num_threads=threads, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    return interpreter


def lite_inference(
    path: Path, inputs: Mapping[str, Any], *, reference: bool, threads: int = 1
) -> Callable[[], object]:
    """One inference of LiteRT on inputs that have been set; see `lite_interpreter`."""
    interpreter = lite_interpreter(path, reference=reference, threads=threads)
    for detail, value in zip(interpreter.get_input_details(), inputs.values(), strict=True):
        interpreter.set_tensor(detail["index"], value)
    return interpreter.invoke  # type: ignore[no-any-return]


def arguments(description: str) -> argparse.Namespace:
    """The options every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--runs", type=int, default=3, help="repetitions; the median counts")
    return parser.parse_args()


def report(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], out: Path | None,
           **facts: Any) -> None:  # fmt: skip
    """Print a table and, if asked, store it."""
    widths = [
        max(len(str(column)), *(len(str(row[i])) for row in rows)) if rows else len(column)
        for i, column in enumerate(columns)
    ]
    print(title)
    for row in (columns, *rows):
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)))
    for name, value in facts.items():
        print(f"{name.replace('_', ' ')}: {value}")
    if out is not None:
        document = {
            "title": title,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": platform.machine(),
            "rows": [dict(zip(columns, row, strict=True)) for row in rows],
            **facts,
        }
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
