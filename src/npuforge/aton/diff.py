"""What differs between two compilations: steps, registers of each epoch, places of buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from npuforge.aton.compiled import Compiled
from npuforge.aton.program import Epoch, Route
from npuforge.aton.registers import UNITS, fields_of, kind_of


@dataclass(frozen=True)
class Difference:
    """One difference.

    Attributes:
        epoch: number, or -1 for buffers and the program as a whole.
        unit: unit, buffer or step.
        what: register field, route or property.
        first: value in the first program; empty when it has none.
        second: value in the second program.
    """

    epoch: int
    unit: str
    what: str
    first: str
    second: str


def _route(route: Route | None) -> str:
    if route is None:
        return ""
    ends = "/".join("-" if end is None else UNITS[end] for end in route.sources)
    return f"{ends} frames {route.frames[0]},{route.frames[1]}"


def _epochs(first: Epoch, second: Epoch) -> Iterator[Difference]:
    for page in sorted(set(first.units) | set(second.units)):
        one, two = first.units.get(page), second.units.get(page)
        if one is None or two is None:
            states = ("on" if one else "off", "on" if two else "off")
            yield Difference(first.number, UNITS[page], "enabled", *states)
            continue
        known: dict[int, int] = {}
        for name, place in fields_of(kind_of(page)).items():
            known[place.register] = known.get(place.register, 0) | place.mask
            if one[name] != two[name]:
                yield Difference(first.number, one.name, name, hex(one[name]), hex(two[name]))
        for register in sorted(set(one.registers) | set(two.registers)):
            rest = ~known.get(register, 0)
            words = (one.registers.get(register, 0) & rest, two.registers.get(register, 0) & rest)
            if words[0] != words[1]:
                yield Difference(first.number, one.name, f"r{register}", *map(hex, words))
    for port in sorted(set(first.routes) | set(second.routes)):
        routes = (_route(first.routes.get(port)), _route(second.routes.get(port)))
        if routes[0] != routes[1]:
            yield Difference(first.number, UNITS[port[0]], f"port {port[1]}", *routes)


def diff_programs(first: Compiled, second: Compiled) -> tuple[Difference, ...]:
    """Differences of two programs, epochs paired by number and buffers by name.

    Words of registers without field names are compared too; constants are not.
    """
    found: list[Difference] = []
    one = {e.number: e for step in first.steps for e in step.epochs}
    two = {e.number: e for step in second.steps for e in step.epochs}
    for number in sorted(set(one) | set(two)):
        if number not in one or number not in two:
            names = ("hardware" if number in one else "", "hardware" if number in two else "")
            found.append(Difference(number, "epoch", "runs on", *names))
            continue
        found += _epochs(one[number], two[number])
    work = [{s.number: s for s in network.steps if s.work} for network in (first, second)]
    for number in sorted(set(work[0]) | set(work[1])):
        kinds = [
            " ".join(item.kind for item in held[number].work) if number in held else ""
            for held in work
        ]
        if kinds[0] != kinds[1]:
            found.append(Difference(number, "epoch", "CPU operator", *kinds))
    places = [
        {b.name: f"{b.address:#x}+{b.size}" for b in network.buffers} for network in (first, second)
    ]
    for name in sorted(set(places[0]) | set(places[1])):
        held_at = (places[0].get(name, ""), places[1].get(name, ""))
        if held_at[0] != held_at[1]:
            found.append(Difference(-1, name, "place", *held_at))
    return tuple(found)
