"""Faults injected into any compiled program: each takes a program and gives a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.aton import chain as c

from npuforge.artefacts.ihex import Segment
from npuforge.aton.compiled import Buffer, CacheStep, Compiled
from npuforge.aton.program import Epoch, Route, Unit
from npuforge.aton.registers import UNITS, kind_of

Fault = Callable[[Compiled], tuple[Compiled, int]]
"""The wrong program, and the epoch that was changed."""

LINE = 32


class NoPlaceError(LookupError):
    """The program has no epoch for this fault."""


def epochs(network: Compiled) -> list[Epoch]:
    """Hardware epochs in order, from the middle on, then the first half."""
    found = [epoch for step in network.steps for epoch in step.epochs]
    return found[len(found) // 2 :] + found[: len(found) // 2]


def units(network: Compiled, kind: str) -> Iterator[tuple[Epoch, Unit]]:
    """Units of a kind with their epochs."""
    for epoch in epochs(network):
        for page, unit in sorted(epoch.units.items()):
            if kind_of(page) == kind:
                yield epoch, unit


def first(found: Iterator[tuple[Epoch, Unit]]) -> tuple[Epoch, Unit]:
    """The first of them."""
    try:
        return next(found)
    except StopIteration:
        raise NoPlaceError from None


def made(network: Compiled, unit: Unit) -> Buffer | None:
    """The buffer a writer stores."""
    held = (b for b in network.buffers if b.address <= unit.pattern.low < b.end)
    return next((b for b in held if not b.parameter), None)


def writers(network: Compiled) -> Iterator[tuple[Epoch, Unit]]:
    """Writers whose buffer another epoch reads."""
    for epoch in epochs(network):
        for unit in epoch.writers:
            buffer = made(network, unit)
            if buffer is not None and buffer.epoch == epoch.number and unit["CTRL.RAW"]:
                yield epoch, unit


def readers(network: Compiled) -> Iterator[tuple[Epoch, Unit]]:
    """Readers of features a convolution takes."""
    for epoch in epochs(network):
        for (page, port), route in epoch.routes.items():
            source = None if route.source is None else epoch.units.get(route.source)
            if source is None or port or kind_of(page) != "CONVACC":
                continue
            if kind_of(source.page) == "STRENG" and not constant(network, source):
                yield epoch, source


def constant(network: Compiled, unit: Unit) -> bool:
    """Whether an engine reads the weight image."""
    return any(i.address <= unit["ADDR.REG"] < i.end for i in network.images)


def kernels(network: Compiled) -> Iterator[tuple[Epoch, Unit]]:
    """Engines that feed kernels."""
    for epoch in epochs(network):
        for (page, port), route in epoch.routes.items():
            source = None if route.source is None else epoch.units.get(route.source)
            if source is None or port != 1 or kind_of(page) != "CONVACC":
                continue
            if constant(network, source):
                yield epoch, source


def field(pick: Callable[[Compiled], Iterator[tuple[Epoch, Unit]]], **values: int) -> Fault:
    """Fields of the first unit that fits."""

    def inject(network: Compiled) -> tuple[Compiled, int]:
        epoch, unit = first(pick(network))
        return c.with_unit(network, epoch.number, unit.name, **values), epoch.number

    return inject


def moved(
    pick: Callable[[Compiled], Iterator[tuple[Epoch, Unit]]], by: int | None, to: int = 0
) -> Fault:
    """Another address for the first engine that fits."""

    def inject(network: Compiled) -> tuple[Compiled, int]:
        epoch, unit = first(pick(network))
        address = to if by is None else unit["ADDR.REG"] + by
        wrong = c.with_unit(network, epoch.number, unit.name, ADDR__REG=address)
        return wrong, epoch.number

    return inject


def into_constants(network: Compiled) -> tuple[Compiled, int]:
    """A writer goes into the weight image."""
    return moved(writers, None, network.images[0].address)(network)


def longer(pick: Callable[[Compiled], Iterator[tuple[Epoch, Unit]]], by: int) -> Fault:
    """Another frame length of the first raw engine that fits."""

    def inject(network: Compiled) -> tuple[Compiled, int]:
        fit = ((e, u) for e, u in pick(network) if u["CTRL.RAW"] and u.frame_elements > -by)
        epoch, unit = first(fit)
        count = unit.frame_elements + by
        return c.with_count(network, epoch.number, unit.name, count), epoch.number

    return inject


def rerouted(change: Callable[[Epoch, tuple[int, int], Route], Route | None], kind: str) -> Fault:
    """The route of the first destination of a kind."""

    def inject(network: Compiled) -> tuple[Compiled, int]:
        for epoch in epochs(network):
            for (page, port), route in epoch.routes.items():
                if kind_of(page) != kind or route.source is None or port:
                    continue
                new = change(epoch, (page, port), route)
                if new != route:
                    wrong = c.with_route(network, epoch.number, UNITS[page], port, new)
                    return wrong, epoch.number
        raise NoPlaceError

    return inject


def another(epoch: Epoch, place: tuple[int, int], route: Route) -> Route:
    """A destination listens to the unit before its source."""
    behind = epoch.source(route.source or 0, 0)
    return route if behind is None else Route((behind.page, None), (0, 0))


def second(epoch: Epoch, place: tuple[int, int], route: Route) -> Route:
    """A destination listens to two units in turn."""
    other = next((u.page for u in epoch.readers if u.page != route.source), None)
    return route if other is None else Route((route.source, other), (1, 1))


def writer_source(epoch: Epoch, place: tuple[int, int], route: Route) -> Route:
    """A destination listens to an engine that writes."""
    return Route((epoch.writers[0].page, None), (0, 0)) if epoch.writers else route


def without(pick: Callable[[Compiled], Iterator[tuple[Epoch, Unit]]]) -> Fault:
    """A unit is not enabled; its routes stay."""

    def inject(network: Compiled) -> tuple[Compiled, int]:
        epoch, unit = first(pick(network))
        return c.without_unit(network, epoch.number, unit.name), epoch.number

    return inject


def kept_alive(network: Compiled) -> tuple[Compiled, int]:
    """A buffer on top of one that is still wanted: the writer, the readers and the table agree."""
    wanted: dict[int, Buffer] = {}
    for epoch in [e for step in network.steps for e in step.epochs]:
        for unit in epoch.readers:
            held = [
                b
                for b in network.buffers
                if not b.parameter
                and 0 < b.epoch < epoch.number
                and b.address <= unit["ADDR.REG"] < b.end
            ]
            last = max(held, key=lambda b: b.epoch, default=None)
            if last is not None and last.epoch < epoch.number - 2:
                wanted[last.epoch] = last
    for number, buffer in sorted(wanted.items()):
        for epoch in epochs(network):
            if epoch.number != number + 1:
                continue
            for unit in epoch.writers:
                own = made(network, unit)
                if own is None or own.address == buffer.address or own.epoch != epoch.number:
                    continue
                if unit.pattern.low != own.address or own.size > buffer.size:
                    continue
                by = buffer.address - own.address
                wrong = network
                for other in [e for step in network.steps for e in step.epochs]:
                    for engine in (*other.readers, *other.writers):
                        if own.address <= engine["ADDR.REG"] < own.end and (
                            other.number >= epoch.number
                        ):
                            wrong = c.with_unit(
                                wrong, other.number, engine.name, ADDR__REG=engine["ADDR.REG"] + by
                            )
                table = tuple(
                    replace(b, address=b.address + by) if b is own else b for b in network.buffers
                )
                return replace(wrong, buffers=table), epoch.number
    raise NoPlaceError


def twin_writer(network: Compiled) -> tuple[Compiled, int]:
    """A second engine writes the same bytes."""
    for epoch, unit in writers(network):
        free = [p for n in range(10) if (p := UNITS.index(f"STRENG{n}")) not in epoch.units]
        if free:
            twin = Unit(free[0], unit.registers, {})
            routes = {**epoch.routes, (free[0], 0): epoch.routes[unit.page, 0]}
            grown = Epoch(epoch.number, {**epoch.units, twin.page: twin}, routes, -1)
            return c.with_epoch(network, epoch.number, grown), epoch.number
    raise NoPlaceError


def swapped_epochs(network: Compiled) -> tuple[Compiled, int]:
    """An epoch runs before the one that makes its input."""
    for n, step in enumerate(network.steps):
        for k in range(len(step.epochs) // 2, len(step.epochs) - 1):
            one, two = step.epochs[k : k + 2]
            outputs = {u.pattern.low for u in one.writers}
            if any(u.pattern.low in outputs for u in two.readers):
                order = (*step.epochs[:k], two, one, *step.epochs[k + 2 :])
                steps = list(network.steps)
                steps[n] = replace(step, epochs=order)
                return replace(network, steps=tuple(steps)), two.number
    raise NoPlaceError


def careless(*, clean: bool) -> Fault:
    """No clean, or no invalidation, of the CPU's cache anywhere in the program."""

    def fault(network: Compiled) -> tuple[Compiled, int]:
        def kept(item: CacheStep) -> bool:
            return not (item.clean if clean else item.invalidate)

        every = [(s.number, item) for s in network.steps for item in (*s.before, *s.after)]
        epochs = [number for number, item in every if not kept(item)]
        if not epochs:
            raise NoPlaceError
        steps = tuple(
            replace(
                step,
                before=tuple(filter(kept, step.before)),
                after=tuple(filter(kept, step.after)),
            )
            for step in network.steps
        )
        return replace(network, steps=steps), epochs[0]

    return fault


def spoilt_weight(network: Compiled) -> tuple[Compiled, int]:
    """The highest bit of one byte of the first kernel is another."""
    epoch, unit = min(kernels(network), key=lambda item: item[0].number)
    at = unit["ADDR.REG"] + 1
    images = []
    for image in network.images:
        data = bytearray(image.data)
        if image.address <= at < image.end:
            data[at - image.address] ^= 0x80
        images.append(Segment(image.address, bytes(data)))
    return replace(network, images=tuple(images)), epoch.number


def spoilt_gain(network: Compiled) -> tuple[Compiled, int]:
    """A coefficient of one channel of an early layer is a sixteenth off."""
    for epoch, unit in sorted(units(network, "ARITH"), key=lambda item: item[0].number):
        if unit["CTRL.COEFFA"] and len(unit.coefficients) > 1:
            held = dict(unit.coefficients)
            pair, third = held[1]
            held[1] = (pair & ~0xFFFF | (pair & 0xFFFF) * 17 // 16 & 0xFFFF, third)
            new = Unit(unit.page, unit.registers, held)
            grown = replace(epoch, units={**epoch.units, unit.page: new})
            return c.with_epoch(network, epoch.number, grown), epoch.number
    raise NoPlaceError


def other_input(network: Compiled) -> tuple[Compiled, int]:
    """The two operands of a sum change places."""
    for epoch, unit in units(network, "ARITH"):
        routes = epoch.routes
        ends = [routes.get((unit.page, port)) for port in (0, 1)]
        if unit["CTRL.OP"] or None in ends or unit["COEFFAC.A"] == unit["COEFFB.B"]:
            continue
        if all(r and r.source and kind_of(r.source) == "STRENG" for r in ends):
            crossed = {**routes, (unit.page, 0): ends[1], (unit.page, 1): ends[0]}
            grown = replace(epoch, routes=crossed)
            return c.with_epoch(network, epoch.number, grown), epoch.number
    raise NoPlaceError


def conv(network: Compiled) -> Iterator[tuple[Epoch, Unit]]:
    """Accelerators."""
    return units(network, "CONVACC")


def arith(network: Compiled) -> Iterator[tuple[Epoch, Unit]]:
    """Arithmetic units that scale a convolution."""
    return ((e, u) for e, u in units(network, "ARITH") if u["CTRL.COEFFA"] and not u["CTRL.OP"])


def deep(network: Compiled) -> Iterator[tuple[Epoch, Unit]]:
    """Accelerators with several channels."""
    return ((e, u) for e, u in conv(network) if u["KFORMAT.BTCDEPTH"] > 1)


def pairs(network: Compiled) -> Iterator[tuple[Epoch, Unit]]:
    """Engines of the first operand of a sum."""
    for epoch, unit in units(network, "ARITH"):
        source = epoch.source(unit.page, 0)
        if unit["CTRL.DUALIN"] and source is not None and kind_of(source.page) == "STRENG":
            yield epoch, source


CHECKED: dict[str, Fault] = {
    "reader one line late": moved(readers, LINE),
    "writer one line late": moved(writers, LINE),
    "swapped route": rerouted(another, "STRENG"),
    "wrong batch": field(deep, KFORMAT__BTCDEPTH=1),
    "missing writer": without(writers),
    "overlapping buffers": kept_alive,
    "unrouted port": rerouted(lambda e, p, r: None, "CONVACC"),
    "two sources on a port": rerouted(second, "CONVACC"),
    "unit not enabled": without(arith),
    "source is a writer": rerouted(writer_source, "CONVACC"),
    "too many kernels": field(conv, KFORMAT__NR=30),
    "stride zero": field(conv, SAMPLE__HSTRD=0),
    "writer starves": longer(writers, 1),
    "stream never drains": longer(writers, -1),
    "no frames": field(writers, LIMIT__CNT=0),
    "kernels missing": longer(kernels, -1),
    "operands of different length": longer(pairs, -1),
    "write outside the pools": moved(writers, None, 0x60000000),
    "write into the weights": into_constants,
    "two writers on the same bytes": twin_writer,
    "epochs swapped": swapped_epochs,
    "unknown operation": field(arith, CTRL__OP=1),
    "missing clean": careless(clean=True),
    "missing invalidate": careless(clean=False),
}
"""What `check` must name."""

COMPARED: dict[str, Fault] = {
    "wrong weight": spoilt_weight,
    "wrong gain": spoilt_gain,
    "wrong shift": field(lambda n: ((e, u) for e, u in conv(n) if u["DFORMAT.OUTSHIFT"]),
                         DFORMAT__OUTSHIFT=1),
    "operands swapped": other_input,
    "wrong zero point": field(lambda n: ((e, u) for e, u in conv(n) if not u["FSUB.FSUB"]),
                              FSUB__FSUB=3),
}  # fmt: skip
"""What the comparison with the model must find."""
