"""The published planning set: every instance is read, planned and verified."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from npuforge.artefacts.planning_instance import (
    InstanceBuffer,
    PoolRow,
    read_buffers,
    read_pools,
    write_buffers,
    write_pools,
)
from npuforge.errors import ModelError, PlanError
from npuforge.memory.instances import address_clocks, instance_pieces
from npuforge.memory.packing import Effort
from npuforge.memory.pools import pack_rooms
from npuforge.memory.verify_packing import verify_rooms

SET = Path(__file__).parents[2] / "benchmarks" / "planning"
INDEX = list(csv.DictReader((SET / "index.csv").open(newline="", encoding="utf-8")))
QUICK = Effort(tries=0, limited=False, nodes=0)


def read(row: dict[str, str]) -> tuple[tuple[PoolRow, ...], tuple[InstanceBuffer, ...]]:
    memory = (SET / "memories" / f"{row['memory']}.csv").read_text(encoding="utf-8")
    buffers = (SET / "instances" / f"{row['instance']}.csv").read_text(encoding="utf-8")
    return read_pools(memory), read_buffers(buffers)


def test_set_is_complete() -> None:
    assert len(INDEX) >= 30
    files = {path.stem for path in (SET / "instances").iterdir()}
    assert files == {row["instance"] for row in INDEX}
    found = [buffer for row in INDEX for buffer in read(row)[1]]
    pools = [pool for row in INDEX for pool in read(row)[0]]
    assert any(b.view_of for b in found)
    assert any(b.fixed is not None for b in found)
    assert any(p.reserved for p in pools)
    assert len({b.alignment for b in found}) > 3
    assert len({b.reach for b in found}) > 3


@pytest.mark.parametrize("row", INDEX, ids=lambda row: row["instance"])
def test_instance_is_planned(row: dict[str, str]) -> None:
    pools, buffers = read(row)
    assert len(buffers) == int(row["buffers"])
    assert read_pools(write_pools(pools)) == pools
    assert read_buffers(write_buffers(buffers)) == buffers
    pieces, rooms = instance_pieces(pools, buffers)
    plan = pack_rooms(pieces, rooms, QUICK)
    verify_rooms(pieces, rooms, plan.places)
    assert plan.clocks >= plan.least_clocks * (1 - 1e-9)
    base = {pool.name: pool.base for pool in pools}
    addresses = {name: base[place.room] + place.offset for name, place in plan.places.items()}
    assert address_clocks(pools, buffers, addresses) == pytest.approx(plan.clocks)
    if row["compiler_clocks"]:
        # a bound that a real placement undercuts would be none
        assert float(row["compiler_clocks"]) >= plan.least_clocks * (1 - 1e-6)


FAST = PoolRow("fast", 0x1000, 64, 0.5, ("cpu", "npu"))


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("id,lower,upper,size\na,0,x,4\n", "upper"),
        ("id,lower,upper,size\na,4,4,4\n", "upper"),
        ("id,lower,upper,size\na,0,1,-4\n", "size"),
        ("id,lower,upper,size\na,0,1,99999999999999999999\n", "size"),
        ("id,lower,upper,size\na,0,1,4\na,1,2,4\n", "id"),
        ("id,lower,upper,size,view_of\na,0,1,4,b\n", "view_of"),
        ("id,lower,upper,size,fixed\na,0,1,4,0\n", "fixed"),
        ("id,lower,upper,size,alignment\na,0,1,4,0\n", "alignment"),
        ("id,lower,size\na,0,4\n", "upper"),
    ],
)
def test_wrong_buffers(text: str, column: str) -> None:
    with pytest.raises(ModelError, match=column):
        read_buffers(text)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("a,0,64,nan,,", "clocks_per_byte"),
        ("a,0,64,-1,,", "clocks_per_byte"),
        ("a,0,64,1,,8-8", "reserved"),
        ("a,0,64,1,,8", "reserved"),
        (",0,64,1,,", "name"),
    ],
)
def test_wrong_pools(row: str, column: str) -> None:
    with pytest.raises(ModelError, match=column):
        read_pools(f"name,base,size,clocks_per_byte,reach,reserved\n{row}\n")


def test_reach_and_alignment() -> None:
    with pytest.raises(PlanError, match="room"):
        instance_pieces([FAST], [InstanceBuffer("a", 0, 1, 4, reach=("dma",))])
    with pytest.raises(PlanError, match="multiple of 8192"):
        instance_pieces([FAST], [InstanceBuffer("a", 0, 1, 4, 8192)])
    with pytest.raises(PlanError):
        address_clocks([FAST], [InstanceBuffer("a", 0, 1, 4)], {"a": 0x1000 + 62})
