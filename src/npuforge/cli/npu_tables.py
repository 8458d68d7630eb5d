"""The NPU part of `npuforge analyze`: shares, fallbacks, epochs, choices, reports, boards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npuforge.cost import NpuCost
    from npuforge.graph import Graph
    from npuforge.mapping import NpuMapping, ReportComparison, VelaMapping
    from npuforge.mapping.npu import Fallback
    from npuforge.targets import Target


@dataclass(frozen=True)
class NpuView:
    """What `analyze` knows of the NPU.

    Attributes:
        npu: placement on Neural-ART; None when the target has none.
        time: its time.
        free: time and placement without the user's `--cpu`; None when nothing was forced.
        report: comparison with a report of ST's tool.
        vela: Vela's report laid over the network.
    """

    npu: NpuMapping | None
    time: NpuCost | None
    free: tuple[NpuMapping, NpuCost] | None
    report: ReportComparison | None
    vela: VelaMapping | None


def view_of(
    graph: Graph,
    board: Target,
    clock: str,
    *,
    cpu: Sequence[str],
    integer_io: bool,
    release: str,
    st_report: Path | None,
    vela: Path | None,
) -> NpuView:
    """Everything the options ask for."""
    from npuforge import api
    from npuforge.errors import UsageError
    from npuforge.mapping import compare_report, map_with_vela

    npu = api.npu_mapping(graph, board, cpu=cpu, integer_io=integer_io, release=release)
    time = None if npu is None else api.npu_time(graph, board, npu, clock, release=release)
    free = None
    if cpu and npu is not None:
        other = api.npu_mapping(graph, board, integer_io=integer_io, release=release)
        assert other is not None
        free = (other, api.npu_time(graph, board, other, clock, release=release))
    report = None
    if st_report is not None:
        if npu is None:
            raise UsageError("NPU-003", target=board.name)
        compiled = api.read_compiled(st_report)
        same = api.npu_mapping(
            graph, board, cpu=cpu, integer_io=integer_io, release=compiled.release or release
        )
        report = compare_report(graph, same or npu, compiled)
    laid = None if vela is None else map_with_vela(graph, api.read_vela(vela))
    return NpuView(npu, time, free, report, laid)


def outcome(view: NpuView) -> tuple[float, bool]:
    """Share of nodes on the NPU (0 to 1), and whether any node leaves it."""
    if view.vela is not None:
        return view.vela.node_share, bool(view.vela.fallbacks)
    if view.npu is None:
        return 0.0, True
    return view.npu.node_share, bool(view.npu.fallbacks)


def documents(view: NpuView) -> dict[str, Any]:
    """The parts of the JSON document."""
    from npuforge.report import npu_document, npu_time_document, st_report_document, vela_document

    found: dict[str, Any] = {}
    if view.npu is not None and view.time is not None:
        found = {"npu": npu_document(view.npu), "npu_time": npu_time_document(view.time)}
    if view.free is not None and view.time is not None:
        free, time = view.free
        found["choices"] = {
            "ms": view.time.ms - time.ms,
            "ms_without": time.ms,
            "software_epochs": (view.npu or free).software_epochs - free.software_epochs,
            "node_share_without": free.node_share,
        }
    if view.report is not None:
        found["st_report"] = st_report_document(view.report)
    if view.vela is not None:
        found["vela"] = vela_document(view.vela)
    return found


def show(view: NpuView, *, only_npu: bool, verbose: bool) -> None:
    """Print everything."""
    if view.npu is not None and view.time is not None:
        _print_npu(view.npu, view.time)
        if view.free is not None:
            _print_choice(view)
        if only_npu and view.npu.fallbacks:
            _print_only_npu(view.npu, view.time)
        if verbose:
            _print_epochs(view.npu)
    if view.report is not None:
        _print_report(view.report)
    if view.vela is not None:
        _print_vela(view.vela)
    if view.time is not None:
        _print_cost(view.time)


def _line(code: str, **params: object) -> None:
    from npuforge.cli.common import console
    from npuforge.messages import text

    console().print()
    console().print(text(code, **params), markup=False)


def _columns(code: str) -> tuple[str, ...]:
    from npuforge.messages import text

    return tuple(text(code).split("|"))


def _ms_of(time: NpuCost) -> dict[str, float]:
    """Milliseconds by the nodes of each epoch, shared out evenly where several share one."""
    spent: dict[str, float] = {}
    for epoch in time.epochs:
        for node in epoch.nodes:
            spent[node] = spent.get(node, 0.0) + epoch.ms / len(epoch.nodes)
    return spent


def _print_choice(view: NpuView) -> None:
    assert view.free is not None
    assert view.npu is not None
    assert view.time is not None
    free, time = view.free
    _line(
        "NPU-choice",
        ms=f"{view.time.ms - time.ms:+.2f}",
        before=f"{time.ms:.2f}",
        after=f"{view.time.ms:.2f}",
        epochs=f"{view.npu.software_epochs - free.software_epochs:+d}",
        share=f"{100 * (view.npu.node_share - free.node_share):+.1f}",
    )


def _print_only_npu(npu: NpuMapping, time: NpuCost) -> None:
    spent = _ms_of(time)
    total = sum(spent.get(f.node, 0.0) for f in npu.fallbacks)
    _line(
        "NPU-only", count=len(npu.fallbacks), ms=f"{total:.2f}",
        share=f"{total / time.ms:.0%}" if time.ms else "0%",
    )  # fmt: skip


def _print_report(report: ReportComparison) -> None:
    from npuforge.cli.common import print_table
    from npuforge.messages import text

    compiled, (hardware, hybrid, software) = report.compiled, report.predicted
    _line(
        "NPU-report",
        version=compiled.version or "?",
        compiled=f"{compiled.hardware} / {compiled.hybrid} / {compiled.software}",
        predicted=f"{hardware} / {hybrid} / {software}",
    )
    if compiled.source == "times":
        _line("NPU-report-times")
    if report.differences:
        rows = [(d.operator, d.predicted, d.compiled, d.why) for d in report.differences]
        print_table(text("NPU-report-title"), _columns("NPU-report-columns"), rows)


def _print_vela(vela: VelaMapping) -> None:
    _line(
        "NPU-vela",
        nodes=f"{vela.node_share:.1%}",
        macs=f"{vela.mac_share:.1%}",
        cycles=vela.cycles,
        unknown=len(vela.unknown),
    )
    _print_fallbacks(vela.fallbacks, {})


def show_models(
    models: Sequence[Path],
    target: str,
    fix_shape: Sequence[str],
    cpu: Sequence[str],
    integer_io: bool,
    as_json: bool,
) -> None:
    """Several networks on one board; exit code 1 when one cannot be read or does not fit."""
    import typer

    from npuforge import api
    from npuforge.cli.common import print_json, print_table, progress
    from npuforge.messages import text
    from npuforge.report import human_bytes, human_count, models_document
    from npuforge.targets import load_target

    board = load_target(target)
    with progress("comparing"):
        results = api.compare_models(
            models, board, shapes=api.parse_shapes(fix_shape), cpu=cpu, integer_io=integer_io
        )
    if as_json:
        print_json(models_document(results, board.name))
    else:
        rows: list[tuple[object, ...]] = []
        for r in results:
            b, name = r.board, Path(r.path).name
            if b is None:
                rows.append((name, r.why, *("-",) * 8))
                continue
            sizes = (b.weight_bytes, b.activation_bytes)
            rows.append(
                (
                    *(name, text("NPU-yes") if b.fits else b.why, human_count(r.macs)),
                    *("-" if size is None else human_bytes(size) for size in sizes),
                    human_bytes(b.external_bytes),
                    "-" if b.node_share is None else f"{b.node_share:.1%}",
                    "-" if r.epochs is None else " / ".join(map(str, r.epochs)),
                    "-" if b.ms is None else f"{b.ms:.2f}",
                    r.worst or "-",
                )
            )
        print_table(text("NPU-models", board=board.title), _columns("NPU-models-columns"), rows)
    if any(r.board is None or not r.board.fits for r in results):
        raise typer.Exit(1)


def show_boards(graph: Graph, cpu: Sequence[str], integer_io: bool, as_json: bool) -> None:
    """One network on all boards."""
    from npuforge import api
    from npuforge.cli.common import print_json, print_table, progress
    from npuforge.messages import text
    from npuforge.report import boards_document, human_bytes

    with progress("comparing"):
        results = api.compare_targets(graph, cpu=cpu, integer_io=integer_io)
    if as_json:
        print_json(boards_document(results, graph))
        return

    def shown(value: int | None) -> str:
        return "-" if value is None else human_bytes(value)

    print_table(
        text("NPU-boards"),
        _columns("NPU-boards-columns"),
        [
            (
                r.target,
                text("NPU-yes") if r.fits else r.why,
                shown(r.weight_bytes),
                shown(r.activation_bytes),
                shown(r.external_bytes) if r.fits else "-",
                shown(r.internal_size),
                r.npu or "-",
                "-" if r.node_share is None else f"{r.node_share:.1%}",
                "-" if r.mac_share is None else f"{r.mac_share:.1%}",
                "-" if r.ms is None else f"{r.ms:.2f}",
            )
            for r in results
        ],
    )


def _print_npu(npu: NpuMapping, time: NpuCost) -> None:
    _line(
        "NPU-share", nodes=f"{npu.node_share:.1%}", macs=f"{npu.mac_share:.1%}",
        hardware=npu.hardware_epochs, hybrid=npu.hybrid_epochs, software=npu.software_epochs,
    )  # fmt: skip
    _print_fallbacks(npu.fallbacks, _ms_of(time))


MOST_REASONS = 3
"""Different reasons of one rule that are printed; `--json` has each node's."""


def _print_fallbacks(fallbacks: Sequence[Fallback], spent: dict[str, float]) -> None:
    """The nodes, costliest first, and each rule's reasons and remedy once behind them."""
    from npuforge.cli.common import print_table
    from npuforge.graph import short_name
    from npuforge.messages import text
    from npuforge.report import human_bytes, human_count

    if not fallbacks:
        return
    # stable: without times the order of the mapping stays
    fallbacks = sorted(fallbacks, key=lambda f: -spent.get(f.node, 0.0))
    print_table(
        text("NPU-leaves"),
        _columns("NPU-leaves-columns"),
        [
            (
                *(f"{f.op} {short_name(f.node)}", f.kind.value.replace("_", " ")),
                *(human_count(f.macs), human_bytes(f.bytes)),
                *(f"{spent[f.node]:.3f}" if f.node in spent else "-", f.rule),
            )
            for f in fallbacks
        ],
    )
    by_rule: dict[str, list[Fallback]] = {}
    for fallback in fallbacks:
        by_rule.setdefault(fallback.rule, []).append(fallback)
    for rule, found in by_rule.items():
        reasons = list(dict.fromkeys(f.reason for f in found))
        _line("NPU-why", rule=rule, count=len(found), evidence=found[0].confidence,
              ms=f"{sum(spent.get(f.node, 0.0) for f in found):.2f}")  # fmt: skip
        _indented(reasons[:MOST_REASONS])
        if len(reasons) > MOST_REASONS:
            _indented([text("NPU-more", count=len(reasons) - MOST_REASONS)])
        remedies = dict.fromkeys(f.remedy for f in found if f.remedy)
        _indented(f"-> {remedy}" for remedy in remedies)


def _indented(lines: Iterable[str]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from npuforge.cli.common import console

    for line in lines:
        console().print(Padding(Text(line), (0, 0, 0, 2)))


def _print_epochs(npu: NpuMapping) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.graph import short_name
    from npuforge.messages import text

    rows = []
    for number, epoch in enumerate(npu.epochs):
        parts: dict[str, list[str]] = {}
        for op in epoch.operations:
            parts.setdefault(short_name(op.node), []).append(op.part.value)
        steps = "; ".join(f"{node}: {' '.join(names)}" for node, names in parts.items())
        rows.append((number, epoch.kind.value.replace("_", " "), steps))
    console().print()
    print_table(text("NPU-epochs"), _columns("NPU-epochs-columns"), rows)


def _print_cost(cost: NpuCost) -> None:
    from npuforge.cli.common import console, print_table
    from npuforge.graph import short_name

    low, high = cost.interval
    console().print()
    console().print(
        f"estimated time: {cost.ms:.2f} ms, 80 % interval {low:.2f} to {high:.2f} ms "
        "(weights in flash, activations in NPU RAM; published 800/1000 MHz figures)"
    )
    slowest = sorted(cost.epochs, key=lambda epoch: -epoch.ms)[:10]
    print_table(
        "slowest epochs",
        ("node", ">ms", ">share", "waits for", "mode"),
        [
            (f"{e.op} {short_name(e.node)}", f"{e.ms:.3f}", f"{e.ms / cost.ms:.1%}",
             e.bottleneck.value, "16x8" if e.wide else "")
            for e in slowest
        ],
    )  # fmt: skip
