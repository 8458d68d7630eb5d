"""The layout: networks and everything around them at addresses, from one system description.

Items that name a pool come first, then the networks (they choose the fastest memory that is left),
then the rest. Networks that share an arena lie over each other: one of them runs at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from npuforge.errors import PlanError, UsageError
from npuforge.lowering import Schedule
from npuforge.memory.ledger import Column, Ledger, LedgerLine, make_ledger, split_by_pool
from npuforge.memory.plan import Plan, plan_memory
from npuforge.memory.spans import aligned
from npuforge.memory.system import Account, Arena, Item, SystemDescription
from npuforge.memory.verify import verify_plan
from npuforge.targets import Boot, Pool, Reach, Target, Use

MPU_GRANULE = 32
"""Bytes: base and end of a region of the Armv8-M memory protection unit are multiples of it."""


@dataclass(frozen=True)
class Block:
    """A piece of memory with one owner.

    Attributes:
        name: unique in the layout.
        account: class of the ledger.
        address: first address.
        nbytes: bytes.
        reach: who must be able to access it.
        cacheable: whether the CPU's data cache may hold it.
        loaded: whether it has contents before the program runs.
        origin: where its size comes from.
    """

    name: str
    account: Account
    address: int
    nbytes: int
    reach: tuple[Reach, ...]
    cacheable: bool
    loaded: bool
    origin: str

    @property
    def end(self) -> int:
        """First address behind it."""
        return self.address + self.nbytes


@dataclass(frozen=True, eq=False)
class PlacedNetwork:
    """A network of the layout with its plan; the plan's addresses are final.

    Attributes:
        name: C name.
        arena: shared or its own.
        whole: what was to be placed.
        schedule: what was: the same numbers, where need be computed in stripes.
        plan: addresses of the schedule.
    """

    name: str
    arena: Arena
    whole: Schedule
    schedule: Schedule
    plan: Plan


Planner = Callable[[str, Schedule, Target], tuple[Schedule, Plan]]
"""From a network and what is left of the target to what runs, and its plan."""


def plan_as_it_is(_: str, schedule: Schedule, target: Target) -> tuple[Schedule, Plan]:
    """The planner that changes nothing."""
    return schedule, plan_memory(schedule, target)


@dataclass(frozen=True, eq=False)
class SystemLayout:
    """A whole system at addresses.

    Attributes:
        description: what was asked for.
        target: the board.
        boot: how the program gets to run.
        networks: with their plans.
        blocks: everything, by address.
        free: first and end address of what is left of every pool.
    """

    description: SystemDescription
    target: Target
    boot: Boot
    networks: tuple[PlacedNetwork, ...]
    blocks: tuple[Block, ...]
    free: Mapping[str, tuple[int, int]]

    def block(self, name: str) -> Block:
        """A block by name; KeyError when there is none."""
        for block in self.blocks:
            if block.name == name:
                return block
        raise KeyError(name)


@dataclass(frozen=True)
class Budget:
    """The on-chip RAM against the policy, in bytes.

    Attributes:
        ram: writable memory on the chip.
        fixed: system, NPU runtime, and code and constants that lie in RAM.
        held: what the policy keeps for fixed costs: its share, or what they take if that is more.
        moving: activations, data path and weights in RAM.
        allowed: what may be used at all.
    """

    ram: int
    fixed: int
    held: int
    moving: int
    allowed: int

    @property
    def total(self) -> int:
        """Bytes the policy counts as used."""
        return self.held + self.moving

    @property
    def within(self) -> bool:
        """Whether that is allowed."""
        return self.total <= self.allowed


def layout_system(
    description: SystemDescription,
    target: Target,
    networks: Sequence[tuple[str, Schedule]],
    linked: Ledger | None = None,
    planner: Planner = plan_as_it_is,
) -> SystemLayout:
    """Give everything of a system an address.

    Args:
        description: the system.
        target: its board.
        networks: C name and schedule of each model, in the description's order.
        linked: ledger of the linked program, when there is one: code, constants and static data.
        planner: plans a network in what is left of the target.

    Raises:
        UsageError: the description names a pool or boot variant that the target does not have.
        PlanError: something does not fit.
    """
    try:
        boot = target.boot(description.boot)
    except KeyError:
        known = ", ".join(entry.name for entry in target.boots) or "none"
        raise _refuse(description, "boot", f"{target.name} has {known}") from None
    rooms = _Rooms(target, boot)
    blocks = list(_program(description, boot, rooms, linked)) if boot.code else []
    first = [item for item in description.items if item.pool]
    for item in first:
        if item.pool not in {pool.name for pool in target.pools}:
            known = ", ".join(pool.name for pool in target.pools)
            raise _refuse(description, f"{item.where}.pool", f"{target.name} has {known}")
    blocks += [_place_item(item, description, rooms) for item in _dma_last(first)]
    placed, arenas = _place_networks(description, networks, target, rooms, planner)
    blocks += arenas
    rest = [item for item in description.items if not item.pool]
    blocks += [_place_item(item, description, rooms) for item in _dma_last(rest)]
    blocks.sort(key=lambda block: block.address)
    return SystemLayout(description, target, boot, placed, tuple(blocks), dict(rooms.free))


def layout_ledger(layout: SystemLayout) -> Ledger:
    """The ledger of a layout: what will be linked, before it is.

    Raises:
        PlanError: blocks overlap or leave the target's memory.
    """
    lines: list[LedgerLine] = []
    for block in layout.blocks:
        line = LedgerLine(
            block.account, block.name, "", block.address, block.nbytes, Column.RESERVED,
            block.origin,
        )  # fmt: skip
        lines += split_by_pool(line, layout.target)
    return make_ledger(lines, layout.target)


def budget(layout: SystemLayout) -> Budget:
    """The on-chip RAM of a layout against the description's policy."""
    ram = sum(pool.size for pool in layout.target.pools if pool.on_chip_ram)
    sums = layout_ledger(layout).in_ram()
    moving = sum(sums[a] for a in (Account.ACTIVATIONS, Account.DATA_PATH, Account.WEIGHTS))
    fixed = sum(sums.values()) - moving
    held = max(fixed, round(layout.description.reserve * ram))
    return Budget(ram, fixed, held, moving, int(layout.description.limit * ram))


def _refuse(description: SystemDescription, field: str, reason: str) -> UsageError:
    return UsageError("SYS-002", path=description.file, field=field, reason=reason)


def _dma_last(items: Sequence[Item]) -> list[Item]:
    """DMA items together, so that one region of the protection unit covers them."""
    return sorted(items, key=lambda item: item.dma)


class _Rooms:
    """Free ranges of every pool."""

    def __init__(self, target: Target, boot: Boot) -> None:
        self.target, self.boot = target, boot
        self.free = {pool.name: (pool.base, pool.end) for pool in target.pools}
        weights = next(iter(target.pools_for(Use.WEIGHTS)), None)
        if boot.weights and weights is not None:
            self.free[weights.name] = (boot.weights, weights.end)

    def low(self, pool: str, nbytes: int, alignment: int) -> int | None:
        """Take bytes at the lower end of what is free."""
        start, end = self.free[pool]
        address = aligned(start, alignment)
        if address + nbytes > end:
            return None
        self.free[pool] = (address + nbytes, end)
        return address

    def high(self, pool: str, nbytes: int, alignment: int) -> int | None:
        """Take bytes at the upper end of what is free."""
        start, end = self.free[pool]
        address = (end - nbytes) // alignment * alignment
        if address < start:
            return None
        self.free[pool] = (start, address)
        return address

    def left(self) -> Target:
        """The target with what is free of its pools."""
        return remaining(self.target, self.free)


def behind_boot(target: Target) -> Target:
    """A target whose weights pool begins where its usual boot leaves room for weights."""
    return _Rooms(target, target.boot()).left()


def remaining(target: Target, free: Mapping[str, tuple[int, int]]) -> Target:
    """A target whose pools are what is free of them; pools without anything are left out."""
    pools = []
    for pool in target.pools:
        start, end = free[pool.name]
        base = aligned(start, target.buffer_alignment)
        if end > base:
            pools.append(replace(pool, base=base, size=end - base))
    return replace(target, pools=tuple(pools))


def _program(
    description: SystemDescription, boot: Boot, rooms: _Rooms, linked: Ledger | None
) -> Iterator[Block]:
    """Boot header, code, constants and static data of the program."""
    target = rooms.target
    code, read_only, static, runtime = description.code, description.read_only, 0, 0
    origin = "code"
    if linked is not None:
        origin = str(description.elf.name if description.elf else "elf")
        sums = linked.by_account()
        code, read_only = sums[Account.CODE], sums[Account.READ_ONLY]
        runtime = sums[Account.NPU_RUNTIME]
        static = sum(
            line.nbytes
            for line in linked.lines
            if line.account is Account.SYSTEM and line.column is not Column.RESERVED
        )
    pool = target.pool(boot.code)
    start = pool.base + boot.offset
    end = boot.weights if pool.use is Use.WEIGHTS and boot.weights else pool.end
    parts = (
        ("boot header", Account.CODE, boot.header, f"target: boot {boot.name}"),
        ("code", Account.CODE, code, origin),
        ("read-only data", Account.READ_ONLY, read_only, origin),
        ("npu runtime", Account.NPU_RUNTIME, runtime, origin),
    )
    need = sum(nbytes for _, _, nbytes, _ in parts)
    if start + need > end:
        raise PlanError("SYS-020", name="code", need=need, pool=pool.name, room=end - start)
    at = start
    for name, account, nbytes, where in parts:
        if nbytes:
            yield Block(name, account, at, nbytes, (Reach.CPU,), True, True, where)
            at += nbytes
    if pool.use is not Use.WEIGHTS:
        rooms.free[pool.name] = (at, pool.end)
    if boot.stored and need > boot.header:
        if boot.weights and boot.stored + need > boot.weights:
            room = boot.weights - boot.stored
            raise PlanError("SYS-020", name="code", need=need, pool="the image slot", room=room)
        yield Block(
            "stored image", Account.CODE, boot.stored, need, (Reach.CPU,), True, True,
            f"target: boot {boot.name} copies it to {pool.name}",
        )  # fmt: skip
    yield from _program_data(description, boot, rooms, static, origin)


def _program_data(
    description: SystemDescription, boot: Boot, rooms: _Rooms, static: int, origin: str
) -> Iterator[Block]:
    """Static data at the lower end of the first data pool, the main stack at its upper end."""
    pool = boot.data[0]
    parts = (
        ("static data", static, origin, rooms.low),
        ("main stack", description.stack, "code.stack", rooms.high),
    )
    for name, nbytes, where, take in parts:
        if not nbytes:
            continue
        address = take(pool, nbytes, MPU_GRANULE)
        if address is None:
            start, end = rooms.free[pool]
            raise PlanError("SYS-020", name=name, need=nbytes, pool=pool, room=end - start)
        yield Block(name, Account.SYSTEM, address, nbytes, (Reach.CPU,), True, False, where)


def _candidates(item: Item, target: Target, boot: Boot) -> list[Pool]:
    """Pools an item may go to: system memory, slow memory on the chip, memory outside."""
    if item.pool:
        return [target.pool(item.pool)]
    reach = Reach.DMA if item.dma else Reach.CPU
    # the program keeps its pool for itself as long as there is another one
    system = sorted(
        target.pools_for(Use.SYSTEM),
        key=lambda pool: (pool.name == boot.code, pool.name not in boot.data),
    )
    others = sorted(
        target.pools_for(Use.ACTIVATIONS), key=lambda pool: (pool.external, -pool.clocks_per_byte)
    )
    return [pool for pool in system + others if reach in pool.reach and pool.writable]


def _place_item(item: Item, description: SystemDescription, rooms: _Rooms) -> Block:
    alignment = 8
    if item.dma:
        alignment = max(description.dma_alignment or rooms.target.cache_line, MPU_GRANULE)
    each = aligned(item.nbytes, alignment)
    nbytes = each * item.count
    reach = (Reach.CPU, Reach.DMA) if item.dma else (Reach.CPU,)
    candidates = _candidates(item, rooms.target, rooms.boot)
    for pool in candidates:
        if not set(reach) <= set(pool.reach) or not pool.writable:
            raise _refuse(
                description, f"{item.where}.pool",
                f"{pool.name} is {'not writable' if not pool.writable else 'out of reach'}",
            )  # fmt: skip
        # code and static data grow from the lower end of their pools
        low = pool.use is Use.SYSTEM and pool.name not in (rooms.boot.code, rooms.boot.data[0])
        take = rooms.low if low else rooms.high
        address = take(pool.name, nbytes, alignment)
        if address is not None:
            cacheable = description.cached_dma or not item.dma
            padded = f", each padded to {each}" if each != item.nbytes else ""
            origin = f"{item.where}: {item.count} x {item.nbytes} bytes{padded}"
            return Block(item.name, item.kind, address, nbytes, reach, cacheable, False, origin)
    room = max((rooms.free[p.name][1] - rooms.free[p.name][0] for p in candidates), default=0)
    names = ", ".join(pool.name for pool in candidates)
    raise PlanError("SYS-020", name=item.name, need=nbytes, pool=names, room=room)


def _place_networks(
    description: SystemDescription,
    networks: Sequence[tuple[str, Schedule]],
    target: Target,
    rooms: _Rooms,
    planner: Planner,
) -> tuple[tuple[PlacedNetwork, ...], list[Block]]:
    arenas = [entry.arena for entry in description.models]
    found: dict[str, PlacedNetwork] = {}
    blocks: list[Block] = []
    shared = [net for net, arena in zip(networks, arenas, strict=True) if arena is Arena.SHARED]
    own = [net for net, arena in zip(networks, arenas, strict=True) if arena is Arena.OWN]
    groups = [shared, *([net] for net in own)] if shared else [[net] for net in own]
    for group in groups:
        arena = Arena.SHARED if group is shared else Arena.OWN
        left = rooms.left()
        spans: dict[int, tuple[int, list[str]]] = {}
        for name, whole in group:
            if not left.pools_for(Use.ACTIVATIONS) or not left.pools_for(Use.WEIGHTS):
                raise PlanError("SYS-020", name=name, need=1, pool=target.name, room=0)
            schedule, plan = planner(name, whole, left)
            verify_plan(schedule, plan, target)
            # weights never share: the next network's begin behind these
            blocks.append(_weights_block(name, plan, target))
            left = _behind_weights(left, plan, rooms)
            found[name] = PlacedNetwork(name, arena, whole, schedule, plan)
            for region in plan.regions:
                used, names = spans.get(region.base, (0, []))
                spans[region.base] = (max(used, region.used), [*names, name])
        blocks += _arena_blocks(spans, target, rooms, description.cached_activations)
    return tuple(found[name] for name, _ in networks), blocks


def _weights_block(name: str, plan: Plan, target: Target) -> Block:
    reach = (Reach.CPU, Reach.NPU) if target.has_npu else (Reach.CPU,)
    return Block(
        f"{name} weights", Account.WEIGHTS, plan.weights.base, plan.weights.used, reach,
        True, True, f"plan of {name}: weights image",
    )  # fmt: skip


def _behind_weights(left: Target, plan: Plan, rooms: _Rooms) -> Target:
    pools = []
    for pool in left.pools:
        if pool.use is Use.WEIGHTS and pool.base <= plan.weights.base < pool.end:
            end = pool.end
            alignment = left.weight_alignment or left.buffer_alignment
            base = aligned(plan.weights.base + plan.weights.used, max(alignment, MPU_GRANULE))
            rooms.free[pool.name] = (base, end)
            pool = replace(pool, base=base, size=max(end - base, 0))
        pools.append(pool)
    return replace(left, pools=tuple(pools))


def _arena_blocks(
    spans: dict[int, tuple[int, list[str]]], target: Target, rooms: _Rooms, cached: bool
) -> Iterator[Block]:
    reach = (Reach.CPU, Reach.NPU) if target.has_npu else (Reach.CPU,)
    for base, (used, names) in sorted(spans.items()):
        end = base + used
        for pool in target.pools:
            start, stop = rooms.free[pool.name]
            if start < end and base < stop:
                rooms.free[pool.name] = (min(aligned(end, MPU_GRANULE), stop), stop)
        yield Block(
            "activations of " + ", ".join(names), Account.ACTIVATIONS, base, used,
            reach, cached, False,
            f"plan of {', '.join(names)}" + (": the larger one" if len(names) > 1 else ""),
        )  # fmt: skip
