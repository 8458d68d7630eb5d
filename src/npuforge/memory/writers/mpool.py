"""Memory pools for ST's compiler, and the profile that names them.

The pools are what a layout leaves to the networks, so that the compiler cannot place a buffer where
the program has a stack or a frame. Fields as in ``npuforge.artefacts.mpool``; classes and powers
are those of the stock pools in ST's getting-started projects.
"""

from __future__ import annotations

import json
from typing import Any

from npuforge.memory.layout import SystemLayout
from npuforge.memory.system import Account
from npuforge.targets import Pool, Reach, Use

_POWER = {
    "flexMEM": (9.38, 8.57), "cpuRAM1": (16.6, 14.5), "cpuRAM2": (17.3, 15.3),
    "npuRAM3": (18.5, 16.2), "npuRAM4": (18.5, 16.2), "npuRAM5": (18.5, 16.2),
    "npuRAM6": (19.0, 15.8), "hyperRAM": (380.0, 340.0), "octoFlash": (110.0, 400.0),
}  # fmt: skip
"""Milliwatts while reading and writing, from ST's stock pool files."""

_FILE = {"flexMEM": "AXIFLEXMEM", "cpuRAM1": "AXISRAM1", "cpuRAM2": "AXISRAM2",
         "npuRAM3": "AXISRAM3", "npuRAM4": "AXISRAM4", "npuRAM5": "AXISRAM5",
         "npuRAM6": "AXISRAM6", "hyperRAM": "xSPI1", "octoFlash": "xSPI2"}  # fmt: skip

OPTIONS = (
    "-O3 --all-buffers-info --mvei --cache-maintenance --Oalt-sched --native-float "
    "--enable-virtual-mem-pools --Omax-ca-pipe 4 --Ocache-opt --Os --enable-epoch-controller"
)
"""Compiler options of ST's example applications."""


def npu_ranges(layout: SystemLayout) -> dict[str, tuple[int, int]]:
    """First and end address of what the NPU may use of every pool; equal where it may use nothing.

    From the first address that nothing else has to the first one that something else has.
    """
    mine = (Account.WEIGHTS, Account.ACTIVATIONS)
    found = {}
    for pool in layout.target.pools:
        start, end = pool.base, pool.end
        if Reach.NPU not in pool.reach or pool.use is Use.SYSTEM:
            end = start
        if pool.use is Use.WEIGHTS and layout.boot.weights:
            start = layout.boot.weights
        for block in layout.blocks:
            if block.account not in mine and start < block.end and block.address < end:
                end = max(start, block.address)
        found[pool.name] = (start, end)
    return found


def mpool_document(layout: SystemLayout) -> dict[str, Any]:
    """The content of the ``.mpool`` file."""
    ranges = npu_ranges(layout)
    return {
        "memory": {
            "cacheinfo": [
                {
                    "nlines": 512,
                    "linesize": 64,
                    "associativity": 8,
                    "bypass_enable": 1,
                    "prop": _prop("HIGH", 8, 2.5, False, (13.6, 12.6)),
                }
            ],
            "mem_file_prefix": "atonbuf",
            "mempools": [_pool(pool, *ranges[pool.name]) for pool in layout.target.pools],
        }
    }


def _pool(pool: Pool, start: int, end: int) -> dict[str, Any]:
    speed = "LOW" if pool.external else "HIGH" if pool.clocks_per_byte < 0.2 else "MID"
    prop = _prop(speed, pool.width, pool.ratio, pool.external, _POWER.get(pool.name, (0.0, 0.0)))
    prop["rights"] = "ACC_WRITE" if pool.writable else "ACC_READ"
    if not pool.writable:
        prop["constants_preferred"] = "true"
    return {
        "fname": _FILE.get(pool.name, pool.name),
        "name": pool.name,
        "fformat": "FORMAT_RAW",
        "prop": prop,
        "offset": {"value": f"{start:#010x}", "magnitude": "BYTES"},
        "size": {"value": str(end - start), "magnitude": "BYTES"},
    }


def _prop(
    speed: str, width: int, ratio: float, cacheable: bool, power: tuple[float, float]
) -> dict[str, Any]:
    return {
        "rights": "ACC_WRITE",
        "throughput": speed,
        "latency": {"HIGH": "LOW", "MID": "MID", "LOW": "HIGH"}[speed],
        "byteWidth": width,
        "freqRatio": ratio,
        "cacheable": "CACHEABLE_ON" if cacheable else "CACHEABLE_OFF",
        "read_power": power[0],
        "write_power": power[1],
    }


def mpool_file(layout: SystemLayout) -> bytes:
    """The ``.mpool`` file."""
    return (json.dumps(mpool_document(layout), indent=2) + "\n").encode()


def profile_file(pool_file: str) -> bytes:
    """``neural_art.json``: a profile named ``default`` that names the pools.

    Args:
        pool_file: the ``.mpool`` file, relative to the profile.
    """
    entry = {"memory_pool": pool_file, "options": OPTIONS}
    document = {"Globals": {}, "Profiles": {"default": entry}}
    return (json.dumps(document, indent=2) + "\n").encode()
