"""Passes applied one after the other: each verified, measured, and kept only when it pays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import is_
from typing import Protocol

from npuforge.errors import NpuforgeError
from npuforge.graph import Array, Graph, Names, is_view, verify
from npuforge.numerics import bind
from npuforge.passes.boundary import BoundaryPass, Cut
from npuforge.passes.framework import Edit, Exactness, Pass, apply_edits
from npuforge.passes.measure import Difference, capture, output_difference, run, site_difference

Values = Mapping[str, Array]
Tick = Callable[[str], None]
MAX_ROUNDS = 8
"""Rounds of one pass: what it finds only after it has been applied."""
MAX_SINGLE = 64
"""Sites that are tried one at a time when all together do not pay or miss the bound."""
FASTER = 0.995
"""Time that must be saved for numbers to change, when nothing comes to the NPU."""
SLOWER = 1.02
"""Time that fewer epochs off the NPU may cost: what the cost model cannot tell apart."""


@dataclass(frozen=True)
class Score:
    """What a graph is on a target.

    Attributes:
        nodes: nodes that run (views do not).
        node_share: share of them on the NPU; 0 to 1, None when the target has none.
        mac_share: share of multiply-accumulates on the NPU.
        software_epochs: epochs on the CPU.
        hybrid_epochs: epochs driven by a C helper.
        transposes: transpose nodes.
        hazards: nodes of a form that is known to hang on silicon.
        ms: predicted milliseconds.
    """

    nodes: int
    node_share: float | None = None
    mac_share: float | None = None
    software_epochs: int = 0
    hybrid_epochs: int = 0
    transposes: int = 0
    hazards: int = 0
    ms: float = 0.0

    @property
    def off_npu(self) -> int:
        """Epochs that interrupt the NPU's program."""
        return self.software_epochs + self.hybrid_epochs


NONE = Difference()
NOTHING = Score(0)


class Judge(Protocol):
    """Says what a graph is on the target."""

    def score(self, graph: Graph) -> Score:
        """The figures of a graph."""

    def off_npu(self, graph: Graph) -> Collection[str]:
        """Names of the nodes that leave the NPU."""


def pays(before: Score, after: Score, tidy: bool) -> bool:
    """Whether a change is worth making."""
    if after.hazards != before.hazards:
        return after.hazards < before.hazards and after.off_npu <= before.off_npu
    if after.off_npu != before.off_npu:
        return after.off_npu < before.off_npu and after.ms <= before.ms * SLOWER
    if tidy:
        return after.nodes <= before.nodes and after.ms <= before.ms * 1.001
    return after.ms < before.ms * 0.999


def _worth(before: Score, after: Score) -> bool:
    """Whether a change is worth that numbers change with it."""
    interrupts = (after.hazards, after.off_npu) != (before.hazards, before.off_npu)
    return interrupts or after.ms <= before.ms * FASTER


class Status(StrEnum):
    """What became of a pass."""

    APPLIED = "applied"
    NOT_FOUND = "not_found"
    """Its pattern is not in the graph."""
    NO_GAIN = "no_gain"
    """It would not make the network better on the target."""
    DIFFERS = "differs"
    """The measured difference exceeds its bound."""
    OUTPUTS = "outputs"
    """Each place keeps its bound, but the network's outputs then differ by more than the limit."""
    NO_KERNEL = "no_kernel"
    """The rewritten nodes cannot be computed here, so nothing could be measured."""


@dataclass(frozen=True)
class Site:
    """One place of a pass.

    Attributes:
        removed: names of the nodes that went, as the model file calls them.
        added: operators that came.
        difference: of the tensors computed another way, given the same inputs.
    """

    removed: tuple[str, ...]
    added: tuple[str, ...]
    difference: Difference


@dataclass(frozen=True)
class Outcome:
    """One pass.

    Attributes:
        code: the pass.
        exactness: what it promises.
        bound: largest difference of a site, in steps.
        status: what became of it.
        sites: places where it was applied.
        refused: places where it was found and not applied.
        worst: largest difference over the sites that were tried.
        output: difference of the network's outputs to the original's, once it is applied.
        before: figures before it.
        after: figures after it.
        reason: why not, where an error says so.
    """

    code: str
    exactness: Exactness
    bound: float
    status: Status
    sites: tuple[Site, ...] = ()
    refused: int = 0
    worst: Difference = NONE
    output: Difference = NONE
    before: Score = NOTHING
    after: Score = NOTHING
    reason: str = ""


@dataclass(frozen=True)
class _Tried:
    """What one round of a pass came to."""

    status: Status
    sites: tuple[Site, ...] = ()
    worst: Difference = NONE
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Optimization:
    """A network after its passes.

    Attributes:
        original: before.
        graph: after.
        heads: graphs that turn the original inputs into the new ones, in the order they run.
        tails: graphs that turn the new outputs into the original ones, in the order they run.
        outcomes: one a pass, in the order they were tried.
        before: figures of the original.
        after: figures of the result.
        difference: of the original's outputs, everything composed.
        samples: number of samples everything was measured on.
    """

    original: Graph
    graph: Graph
    heads: tuple[Graph, ...]
    tails: tuple[Graph, ...]
    outcomes: tuple[Outcome, ...]
    before: Score
    after: Score
    difference: Difference
    samples: int


def run_pieces(pieces: Sequence[Graph], samples: Sequence[Values]) -> list[dict[str, Array]]:
    """Run graphs one after the other; each finds its inputs among all that was made before."""
    values = [dict(sample) for sample in samples]
    for piece in pieces:
        results = run(piece, [{n: v[n] for n in piece.inputs} for v in values])
        for value, result in zip(values, results, strict=True):
            value.update(result)
    return values


def optimize(
    graph: Graph,
    passes: Sequence[Pass],
    boundary: Sequence[BoundaryPass],
    samples: Sequence[Values],
    judge: Judge,
    *,
    limit: float = 0.05,
    insist: bool = False,
    tick: Tick | None = None,
) -> Optimization:
    """Apply passes in order; see `Optimizer`.

    Args:
        graph: verified.
        passes: rewrites, in the order they are tried.
        boundary: passes that change the interface; they come last.
        samples: inputs of the graph that everything is measured on.
        judge: what makes a graph better.
        limit: largest relative difference of the network's outputs that bounded passes may add up
            to.
        insist: apply passes whether they pay or not.
        tick: called with the code of each pass as it begins.
    """
    optimizer = Optimizer(graph, samples, judge, limit, insist)
    say = tick or (lambda _: None)
    for item in passes:
        say(item.code)
        optimizer.apply(item)
    for cut in boundary:
        say(cut.code)
        optimizer.apply_boundary(cut)
    return optimizer.result()


class Optimizer:
    """State of an optimisation: the graph so far, and what its original computes."""

    def __init__(
        self,
        graph: Graph,
        samples: Sequence[Values],
        judge: Judge,
        limit: float,
        insist: bool,
    ) -> None:
        self.original = graph
        self.graph = graph
        self._judge = judge
        self._limit = limit
        self._insist = insist
        self._samples = [dict(sample) for sample in samples]
        self._inputs = self._samples
        self._reference = run(graph, samples)
        self._last = self._reference
        self._heads: list[Graph] = []
        self._tails: list[Graph] = []
        self._outcomes: list[Outcome] = []
        self._before = self._score = judge.score(graph)
        self._difference = Difference()
        self._values: list[dict[str, Array]] | None = None
        self._scored: tuple[Graph, list[Edit], Graph, Score] | None = None

    def result(self) -> Optimization:
        """What has become of the graph."""
        return Optimization(
            self.original,
            self.graph,
            tuple(self._heads),
            tuple(self._tails),
            tuple(self._outcomes),
            self._before,
            self._score,
            self._difference,
            len(self._samples),
        )

    # --- rewrites ---

    def apply(self, item: Pass) -> Outcome:
        """Try one pass until it finds nothing new; its outcome is recorded too."""
        before = self._score
        sites: list[Site] = []
        refused = 0
        worst = Difference()
        status, reason = Status.NOT_FOUND, ""
        for _ in range(MAX_ROUNDS):
            edits = item.edits(self.graph, _names(self.graph))
            if not edits:
                break
            tried = self._round(item, edits)
            worst = worst.worse(tried.worst)
            refused = len(edits) - len(tried.sites)
            sites += tried.sites
            if tried.sites:
                status = Status.APPLIED
            elif status is Status.NOT_FOUND:
                status, reason = tried.status, tried.reason
            if refused:
                break
        outcome = Outcome(
            *(item.code, item.exactness, item.bound, status, tuple(sites), refused, worst),
            *(self._difference, before, self._score, reason),
        )
        self._outcomes.append(outcome)
        return outcome

    def _round(self, item: Pass, edits: Sequence[Edit]) -> _Tried:
        """Sort out what cannot be computed, does not pay or differs; apply the rest together."""
        legal, reason = self._legal(edits)
        if not legal:
            return _Tried(Status.NO_KERNEL, reason=reason)
        paying = self._paying(item, legal)
        if not paying:
            return _Tried(Status.NO_GAIN)
        found = [site_difference(self.graph, edit, self._captured()) for edit in paying]
        worst = Difference()
        for each in found:
            worst = worst.worse(each)
        kept = [
            (edit, each)
            for edit, each in zip(paying, found, strict=True)
            if (each.is_zero if item.exactness is Exactness.EXACT else each.steps <= item.bound)
        ]
        if len(kept) < len(paying):
            still = self._paying(item, [edit for edit, _ in kept])
            kept = [(edit, each) for edit, each in kept if any(edit is one for one in still)]
        if not kept:
            return _Tried(Status.DIFFERS, (), worst)
        status, sites, reason = self._commit(item, kept)
        if not sites and len(kept) > 1:
            for pair in kept[:MAX_SINGLE]:
                if self._paying(item, [pair[0]]):
                    one, more, _ = self._commit(item, [pair])
                    sites += more
                    status = one if one is Status.APPLIED else status
        return _Tried(status, tuple(sites), worst, reason)

    def _legal(self, edits: Sequence[Edit]) -> tuple[list[Edit], str]:
        """The edits that leave a sound graph whose new nodes have kernels."""
        reason = self._fault(edits)
        if not reason:
            return list(edits), ""
        faults = [self._fault([edit]) for edit in edits] if len(edits) > 1 else [reason]
        return [edit for edit, fault in zip(edits, faults, strict=True) if not fault], reason

    def _fault(self, edits: Sequence[Edit]) -> str:
        try:
            made = apply_edits(self.graph, edits)
            verify(made)
            for node in (node for edit in edits for node in edit.nodes):
                if not is_view(node):
                    bind(made, node)
        except (NpuforgeError, KeyError) as error:
            return str(error)
        return ""

    def _paying(self, item: Pass, edits: Sequence[Edit]) -> list[Edit]:
        """The edits that make the network better: all together, or those that do alone."""
        if self._insist or not edits:
            return list(edits)
        present = {node.name for node in self.graph.nodes}
        valid = [edit for edit in edits if present.issuperset(edit.remove)]
        if valid and self._pays(item, valid):
            return valid
        if len(valid) > MAX_SINGLE:
            return []
        alone = [edit for edit in valid if self._pays(item, [edit])]
        return alone if len(alone) < 2 or self._pays(item, alone) else alone[:1]

    def _pays(self, item: Pass, edits: Sequence[Edit]) -> bool:
        return pays(self._score, self._with(edits)[1], item.tidy)

    def _with(self, edits: Sequence[Edit]) -> tuple[Graph, Score]:
        """The graph with edits and its score; asked again for the same ones it costs nothing."""
        last = self._scored
        same = last is not None and last[0] is self.graph and len(last[1]) == len(edits)
        if last is not None and same and all(map(is_, last[1], edits)):
            return last[2], last[3]
        made = apply_edits(self.graph, edits)
        self._scored = (self.graph, list(edits), made, self._judge.score(made))
        return made, self._scored[3]

    def _captured(self) -> list[dict[str, Array]]:
        """Every tensor of the graph as it is now."""
        if self._values is None:
            self._values = capture(self.graph, self._inputs)
        return self._values

    def _commit(
        self, item: Pass, kept: Sequence[tuple[Edit, Difference]]
    ) -> tuple[Status, list[Site], str]:
        """Make edits the graph's, unless the network's outputs differ too much then.

        The text says by how much and what the limit is.
        """
        made, score = self._with([edit for edit, _ in kept])
        verify(made)
        outputs = self._composed(made)
        total = output_difference(self.original, self._reference, outputs)
        if item.exactness is Exactness.EXACT:
            within = output_difference(self.original, self._last, outputs).is_zero
        else:
            within = total.relative <= self._limit
        if not within and item.exactness is Exactness.EXACT:
            return Status.DIFFERS, [], ""
        if not within:
            return Status.OUTPUTS, [], f"{total.relative:.1%} > {self._limit:.1%}"
        exact = all(each.is_zero for _, each in kept)
        if not (exact or self._insist or _worth(self._score, score)):
            return Status.NO_GAIN, [], ""
        sites = [self._site(edit, each) for edit, each in kept]
        self.graph, self._score = made, score
        self._difference, self._last, self._values = total, outputs, None
        return Status.APPLIED, sites, ""

    def _site(self, edit: Edit, found: Difference) -> Site:
        by_name = {node.name: node for node in self.graph.nodes}
        removed = [o for name in edit.remove for o in by_name[name].origins or (name,)]
        added = tuple(node.op for node in edit.nodes)
        return Site(tuple(dict.fromkeys(removed)), added, found)

    def _composed(self, graph: Graph) -> list[dict[str, Array]]:
        """The original's outputs as the pieces compute them with `graph` in the middle."""
        values = run_pieces([*self._heads, graph, *self._tails], self._samples)
        return [{name: value[name] for name in self.original.outputs} for value in values]

    # --- boundary ---

    def apply_boundary(self, item: BoundaryPass) -> Outcome:
        """Take off what a boundary pass takes off; the whole must compute the same."""
        before = self._score
        cut = item.cut(self.graph, self._judge.off_npu(self.graph))
        sites: tuple[Site, ...] = ()
        status, worst, reason = Status.NOT_FOUND, NONE, ""
        if cut is not None:
            try:
                status, worst = self._try_cut(cut)
            except NpuforgeError as error:
                status, reason = Status.NO_KERNEL, str(error)
            if status is Status.APPLIED:
                sites = (Site(cut.nodes, (), worst),)
        outcome = Outcome(
            *(item.code, Exactness.EXACT, 0.0, status, sites, int(cut is not None and not sites)),
            *(worst, self._difference, before, self._score, reason),
        )
        self._outcomes.append(outcome)
        return outcome

    def _try_cut(self, cut: Cut) -> tuple[Status, Difference]:
        verify(cut.graph)
        score = self._judge.score(cut.graph)
        if not self._insist and not pays(self._score, score, tidy=True):
            return Status.NO_GAIN, Difference()
        heads = [*self._heads, *([cut.head] if cut.head is not None else [])]
        tails = [*([cut.tail] if cut.tail is not None else []), *self._tails]
        values = run_pieces([*heads, cut.graph, *tails], self._samples)
        outputs = [{name: value[name] for name in self.original.outputs} for value in values]
        step = output_difference(self.original, self._last, outputs)
        if not step.is_zero:
            return Status.DIFFERS, step
        self._heads, self._tails, self.graph, self._score = heads, tails, cut.graph, score
        self._values = None
        self._inputs = [{name: value[name] for name in cut.graph.inputs} for value in values]
        return Status.APPLIED, step


def _names(graph: Graph) -> Names:
    return Names({*graph.tensors, *(node.name for node in graph.nodes)})
