"""A user's application on the virtual board; `npuforge.api` offers it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from npuforge.aton.load import load_compiled
from npuforge.boards.application import (
    Application,
    ApplicationBoard,
    FrameFault,
    Violation,
    errors_of,
)
from npuforge.boards.application_network import BoardNetwork, compiled_network, planned_network
from npuforge.boards.reproducer import KINDS, reproducer, single_convolution
from npuforge.boards.virtual_board import StressResult, interval
from npuforge.errors import UsageError
from npuforge.exporters import convert
from npuforge.exporters.convert import Format
from npuforge.messages import text
from npuforge.pipeline import System, plan_system
from npuforge.report import new_folder
from npuforge.targets import load_target
from npuforge.vocab import DriverFault, MachineProfile

PathLike = str | os.PathLike[str]
_DECLARED = re.compile(rb"LL_ATON_DECLARE_NAMED_NN_\w+\s*\(\s*(\w+)")
_STAI = re.compile(rb"\bstai_(?!runtime_|ext_)(\w{1,64}?)_init\s*\(")


@dataclass(frozen=True)
class ApplicationStress:
    """What the runs of an application showed.

    Attributes:
        runs: with one seed each.
        failures: runs with at least one error.
        low: lower end of the 95 % interval of the failure rate (Wilson).
        high: its upper end.
        inferences: of all runs together.
        violations: of all runs; equal ones of several runs as one, with their times added.
        said: what the application printed in the first run.
    """

    runs: int
    failures: int
    low: float
    high: float
    inferences: int
    violations: tuple[Violation, ...]
    said: str

    @property
    def errors(self) -> tuple[Violation, ...]:
        """Violations that are no mere risk."""
        return errors_of(self.violations)


def board_network(model: PathLike, target: str) -> BoardNetwork:
    """A network for the virtual board.

    Args:
        model: TFLite or ONNX file, planned for the target; or a compiled Neural-ART program
            (``network.c`` or its folder), whose numbers come from the simulator.
        target: board.
    """
    path = Path(model)
    if path.is_dir() or path.suffix == ".c":
        return compiled_network(load_compiled(path))
    planned = plan_system(System((path,), load_target(target))).models[0]
    return planned_network(planned.graph, planned.schedule, planned.plan)


def parse_frame_faults(names: Sequence[str]) -> tuple[FrameFault, ...]:
    """Frame faults by name.

    Raises:
        UsageError: BRD-033 for an unknown name.
    """
    known = {fault.value: fault for fault in FrameFault}
    for name in names:
        if name not in known:
            raise UsageError("BRD-033", name=name, known=", ".join(known))
    return tuple(known[name] for name in names)


def stress_application(
    model: PathLike,
    target: str,
    application: Application,
    *,
    name: str | None = None,
    user_buffers: bool = False,
    inferences: int = 8,
    runs: int = 1,
    seed: int = 1,
    frames: Sequence[str] = (),
    seconds: int = 60,
) -> ApplicationStress:
    """Run a user's application on the virtual board.

    Args:
        model: see `board_network`.
        target: board.
        application: its sources.
        name: of the network in the application; None takes it from the declaration there.
        user_buffers: inputs and outputs are bound by the application.
        inferences: of each run.
        runs: with seeds `seed`, `seed` + 1, …: other evictions, delays and frames.
        seed: of the first run.
        frames: faults of the virtual camera: ``dropped``, ``torn``, ``late``.
        seconds: after which a run counts as hanging.

    Raises:
        ToolError: gcc is missing, the application does not build, or its program fails.
        UsageError: a source cannot be read, or the network's name is not clear.
    """
    faults = parse_frame_faults(frames)
    called = name or _declared(application.sources)
    network = board_network(model, target)
    found: dict[tuple[object, ...], Violation] = {}
    failures = total = 0
    said = ""
    with TemporaryDirectory(prefix="npuforge-") as folder:
        board = ApplicationBoard(
            application, {called: network}, Path(folder), user_buffers=user_buffers
        )
        for number in range(runs):
            run = board.run(inferences, seed=seed + number, frames=faults, seconds=seconds)
            said = said or run.said
            failures += bool(run.errors)
            total += run.inferences
            for v in run.violations:
                key = (v.kind, v.buffer.split("+")[0], v.cause, v.effect, v.written)
                known = found.get(key)
                found[key] = replace(known, times=known.times + v.times) if known else v
    low, high = interval(failures, runs)
    return ApplicationStress(
        runs=runs,
        failures=failures,
        low=low,
        high=high,
        inferences=total,
        violations=tuple(found.values()),
        said=said,
    )


def reproduce_violation(
    folder: PathLike, target: str, kind: str, *, runs: int = 20, seed: int = 1
) -> ApplicationStress | None:
    """Write the smallest program that shows a kind of violation, and run it.

    The folder gets one convolution as TFLite file, ``main.c`` with the mistake (and without it,
    when FIXED is defined) and a README with the command and what the runs here showed.

    Args:
        folder: new.
        target: board.
        kind: of a `Violation`.
        runs: how often to run it, with other seeds.
        seed: of the first run.

    Returns:
        What the runs showed; None, and nothing written, where no program exists for the kind.
    """
    if kind not in KINDS:
        return None
    with new_folder(Path(folder)) as made:
        model, source = _write_convolution(made), made / "main.c"
        source.write_text(reproducer(kind), "utf-8")
        shown = stress_application(
            model, target, Application((source,)), user_buffers=True, runs=runs, seed=seed
        )
        seen = any(v.kind == kind for v in shown.violations)
        command = f"npuforge stress {model.name} --target {target} --application main.c"
        _write_readme(
            made,
            command=f"{command} --user-buffers --runs {runs} --seed {seed}",
            what=kind,
            count=shown.failures if seen else 0,
            of=runs,
        )
    return shown


def reproduce_rate(
    folder: PathLike,
    target: str,
    profile: MachineProfile,
    fault: DriverFault,
    count: int,
    seed: int,
) -> StressResult:
    """Write one convolution and the command that shows a driver's fault with it, and run that."""
    from npuforge.api import stress_model

    with new_folder(Path(folder)) as made:
        model = _write_convolution(made)
        shown, _ = stress_model(
            model, target, inferences=count, seed=seed, profile=profile, driver_fault=fault
        )
        command = f"npuforge stress {model.name} --target {target} --profile {profile}"
        _write_readme(
            made,
            command=f"{command} --driver-fault {fault} --count {count} --seed {seed}",
            what=fault,
            count=shown.wrong,
            of=count,
        )
    return shown


def _write_convolution(folder: Path) -> Path:
    path = folder / "single_convolution.tflite"
    path.write_bytes(convert(single_convolution(), Format.TFLITE).content)
    return path


def _write_readme(folder: Path, *, command: str, what: str, count: int, of: int) -> None:
    low, high = interval(count, of)
    words = text(
        "VBD-reproducer",
        what=what,
        command=command,
        count=count,
        of=of,
        low=f"{100 * low:.2f}",
        high=f"{100 * high:.2f}",
    )
    page = f"# {what}\n\n{words}\n\n    {command}\n"
    (folder / "README.md").write_text(page, "utf-8")


def _declared(sources: Sequence[Path]) -> str:
    names = set()
    for path in sources:
        try:
            content = path.read_bytes()
            names |= {match.decode() for match in _DECLARED.findall(content)}
            names |= {match.decode() for match in _STAI.findall(content)}
        except OSError as error:
            raise UsageError("BRD-032", path=path, reason=error.strerror or error) from None
    if len(names) > 1:
        raise UsageError("BRD-034", names=", ".join(sorted(names)))
    return names.pop() if names else "Default"
