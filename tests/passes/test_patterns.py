"""Each pass on a network that has its pattern: it is applied, pays, and computes the same."""

from __future__ import annotations

import numpy as np
import pytest
from tests.passes.patterns import PATTERNS, Pattern

from npuforge.explore.judge import TargetJudge
from npuforge.exporters import Format, convert
from npuforge.graph import Graph, verify
from npuforge.importers.tflite.importer import import_tflite
from npuforge.messages import catalogue
from npuforge.passes import (
    BOUNDARY,
    PASSES,
    Exactness,
    Optimization,
    Status,
    calibrated_inputs,
    optimize,
    output_difference,
    run,
    run_pieces,
)
from npuforge.targets import load_target

IDS = [f"{p.code}-{p.make.__name__}" for p in PATTERNS]


def judge() -> TargetJudge:
    target = load_target("stm32n6570-dk")
    return TargetJudge(target, target.operating_points["nominal"])


def applied(graph: Graph, code: str, *, seed: int = 3, insist: bool = False) -> Optimization:
    rewrites = [item for item in PASSES if item.code == code]
    ends = [item for item in BOUNDARY if item.code == code]
    samples = calibrated_inputs(graph, 4, seed)
    return optimize(graph, rewrites, ends, samples, judge(), insist=insist)


@pytest.mark.parametrize("pattern", PATTERNS, ids=IDS)
def test_pattern(pattern: Pattern) -> None:
    graph = pattern.make()
    verify(graph)
    made = applied(graph, pattern.code, insist=not pattern.raises)
    outcome = made.outcomes[0]
    assert outcome.status is Status.APPLIED, outcome
    assert outcome.refused == 0
    verify(made.graph)
    before, after = made.before, made.after
    assert before.node_share is not None
    assert after.node_share is not None
    if pattern.raises:
        assert after.node_share > before.node_share
        assert after.off_npu < before.off_npu
    elif not pattern.pays:
        left = applied(graph, pattern.code)
        assert left.outcomes[0].status is Status.NO_GAIN
        assert left.graph is left.original
    else:
        assert after.hazards <= before.hazards
        fewer = len(made.graph.nodes) < len(graph.nodes)
        assert fewer or after.hazards < before.hazards or after.ms < before.ms
    # on data that the pass has not seen
    fresh = calibrated_inputs(graph, 6, 1000)
    values = run_pieces([*made.heads, made.graph, *made.tails], fresh)
    found = output_difference(graph, run(graph, fresh), values)
    if outcome.exactness is Exactness.EXACT:
        assert found.is_zero
    else:
        # what one site may be off, and a convolution behind it that spreads it
        assert found.steps <= 3 * outcome.bound or graph.outputs != made.graph.outputs
        assert found.relative < 0.05


def test_what_raises_the_share_is_found_in_public_networks() -> None:
    raising = {p.code for p in PATTERNS if p.raises and p.source}
    assert len(raising - {item.code for item in BOUNDARY}) >= 12
    assert all(p.source for p in PATTERNS if p.raises)


@pytest.mark.parametrize("pattern", PATTERNS, ids=IDS)
def test_provenance(pattern: Pattern) -> None:
    """Every node that came names nodes of the original network."""
    graph = pattern.make()
    made = applied(graph, pattern.code, insist=not pattern.raises)
    original = {node.name for node in graph.nodes}
    kept = {node.name for node in made.graph.nodes} & original
    for node in made.graph.nodes:
        if node.name not in kept and node.op != "quantize":
            assert node.origins
            assert set(node.origins) <= original, node
    for site in made.outcomes[0].sites:
        assert site.removed
        assert set(site.removed) <= original


@pytest.mark.parametrize("pattern", PATTERNS, ids=IDS)
def test_written_and_read_again(pattern: Pattern) -> None:
    """The TFLite file of the result computes what the result computes."""
    made = applied(pattern.make(), pattern.code, insist=not pattern.raises)
    written = convert(made.graph, Format.TFLITE)
    assert not written.changed
    again = import_tflite(written.content, "again", "again.tflite")
    samples = calibrated_inputs(made.graph, 2, 5)
    ours = run(made.graph, samples)
    theirs = run(again, [dict(zip(again.inputs, s.values(), strict=True)) for s in samples])
    for left, right in zip(ours, theirs, strict=True):
        for a, b in zip(left.values(), right.values(), strict=True):
            assert np.array_equal(a, b)


def test_every_pass_has_a_pattern_and_words() -> None:
    codes = [item.code for item in PASSES] + [item.code for item in BOUNDARY]
    assert len(set(codes)) == len(codes)
    assert {pattern.code for pattern in PATTERNS} == set(codes)
    for language in ("en", "zh"):
        words = catalogue(language)
        for code in codes:
            assert words[f"PASS-{code}"]["message"]
            assert words[f"PASS-{code}"]["hint"]


def test_at_least_twelve_raise_the_share() -> None:
    assert len({pattern.code for pattern in PATTERNS if pattern.raises}) >= 12


def test_numbers_do_not_change_for_nothing() -> None:
    """A bounded pass that brings no node to the NPU and saves no time is left alone."""
    pattern = next(p for p in PATTERNS if p.make.__name__ == "relu_layers")
    made = applied(pattern.make(), pattern.code)
    outcome = made.outcomes[0]
    if outcome.status is Status.APPLIED:
        assert made.after.ms <= made.before.ms * 0.995
    else:
        assert outcome.status is Status.NO_GAIN
        assert made.graph is made.original
