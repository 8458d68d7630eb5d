"""Checks over fault registers and NPU register dumps in logs (K24, K23).

A dump is joined with the pools of reports and the symbols of the project where they are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from npuforge.artefacts.elf import Image
from npuforge.artefacts.fault_registers import FaultDump
from npuforge.artefacts.stall_snapshot import Snapshot
from npuforge.doctor.checks_image import images_of
from npuforge.doctor.findings import Check, Evidence, Finding
from npuforge.doctor.log_project import LogFile, logs_of
from npuforge.doctor.log_rules import LOG_RULES
from npuforge.doctor.network_facts import networks_of
from npuforge.doctor.project import Project
from npuforge.doctor.stm32n6 import bank_of, secure
from npuforge.messages import text

_NAMES = (
    "K24-imprecise", "K24-imprecise-external", "K24-flash", "K24-psram", "K24-bank-off",
    "K24-small-address", "K24-code-missing", "K24-connect", "K24-null-pc", "K24-no-memory",
    "K24-stack", "K24-relocation-register", "K24-npu-clock", "K24-fault", "K23-ec-bus-error",
    "K23-unbound", "K23-clock-gated", "K23-flash-fetch", "K23-illegal-access",
    "K23-engine-stalled",
)  # fmt: skip
LOCKUP = 0xEFFFFFFE
NPU_REGISTERS = (0x580C0000, 0x58100000)
"""ATON at 0x580E0000 and CACHEAXI in front of it (field notes; secure alias)."""
PERIPHERALS = (0x40000000, 0x60000000)
_STACK = {"STKOF", "MSTKERR", "STKERR", "MLSPERR"}
_MEANING = ("INVSTATE", "UNDEFINSTR", "NOCP", "UNALIGNED", "DIVBYZERO", "INVPC")


def run(project: Project) -> Iterable[Finding]:
    """Findings over every dump of every log."""
    external = _external_pool(project)
    for log in logs_of(project):
        for dump in log.faults[:20]:
            named = _named(project, dump)
            for finding in _fault(log, dump, external):
                yield replace(finding, evidence=(*finding.evidence, *named))
        for snapshot in log.snapshots[:20]:
            yield from _snapshot(log, snapshot)


FAR = 0x10000
"""Bytes behind a symbol without a size that may still belong to it."""


def _named(project: Project, dump: FaultDump) -> tuple[Evidence, ...]:
    """What lies at the addresses of a dump: functions and objects of images, pools of networks."""
    places = [("PC", dump.pc), ("LR", dump.registers.get("lr")), ("BFAR", dump.address)]
    found = []
    for word, value in places:
        if value is None or value >= 0xE000_0000:
            continue
        for item, image in images_of(project):
            name = _symbol(image, value & ~1 if word != "BFAR" else value)
            if name:
                found.append(item.at(None, name, value, note=word))
                break
        for facts in networks_of(project) if word == "BFAR" else ():
            inside = [t for t in facts.touched if t[0] <= secure(value) < t[1]]
            for start, _, pool in inside[:1]:
                found.append(facts.pool_at(pool, start, pool or f"{start:#010x}"))
    return tuple(found)


def _symbol(image: Image, address: int) -> str:
    """``name+0x12`` of the symbol an address lies in, "" when none is near."""
    best = max(
        (s for s in image.symbols.values() if s.address & ~1 <= address),
        key=lambda s: s.address,
        default=None,
    )
    if best is None:
        return ""
    offset = address - (best.address & ~1)
    return f"{best.name}+{offset:#x}" if offset < (best.size or FAR) else ""


def _external_pool(project: Project) -> tuple[str, int, Evidence] | None:
    """A pool in external RAM that holds activations, from any report of the project."""
    for log in logs_of(project):
        pool = log.external_activations
        if pool is not None:
            return pool.name, pool.activations, log.at(pool.line)
    return None


def _fault(
    log: LogFile, dump: FaultDump, external: tuple[str, int, Evidence] | None
) -> Iterator[Finding]:
    place = log.at(dump.line)
    flags = set(dump.flags)
    found = list(_decided(dump, place, flags, external))
    if dump.registers.get("r9") not in (None, 0) and found == []:
        found.append(
            LOG_RULES["K24-relocation-register"].at(place, value=f"{dump.registers['r9']:#010x}")
        )
    if not found and dump.flags:
        flag = next((name for name in dump.flags if name in _MEANING), "none")
        found.append(
            LOG_RULES["K24-fault"].at(
                place, flags=", ".join(dump.flags), what=text(f"DOC-flag-{flag}")
            )
        )
    yield from found


def _decided(
    dump: FaultDump,
    place: Evidence,
    flags: set[str],
    external: tuple[str, int, Evidence] | None,
) -> Iterator[Finding]:
    pc, address = dump.pc, dump.address
    shown_pc = "?" if pc is None else f"{pc:#010x}"
    if pc is not None and pc | 1 == LOCKUP | 1:
        yield LOG_RULES["K24-connect"].at(place, pc=shown_pc)
        return
    if flags & _STACK:
        yield LOG_RULES["K24-stack"].at(place, flags=", ".join(sorted(flags & _STACK)))
    if dump.imprecise:
        if external is not None:
            pool, size, where = external
            yield LOG_RULES["K24-imprecise-external"].at(place, where, bytes=size, pool=pool)
        else:
            yield LOG_RULES["K24-imprecise"].at(place, pc=shown_pc)
        return
    if pc is not None and pc <= 1 and "cfsr" in dump.registers:
        yield LOG_RULES["K24-null-pc"].at(place)
        return
    if flags & {"IACCVIOL", "IBUSERR"}:
        yield LOG_RULES["K24-code-missing"].at(place, cfsr=f"{dump.cfsr:#x}", pc=shown_pc)
        return
    if address is None and dump.registers.get("bfar", 0xE000ED38) != 0xE000ED38 and not dump.cfsr:
        address = dump.registers["bfar"]
    if address is not None:
        yield from _by_address(address, place)


def _by_address(address: int, place: Evidence) -> Iterator[Finding]:
    shown = f"{address:#010x}"
    bank = bank_of(address)
    if address < 0x1000:
        yield LOG_RULES["K24-small-address"].at(place, address=shown)
    elif NPU_REGISTERS[0] <= secure(address) < NPU_REGISTERS[1]:
        yield LOG_RULES["K24-npu-clock"].at(place, address=shown)
    elif PERIPHERALS[0] <= address < PERIPHERALS[1] or address >= 0xE0000000:
        return
    elif bank is None:
        yield LOG_RULES["K24-no-memory"].at(place, address=shown)
    elif bank.needs_power:
        yield LOG_RULES["K24-bank-off"].at(place, address=shown, bank=bank.name)
    elif bank.name == "XSPI2":
        yield LOG_RULES["K24-flash"].at(place, address=shown)
    elif bank.external:
        yield LOG_RULES["K24-psram"].at(place, address=shown)


def _snapshot(log: LogFile, snap: Snapshot) -> Iterator[Finding]:
    place = log.at(snap.line)
    refused = [flag for flag in snap.filters if flag.status]
    for flag in refused[:2]:
        address = "" if flag.address is None else f" ({flag.address:#010x})"
        yield LOG_RULES["K23-illegal-access"].at(
            log.at(flag.line), number=flag.number, address=address
        )
    if snap.ec_irq is not None and snap.ec_irq & 0x8:
        yield LOG_RULES["K23-ec-bus-error"].at(
            place, value=f"{snap.ec_irq:#x}", opcode="?" if snap.opcode is None else snap.opcode
        )
        return
    low = _null_based(snap)
    if low is not None and (snap.busif_error or snap.ec_running):
        yield LOG_RULES["K23-unbound"].at(
            place, opcode="?" if snap.opcode is None else snap.opcode, address=f"{low:#010x}"
        )
        return
    if refused:
        return
    for engine in snap.running:
        if engine.address is not None and 0x70000000 <= engine.address < 0xA0000000:
            yield LOG_RULES["K23-flash-fetch"].at(
                log.at(engine.line), engine=engine.number, address=f"{engine.address:#010x}"
            )
            return
    quiet = snap.intreg == 0 and snap.nvic_pending == 0 and not snap.busif_error
    if quiet:
        yield LOG_RULES["K23-clock-gated"].at(place)
        return
    for engine in snap.running:
        if engine.address is not None and bank_of(engine.address) is not None:
            yield LOG_RULES["K23-engine-stalled"].at(
                log.at(engine.line), engine=engine.number, address=f"{engine.address:#010x}"
            )
            return


def _null_based(snap: Snapshot) -> int | None:
    """An engine address that is an offset without its base."""
    candidates = [engine.address for engine in snap.engines if engine.address]
    candidates += [snap.values[key] for key in ("src", "source", "dst") if snap.values.get(key)]
    return next((address for address in candidates if 0 < address < 0x10000000), None)


CHECK = Check("fault and stall dumps", tuple(LOG_RULES[name] for name in _NAMES), run)
