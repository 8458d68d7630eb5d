"""Whole compiled networks from generated C: blobs, descriptors in clear, CPU epochs, relocation."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.aton.networks import (
    FLASH,
    PROGRAM,
    RAM,
    SCALE,
    ZERO,
    constants,
    words_of,
    write_network,
)

from npuforge import api
from npuforge.artefacts.c_values import calls, definitions, without_comments
from npuforge.artefacts.ec_blob import read_blob, relocated, relocations, write_blob
from npuforge.artefacts.ihex import Segment, write_ihex
from npuforge.artefacts.network_c import read_blobs, read_network_c
from npuforge.aton import assemble
from npuforge.aton.check import check_program
from npuforge.aton.compiled import Kind
from npuforge.aton.execute import run_program
from npuforge.aton.load import load_compiled
from npuforge.errors import ModelError, UsageError
from npuforge.vocab import Severity

INPUT = np.array([-128, -3, -1, 0, 1, 2, 42, 127], np.int8)


def scaled(factors: np.ndarray) -> np.ndarray:
    """(factor * x + 2) / 2, halves away from zero, int8."""
    exact = (factors * INPUT.astype(np.float64) + 2) / 2
    return np.clip(np.sign(exact) * np.floor(np.abs(exact) + 0.5), -128, 127).astype(np.int8)


def test_what_is_read(tmp_path: Path) -> None:
    network = load_compiled(write_network(tmp_path))
    assert (network.name, network.version, network.model) == ("tiny", "1.1.0", "tiny")
    assert [(r.name, r.address, r.size, r.writable) for r in network.regions] == [
        ("npuRAM5", RAM, 4096, True),
        ("octoFlash", FLASH, 65536, False),
    ]
    assert [(s.kind, s.number) for s in network.steps] == [(Kind.HARDWARE, 2), (Kind.SOFTWARE, 3)]
    assert network.images == (Segment(FLASH, constants()),)
    (x,), (z,) = network.inputs, network.outputs
    assert (x.name, x.address, x.size, x.scales, x.offsets) == ("x", RAM, 8, (SCALE,), (ZERO,))
    assert (z.name, z.address, z.real, z.epoch) == ("z", RAM + 64, True, 3)
    (before,), (after,) = network.steps[1].before, network.steps[1].after
    assert (before.invalidate, before.clean, before.address, before.size) == (
        True,
        False,
        RAM + 32,
        32,
    )
    assert (after.invalidate, after.clean, after.address) == (False, True, RAM + 64)
    assert [work.kind for work in network.steps[1].work] == ["DequantizeLinear"]


@pytest.mark.parametrize("clear", [False, True])
def test_both_forms_compute_the_same(tmp_path: Path, clear: bool) -> None:
    network = load_compiled(write_network(tmp_path, clear=clear))
    run = run_program(network, {"x": INPUT.tobytes()}, capture=True)
    wanted = scaled(np.full(8, 3))
    assert np.frombuffer(run.buffers["y"], np.int8).tolist() == wanted.tolist()
    real = (wanted.astype(np.float32) - ZERO) * np.float32(SCALE)
    assert np.frombuffer(run.outputs["z"], "<f4").tolist() == real.tolist()
    (epoch,) = run.epochs
    assert [(link.source, link.destination, link.elements) for link in epoch.links] == [
        ("ARITH0", "STRENG1", 8),
        ("STRENG0", "ARITH0", 8),
    ]
    assert [(t.engine, t.write, t.moved) for t in epoch.transfers] == [
        ("STRENG0", False, 8),
        ("STRENG1", True, 8),
    ]


def test_coefficients_come_from_the_weight_image(tmp_path: Path) -> None:
    network = load_compiled(write_network(tmp_path, clear=True, vector=True))
    run = run_program(network, {"x": INPUT.tobytes()}, capture=True)
    wanted = scaled(np.arange(3, 11))
    assert np.frombuffer(run.buffers["y"], np.int8).tolist() == wanted.tolist()
    (tmp_path / "tiny_atonbuf.xSPI2.raw").write_bytes(b"\0" * 4)
    with pytest.raises(ModelError, match="ATN-012"):
        load_compiled(tmp_path)


def test_a_hex_image_and_a_named_file(tmp_path: Path) -> None:
    write_network(tmp_path)
    (tmp_path / "tiny_atonbuf.xSPI2.raw").unlink()
    (tmp_path / "tiny_data.hex").write_bytes(write_ihex((Segment(FLASH, constants()),)))
    assert load_compiled(tmp_path).images == (Segment(FLASH, constants()),)
    (tmp_path / "tiny_data.hex").write_bytes(b"")
    assert load_compiled(tmp_path).images == ()
    other = tmp_path / "elsewhere.hex"
    other.write_bytes(write_ihex((Segment(FLASH, constants()[::-1]),)))
    assert load_compiled(tmp_path / "tiny.c", [other]).images[0].data == constants()[::-1]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    folder = write_network(tmp_path / "a")
    (folder / "tiny_ecblobs.h").unlink()
    hollow = load_compiled(folder)
    assert hollow.absent == ("_ec_blob_tiny_2",)
    with pytest.raises(ModelError, match="_ec_blob_tiny_2"):
        run_program(hollow, {"x": INPUT.tobytes()})
    assert [(f.code, f.severity) for f in check_program(hollow)] == [("ATC-024", Severity.WARNING)]
    assert api.aton_document(folder)["missing"] == {"constants": [], "blobs": ["_ec_blob_tiny_2"]}
    with pytest.raises(ModelError, match="CMP-004"):
        load_compiled(tmp_path)
    with pytest.raises(UsageError):
        load_compiled(tmp_path / "absent.c")
    network = load_compiled(write_network(tmp_path / "b"))
    with pytest.raises(ModelError, match="ATN-014"):
        run_program(network, {})
    with pytest.raises(ModelError, match="ATN-014"):
        run_program(network, {"x": b"123"})


def test_run_from_the_interface(tmp_path: Path) -> None:
    folder, data, out = write_network(tmp_path / "n"), tmp_path / "x.npy", tmp_path / "o.npz"
    np.save(data, INPUT)
    document = api.aton_run(folder, [data], output=out)
    assert document["hardware_epochs"] == 1
    with np.load(out) as held:
        assert held["y"].ravel().tolist() == scaled(np.full(8, 3)).tolist()
    traced = api.aton_run(folder, [data], trace=True)["epochs"][0]
    assert traced["pools"] == {"npuRAM5": {"read": 8, "written": 8}}
    assert traced["ports"] == {"0": 16, "1": 0}
    with pytest.raises(UsageError):
        api.aton_run(folder, [data, data])
    with pytest.raises(UsageError):
        api.aton_run(folder, [tmp_path / "absent.npy"])
    with pytest.raises(UsageError):
        api.aton_run(folder, [data], output=out)


def relocatable(program: bytes, magic: int, header: int) -> bytes:
    """A blob behind a relocation table with one symbol at instruction words 2 and 6."""
    table = struct.pack("<6I", 1, 24, 2, 16, 2, 6) + b"_user_io_output_0\0".ljust(20, b"\0")
    words = [magic, header, 0, 0, 0, 0]
    words[4 if magic == 0xECBF0050 else 3] = header + len(table)
    return struct.pack(f"<{header // 4}I", *words[: header // 4]) + table + program


@pytest.mark.parametrize(("magic", "header"), [(0xECBF0050, 24), (0xECBF0020, 16)])
def test_relocation(magic: int, header: int) -> None:
    text = "label 1\n write STRENG0.ADDR 0x10\n write STRENG0.LIMIT 0x1\n load STRENG1.ADDR 7 8 9\n"
    plain = write_blob(assemble(text))
    data = relocatable(plain, magic, header)
    (found,) = relocations(data)
    assert found.symbol == "_user_io_output_0"
    items = read_blob(relocated(data, {"_user_io_output_0": 0xA0000000})).instructions
    before = read_blob(data).instructions
    changed = [
        (was.values, now.values) for was, now in zip(before, items, strict=True) if was != now
    ]
    assert changed == [((0x10,), (0xA0000010,)), ((7, 8, 9), (0xA0000007, 8, 9))]
    assert relocated(data, {}) == data
    assert relocations(plain) == ()
    for cut in range(8, len(data) - len(plain), 4):
        try:
            relocations(data[:cut])
        except ModelError as error:
            assert error.code == "ATN-001"  # noqa: PT017


C = """
#define X(y) y
static const uint32_t shape[] = { 1, 0x10UL, 010 };
static const float scale[] = { 0.5, 1e-3f, -2 };
struct thing { int a; };
static const Info infos[] = {
  { .a.b = 3, .name = "a\\"b" "c", .p = shape, .flags = A | B, .pads = {1, 2} },
  { .a.b = -1, .addr = {(unsigned char *)(PHYS(0x100UL + 28))}, .q = &other },
};
void f(void) { Call(1, &infos[0], (short)-2, g(1, 2)); /* Call(9) */ }
"""


def test_values_of_initialisers() -> None:
    text = without_comments(C)
    found = {item.name: item.value for item in definitions(text, "c")}
    assert found["shape"] == (1, 16, 8)
    assert found["scale"] == (0.5, 1e-3, -2.0)
    first, second = found["infos"]
    assert first.integer("a.b") == 3
    assert first.text("name") == 'a\\"bc'
    assert first.text("p") == "shape"
    assert first.get("pads") == (1, 2)
    assert second.get("addr") == (0x11C,)
    assert second.text("q") == "other"
    (call,) = calls(text, "c", "Call")
    assert (call.arguments[0], call.arguments[2]) == (1, -2)
    assert text.count("\n") == C.count("\n")


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_code_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "hostile"
    if not folder.is_dir():
        write_network(folder, clear=True, vector=True)
    text = bytearray((folder / "tiny.c").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        cut = data.draw(st.integers(0, 30))
        text[at : at + cut] = data.draw(st.sampled_from([b"", b"{", b"}", b"(", b",", b'"', b"/*"]))
    try:
        read_network_c(bytes(text))
    except ModelError as error:
        assert error.code in ("CMP-003", "CMP-004")  # noqa: PT017


def test_deep_nesting_is_refused() -> None:
    hostile = "EpochBlock_ItemTypeDef x = " + "{" * 100_000
    with pytest.raises(ModelError, match="CMP-003"):
        list(definitions(hostile, "c"))
    with pytest.raises(ModelError, match="CMP-003"):
        list(calls("; LL_X(" + "(" * 100_000, "c", "LL_X"))


@pytest.mark.parametrize("suffix", ["_reloc", "_binary", "_binary_reloc"])
def test_relocatable_programs_have_arrays_of_their_own_names(suffix: str) -> None:
    words = words_of(write_blob(assemble(PROGRAM)))
    plain = read_blobs(words.encode())
    renamed = words.replace("_ec_blob_tiny_2 []", f"_ec_blob_tiny_2{suffix} []")
    assert renamed != words
    assert read_blobs(renamed.encode()) == plain


def test_an_encrypted_program_is_refused_by_name() -> None:
    words = words_of(write_blob(assemble(PROGRAM)))
    guarded = f"#define MustDecryptBlob_tiny__ec_blob_tiny_2 true\n{words}"
    with pytest.raises(ModelError, match=r"CMP-005.*_ec_blob_tiny_2"):
        read_blobs(guarded.encode())
    assert read_blobs(guarded.replace(" true", " false").encode()) == read_blobs(words.encode())


def test_the_guard_states_the_version(tmp_path: Path) -> None:
    path = write_network(tmp_path) / "tiny.c"
    guard = (
        "#if (LL_ATON_VERSION_MAJOR != 1) || (LL_ATON_VERSION_MINOR != 1) || "
        "(LL_ATON_VERSION_MICRO != 3)\n#error no\n#endif\n"
    )
    path.write_text(guard + path.read_text())
    assert load_compiled(path).version == "1.1.3"


def test_constants_without_an_image_are_named(tmp_path: Path) -> None:
    network = load_compiled(write_network(tmp_path))
    assert not network.lacking
    weights = replace(network.buffers[0], name="w", address=FLASH + 4096, parameter=True, epoch=0)
    hollow = replace(network, buffers=(*network.buffers, weights))
    assert hollow.lacking == (weights,)
    with pytest.raises(ModelError, match=r"ATN-017.*w"):
        run_program(hollow, {"x": INPUT.tobytes()})
    (found,) = [f for f in check_program(hollow) if f.code == "ATC-020"]
    assert found.severity is Severity.WARNING
    assert not [f for f in check_program(network) if f.code == "ATC-020"]


def test_a_program_that_names_few_of_its_buffers_is_not_blamed(tmp_path: Path) -> None:
    """Compilers describe inner buffers only on request: what is not described is not wrong."""
    path = write_network(tmp_path) / "tiny.c"
    text = path.read_text()
    assert load_compiled(path).described
    path.write_text(text.replace(" * --all-buffers-info = true\n", ""))
    network = load_compiled(path)
    assert not network.described
    # the one description of the written epoch lies elsewhere
    moved = tuple(
        replace(b, address=b.address + 64) if b.epoch == 2 else b for b in network.buffers
    )
    assert not check_program(replace(network, buffers=moved))
    blamed = check_program(replace(network, buffers=moved, described=True))
    assert "ATC-015" in {f.code for f in blamed}


def test_the_second_inference_finds_what_the_first_left_in_the_cache(tmp_path: Path) -> None:
    """The CPU reads a buffer the NPU wrote: without an invalidate only the second run is stale."""
    network = load_compiled(write_network(tmp_path))
    assert not [f for f in check_program(network) if f.code == "ATC-019"]
    hardware, cpu = network.steps
    careless = replace(network, steps=(hardware, replace(cpu, before=())))
    stale = [f for f in check_program(careless) if f.code == "ATC-019"]
    assert [f.epoch for f in stale] == [3]


def with_constants(text: str, size: int) -> str:
    """Code whose last table also names the constants."""
    entry = (
        '    { .name = "w", .addr_base = {(unsigned char *)(0x71000000UL)}, .offset_start = 0,\n'
        f"      .offset_end = {size}, .is_param = 1, .epoch = 0, .batch = 1, .nbits = 8, }},\n"
    )
    head, end, tail = text.rpartition("    { .name = NULL, }")
    return head + entry + end + tail


def test_cache_calls_of_the_first_compilers(tmp_path: Path) -> None:
    """They are named otherwise, and their second operand is the end of the range."""
    path = write_network(tmp_path) / "tiny.c"
    text = path.read_text()
    old = text.replace(
        "LL_ATON_Cache_MCU_Invalidate_Range(((uintptr_t)(PHYSICAL(0x342e0000UL + 32))) "
        "/* hex */, 32)",
        "mcu_cache_invalidate_range((uintptr_t)PHYSICAL(0x342e0000UL + 32), "
        "(uintptr_t)PHYSICAL(0x342e0000UL + 64))",
    )
    assert old != text
    wanted = [(step.before, step.after) for step in load_compiled(path).steps]
    path.write_text(old)
    assert [(step.before, step.after) for step in load_compiled(path).steps] == wanted


@pytest.mark.parametrize("name", ["flash_me.bin", "Binary/board_network_data.hex"])
def test_an_image_under_another_name_is_known_by_its_length(tmp_path: Path, name: str) -> None:
    folder = write_network(tmp_path / "Model")
    source, image = folder / "tiny.c", folder / "tiny_atonbuf.xSPI2.raw"
    data = image.read_bytes()
    image.unlink()
    source.write_text(with_constants(source.read_text(), len(data)))
    assert load_compiled(source).lacking
    place = tmp_path / name if "/" in name else folder / name
    place.parent.mkdir(exist_ok=True)

    def content(held: bytes) -> bytes:
        return write_ihex([Segment(FLASH, held)]) if place.suffix == ".hex" else held

    place.write_bytes(content(data))
    assert load_compiled(source).images == (Segment(FLASH, data),)
    place.write_bytes(content(data + b"\0" * 65))
    assert load_compiled(source).lacking
    place.write_bytes(content(data))
    (folder / "other.bin").write_bytes(bytes(len(data)))  # as long, but not the same
    assert load_compiled(source).lacking
