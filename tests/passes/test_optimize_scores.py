"""The judge is asked once for each graph that is tried."""

from __future__ import annotations

from tests.passes.patterns import yolo_head

from npuforge.explore.judge import TargetJudge
from npuforge.graph import Graph
from npuforge.passes import PASSES, Score, Status, calibrated_inputs, optimize
from npuforge.targets import load_target


class Counting:
    """A judge that remembers what it was asked."""

    def __init__(self) -> None:
        target = load_target("stm32n6570-dk")
        self.judge = TargetJudge(target, target.operating_points["nominal"])
        self.asked: list[Graph] = []

    def score(self, graph: Graph) -> Score:
        self.asked.append(graph)
        return self.judge.score(graph)

    def off_npu(self, graph: Graph) -> object:
        return self.judge.off_npu(graph)


def test_no_graph_is_scored_twice() -> None:
    graph, counting = yolo_head(), Counting()
    rewrites = [item for item in PASSES if item.code == "hoist-slices"]
    made = optimize(graph, rewrites, (), calibrated_inputs(graph, 2, 3), counting)  # type: ignore[arg-type]
    assert made.outcomes[0].status is Status.APPLIED
    texts = [repr(each.nodes) for each in counting.asked]
    assert len(texts) == len(set(texts))
    assert counting.asked[-1] is made.graph
