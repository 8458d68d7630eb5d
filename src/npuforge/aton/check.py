"""Program checks: what a compiled program does that the chip would not survive, by name.

Three passes. Each epoch alone: routes, units and their limits, engines that alias. The whole
program on zeros: streams that starve or never drain, addresses, never-written bytes, and which
epoch wrote every byte that is read. The CPU's data cache: ranges NPU and CPU hand to each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from npuforge.aton.compiled import Buffer, CacheStep, Compiled, Kind, Step, Work
from npuforge.aton.execute import memory_for
from npuforge.aton.program import Epoch, Pattern, Unit
from npuforge.aton.registers import PORTS, UNITS, kind_of
from npuforge.aton.simulate import run_epoch
from npuforge.aton.software import run_work
from npuforge.aton.streams import MAX_ELEMENTS, Memory
from npuforge.errors import ModelError
from npuforge.messages import render
from npuforge.vocab import Severity


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        code: stable identifier, documented with the errors.
        epoch: where.
        unit: unit, buffer or node.
        params: values of its message.
        severity: error or warning.
    """

    code: str
    epoch: int
    unit: str
    params: Mapping[str, object]
    severity: Severity = Severity.ERROR

    @property
    def message(self) -> str:
        """What is wrong, in the language in use."""
        return render(self.code, {"epoch": self.epoch, "unit": self.unit, **self.params})[0]

    @property
    def hint(self) -> str:
        """What to do."""
        return render(self.code, {"epoch": self.epoch, "unit": self.unit, **self.params})[1]


LINE = 32
"""Bytes of a line of the Cortex-M55's data cache."""
_MAX_KERNELS = 24
_MAX_BATCH = 128
_DEEP_BYTES = 3072
_CHAIN = 4
_WINDOW = 3
_SPAN = 1 << 26

_NEEDED = {"STRENG": (0,), "CONVACC": (0, 1), "ARITH": (0,), "ACTIV": (0,), "POOL": (0,)}


def _finding(code: str, epoch: int, unit: str, **params: object) -> Finding:
    return Finding(code, epoch, unit, params)


def _sound(unit: Unit) -> bool:
    """Whether an engine moves a sane amount, so that its addresses can be looked at."""
    count = unit["LIMIT.CNT"] * unit.frame_elements
    if not 0 < count <= MAX_ELEMENTS or not unit.element_bytes:
        return False
    return unit.pattern.high - unit.pattern.low < _SPAN


# One epoch alone


def _wanted_ports(unit: Unit) -> Iterator[int]:
    kind = kind_of(unit.page)
    if kind == "STRENG" and not unit.is_writer:
        return
    yield from _NEEDED.get(kind, (0,))
    if kind == "CONVACC" and not unit["CTRL.NOSUM"]:
        yield 2
    if kind == "ARITH" and (unit["CTRL.DUALIN"] or unit["CTRL.OP"] == 7):
        yield 1


def _routes(epoch: Epoch) -> Iterator[Finding]:
    heard: set[int] = set()
    for (page, port), route in epoch.routes.items():
        ends = {end for end in route.sources if end is not None}
        heard |= ends
        if page not in epoch.units:
            yield _finding("ATC-001", epoch.number, UNITS[page], port=port)
        if len(ends) > 1:
            names = " ".join(UNITS[end] for end in sorted(ends))
            yield _finding("ATC-002", epoch.number, UNITS[page], port=port, sources=names)
        for end in sorted(ends - set(epoch.units)):
            yield _finding("ATC-001", epoch.number, UNITS[end], port=port)
        for end in sorted(ends & set(epoch.units)):
            if epoch.units[end].is_writer:
                yield _finding("ATC-003", epoch.number, UNITS[page], source=UNITS[end])
            if kind_of(end) == "ACTIV" and kind_of(page) == "CONVACC" and port == 0:
                finding = _finding("ATC-004", epoch.number, UNITS[page], source=UNITS[end])
                yield replace(finding, severity=Severity.WARNING)
    for page, unit in epoch.units.items():
        for port in _wanted_ports(unit):
            if (page, port) in PORTS and (page, port) not in epoch.routes:
                yield _finding("ATC-005", epoch.number, unit.name, port=port)
        if page not in heard and not unit.is_writer:
            yield _finding("ATC-006", epoch.number, unit.name)


def _limits(epoch: Epoch) -> Iterator[Finding]:
    """Bounds that no published program exceeds, or that a register's meaning sets."""

    def beyond(unit: Unit, what: str, value: int, limit: int) -> Iterator[Finding]:
        if value > limit:
            yield _finding("ATC-007", epoch.number, unit.name, what=what, value=value, limit=limit)

    for unit in epoch.units.values():
        kind = kind_of(unit.page)
        if kind == "CONVACC":
            count, batch = unit["KFORMAT.NR"], unit["KFORMAT.BTCDEPTH"]
            across = max(1, unit["SAMPLE.HSTRD"])
            area = -(-unit["KFORMAT.WIDTH"] // across) * unit["KFORMAT.HEIGHT"] * count
            yield from beyond(unit, "parallel kernels", count, _MAX_KERNELS)
            yield from beyond(unit, "rows of a kernel", unit["KFORMAT.HEIGHT"], 3)
            if unit["CTRL.DEEPMODE"]:
                yield from beyond(unit, "channels of a pass", batch, _MAX_BATCH)
                yield from beyond(unit, "kernel bytes of a pass", count * batch, _DEEP_BYTES)
            elif unit["CTRL.SIMD"] in (1, 2):
                yield from beyond(unit, "taps in parallel", area, 72)
            for side in ("HSTRD", "VSTRD"):
                if not unit[f"SAMPLE.{side}"]:
                    yield _finding(
                        "ATC-007", epoch.number, unit.name, what=side, value=0, limit="1 or more"
                    )
        elif kind == "POOL":
            if unit["CTRL.TYPE"] < 8:
                for side in ("WINX", "WINY"):
                    yield from beyond(unit, side, unit[f"PDIMS.{side}"], _WINDOW)
        elif kind == "ARITH":
            entries = max(unit.coefficients, default=-1) + 1
            yield from beyond(unit, "coefficients", entries, 512)
    yield from _chains(epoch)


def _chains(epoch: Epoch) -> Iterator[Finding]:
    for page, unit in epoch.units.items():
        if kind_of(page) != "CONVACC":
            continue
        length, at, seen = 1, page, {page}
        while (route := epoch.routes.get((at, 2))) and route.source is not None:
            at = route.source
            if kind_of(at) != "CONVACC" or at in seen:
                break
            seen.add(at)
            length += 1
        if length > _CHAIN:
            yield _finding(
                "ATC-007",
                epoch.number,
                unit.name,
                what="chained CONVACC",
                value=length,
                limit=_CHAIN,
            )


def _touched(pattern: Pattern, low: int, high: int) -> NDArray[np.bool_]:
    """Bytes of ``low..high`` (exclusive) a pattern touches."""
    mask = np.zeros(high - low, np.bool_)
    inside = (pattern.offsets[:, None] + np.arange(pattern.size)).ravel()
    for start in np.unique(pattern.starts) - low:
        mask[start + inside] = True
    return mask


def _meet(first: Pattern, second: Pattern) -> int | None:
    """First byte two patterns share."""
    low, high = max(first.low, second.low), min(first.high, second.high) + 1
    if low >= high:
        return None
    base, top = min(first.low, second.low), max(first.high, second.high) + 1
    both = _touched(first, base, top) & _touched(second, base, top)
    return base + int(both.argmax()) if both.any() else None


def _loops(epoch: Epoch) -> set[tuple[int, int]]:
    """(reader, writer) pages of accumulator loops through memory: they alias on purpose."""
    found = set()
    for (page, port), route in epoch.routes.items():
        if port != 2 or kind_of(page) != "CONVACC" or route.source is None:
            continue
        if kind_of(route.source) == "STRENG":
            found |= {(route.source, writer.page) for writer in epoch.writers}
    return found


def _aliases(epoch: Epoch) -> Iterator[Finding]:
    writers = [unit for unit in epoch.writers if _sound(unit)]
    readers = [unit for unit in epoch.readers if _sound(unit)]
    loops = _loops(epoch)
    for n, unit in enumerate(writers):
        for other in writers[n + 1 :]:
            at = _meet(unit.pattern, other.pattern)
            if at is not None:
                yield _finding(
                    "ATC-008", epoch.number, unit.name, other=other.name, address=hex(at)
                )
        for reader in readers:
            if (reader.page, unit.page) in loops:
                continue
            at = _overtaken(reader, unit, epoch.spares.get(reader.page, 0))
            if at is not None:
                finding = _finding(
                    "ATC-009", epoch.number, unit.name, other=reader.name, address=hex(at)
                )
                yield replace(finding, severity=Severity.WARNING)


def _when(pattern: Pattern, low: int, high: int, *, last: bool) -> NDArray[np.float64]:
    """For each byte of ``low..high`` when the stream touches it, as a fraction of its length.

    The last time for a reader, the first for a writer; -1 (reader) or 2 (writer) when never.
    """
    inside = pattern.offsets
    count, total = inside.size, len(pattern.starts) * inside.size
    out = np.full(high - low, -1.0 if last else 2.0)
    starts = pattern.starts[::-1] if last else pattern.starts
    different, first = np.unique(starts, return_index=True)
    frame = len(starts) - 1 - first if last else first
    order = np.argsort(frame) if last else np.argsort(-frame)
    for start, k in zip(different[order], frame[order], strict=True):
        place = start - low + inside
        if int(place.max(initial=-1)) + pattern.size <= 0 or int(place.min(initial=0)) >= out.size:
            continue
        time = (k * count + np.arange(count) + (0 if last else 1)) / total
        for lane in range(pattern.size):
            at = place + lane
            kept = (at >= 0) & (at < out.size)
            out[at[kept]] = time[kept]
    return out


def _overtaken(reader: Unit, writer: Unit, spare: int) -> int | None:
    """First byte that is overwritten before the reader, in step with the writer, took it.

    Args:
        reader: stream engine from memory.
        writer: stream engine towards memory.
        spare: bytes at the reader's end whose value does not matter.
    """
    first, second = reader.pattern, writer.pattern
    low, high = max(first.low, second.low), min(first.high - spare, second.high) + 1
    if low >= high:
        return None
    late = _when(first, low, high, last=True) > _when(second, low, high, last=False)
    return low + int(late.argmax()) if late.any() else None


# The whole program


class _Owners:
    """Which epoch wrote each byte last; -1 nobody, 0 input or constant."""

    def __init__(self, network: Compiled, memory: Memory) -> None:
        self.maps = {base: np.full(data.size, -1, np.int32) for base, data in memory.regions()}
        for image in network.images:
            self.put(image.address, image.end, 0)
        for buffer in network.lacking:
            self.put(buffer.address, buffer.end, 0)
        for buffer in network.inputs:
            self.put(buffer.address, buffer.end, 0)

    def span(self, low: int, high: int) -> NDArray[np.int32] | None:
        for base, owners in self.maps.items():
            if base <= low and high <= base + owners.size:
                return owners[low - base : high - base]
        return None

    def put(self, low: int, high: int, epoch: int) -> None:
        part = self.span(low, high)
        if part is not None:
            part[:] = epoch

    def write(self, pattern: Pattern, epoch: int) -> None:
        part = self.span(pattern.low, pattern.high + 1)
        if part is not None:
            part[_touched(pattern, pattern.low, pattern.high + 1)] = epoch


def _held(buffers: list[Buffer], low: int, high: int) -> NDArray[np.bool_]:
    mask = np.zeros(high - low, np.bool_)
    for buffer in buffers:
        mask[max(0, buffer.address - low) : max(0, min(high, buffer.end) - low)] = True
    return mask


class _Walk:
    """The program on zeros, epoch by epoch; faults are collected and the walk goes on."""

    def __init__(self, network: Compiled) -> None:
        self.network = network
        self.memory = memory_for(network)
        for buffer in network.inputs:
            if self.memory.holds(buffer.address, buffer.end - 1):
                self.memory.load(buffer.address, b"\0" * buffer.size)
        for buffer in network.lacking:
            if self.memory.holds(buffer.address, buffer.end - 1):
                self.memory.mark(buffer.address, buffer.size)
        self.owners = _Owners(network, self.memory)
        self.data = [b for b in network.buffers if not b.parameter and b.size]
        self.writes = {
            epoch.number: [u.pattern for u in epoch.writers if _sound(u)]
            for step in network.steps
            for epoch in step.epochs
        }
        self.by_epoch: dict[int, list[Buffer]] = {}
        for buffer in network.buffers:
            self.by_epoch.setdefault(0 if buffer.parameter else buffer.epoch, []).append(buffer)

    def findings(self) -> Iterator[Finding]:
        if lacking := self.network.lacking:
            finding = _finding("ATC-020", 0, lacking[0].name, count=len(lacking))
            yield replace(finding, severity=Severity.WARNING)
        if absent := self.network.absent:
            finding = _finding("ATC-024", 0, absent[0], count=len(absent))
            yield replace(finding, severity=Severity.WARNING)
        for step in self.network.steps:
            if step.name in absent:
                self.assumed(step)
            for epoch in step.epochs:
                yield from self.hardware(epoch)
            for work in step.work:
                yield from self.software(step, work)

    def assumed(self, step: Step) -> None:
        """A blob that is absent is taken to have written every buffer up to the next step."""
        later = [other.number for other in self.network.steps if other.number > step.number]
        for buffer in self.data:
            if step.number <= buffer.epoch < min(later, default=buffer.epoch + 1) and (
                self.memory.holds(buffer.address, buffer.end - 1)
            ):
                self.memory.mark(buffer.address, buffer.size)

    def failed(self, error: ModelError, epoch: int) -> Finding:
        codes = {"ATN-006": "ATC-010", "ATN-008": "ATC-011", "ATN-011": "ATC-012"}
        unit = str(error.params.get("unit", error.params.get("node", "")))
        if error.code in codes:
            params: dict[str, object] = {
                key: error.params[key] for key in ("reason", "address") if key in error.params
            }
            return Finding(codes[error.code], epoch, unit, params)
        return Finding("ATC-013", epoch, unit, {"reason": error.message}, Severity.WARNING)

    def hardware(self, epoch: Epoch) -> Iterator[Finding]:
        surplus: dict[str, int] = {}
        fault = None
        try:
            surplus = dict(run_epoch(epoch, self.memory).surplus)
        except ModelError as error:
            fault = self.failed(error, epoch.number)
        yield from self.places(epoch, surplus)
        if fault is not None:
            yield fault
        for name, count in surplus.items():
            finding = _finding("ATC-021", epoch.number, name, count=count)
            yield replace(finding, severity=Severity.WARNING)
        for unit in epoch.writers:
            if _sound(unit):
                self.mark(unit.pattern)
                self.owners.write(unit.pattern, epoch.number)

    def mark(self, pattern: Pattern) -> None:
        """After a fault the walk goes on as if the writer had finished."""
        if self.memory.holds(pattern.low, pattern.high):
            base, _ = self.memory.region(0, "", pattern.low, pattern.high)
            part = self.memory.written(base)[pattern.low - base : pattern.high + 1 - base]
            part[_touched(pattern, pattern.low, pattern.high + 1)] = 1

    def places(self, epoch: Epoch, surplus: Mapping[str, int]) -> Iterator[Finding]:
        for unit in (*epoch.readers, *epoch.writers):
            if not _sound(unit) or unit.name in surplus:
                continue
            pattern = unit.pattern
            low, high = pattern.low, pattern.high + 1
            if unit.is_writer:
                regions = [r for r in self.network.regions if r.address < high and low < r.end]
                if any(not region.writable for region in regions):
                    yield _finding("ATC-014", epoch.number, unit.name, address=hex(low))
            if not self.memory.holds(low, high - 1):
                continue
            if self.network.buffers and self.network.described:
                touched = _touched(pattern, low, high)
                touched[touched.size - epoch.spares.get(unit.page, 0) :] = False
                yield from self.owned(epoch, unit, touched, low)

    def owned(
        self, epoch: Epoch, unit: Unit, touched: NDArray[np.bool_], low: int
    ) -> Iterator[Finding]:
        high = low + touched.size
        if unit.is_writer:
            own = self.by_epoch.get(epoch.number, [])
            outside = touched & ~_held([*own, *self.sliced(own, unit)], low, high)
            if own and outside.any():
                at = low + int(outside.argmax())
                yield _finding("ATC-015", epoch.number, unit.name, address=hex(at))
            return
        owners = self.owners.span(low, high)
        if owners is None:
            return
        yield from self.expected(epoch, unit, touched, owners, low)
        for owner in np.unique(owners[touched]).tolist():
            if owner < 0 or owner == epoch.number:
                continue
            mine = touched & (owners == owner)
            claims = self.by_epoch.get(owner, [])
            claims = [*claims, *self.joined(claims, epoch.number)]
            if owner == 0 and not any(buffer.parameter for buffer in claims):
                continue
            loose = mine & ~_held(claims, low, high)
            if claims and loose.any():
                at = low + int(loose.argmax())
                yield _finding("ATC-016", epoch.number, unit.name, address=hex(at), other=owner)
        yield from self.mixed(epoch, unit, touched, owners, low)

    def expected(
        self,
        epoch: Epoch,
        unit: Unit,
        touched: NDArray[np.bool_],
        owners: NDArray[np.int32],
        low: int,
    ) -> Iterator[Finding]:
        """Reads past the end of a buffer, and of what its own epoch has yet to write."""
        used = np.flatnonzero(touched)
        if not used.size or (owners[used] <= 0).any():
            return  # inputs and constants, or what nobody wrote: said elsewhere
        start, end = low + int(used[0]), low + int(used[-1]) + 1
        before = [b for b in self.data if b.epoch < epoch.number]
        inside = [b for b in before if b.address <= start < b.end]
        if not inside:
            return
        latest = max(inside, key=lambda b: b.epoch)
        around = [b for b in inside if end <= b.end and b.epoch >= latest.epoch]
        if not around:
            # parts of a picture side by side have no description of their own
            mixed = any(b.interleaved for b in inside)
            if latest.epoch and not mixed and not _row(before, start, end):
                where = {"address": hex(latest.end), "buffer": latest.name}
                finding = _finding("ATC-022", epoch.number, unit.name, **where)
                yield replace(finding, severity=Severity.WARNING)
            return
        buffer = max(around, key=lambda b: b.epoch)
        written = self.writes.get(buffer.epoch)
        if written is None:
            return
        late = touched & (owners < buffer.epoch)
        for pattern in written:
            first, top = max(pattern.low, low), min(pattern.high + 1, low + touched.size)
            if first >= top:
                continue
            own = _touched(pattern, pattern.low, pattern.high + 1)
            part = own[first - pattern.low : top - pattern.low] & late[first - low : top - low]
            if part.any():
                yield _finding(
                    "ATC-023",
                    epoch.number,
                    unit.name,
                    address=hex(first + int(part.argmax())),
                    buffer=buffer.name,
                    other=buffer.epoch,
                )
                return

    def sliced(self, own: list[Buffer], unit: Unit) -> list[Buffer]:
        """Buffers of other epochs that a writer fills a slice of, its own buffer being the slice.

        Joining tensors channel by channel needs no epoch of its own: each part is written with the
        pixel step of the whole.
        """
        pattern = unit.pattern
        starts = {buffer.address for buffer in own}
        if pattern.low not in starts or pattern.pixel <= pattern.depth * pattern.size:
            return []
        return [
            b
            for b in self.network.buffers
            if not b.parameter and b.address <= pattern.low and pattern.high < b.end
        ]

    def joined(self, claims: list[Buffer], last: int) -> list[Buffer]:
        """Buffers of later epochs, up to one, that these are channels of: no epoch makes them."""
        return [
            whole
            for whole in self.network.buffers
            if not whole.parameter
            and whole.epoch <= last
            and any(
                whole.epoch > part.epoch
                and whole.batch >= part.batch
                and part.channel == "Mixed"
                and whole.address <= part.address < whole.end
                for part in claims
                if not part.parameter
            )
        ]

    def mixed(
        self,
        epoch: Epoch,
        unit: Unit,
        touched: NDArray[np.bool_],
        owners: NDArray[np.int32],
        low: int,
    ) -> Iterator[Finding]:
        """Bytes of one buffer that a later epoch wrote over before this one read them."""
        high = low + touched.size
        first = low + int(touched.argmax())
        for buffer in self.network.buffers:
            if buffer.parameter or not buffer.address <= first < buffer.end <= high:
                continue
            inside = slice(max(0, buffer.address - low), buffer.end - low)
            part, seen = owners[inside], touched[inside]
            if (part[seen] == buffer.epoch).any():
                over = seen & (part > buffer.epoch) & (part != epoch.number)
                claims = [
                    other
                    for other in self.network.buffers
                    if other.epoch > buffer.epoch
                    and buffer.address <= other.address
                    and other.end <= buffer.end
                ]
                over &= ~_held(claims, low + inside.start, low + inside.stop)
                if over.any():
                    at = low + inside.start + int(over.argmax())
                    yield _finding(
                        "ATC-017",
                        epoch.number,
                        unit.name,
                        address=hex(at),
                        buffer=buffer.name,
                        other=int(part[over][0]),
                    )

    def software(self, step: Step, work: Work) -> Iterator[Finding]:
        try:
            run_work(work, self.memory, step.number)
        except ModelError as error:
            yield self.failed(error, step.number)
        for low, high in _spans(work, write=True):
            self.owners.put(low, high, step.number)
            if self.memory.holds(low, high - 1):
                self.memory.mark(low, high - low)


def _row(buffers: list[Buffer], start: int, end: int) -> bool:
    """Whether whole buffers one behind the other are what lies from start to end."""
    ends = {b.address: b.end for b in buffers}
    while start < end and start in ends:
        start = ends[start]
    return start == end


def _spans(work: Work, *, write: bool) -> list[tuple[int, int]]:
    """Byte ranges a CPU operator reads or writes."""
    spans = []
    for role, item in work.operands.items():
        if (role in ("output", "scratch")) != write or not item.address:
            continue
        reach = sum((n - 1) * step for n, step in zip(item.shape, item.strides, strict=True))
        size = max(item.strides[3], 1) if min(item.strides) else 4
        spans.append((item.address, item.address + reach + size))
    spans += [(b.address, b.end) for b in (work.outputs if write else work.inputs)]
    return spans


# The CPU's data cache


def _line_masks(low: int, high: int) -> Iterator[tuple[int, int]]:
    """Lines of a range, and which of their bytes are in it as a mask."""
    for line in range(low // LINE * LINE, high, LINE):
        first, last = max(low - line, 0), min(high - line, LINE)
        yield line, (1 << last) - (1 << first)


class _Cache:
    """Lines of the data cache, by address of the line."""

    def __init__(self) -> None:
        self.held: set[int] = set()  # the CPU touched it and nothing invalidated it since
        self.dirty: set[int] = set()  # held, the CPU wrote it and memory is older
        self.stale: dict[int, int] = {}  # held: mask of bytes that are newer in memory

    def maintain(self, items: tuple[CacheStep, ...]) -> None:
        for item in items:
            for line, _ in _line_masks(item.address, item.end):
                self.dirty.discard(line)
                if item.invalidate:
                    self.stale.pop(line, None)
                    self.held.discard(line)

    def device_writes(self, low: int, high: int) -> set[int]:
        found = set()
        for line, mask in _line_masks(low, high):
            if line in self.held:
                self.stale[line] = self.stale.get(line, 0) | mask
            if line in self.dirty:
                found.add(line)
        return found

    def device_reads(self, low: int, high: int) -> set[int]:
        return {line for line, _ in _line_masks(low, high) if line in self.dirty}

    def core_reads(self, low: int, high: int) -> set[int]:
        old = set()
        for line, mask in _line_masks(low, high):
            self.held.add(line)
            if self.stale.get(line, 0) & mask:
                old.add(line)
        return old

    def forget(self, lines: set[int]) -> None:
        for line in lines:
            self.stale.pop(line, None)

    def filled(self, low: int, high: int) -> None:
        """The application put an input in place, and saw to the cache."""
        for line, mask in _line_masks(low, high):
            if line in self.stale:
                self.stale[line] &= ~mask

    def core_writes(self, low: int, high: int) -> None:
        for line, mask in _line_masks(low, high):
            self.held.add(line)
            self.dirty.add(line)
            if line in self.stale:
                self.stale[line] &= ~mask


_Span = tuple[str, int, int]


def _device(step: Step, *, write: bool) -> list[_Span]:
    """What the NPU's engines move in a step: by unit or operator, first and last byte."""
    units = [
        (unit.name, unit.pattern.low, unit.pattern.high + 1)
        for epoch in step.epochs
        for unit in filter(_sound, epoch.writers if write else epoch.readers)
    ]
    if step.kind is Kind.HYBRID:
        units += [(w.node, *span) for w in step.work for span in _spans(w, write=write)]
    return units


def _caches(network: Compiled) -> Iterator[Finding]:
    """Two inferences in a row: the second finds in the cache what the first left there."""
    if not network.caches:
        return
    cache = _Cache()
    for _ in range(2):
        for buffer in network.inputs:
            cache.filled(buffer.address, buffer.end)
        for step in network.steps:
            yield from _cached(cache, step)


def _cached(cache: _Cache, step: Step) -> Iterator[Finding]:
    cache.maintain(step.before)
    for write in (False, True):
        for name, low, high in _device(step, write=write):
            lines = cache.device_writes(low, high) if write else cache.device_reads(low, high)
            if lines:
                yield _finding("ATC-018", step.number, name, address=hex(min(lines)))
                cache.dirty -= lines
    if step.kind is Kind.SOFTWARE:
        for work in step.work:
            for low, high in _spans(work, write=False):
                if lines := cache.core_reads(low, high):
                    yield _finding("ATC-019", step.number, work.node, address=hex(min(lines)))
                    cache.forget(lines)
            for low, high in _spans(work, write=True):
                cache.core_writes(low, high)
    cache.maintain(step.after)


def check_program(network: Compiled) -> tuple[Finding, ...]:
    """Everything the checks find in a program, epoch by epoch, without input data.

    A finding is an error when the chip would hang, fault or compute with wrong bytes; a warning
    when only a published report says so, when it depends on timing, or when a check is impossible.
    """
    found: list[Finding] = []
    for step in network.steps:
        for epoch in step.epochs:
            found += _routes(epoch)
            found += _limits(epoch)
            found += _aliases(epoch)
    found += _Walk(network).findings()
    found += _caches(network)
    unique = {(f.code, f.epoch, f.unit, str(f.params.get("port", ""))): f for f in reversed(found)}
    return tuple(sorted(unique.values(), key=lambda f: (f.epoch, f.code, f.unit)))
