"""Hot loops of the simulator against plain integer formulas, and against published unit vectors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.aton import arithmetic
from npuforge.aton.arithmetic import Features
from npuforge.aton.program import Pattern, Unit
from npuforge.aton.registers import UNITS, fields_of
from npuforge.aton.streams import Memory, Stream, read_stream, write_stream
from npuforge.errors import ModelError

BASE = 0x34000000


def unit(
    name: str, fields: dict[str, int], table: dict[int, tuple[int, int]] | None = None
) -> Unit:
    """A unit with some register fields set."""
    words: dict[int, int] = {}
    for field, value in fields.items():
        fields_of(name.rstrip("0123456789"))[field].put(words, value)
    return Unit(UNITS.index(name), words, table or {})


def half_away(value: int, shift: int) -> int:
    """value / 2**shift, halves away from zero, by integer division."""
    if shift == 0:
        return value
    sign = -1 if value < 0 else 1
    return sign * ((2 * abs(value) + (1 << shift)) // (2 << shift))


def limited(value: int, bits: int) -> int:
    return max(-(1 << bits - 1), min((1 << bits - 1) - 1, value))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_products_are_exact(data: st.DataObject) -> None:
    height, width, batch = (data.draw(st.integers(1, top)) for top in (5, 6, 7))
    high, wide = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
    down, across = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    count, frames = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 3))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    x = rng.integers(-383, 384, (2, height, width, batch)).astype(np.int32)
    weights = rng.integers(-128, 128, (frames, count, high * wide * batch)).astype(np.int8)
    index = rng.integers(0, 2, frames)
    conv = unit(
        "CONVACC1",
        {
            "KFORMAT.HEIGHT": high,
            "KFORMAT.WIDTH": wide,
            "KFORMAT.BTCDEPTH": batch,
            "SAMPLE.VSTRD": down,
            "SAMPLE.HSTRD": across,
        },
    )
    flat = np.append(x.ravel(), 0).astype(np.int16)
    features = Features(flat, (height, width, batch), index, 383)
    made = arithmetic.products(1, conv, features, weights)
    rows, columns = (height - high) // down + 1, (width - wide) // across + 1
    kernel = weights.reshape(frames, count, high, wide, batch).astype(np.int64)
    wanted = np.zeros((frames, rows, columns, count), np.int64)
    for j in range(frames):
        for y in range(rows):
            for c in range(columns):
                window = x[index[j], y * down : y * down + high, c * across : c * across + wide]
                wanted[j, y, c] = (kernel[j] * window).sum(axis=(1, 2, 3))
    assert np.array_equal(made, wanted.reshape(frames, -1))


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_features_are_cropped_framed_and_padded(data: st.DataObject) -> None:
    draw = data.draw
    height, width, batch = (draw(st.integers(1, top)) for top in (6, 6, 4))
    size, unsigned = draw(st.integers(1, 2)), draw(st.integers(0, 1))
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    bottom, right = draw(st.integers(top, height - 1)), draw(st.integers(left, width - 1))
    frame = [draw(st.integers(0, 2)) for _ in range(4)]
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    subtract, fill = draw(st.integers(-40, 40)), draw(st.integers(-300, 300))
    conv = unit(
        "CONVACC0",
        {
            "KFORMAT.BTCDEPTH": batch,
            "FFORMAT.WIDTH": width * batch,
            "FFORMAT.HEIGHT": height,
            "DFORMAT.FBYTES": size,
            "CTRL.FUNSIGNED": unsigned,
            "FSUB.FSUB": subtract,
            "FHCROP.LEFT": left * batch,
            "FHCROP.RIGHT": right * batch,
            "FVCROP.TOP": top,
            "FVCROP.BOTTOM": bottom,
            "ZFBIAS.ZFBIAS": fill,
            **{f"SAMPLE.{side}PAD": pad for side, pad in zip("TBLR", pads, strict=True)},
            "ZFRAME.TOP": frame[0],
            "ZFRAME.BOTTOM": frame[1],
            "ZFRAME.LEFT": frame[2] * batch,
            "ZFRAME.RIGHT": frame[3] * batch,
        },
    )
    rng = np.random.default_rng(height * width)
    low, high = (0, 200) if unsigned else (-100, 100)
    x = rng.integers(low, high, (2, height, width, batch)).astype(np.int32)
    made = arithmetic.features(1, conv, Stream(x.reshape(2, -1), np.array([1, 0, 1])))
    last = right if right * batch else width - 1  # 0 does not crop
    wanted = []
    for picture in x:
        rows = picture[top : bottom + 1, left : last + 1].astype(np.int64) - subtract
        for sides, value in ((frame, fill), (pads, 0)):
            if any(sides):
                steps = ((sides[0], sides[1]), (sides[2], sides[3]), (0, 0))
                rows = np.pad(rows, steps, constant_values=value)
        wanted.append(rows)
    assert made.flat[:-1].reshape(2, *made.shape).tolist() == np.array(wanted).tolist()
    assert made.index.tolist() == [1, 0, 1]
    assert made.most >= int(np.abs(wanted).max())


def test_values_beyond_16_bits_are_refused() -> None:
    conv = unit(
        "CONVACC0",
        {"KFORMAT.BTCDEPTH": 1, "FFORMAT.WIDTH": 2, "FFORMAT.HEIGHT": 1, "DFORMAT.FBYTES": 2}
        | {"CTRL.FUNSIGNED": 1, "CTRL.KUNSIGNED": 1, "KFORMAT.NR": 1, "KFORMAT.WIDTH": 1}
        | {"KFORMAT.HEIGHT": 1, "SAMPLE.VSTRD": 1, "SAMPLE.HSTRD": 1, "FHCROP.RIGHT": 1},
    )
    with pytest.raises(ModelError, match="31 bits"):
        arithmetic.features(1, conv, Stream(np.array([[40000, 1]], np.int32)))
    small = arithmetic.features(1, conv, Stream(np.array([[1, 2]], np.int32)))
    heavy = arithmetic.kernels(1, conv, Stream(np.array([[40000]], np.int32)), 1)
    with pytest.raises(ModelError, match="31 bits"):
        arithmetic.products(1, conv, small, heavy)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.integers(-(2**30), 2**30), min_size=1, max_size=20)
    | st.lists(st.integers(-(2**17), 2**17), min_size=1, max_size=50),
    st.integers(0, 40),
    st.integers(0, 12),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(0, 0), (1, 1), (1, 0)]),
)
def test_the_output_stage(
    sums: list[int],
    shift: int,
    in_shift: int,
    size: int,
    rounds: bool,
    limits: bool,
    signs: tuple[int, int],
) -> None:
    conv = unit(
        "CONVACC0",
        {
            "DFORMAT.OUTSHIFT": shift,
            "DFORMAT.INSHIFT": in_shift,
            "DFORMAT.OBYTES": size,
            "DFORMAT.ROUND": rounds,
            "DFORMAT.SAT": limits,
            "CTRL.FUNSIGNED": signs[0],
            "CTRL.KUNSIGNED": signs[1],
        },
    )
    rng = np.random.default_rng(len(sums))
    carry = rng.integers(-(2**23), 2**23, len(sums)).astype(np.int32)
    out, met = arithmetic.requantised(1, conv, np.array(sums, np.int32), carry)
    count = 0
    for total, more, got in zip(sums, carry.tolist(), out.tolist(), strict=True):
        value = total + (more << in_shift)
        value = half_away(value, shift) if rounds else value >> shift
        if signs == (1, 1):
            kept = max(0, min((1 << 8 * size) - 1, value))
        elif limits:
            kept = limited(value, 8 * size)
        else:
            kept = (value + (1 << 8 * size - 1)) % (1 << 8 * size) - (1 << 8 * size - 1)
        count += kept != value
        assert got == kept
    if limits or signs == (1, 1):
        assert met == count


def coefficient_index(fields: dict[str, int], count: int) -> list[int]:
    """The table index of each element, straight from the counters' description."""
    index, found = 0, []
    for i in range(1, count + 1):
        found.append(index)
        step = fields["INCOFFSET.VAL"] if i % (fields["INCCNT.INCVAL"] + 1) == 0 else 0
        for n in (1, 2, 3):
            if fields[f"CTRL.CNT{n}"] and i % (fields[f"RSTCNT{n}.RSTCNT"] + 1) == 0:
                step = fields[f"ADDROFFSET.OFFSET{n}"]
        index = (index + step) & 511
    return found


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_affine_arithmetic(data: st.DataObject) -> None:
    draw = data.draw
    fields = {
        "CTRL.OP": draw(st.sampled_from([0, 0, 7])),
        "CTRL.DUALIN": draw(st.integers(0, 1)),
        "CTRL.COMBINEBC": draw(st.integers(0, 1)),
        "CTRL.ROUND": draw(st.integers(0, 1)),
        "CTRL.SAT": draw(st.integers(0, 1)),
        "CTRL.CLIPOUT": draw(st.integers(0, 1)),
        "CTRL.OBYTES": draw(st.integers(1, 3)),
        "INSHIFTER.FBYTESX": draw(st.integers(1, 3)),
        "INSHIFTER.FBYTESY": draw(st.integers(1, 3)),
        "SHIFT.AX": draw(st.integers(0, 20)),
        "SHIFT.BY": draw(st.integers(0, 20)),
        "SHIFT.C": draw(st.integers(0, 20)),
        "SHIFT.RES": draw(st.integers(0, 30)),
        "COEFFAC.A": draw(st.integers(-(2**15), 2**15 - 1)),
        "COEFFB.B": draw(st.integers(-(2**15), 2**15 - 1)),
        "COEFFAC.C": draw(st.integers(-(2**15), 2**15 - 1)),
        "CLIPRANGE.CLIPMIN": draw(st.integers(-400, 0)),
        "CLIPRANGE.CLIPMAX": draw(st.integers(0, 400)),
        "INCCNT.INCVAL": draw(st.integers(0, 4)),
        "INCOFFSET.VAL": draw(st.integers(-3, 3)),
        **{f"CTRL.COEFF{name}": draw(st.integers(0, 1)) for name in "ABC"},
        **{f"CTRL.CNT{n}": draw(st.integers(0, 1)) for n in (1, 2, 3)},
        **{f"RSTCNT{n}.RSTCNT": draw(st.integers(0, 9) | st.integers(0, 900)) for n in (1, 2, 3)},
        **{f"ADDROFFSET.OFFSET{n}": draw(st.integers(-9, 9)) for n in (1, 2, 3)},
    }
    count = draw(st.integers(1, 40) | st.integers(500, 1600))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    table = {n: tuple(int(v) for v in rng.integers(0, 2**32, 2)) for n in range(512)}
    top = draw(st.sampled_from([2**7, 2**15, 2**23]))
    x, y = (rng.integers(-top, top, (1, count)).astype(np.int32) for _ in range(2))
    dual = bool(fields["CTRL.DUALIN"]) or fields["CTRL.OP"] == 7
    made = arithmetic.arith(
        1, unit("ARITH2", fields, table), Stream(x), Stream(y) if dual else None
    )
    vector = any(fields[f"CTRL.COEFF{name}"] for name in "ABC")
    index = coefficient_index(fields, count) if vector else [0] * count

    def low(value: int, size: int) -> int:
        return (value + (1 << 8 * size - 1)) % (1 << 8 * size) - (1 << 8 * size - 1)

    met = 0
    for i in range(count):
        pair, third = table[index[i]]
        a = low(pair & 0xFFFF if fields["CTRL.COEFFA"] else fields["COEFFAC.A"], 2)
        b = low(pair >> 16 if fields["CTRL.COEFFB"] else fields["COEFFB.B"], 2)
        c = low(third if fields["CTRL.COEFFC"] else fields["COEFFAC.C"], 2)
        first = low(int(x[0, i]), fields["INSHIFTER.FBYTESX"])
        second = low(int(y[0, i]), fields["INSHIFTER.FBYTESY"])
        total = a * first >> fields["SHIFT.AX"]
        if fields["CTRL.OP"] == 7:
            total = first * second
        elif fields["CTRL.COMBINEBC"]:
            total += low(b << 16 | c & 0xFFFF, 4) << fields["SHIFT.C"]
        else:
            total += (b * second >> fields["SHIFT.BY"]) if dual else 0
            total += c << fields["SHIFT.C"]
        shift = fields["SHIFT.RES"]
        total = half_away(total, shift) if fields["CTRL.ROUND"] else total >> shift
        if fields["CTRL.CLIPOUT"]:
            total = max(fields["CLIPRANGE.CLIPMIN"], min(fields["CLIPRANGE.CLIPMAX"], total))
        size = fields["CTRL.OBYTES"]
        kept = limited(total, 8 * size) if fields["CTRL.SAT"] else low(total, size)
        met += kept != total
        assert made.stream.values[0, i] == kept
    assert made.saturated == (met if fields["CTRL.SAT"] else 0)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_engines_go_where_their_registers_say(data: st.DataObject) -> None:
    draw = data.draw
    size = draw(st.integers(1, 3))
    frames, repeat = draw(st.integers(1, 5)), draw(st.integers(0, 3))
    raster, running = draw(st.booleans()), draw(st.booleans())
    fields = {
        "CTRL.SIZE0": 8,
        "CTRL.SIZE1": 8 if size > 1 else 0,
        "CTRL.SIZE2": 8 if size > 2 else 0,
        "CTRL.RAW": 0 if raster else 1,
        "CTRL.CONT": running,
        "CTRL.LSBMODE": 1,
        "CTRL.SIGNEXT": draw(st.integers(0, 1)),
        "ADDR.REG": BASE + 500,
        "FSIZE.WIDTH": draw(st.integers(1, 4)),
        "FSIZE.HEIGHT": draw(st.integers(1, 3)) if raster else 0,
        "DEPTH.SIZE": draw(st.integers(1, 3)),
        "DEPTH.OFFSET": draw(st.integers(0, 9)),
        "STRD.LOFF": draw(st.integers(0, 40)),
        "FOFFSET.REG": draw(st.integers(-50, 50)),
        "FRAME_RPT.REG": repeat,
        "FRPTOFF.REG": draw(st.integers(-30, 60)),
        "LIMIT.CNT": frames,
    }
    rng = np.random.default_rng(5)
    content = rng.integers(0, 256, 2000, np.uint8)
    places = []
    width, height, depth = (fields[n] for n in ("FSIZE.WIDTH", "FSIZE.HEIGHT", "DEPTH.SIZE"))
    for k in range(frames):
        count = width * height * depth if raster else width
        start = k * fields["FOFFSET.REG"]
        if repeat:
            start = k % repeat * fields["FOFFSET.REG"] + k // repeat * fields["FRPTOFF.REG"]
        if running:
            start = k * count * size
        if raster:
            places += [
                start + y * fields["STRD.LOFF"] + x * fields["DEPTH.OFFSET"] + d * size
                for y in range(height)
                for x in range(width)
                for d in range(depth)
            ]
        else:
            places += [start + i * size for i in range(count)]
    memory = Memory({BASE: content.copy()})
    reader = unit("STRENG4", {**fields, "CTRL.DIR": 0})
    got = read_stream(memory, 1, reader, check=False).all().ravel()
    sign = bool(fields["CTRL.SIGNEXT"])
    wanted = [
        int.from_bytes(content[500 + at : 500 + at + size].tobytes(), "little", signed=sign)
        for at in places
    ]
    assert got.tolist() == wanted
    with pytest.raises(ModelError, match="ATN-011"):
        read_stream(memory, 1, reader)

    values = rng.integers(-(2**23), 2**23, (frames, len(places) // frames)).astype(np.int32)
    write_stream(memory, 1, unit("STRENG4", {**fields, "CTRL.DIR": 1}), Stream(values))
    for at, value in zip(places, values.ravel().tolist(), strict=True):
        content[500 + at : 500 + at + size] = list((value & 0xFFFFFF).to_bytes(3, "little")[:size])
    assert memory.peek(BASE, 2000) == content.tobytes()
    assert read_stream(memory, 1, reader).size == len(places)


def test_limits_as_an_operation() -> None:
    values = np.arange(-128, 128, dtype=np.int32).reshape(2, -1)
    fields = {"CTRL.OP": 55, "CTRL.OBYTES": 1, "INSHIFTER.FBYTESX": 1}
    held = unit("ARITH1", fields | {"COEFFAC.A": -100 & 0xFFFF, "COEFFAC.C": 12})
    made = arithmetic.arith(1, held, Stream(values), None)
    assert made.stream.values.tolist() == np.clip(values, -100, 12).tolist()
    shifted = unit("ARITH1", fields | {"SHIFT.RES": 1})
    with pytest.raises(ModelError, match="ATN-007"):
        arithmetic.arith(1, shifted, Stream(values), None)


def test_what_is_not_modelled_is_refused() -> None:
    x = Stream(np.ones((1, 4), np.int32))
    least = unit("ARITH0", {"CTRL.OP": 1, "CTRL.OBYTES": 1, "INSHIFTER.FBYTESX": 1})
    with pytest.raises(ModelError, match="ATN-007"):
        arithmetic.arith(1, least, x, x)
    with pytest.raises(ModelError, match="ATN-007"):
        arithmetic.activ(1, unit("ACTIV0", {"CTRL.TYPE": 0, "CTRL.FBYTES": 1}), x)
    fields = {"CTRL.TYPE": 8, "FDIMS.FEATX": 4, "FDIMS.FEATY": 1, "CTRL.FBYTES": 1}
    with pytest.raises(ModelError, match="ATN-007"):
        arithmetic.pool(1, unit("POOL0", fields), x)
    assert Pattern(np.zeros(1, np.int64), 1, 1, 4, 0, 0, 1).moved == 4


@pytest.mark.shared
def test_published_unit_vectors(shared: Path) -> None:
    """Numeric vectors from compiled networks, by an independent emulator."""
    vectors = json.loads((shared / "aton" / "examples" / "vectors.json").read_text())
    checked = dict.fromkeys(("ARITH", "POOL", "ACTIV", "CONVACC"), 0)
    for case in vectors:
        kind = case["unit"]
        if case.get("mode") == "deep":
            continue
        checked[kind] += 1
        assert VECTORS[kind](case) == case["out"]
    assert checked == {"ARITH": 7, "POOL": 1, "ACTIV": 1, "CONVACC": 1}


def arith_vector(case: dict[str, Any]) -> list[int]:
    fields = {name: value for name, value in case["registers"].items() if name != "CTRL.EN"}
    x = Stream(np.array([case["X"]], np.int32))
    y = Stream(np.array([case["Y"]], np.int32)) if "Y" in case else None
    rows = enumerate(case.get("coef_A_B_C", []))
    table = {n: (a & 0xFFFF | (b & 0xFFFF) << 16, c & 0xFFFF) for n, (a, b, c) in rows}
    every = {f"CTRL.CNT{n}": 0 for n in (1, 2, 3)}
    flat = {**fields, **every, "INCCNT.INCVAL": 0, "INCOFFSET.VAL": 1}
    return arithmetic.arith(1, unit("ARITH0", flat, table), x, y).stream.values[0].tolist()


def pool_vector(case: dict[str, Any]) -> list[int]:
    values = np.array([case["channel0_inputs"]], np.int32)
    fields = {
        "CTRL.TYPE": 10,
        "CTRL.FBYTES": 1,
        "CTRL.OUTSHIFT": case["OUTSHIFT"],
        "MULVAL.MULVAL": case["MULVAL"],
        "RNDCTRL.OBYTES": 2,
        "PDIMS.BSIZE": 1,
        "FDIMS.FEATX": values.size,
        "FDIMS.FEATY": 1,
    }
    return arithmetic.pool(1, unit("POOL0", fields), Stream(values)).stream.values[0].tolist()


def activ_vector(case: dict[str, Any]) -> list[int]:
    made = unit("ACTIV0", {k: v for k, v in case["registers"].items() if k != "CTRL.EN"})
    words = {**made.registers, **{256 + n: v for n, v in enumerate(case["ROM0"])}}
    for n, (a, b, c) in enumerate(case["ROM1 [A,B,C]"]):
        words[512 + 2 * n] = a & 0xFFFF | (b & 0xFFFF) << 16
        words[513 + 2 * n] = c & 0xFFFF
    x = Stream(np.array([case["in"]], np.int32))
    return arithmetic.activ(1, Unit(made.page, words, {}), x).stream.values[0].tolist()


def convolution_vector(case: dict[str, Any]) -> list[int]:
    window = np.array(case["window_after_fsub_pad [kh][kw][c]"], np.int32)[None]
    weights = np.array(case["kernels [NR][kh][kw][c]"], np.int8)
    fields = {
        "KFORMAT.HEIGHT": window.shape[1],
        "KFORMAT.WIDTH": window.shape[2],
        "KFORMAT.BTCDEPTH": window.shape[3],
        "SAMPLE.VSTRD": 1,
        "SAMPLE.HSTRD": 1,
        "DFORMAT.OUTSHIFT": case["OUTSHIFT"],
        "DFORMAT.OBYTES": 2,
        "DFORMAT.ROUND": 1,
        "DFORMAT.SAT": 1,
    }
    conv = unit("CONVACC0", fields)
    flat = weights.reshape(1, len(weights), -1)
    held = np.append(window.ravel(), 0).astype(np.int16)
    x = Features(held, window.shape[1:], np.zeros(1, np.int64), int(np.abs(window).max()))
    sums = arithmetic.products(1, conv, x, flat)
    assert sums[0].tolist() == case["acc"]
    return arithmetic.requantised(1, conv, sums, None)[0][0].tolist()


VECTORS: dict[str, Callable[[dict[str, Any]], object]] = {
    "ARITH": arith_vector,
    "POOL": pool_vector,
    "ACTIV": activ_vector,
    "CONVACC": convolution_vector,
}
