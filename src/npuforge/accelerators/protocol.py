"""What an accelerator package offers to the other rooms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from npuforge.graph import Graph, Node
from npuforge.numerics import KernelCall
from npuforge.targets import Target


class PlacementKind(StrEnum):
    """How a node is executed."""

    VIEW = "view"
    """Nothing runs: the output is the input's bytes."""
    CPU_INTEGER = "cpu_integer"
    CPU_FLOAT = "cpu_float"
    HARDWARE = "hardware"
    """Runs in NPU units."""
    HYBRID = "hybrid"
    """NPU DMA (and units) driven by a C helper; cuts the NPU program in two."""


@dataclass(frozen=True)
class Placement:
    """Where a node runs, and why.

    Attributes:
        node: name of the graph node.
        accelerator: name of the accelerator package.
        kind: how it is executed.
        reason: message code that says why.
    """

    node: str
    accelerator: str
    kind: PlacementKind
    reason: str


class Accelerator(Protocol):
    """One kind of execution unit."""

    @property
    def name(self) -> str:
        """Name of the package, as targets list it."""

    def place(self, graph: Graph, node: Node, target: Target) -> Placement | None:
        """Where the accelerator would run a node; None when it cannot."""

    def lower(self, graph: Graph, node: Node) -> Sequence[KernelCall]:
        """The kernel calls of a node that it placed."""
