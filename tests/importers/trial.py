"""Mutated model files, loaded and run in a child process: an error or a graph, nothing else.

python -m tests.importers.trial KIND COUNT SEED LARGEST FOLDER FILE...
"""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.importers.mutations import (
    Flatbuffer,
    Rng,
    mutated_bytes,
    mutated_onnx,
    mutated_tflite,
    wire_fields,
    wire_mutation,
)

ROOT = Path(__file__).parents[2]
MEMORY = 1 << 30
SECONDS_A_FILE = 10


@dataclass
class Outcome:
    """What came of the files.

    Attributes:
        graphs: loaded, and run unless they are large.
        errors: refused.
        codes: how often each error code.
        wrong: other exceptions, with their place; the files are kept.
        peak: most memory of the process, in bytes.
    """

    graphs: int = 0
    errors: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    peak: int = 0


def survived(
    kind: str, files: list[Path], count: int, seconds: int, folder: Path, *, largest: int
) -> Outcome:
    """Run `count` mutations of the files and assert that each is an error or a graph.

    Args:
        kind: a key of `kinds`.
        files: of one format.
        count: mutations.
        seconds: time limit of all.
        folder: for the mutated files.
        largest: elements of all tensors of a graph that is still run.
    """
    command = [sys.executable, "-m", __name__, kind, count, 1, largest, folder, *files]
    result = subprocess.run(
        [str(item) for item in command],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    outcome = Outcome(**json.loads(result.stdout))
    assert outcome.wrong == [], "\n".join(outcome.wrong[:20])
    assert outcome.graphs + outcome.errors == count
    assert outcome.errors > count // 10
    assert outcome.peak < MEMORY
    return outcome


def kinds() -> dict[str, tuple[Callable[[bytes], Any], Callable[[Any, Rng], bytes]]]:
    """By name: what is made once of a file, and a mutation of that."""
    import onnx

    return {
        "bytes": (bytes, mutated_bytes),
        "flatbuffer": (
            lambda content: (content, Flatbuffer(content).sites),
            lambda known, rng: mutated_tflite(*known, rng),
        ),
        "messages": (onnx.load_from_string, mutated_onnx),
        "wire": (
            lambda content: (content, list(wire_fields(content, 0, len(content)))),
            lambda known, rng: wire_mutation(*known, rng),
        ),
    }


class Hang(BaseException):
    """A file took too long; no reader's `except Exception` can take it for damage."""


def trial(
    kind: str, files: list[Path], count: int, seed: int, folder: Path, largest: int
) -> Outcome:
    """Load and run mutations of the files one after the other in this process."""
    import resource
    import signal

    from npuforge.errors import NpuforgeError
    from npuforge.importers import load_model
    from npuforge.numerics import Executor, random_inputs

    def hang(number: int, frame: object) -> None:
        raise Hang

    prepare, mutate = kinds()[kind]
    known = [prepare(path.read_bytes()) for path in files]
    path = folder / f"case{files[0].suffix}"
    rng = np.random.default_rng(seed)
    outcome, codes = Outcome(), Counter[str]()
    signal.signal(signal.SIGALRM, hang)
    for turn in range(count):
        content = mutate(known[int(rng.integers(len(known)))], rng)
        path.write_bytes(content)
        signal.alarm(SECONDS_A_FILE)
        try:
            graph = load_model(path)
            if sum(t.size for t in graph.tensors.values()) < largest:
                Executor(graph).run(random_inputs(graph, rng))
            outcome.graphs += 1
        except NpuforgeError as error:
            outcome.errors += 1
            codes[error.code] += 1
        except (Hang, Exception) as error:
            calls = traceback.extract_tb(error.__traceback__)[-4:]
            place = " ".join(f"{Path(c.filename).name}:{c.lineno}" for c in calls)
            text = f"{type(error).__name__}: {str(error)[:200]} in {place}"
            outcome.wrong.append(f"case {turn}: {text}")
            (folder / f"wrong-{kind}-{turn}{path.suffix}").write_bytes(content)
        finally:
            signal.alarm(0)
    outcome.codes = dict(codes)
    outcome.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return outcome


def main() -> None:
    """Print the outcome as JSON."""
    kind, count, seed, largest, folder, *files = sys.argv[1:]
    warnings.simplefilter("ignore")
    paths = [Path(name) for name in files]
    outcome = trial(kind, paths, int(count), int(seed), Path(folder), int(largest))
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
