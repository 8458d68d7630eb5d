"""What the checks need from a generated ``network.c``: pools, inputs, outputs, epochs, version.

The text is searched for the few statements of ST's generator that carry these facts; how they look
was read in public generated files of compiler versions 1.0.0 to 1.1.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from npuforge.artefacts.recognise import Kind
from npuforge.artefacts.text import line_of
from npuforge.doctor.findings import Evidence
from npuforge.doctor.project import Artefact, Project

_GUARD = re.compile(
    r"LL_ATON_VERSION_MAJOR\s*!=\s*(\d{1,9})\b.*?LL_ATON_VERSION_MINOR\s*!=\s*(\d{1,9})\b.*?"
    r"LL_ATON_VERSION_MICRO\s*!=\s*(\d{1,9})\b(?:.*?LL_ATON_VERSION_DEV\s*!=\s*(\d{1,9})\b)?"
)
_POOL_USED = re.compile(r"/\* global pool (\d{1,9}) is (\?|\d{1,12}(?:\.\d{1,9})? [KMG]?B)")
_POOL = re.compile(
    r"/\* index=(\d{1,9}) file postfix=(\S+) name=(\S+) offset=(0x[0-9a-fA-F]{1,16})\s+\S*\s*"
    r"size=(\d{1,18})\b"
    r"([^\n]*)"
)
_SETTER = re.compile(
    r"LL_ATON_Set_User_(Input|Output)_Buffer_(\w+)\s*\([^)]*\)\s*\{(.*?)\n\}", re.DOTALL
)
_INFO = re.compile(r"LL_ATON_(Input|Output)_Buffers_Info_(\w+)\s*\(void\)\s*\{(.*?)\n\}", re.DOTALL)
_ENTRY = re.compile(r"\{\s*\.name = \"([^\"]*)\",(.*?)\n\s*\}", re.DOTALL)
_FLAGS = re.compile(r"\.flags\s*=\s*(EpochBlock_Flags[\w |]*)")
_ADDRESS = re.compile(r"\b0x([379][0-9a-fA-F]{7})UL\s*\+\s*(\d{1,18})\)")


@dataclass(frozen=True)
class Pool:
    """A memory pool of the compiler.

    Attributes:
        name: for example npuRAM5.
        postfix: suffix of its weight file.
        base: address.
        size: bytes.
        used: bytes used, rounded as the compiler prints them, or ``None`` when nothing is.
        read_only: constants only.
        cacheable: whether NPU accesses go through the NPU cache.
        virtual: a union of other pools.
        line: where it is declared.
    """

    name: str
    postfix: str
    base: int
    size: int
    used: int | None
    read_only: bool
    cacheable: bool
    virtual: bool
    line: int


@dataclass(frozen=True)
class Tensor:
    """An input or output descriptor; ``address`` is ``None`` when the application allocates it."""

    name: str
    output: bool
    address: int | None
    size: int
    type: str
    bits: int
    shape: tuple[int, ...]
    scale: float | None
    zero_point: int | None
    line: int


@dataclass(frozen=True)
class NetworkFacts:
    """Facts of one generated network.

    Attributes:
        artefact: its file.
        name: network name.
        version: version guard, four numbers (three in old files).
        pools: declared pools.
        inputs: input descriptors.
        outputs: output descriptors.
        user_inputs: whether inputs are allocated by the application; ``None`` when unknown.
        user_outputs: likewise.
        flags: flags of each epoch block in order, without the prefix.
        blobs: whether it uses epoch-controller blobs.
        maintenance: whether generated cache maintenance is present.
        first_software: whether the first epoch that computes runs in software: the CPU reads the
            input, through its cache.
        last_software: whether the last epoch that computes runs in software.
        touched: used address ranges as (start, end), from pools in use.
    """

    artefact: Artefact
    name: str
    version: tuple[int, ...]
    version_line: int
    pools: tuple[Pool, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    user_inputs: bool | None
    user_outputs: bool | None
    flags: tuple[str, ...]
    blobs: bool
    maintenance: bool
    first_software: bool
    last_software: bool
    touched: tuple[tuple[int, int, str], ...]

    @property
    def epochs(self) -> int:
        """Number of epoch blocks that compute."""
        return sum("last_eb" not in flag for flag in self.flags)

    def pool_at(self, name: str, address: int, token: str = "") -> Evidence:
        """Evidence for a pool, at its declaration where it has one; the token is its name."""
        line = next((pool.line for pool in self.pools if pool.name == name), None)
        return self.artefact.at(line, token or name, address)


def dotted(version: tuple[int, ...]) -> str:
    """A version of four numbers as ST writes it: ``1.1.3-262``; a shorter one without its end."""
    return ".".join(map(str, version[:3])) + "".join(f"-{part}" for part in version[3:4])


def read_facts(artefact: Artefact, text: str) -> NetworkFacts:
    """Facts of a generated file; a missing statement leaves its field empty."""
    guard = _GUARD.search(text.replace("\\\n", " "))
    setters, infos = list(_SETTER.finditer(text)), list(_INFO.finditer(text))
    names = [match[2] for match in (*setters, *infos)]
    bodies = {match[1]: match[3] for match in setters}
    tensors = {match[1]: _tensors(text, match) for match in infos}
    flags = tuple(
        " ".join(f.replace("EpochBlock_Flags_", "").split()) for f in _FLAGS.findall(text)
    )
    working = [flag for flag in flags if "last_eb" not in flag]
    pools = _pools(text)
    return NetworkFacts(
        artefact,
        names[0] if names else artefact.path.stem,
        tuple(int(part) for part in guard.groups() if part) if guard else (),
        line_of(text, guard.start()) if guard else 1,
        pools,
        tensors.get("Input", ()),
        tensors.get("Output", ()),
        _user(bodies.get("Input")),
        _user(bodies.get("Output")),
        flags,
        "_ecblobs.h" in text or "EpochBlock_Flags_blob" in text,
        "LL_ATON_Cache_MCU_" in text,
        bool(working) and "pure_sw" in working[0],
        bool(working) and "pure_sw" in working[-1],
        _touched(text, pools),
    )


def _user(body: str | None) -> bool | None:
    if body is None:
        return None
    return "LL_ATON_User_IO_NOERROR" in body or "= buffer" in body


def _bytes(text: str) -> int | None:
    if text == "?":
        return None
    number, unit = text.split()
    return round(float(number) * {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[unit])


def _pools(text: str) -> tuple[Pool, ...]:
    used = {m[1]: _bytes(m[2]) for m in _POOL_USED.finditer(text)}
    return tuple(
        Pool(
            m[3], m[2], int(m[4], 16), int(m[5]), used.get(m[1]), "READ_ONLY" in m[6],
            "cacheable=ON" in m[6], "vpool" in m[6], line_of(text, m.start()),
        )
        for m in _POOL.finditer(text)
    )  # fmt: skip


def _touched(text: str, pools: tuple[Pool, ...]) -> tuple[tuple[int, int, str], ...]:
    found: dict[tuple[int, int], str] = {}
    for pool in pools:
        if pool.used and not pool.virtual:
            found[pool.base, pool.base + min(pool.used, pool.size or pool.used)] = pool.name
    if not found:
        for base, offset in _ADDRESS.findall(text):
            at = int(base, 16) + int(offset)
            found.setdefault((int(base, 16), at), "")
    return tuple((start, end, name) for (start, end), name in sorted(found.items()))


def _tensors(text: str, info: re.Match[str]) -> tuple[Tensor, ...]:
    found = []
    body = info[3]
    for match in _ENTRY.finditer(body):
        fields = dict(re.findall(r"\.(\w+) = ([^\n]*?),?(?:\n|$)", match[2] + "\n"))
        base = re.search(r"0x[0-9a-fA-F]+", fields.get("addr_base", ""))
        if fields.get("is_param", "0").startswith("1"):
            continue
        user = fields.get("is_user_allocated", "0").startswith("1") or (
            base is None and "user_io" in fields.get("addr_base", "")
        )
        start, end = _int(fields.get("offset_start")), _int(fields.get("offset_end"))
        address = None if user or base is None else int(base[0], 16) + start
        found.append(
            Tensor(
                match[1], info[1] == "Output", address, end - start,
                fields.get("type", "").removeprefix("DataType_"), _int(fields.get("nbits")),
                tuple(int(v) for v in _array(body, fields.get("shape", "")) if _WHOLE.fullmatch(v)),
                next((float(v) for v in _array(body, fields.get("scale", ""))), None),
                next(
                    (int(v) for v in _array(body, fields.get("offset", "")) if _WHOLE.fullmatch(v)),
                    None,
                ),
                line_of(text, info.start(3) + match.start()),
            )
        )  # fmt: skip
    return tuple(found)


_WHOLE = re.compile(r"-?\d{1,18}")


def _int(text: str | None) -> int:
    match = re.match(r"\d{1,18}(?!\d)", text or "")
    return int(match[0]) if match else 0


def _array(body: str, name: str) -> list[str]:
    if not name:
        return []
    match = re.search(rf"\b{re.escape(name.strip())}\[\]\s*=\s*\{{([^}}]*)\}}", body)
    return re.findall(r"-?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", match[1]) if match else []


MANY_SOFTWARE = 0.1
"""Share of software epochs above which the CPU is likely to set the time."""


def many_software(count: int, total: int) -> bool:
    """Whether software epochs are likely to set the time of a network of so many epochs."""
    return count > 1 and count / total > MANY_SOFTWARE


_STAI_RUN = re.compile(r"stai_(\w+)_run")


def on_npu(project: Project, run: str) -> bool:
    """Whether a call that runs a network surely runs it on the NPU.

    The stai interface is that of networks for the CPU too; the generated file of the network with
    this name tells.
    """
    match = _STAI_RUN.fullmatch(run)
    return match is None or any(facts.name == match[1] for facts in networks_of(project))


def networks_of(project: Project) -> tuple[NetworkFacts, ...]:
    """Facts of every generated network, equal copies once."""

    def make() -> tuple[NetworkFacts, ...]:
        found: dict[tuple[object, ...], NetworkFacts] = {}
        for _, facts in project.parsed(read_facts, Kind.NETWORK_C):
            key = (facts.name, facts.version, facts.pools, facts.inputs, facts.outputs, facts.flags)
            found.setdefault(key, facts)
        return tuple(found.values())

    return project.once("networks", make)
