"""Readers of .mpool, c_info.json and weight images: content, both spellings, hostile input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.artefacts.c_info import Where, read_c_info
from npuforge.artefacts.ihex import Segment, read_ihex, write_ihex
from npuforge.artefacts.mpool import read_mpool
from npuforge.artefacts.network_c import read_blobs
from npuforge.errors import ModelError

HAND = """{ // written by hand
  "params": {"param": [
    {"paramname": "max_onchip_sram_size", "value": "512", "magnitude": "KBYTES"}]},
  "memory": {
    "cacheinfo": [{"nlines": 512, "linesize": 64, "associativity": 8}],
    "mem_file_prefix": "mem", /* "http://x" */
    "mempools": [
      {"fname": "RAM", "name": "npu // ram", "fformat": "FORMAT_RAW",
       "prop": {"rights": "ACC_WRITE", "throughput": "HIGH", "latency": "LOW", "byteWidth": 8,
                "freqRatio": 1.25, "read_power": 18.5, "write_power": 16},
       "offset": {"value": "0x34200000", "magnitude": "BYTES"},
       "size": {"value": "448", "magnitude": "KBYTES"}},
      {"fname": "FLASH", "name": "flash",
       "prop": {"rights": "ACC_READ", "cacheable": "CACHEABLE_ON", "constants_preferred": "true"},
       "offset": {"value": "1792", "magnitude": "MBYTES"},
       "size": {"value": "16", "magnitude": "MBYTES"}}
    ]}}"""


def test_a_hand_written_pool_file() -> None:
    found = read_mpool(HAND.encode())
    ram, flash = found.pools
    assert (ram.name, ram.address, ram.size, ram.end) == (
        "npu // ram",
        0x34200000,
        448 << 10,
        0x34270000,
    )
    assert (ram.width, ram.ratio, ram.read_mw, ram.write_mw) == (8, 1.25, 18.5, 16.0)
    assert ram.writable
    assert not ram.cacheable
    assert (flash.address, flash.size) == (0x70000000, 16 << 20)
    assert (flash.writable, flash.cacheable, flash.constants_preferred) == (False, True, True)
    assert found.cache is not None
    assert (found.cache.lines, found.cache.line_bytes, found.cache.ways) == (512, 64, 8)
    assert found.parameters == (("max_onchip_sram_size", 512 << 10),)
    assert found.prefix == "mem"


def test_the_spelling_of_saved_files() -> None:
    pool = {
        "name": "any",
        "prop": {"readPower": 1.5, "writePower": 2.5, "constantsPreferred": False},
        "offset": {"value": "0", "magnitude": "BYTES"},
        "size": {"value": str(2**63 - 32), "magnitude": "BYTES"},
        "mode": "USEMODE_RELATIVE",
    }
    document: dict[str, Any] = {"memory": {"memFilePrefix": "p", "mempools": [pool]}}
    found = read_mpool(json.dumps(document).encode())
    assert (found.prefix, found.pools[0].read_mw, found.pools[0].absolute) == ("p", 1.5, False)
    assert found.cache is None
    pool["mode"] = "USEMODE_ABSOLUTE"
    with pytest.raises(ModelError, match=r"mempools\[0\]\.size"):
        read_mpool(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"448"', '"many"', "mempools[0].size.value"),
        ('"448", "magnitude": "KBYTES"', '"448", "magnitude": "ACRES"', "size.magnitude"),
        ('"ACC_READ"', '"ACC_SOME"', "mempools[1].prop.rights"),
        ('"freqRatio": 1.25', '"freqRatio": []', "prop.freqRatio"),
        ('"mempools": [', '"others": [', "memory.mempools"),
        ('"constants_preferred": "true"', '"constants_preferred": 3', "constants_preferred"),
        ("}}", "}", "$."),
    ],
)
def test_the_field_that_is_wrong_is_named(old: str, new: str, field: str) -> None:
    assert old in HAND
    with pytest.raises(ModelError) as caught:
        read_mpool(HAND.replace(old, new).encode(), "a.mpool")
    assert caught.value.code == "CMP-001"
    assert field in str(caught.value.params["field"])


def info() -> dict[str, Any]:
    return {
        "json_schema_version": "2.0",
        "environment": {
            "generated_model": {"name": "net"},
            "tools": [
                {
                    "name": "tool",
                    "version": "2.1",
                    "arguments": " go ",
                    "input_model": {"model_files": [{"name": "a.tflite"}]},
                }
            ],
        },
        "buffers": [
            {
                "id": 1,
                "name": "x",
                "mpool_id": 2,
                "offset_start": 64,
                "size_bytes": 12,
                "shape": [1, 3, 2, 2],
                "batch": 3,
                "channel_first": False,
                "channel_last": True,
                "format": "STAI_FORMAT_S8",
                "nbits": 8,
                "intq": {"axis": -1, "offsets": [-1], "scales": [0.5]},
                "is_param": False,
                "epochs": {"start": 0, "end": 4},
            }
        ],
        "memory_pools": [
            {
                "id": 2,
                "name": "ram",
                "address": "875429888",
                "size_bytes": 100,
                "rights": "ACC_WRITE",
                "cacheable": "CACHEABLE_ON",
                "attributes": {"byte_width": 8, "freq_ratio": 1.25},
                "subpools": [],
                "buffers": [1],
            }
        ],
        "graphs": [
            {
                "inputs": [1],
                "outputs": [1],
                "nodes": [
                    {
                        "id": 7,
                        "name": "epoch_4",
                        "mapping": "NODE_EC",
                        "description": "Epoch Controller _ec_blob_3",
                        "inputs": [1],
                        "outputs": [1],
                        "macc": 9,
                        "subgraph_nodes": [{"name": "c", "description": "Node kind=Conv"}],
                    }
                ],
            }
        ],
        "power_estimates": [{"node_id": 7, "ops": 3, "compute_cycles": 5, "max_cycles": 6}],
        "memory_accesses": [{"node_id": 7, "mpool_id": 2, "reads": 10, "write_cycles": 4}],
        "memory_footprint": {"activations": 100, "weights": 50},
    }


def test_a_report() -> None:
    found = read_c_info(json.dumps(info()).encode())
    (buffer,), (pool,), (epoch,) = found.buffers, found.pools, found.epochs
    assert found.address_of(buffer) == 875429888 + 64
    assert (buffer.shape, buffer.scales, buffer.offsets) == ((1, 3, 2, 2), (0.5,), (-1,))
    assert (buffer.first_epoch, buffer.last_epoch) == (0, 4)
    assert (pool.ratio, pool.cacheable, pool.buffers) == (1.25, True, (1,))
    assert (epoch.number, epoch.where, epoch.blob) == (4, Where.BLOB, "_ec_blob_3")
    assert (epoch.operators[0].name, epoch.operators[0].kind, epoch.macs) == ("c", "Conv", 9)
    assert (found.estimates[0].operations, found.estimates[0].cycles) == (3, 6)
    assert (found.accesses[0].read_bytes, found.accesses[0].write_cycles) == (10, 4)
    assert (found.network, found.models, found.tools[0]) == (
        "net",
        ("a.tflite",),
        ("tool", "2.1", "go"),
    )
    assert (found.activations, found.weights) == (100, 50)


@pytest.mark.parametrize("address", ["", "NULL", "g_network_weights_array"])
def test_pools_that_something_else_places(address: str) -> None:
    """Inputs left to the application, and the pools of networks of a CPU."""
    document = info()
    document["memory_pools"][0]["address"] = address
    found = read_c_info(json.dumps(document).encode())
    assert found.pools[0].address is None
    assert found.address_of(found.buffers[0]) is None
    document["memory_pools"][0]["address"] = "0x3g"
    with pytest.raises(ModelError):
        read_c_info(json.dumps(document).encode())


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_damaged_reports_are_refused_or_read(data: st.DataObject) -> None:
    """Any value of the report may be replaced by any other: an error names a field, or it reads."""
    document: Any = info()
    node, steps = document, 0
    while isinstance(node, dict | list) and node and steps < 6:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        steps += 1
        if not isinstance(node[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            node[key] = data.draw(
                st.sampled_from(
                    [None, True, -1, 1.5, "x", "0x10", [], {}, [None], [[]], [{}], "9" * 40]
                )
            )
            break
        node = node[key]
    try:
        read_c_info(json.dumps(document).encode())
    except ModelError as error:
        assert error.code == "CMP-001"  # noqa: PT017
        assert str(error.params["field"]).startswith("$")  # noqa: PT017


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=90)), min_size=1, max_size=5
    ),
    st.integers(1, 255),
)
def test_images_survive_both_ways(parts: list[tuple[int, bytes]], width: int) -> None:
    at, segments = 0xFFF0, []
    for gap, data in parts:
        at += gap + 1
        segments.append(Segment(at, data))
        at += len(data)
    assert read_ihex(write_ihex(segments, width)) == tuple(segments)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (":0100000041BE\n:00000001FF\n:00000001FF", 3),
        (":0100000041BF\n:00000001FF", 1),
        (":0200000041BD\n:00000001FF", 1),
        ("0100000041BE", 1),
        (":01000000zzBE", 1),
        (":0100000041BE\n:0000000AF6", 2),
        (":0100000041BE", 1),
        (":0100000041BE\n:0100000042BD\n:00000001FF", 0),
    ],
)
def test_damaged_images_name_the_line(text: str, line: int) -> None:
    with pytest.raises(ModelError) as caught:
        read_ihex(text.encode())
    assert (caught.value.code, caught.value.params["line"]) == ("CMP-002", line)


def test_an_encrypted_program_is_refused() -> None:
    header = (
        "static const uint64_t _ec_blob_1[] = {{ 0x1 }};\n"
        "static const uint64_t _ec_blob_11[] = {{ 0x2 }};"
        "\n#define MustDecryptBlob_Default__ec_blob_1 false"
        "\n#define MustDecryptBlob_Default__ec_blob_11 {}\n"
    )
    plain = read_blobs(header.format("false").encode())
    assert plain == {"_ec_blob_1": b"\1" + bytes(7), "_ec_blob_11": b"\2" + bytes(7)}
    with pytest.raises(ModelError) as error:
        read_blobs(header.format("true").encode())
    assert (error.value.code, error.value.params["blob"]) == ("CMP-005", "_ec_blob_11")
