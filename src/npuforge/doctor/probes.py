"""Probes to paste into firmware, generated for the user's network.

Register offsets come from the register map in `npuforge.aton.registers`; the base address, running
bits and interrupt lines are field facts of the STM32N6; cache, PMU and NVIC addresses are Arm's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from npuforge.aton.registers import FIRST_ENGINE, UNITS, fields_of
from npuforge.doctor.log_project import logs_of
from npuforge.doctor.network_facts import networks_of
from npuforge.doctor.project import Project
from npuforge.doctor.stm32n6 import Bank, banks_of
from npuforge.errors import UsageError
from npuforge.messages import text

PROBES = ("stall", "two-input", "pattern", "bank", "clock")
NPU_BASE = 0x580E0000
EC_IRQ, EC_BC, INTREG = 3, 8, 2
"""Word indices in the pages of the epoch controller and of the interrupt controller."""
_TYPES = {8: "int8", 16: "int16", 32: "float32"}


@dataclass(frozen=True)
class ProbeTensor:
    """An input or output; ``address`` is None when the application allocates it."""

    name: str
    type: str
    address: int | None
    bytes: int
    elements: int


@dataclass(frozen=True)
class ProbeTarget:
    """What the probes are written for.

    Attributes:
        title: name of the network, or what stands in for it.
        inputs: network inputs.
        outputs: network outputs.
        banks: RAM banks the network uses.
        notes: what was assumed because the files do not tell.
    """

    title: str
    inputs: tuple[ProbeTensor, ...]
    outputs: tuple[ProbeTensor, ...]
    banks: tuple[Bank, ...]
    notes: tuple[str, ...]


def probe_target(project: Project) -> ProbeTarget:
    """Network facts from generated code, else from a report, else placeholders that are noted."""
    ranges: list[tuple[int, int]] = []
    inputs: tuple[ProbeTensor, ...] = ()
    outputs: tuple[ProbeTensor, ...] = ()
    title = ""
    for facts in networks_of(project):
        title = facts.name
        inputs = tuple(_tensor(t.name, t.type, t.bits, t.address, t.size) for t in facts.inputs)
        outputs = tuple(_tensor(t.name, t.type, t.bits, t.address, t.size) for t in facts.outputs)
        ranges += [(start, end) for start, end, _ in facts.touched]
        break
    for log in logs_of(project):
        ranges += [(item.start, item.end) for item in log.tool.ranges]
        ranges += [(pool.start, pool.start + pool.used) for pool in log.tool.pools if pool.used]
        found = log.tool.tensors
        if found and not inputs:
            title = title or log.artefact.name
            inputs, outputs = (
                tuple(
                    ProbeTensor(_plain(t.name), t.dtype, None, t.nbytes, _count(t.shape, t.nbytes))
                    for t in found
                    if t.direction == way
                )
                for way in ("input", "output")
            )
    notes = []
    if not inputs or not outputs:
        notes.append(text("PRB-sizes"))
        inputs = inputs or (ProbeTensor("input", "int8", None, 4096, 4096),)
        outputs = outputs or (ProbeTensor("output", "int8", None, 1024, 1024),)
    if any(tensor.address is None for tensor in (*inputs, *outputs)):
        notes.append(text("PRB-addresses"))
    if not ranges:
        notes.append(text("PRB-banks"))
        ranges = [(0x34200000, 0x343C0000)]
    banks = {bank.base: bank for low, high in ranges for bank in banks_of(low, max(low + 1, high))}
    usable = tuple(
        bank for _, bank in sorted(banks.items()) if bank.needs_power and bank.name != "CACHEAXIRAM"
    )
    return ProbeTarget(title or "a network", inputs, outputs, usable, tuple(notes))


def _tensor(name: str, kind: str, bits: int, address: int | None, size: int) -> ProbeTensor:
    lowered = kind.lower()
    dtype = "float32" if "float" in lowered else _TYPES.get(bits, "int8")
    if lowered.startswith(("u", "uint")) and dtype == "int8":
        dtype = "uint8"
    width = {"float32": 4, "int16": 2}.get(dtype, 1)
    return ProbeTensor(_plain(name), dtype, address, size, max(1, size // width))


def _count(shape: tuple[int, ...], nbytes: int) -> int:
    count = 1
    for size in shape:
        count *= size
    return count if shape else nbytes


def _plain(name: str) -> str:
    """A name that is safe in a C string."""
    return re.sub(r"[^\w.:/-]", "_", name, flags=re.ASCII)[:60] or "tensor"


def write_probes(target: ProbeTarget, names: tuple[str, ...]) -> str:
    """C11 source with the chosen probes.

    Raises:
        UsageError: PRB-001 when a probe is not known.
    """
    import jinja2

    unknown = [name for name in names if name not in PROBES]
    if unknown or not names:
        raise UsageError("PRB-001", name=", ".join(unknown) or "-", known=", ".join(PROBES))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    places = {name.split(".")[0]: field.register for name, field in fields_of("STRENG").items()}
    return environment.get_template("probe.c.j2").render(
        title=target.title.replace("*/", ""),
        notes=[note.replace("*/", "") for note in target.notes],
        inputs=target.inputs,
        outputs=target.outputs,
        banks=target.banks,
        probes=names,
        base=NPU_BASE,
        engines=sum(unit.startswith("STRENG") for unit in UNITS),
        first_engine=FIRST_ENGINE,
        engine_addr=places["ADDR"],
        engine_pos=places["POS"],
        ec=NPU_BASE + UNITS.index("EPOCHCTRL0") * 0x1000,
        ec_bc=EC_BC,
        ec_irq=EC_IRQ,
        intctrl=NPU_BASE + UNITS.index("INTCTRL0") * 0x1000,
        intreg=INTREG,
    )
