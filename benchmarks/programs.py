"""The compiled networks of the measurement data, each with the model it came from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from npuforge import api
from npuforge.accelerators.neural_art.lowering import default_choices
from npuforge.artefacts.ec_blob import read_blob
from npuforge.aton import Epoch, epochs_of
from npuforge.aton.choices import Matched, match_program
from npuforge.graph import Graph


@dataclass(frozen=True)
class Buffer:
    """A buffer of the compiler's table; see `npuforge.aton.choices.NamedBuffer`."""

    name: str
    address: int
    size: int
    epoch: int
    scales: tuple[float, ...]
    parameter: bool


@dataclass(frozen=True)
class Program:
    """A compiled network.

    Attributes:
        name: of its folder.
        graph: the model under the contract of the compiler's version.
        epochs: hardware epochs in order.
        buffers: the compiler's table.
        address: where the constants lie.
        constants: their bytes.
    """

    name: str
    graph: Graph
    epochs: tuple[Epoch, ...]
    buffers: tuple[Buffer, ...]
    address: int
    constants: bytes

    def peek(self, address: int, size: int) -> bytes:
        """Constant bytes; fewer, or none, outside."""
        start = address - self.address
        return self.constants[start : start + size] if start >= 0 else b""

    def matched(self) -> Matched:
        """The program's choices and constants tied to the nodes of the model."""
        base = default_choices(self.graph)
        return match_program(self.graph, base, self.epochs, self.buffers, self.peek)


def programs(shared: Path) -> Iterator[Program]:
    """All compiled networks with a table of buffers."""
    for path in sorted((shared / "aton").glob("*/network.json")):
        folder, table = path.parent, json.loads(path.read_text("utf-8"))
        blobs = sorted(folder.glob("ec_blob_*.bin"), key=lambda p: int(p.stem.split("_")[2]))
        epochs = [e for blob in blobs for e in epochs_of(read_blob(blob.read_bytes()))]
        buffers = [
            Buffer(
                b["name"],
                b["base"] + b["offset_start"],
                b["offset_end"] - b["offset_start"],
                b["epoch"],
                tuple(b.get("scale", ())),
                bool(b["is_param"]),
            )
            for b in table["buffers"]
        ]
        yield Program(
            folder.name,
            api.load_graph(shared / "models" / table["model"], "neural_art"),
            tuple(epochs),
            tuple(buffers),
            int(str(table["weights"]["base"]), 0),
            (folder / "weights.bin").read_bytes(),
        )
