"""The loop above the stages: propose choices, run them, keep what nothing else beats.

Choices: operating point, who computes (NPU or CPU), integer network inputs and outputs, which RAM
activations may use, how much RAM holds weights that are read most often for their size, and the
order of the epochs where another one keeps fewer bytes alive. Image sizes are no choice among
others, because a smaller image always wins: each has a front of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from npuforge.accelerators import PlacementKind
from npuforge.accelerators.neural_art.placement import NpuPlacement
from npuforge.cost import (
    DEFAULT_RELEASE,
    Calibration,
    EpochWork,
    Memory,
    NpuCost,
    Residence,
    activation_limits,
    compiler_rules,
    epoch_works,
    load_calibration,
    place_activations,
)
from npuforge.cost.energy import Energy, Level, network_energy
from npuforge.cost.explain import prefetch_plan
from npuforge.cost.neural_art import cost_of_works
from npuforge.cost.residence import least_live_order
from npuforge.explore.resolution import at_resolution
from npuforge.graph import Graph
from npuforge.mapping import map_to_npu
from npuforge.targets import OperatingPoint, Target

WEIGHT_SHARES = (0.0, 0.25, 0.5, 1.0)
"""Parts of the free RAM that weights may take."""


class Backend(StrEnum):
    """Who computes."""

    NPU = "npu"
    CPU = "cpu"


class Spread(StrEnum):
    """Which on-chip RAM activations may use."""

    NPU_RAM = "npu ram only"
    ON_CHIP = "npu and cpu ram"


@dataclass(frozen=True)
class Choice:
    """One combination.

    Attributes:
        point: operating point.
        backend: who computes.
        integer_io: network inputs and outputs stay integers.
        spread: RAM that activations may use; the rest spills to external RAM.
        weight_share: part of the free RAM that holds weights; 0 to 1.
        reordered: epochs run in the order that keeps the fewest bytes alive, not in the file's.
    """

    point: OperatingPoint
    backend: Backend
    integer_io: bool
    spread: Spread
    weight_share: float
    reordered: bool


@dataclass(frozen=True)
class Candidate:
    """A choice and what it gives.

    Attributes:
        choice: the choice.
        cost: estimated time of each epoch.
        energy: of one inference, core supply.
        ram: bytes of on-chip RAM: live activations and weights.
        external: bytes of activations in external RAM.
        weights_in_ram: bytes of weights moved to RAM.
        size: rows and columns of the image it is for; None where the network was left as it is.
    """

    choice: Choice
    cost: NpuCost
    energy: Energy
    ram: int
    external: int
    weights_in_ram: int
    size: tuple[int, int] | None = None

    @property
    def goals(self) -> tuple[float, float, int]:
        """What is made small: milliseconds, microjoules, bytes of RAM on and off the chip."""
        return (self.cost.ms, self.energy.uj, self.ram + self.external)

    def beats(self, other: Candidate) -> bool:
        """Whether it is at least as good in everything and better in something."""
        pairs = list(zip(self.goals, other.goals, strict=True))
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


@dataclass(frozen=True)
class Exploration:
    """All candidates that were run.

    Attributes:
        front: those that no other of their image size beats, fastest first, size by size.
        tried: number of candidates.
    """

    front: tuple[Candidate, ...]
    tried: int


def explore(
    graph: Graph,
    target: Target,
    *,
    points: Sequence[OperatingPoint] = (),
    release: str = DEFAULT_RELEASE,
    controller: bool = True,
    calibration: Calibration | None = None,
    max_ms: float | None = None,
    max_ram: int | None = None,
    sizes: Sequence[tuple[int, int]] = (),
) -> Exploration:
    """Run every choice and keep the Pareto front of time, energy and memory.

    Args:
        graph: the network.
        target: a board with a Neural-ART.
        points: operating points; default: all of the target.
        release: of the compiler.
        controller: the epoch controller is used.
        calibration: constants; default: those that come with npuforge.
        max_ms: leave out what is slower.
        max_ram: leave out what takes more bytes of on-chip RAM.
        sizes: rows and columns of images to try; default: the network's own.

    Raises:
        UsageError: CST-008, the network cannot take images of one of the sizes.
    """
    used = calibration or load_calibration()
    wanted = tuple(points) or tuple(target.operating_points.values())
    front: list[Candidate] = []
    tried = 0
    for size in sizes or (None,):
        network = graph if size is None else at_resolution(graph, *size)
        found = [
            replace(candidate, size=size)
            for candidate in candidates(network, target, wanted, release, controller, used)
            if (max_ms is None or candidate.cost.ms <= max_ms)
            and (max_ram is None or candidate.ram <= max_ram)
        ]
        front += pareto(found)
        tried += len(found)
    return Exploration(tuple(front), tried)


def candidates(
    graph: Graph,
    target: Target,
    points: Sequence[OperatingPoint],
    release: str,
    controller: bool,
    calibration: Calibration,
) -> Iterator[Candidate]:
    """Every choice, run; arguments as for `explore`."""
    placed = {io: map_to_npu(graph, integer_io=io).placements for io in (False, True)}
    rules = compiler_rules(release)
    plain = {
        (Backend.NPU, False): epoch_works(graph, placed[False], rules),
        (Backend.NPU, True): epoch_works(graph, placed[True], rules),
        (Backend.CPU, True): epoch_works(graph, _on_cpu(placed[True]), rules),
    }
    works: dict[tuple[Backend, bool, bool], tuple[EpochWork, ...]] = {}
    for (backend, integer_io), own in plain.items():
        works[backend, integer_io, False] = own
        other = least_live_order(graph, own)
        if other != own:
            works[backend, integer_io, True] = other
    near, internal = activation_limits(target)
    limits = {Spread.NPU_RAM: near, Spread.ON_CHIP: internal}
    where = {
        (key, spread): place_activations(graph, own, near, limit)
        for key, own in works.items()
        for spread, limit in limits.items()
    }
    for choice in _choices(points):
        key = (choice.backend, choice.integer_io, choice.reordered)
        if key in works:
            yield _run(
                choice, works[key], where[key, choice.spread], limits[choice.spread], internal,
                release, controller, calibration,
            )  # fmt: skip


def pareto(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Candidates that no other beats, fastest first; of equal ones the first."""
    front: list[Candidate] = []
    seen: set[tuple[float, float, int]] = set()
    for one in candidates:
        if one.goals in seen or any(other.beats(one) for other in candidates):
            continue
        seen.add(one.goals)
        front.append(one)
    return tuple(sorted(front, key=lambda entry: entry.goals))


def _choices(points: Sequence[OperatingPoint]) -> Iterator[Choice]:
    for point, integer_io, spread, share, reordered in itertools.product(
        points, (False, True), Spread, WEIGHT_SHARES, (False, True)
    ):
        yield Choice(point, Backend.NPU, integer_io, spread, share, reordered)
    for point, reordered in itertools.product(points, (False, True)):
        yield Choice(point, Backend.CPU, True, Spread.ON_CHIP, 0.0, reordered)


def _on_cpu(placements: Sequence[NpuPlacement]) -> tuple[NpuPlacement, ...]:
    return tuple(
        placement
        if placement.kind is PlacementKind.VIEW
        else NpuPlacement(placement.node, PlacementKind.CPU_INTEGER, "MAP-npu-user", {"op": ""})
        for placement in placements
    )


def _run(
    choice: Choice,
    works: Sequence[EpochWork],
    where: Residence,
    limit: int,
    internal: int,
    release: str,
    controller: bool,
    calibration: Calibration,
) -> Candidate:
    cost = cost_of_works(works, where, choice.point, calibration, release, controller)
    external = where.bytes_in(Memory.EXTERNAL)
    activations = min(where.peak, limit)
    moved = 0
    if choice.weight_share:
        room = int((internal - activations) * choice.weight_share)
        chosen = {entry.node: entry.nbytes for entry in prefetch_plan(cost, room).entries
                  if entry.fits}  # fmt: skip
        moved = sum(chosen.values())
        works = tuple(
            replace(work, flash_bytes=0) if work.nodes[0] in chosen else work for work in works
        )
        cost = cost_of_works(works, where, choice.point, calibration, release, controller)
    energy = network_energy(cost, Level.CORE).total
    return Candidate(choice, cost, energy, activations + moved, external, moved)
