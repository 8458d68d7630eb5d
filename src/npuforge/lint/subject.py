"""What is looked at: the file as it is, the graph where it can be read, and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from npuforge.errors import NpuforgeError
from npuforge.graph import Array, Graph
from npuforge.passes.measure import capture

Range = tuple[float, float]


@dataclass(frozen=True)
class FileNode:
    """A node as the file has it.

    Attributes:
        name: of the node.
        op: operator of the format.
        inputs: tensor names.
        computed: which inputs are computed at run time, by position.
        dequantized: which inputs come out of a dequantise node, by position.
        flags: integer attributes.
        ends: constant slice ends.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    computed: tuple[bool, ...] = ()
    dequantized: tuple[bool, ...] = ()
    flags: Mapping[str, int] = field(default_factory=dict)
    ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class FileFacts:
    """A model file as far as the lint looks at it.

    Attributes:
        name: of the file.
        format: tflite or onnx.
        opset: of ONNX files, else 0.
        ir: IR version of ONNX files, else 0.
        free: (input, axis, label) of axes without a size.
        nodes: all nodes.
        unsigned: names of uint8 tensors inside the network.
        declared: real range of each input that the metadata states.
    """

    name: str
    format: str
    opset: int = 0
    ir: int = 0
    free: tuple[tuple[str, int, str], ...] = ()
    nodes: tuple[FileNode, ...] = ()
    unsigned: tuple[str, ...] = ()
    declared: Mapping[str, Range] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Subject:
    """Everything the rules look at.

    Attributes:
        path: of the model.
        file: the file as it is.
        graph: as npuforge reads it; None when it cannot.
        refusal: why not.
        samples: inputs that the user gave, as stored values; None without any.
        given: the same as real numbers, before anything was cut off to an integer range.
        sample_fault: why the given inputs do not fit the network.
    """

    path: Path
    file: FileFacts
    graph: Graph | None
    refusal: NpuforgeError | None = None
    samples: Sequence[Mapping[str, Array]] | None = None
    given: Mapping[str, Array] = field(default_factory=dict)
    sample_fault: NpuforgeError | None = None

    @cached_property
    def values(self) -> list[dict[str, Array]]:
        """Every tensor of the graph for the first samples."""
        if self.graph is None or not self.samples:
            return []
        return capture(self.graph, self.samples[:4])
