"""The units behind the engines: CONVACC, ARITH, ACTIV and POOL on whole streams of integers.

The hot loops are native (``native/aton``); tests hold them against plain integer formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npuforge._native import aton_arith, aton_convolve, aton_requantise
from npuforge.aton.program import Unit
from npuforge.aton.streams import Frames, Stream
from npuforge.errors import ModelError
from npuforge.numerics.fixedpoint import rounding_shift
from npuforge.numerics.neural_art.units import saturated

Ints = NDArray[np.int64]
MAX_IN_SHIFT = 38
"""Largest INSHIFT whose sums fit 64 bits."""


@dataclass(frozen=True)
class Result:
    """What a unit sends, and how many of its values met a limit of the number format."""

    stream: Stream
    saturated: int = 0


def signed(value: Frames, size: int) -> Frames:
    """The low ``size`` bytes in two's complement."""
    if size == 1:
        return value.astype(np.int8).astype(np.int32)
    if size == 2:
        return value.astype(np.int16).astype(np.int32)
    return (value << 8) >> 8


def _failed(epoch: int, unit: Unit, reason: str) -> ModelError:
    return ModelError("ATN-006", epoch=epoch, unit=unit.name, reason=reason)


def _unmodelled(epoch: int, unit: Unit, reason: str) -> ModelError:
    return ModelError("ATN-007", epoch=epoch, unit=unit.name, reason=reason)


def _bytes_of(values: Frames, size: int) -> Frames:
    lanes = np.ascontiguousarray(values, np.int32).view(np.uint8)
    return lanes.reshape(len(values), -1, 4)[:, :, :size].reshape(len(values), -1).astype(np.int32)


@dataclass(frozen=True)
class Features:
    """Padded feature frames of a CONVACC.

    Attributes:
        values: shape (different frames, height, width, batch).
        index: row of ``values`` for each feature frame.
    """

    values: NDArray[np.int32]
    index: NDArray[np.int64]


def _feature_values(epoch: int, unit: Unit, values: Frames) -> Frames:
    """Elements of features as integers, lanes of deep and DSS2 mode taken apart."""
    batch = unit["KFORMAT.BTCDEPTH"] or 1
    width, height = unit["FFORMAT.WIDTH"], unit["FFORMAT.HEIGHT"]
    deep, dss2 = unit["CTRL.DEEPMODE"], unit["CTRL.DSS2MODE"]
    size = unit["DFORMAT.FBYTES"]
    if deep or dss2:
        lanes = 3 if deep else 2
        count = len(values)
        values = _bytes_of(values, lanes)
        pixels = max(1, width // batch) * height
        per_pixel = values.shape[1] // pixels
        if per_pixel > batch and per_pixel == -(-batch // lanes) * lanes:
            values = values[:, : pixels * per_pixel].reshape(count, pixels, per_pixel)
            values = values[:, :, :batch].reshape(count, -1)
        elif 0 <= values.shape[1] - width * height < lanes:
            values = values[:, : width * height]
        size = 1
    if not 1 <= size <= 2:
        raise _unmodelled(epoch, unit, f"features of {size} bytes")
    if unit["CTRL.FUNSIGNED"]:
        return values & (1 << 8 * size) - 1
    return signed(values, size)


def features(epoch: int, unit: Unit, stream: Stream) -> Features:
    """Padded feature frames of a CONVACC. Raises ATN-006 when the stream is no whole frames."""
    batch = unit["KFORMAT.BTCDEPTH"] or 1
    width, height = unit["FFORMAT.WIDTH"], unit["FFORMAT.HEIGHT"]
    values, index = stream.values, stream.index
    if not width * height or width % batch:
        raise _failed(epoch, unit, f"feature frames of {width}x{height}, {batch} channels")
    numbers = _feature_values(epoch, unit, values)
    if numbers.shape[1] != width * height:
        numbers = _feature_values(epoch, unit, stream.all())
        index = None
    if numbers.size % (width * height) or not numbers.size:
        raise _failed(epoch, unit, f"{numbers.size} feature elements, frames of {width * height}")
    x = numbers.reshape(-1, height, width // batch, batch)
    if subtract := unit.signed("FSUB.FSUB"):
        x = x - np.int32(subtract)
    left = unit["FHCROP.LEFT"] // batch
    right = (unit["FHCROP.RIGHT"] or width - 1) // batch + 1  # 0: the last column is not cropped
    top, bottom = unit["FVCROP.TOP"], unit["FVCROP.BOTTOM"] + 1
    x = x[:, top:bottom, left:right]
    frame = [unit["ZFRAME.TOP"], unit["ZFRAME.BOTTOM"]]
    frame += [unit["ZFRAME.LEFT"] // batch, unit["ZFRAME.RIGHT"] // batch]
    pads = [unit[f"SAMPLE.{side}PAD"] for side in "TBLR"]
    fill = unit.signed("ZFBIAS.ZFBIAS")
    if any(frame):
        x = np.pad(x, ((0, 0), frame[:2], frame[2:], (0, 0)), constant_values=fill)
    if any(pads):
        x = np.pad(x, ((0, 0), pads[:2], pads[2:], (0, 0)))
    rows = np.arange(len(x), dtype=np.int64) if index is None else index
    return Features(x, rows)


def _deep_kernels(epoch: int, unit: Unit, stream: Stream, size: int) -> Frames:
    count = unit["KFORMAT.NR"]
    padded = -(-count * size // 3) * 3
    data = _bytes_of(stream.all().reshape(1, -1), 3).ravel()
    if data.size % padded:
        raise _failed(epoch, unit, f"{data.size} kernel bytes, passes of {padded}")
    passes = data.reshape(-1, padded)[:, : count * size]
    groups, at = [], 0
    for start in range(0, count, 8):
        n = min(8, count - start)
        part = passes[:, at : at + n * size].reshape(-1, size, n)
        groups.append(part.transpose(0, 2, 1))
        at += n * size
    return np.concatenate(groups, axis=1).reshape(-1, size)


def kernels(epoch: int, unit: Unit, stream: Stream, frames: int) -> Frames:
    """Kernels of a CONVACC, shape (frames, NR, height * width * batch). Raises ATN-006.

    Kernel elements are 16 bit in mode 0 (16 x 16) and 8 bit otherwise: the engines that feed mode
    0 move two bytes an element in every program seen.
    """
    count = unit["KFORMAT.NR"]
    size = unit["KFORMAT.WIDTH"] * unit["KFORMAT.HEIGHT"] * (unit["KFORMAT.BTCDEPTH"] or 1)
    if not count or not size:
        raise _failed(epoch, unit, f"{count} kernels of {size} elements")
    if unit["CTRL.DEEPMODE"]:
        found = _deep_kernels(epoch, unit, stream, size)
    else:
        if stream.size % size:
            raise _failed(epoch, unit, f"{stream.size} kernel elements, kernels of {size}")
        found = stream.all().reshape(-1, size)
    width = 1 if unit["CTRL.SIMD"] else 2
    found = found & (1 << 8 * width) - 1 if unit["CTRL.KUNSIGNED"] else signed(found, width)
    total, first, last = (unit[f"KFILT.{name}"] for name in ("TOT", "FIRST", "LAST"))
    if total > 1:
        number = np.arange(len(found)) % total
        found = found[(number >= first) & (number <= last)]
    if len(found) != count * frames:
        raise _failed(epoch, unit, f"{len(found)} kernels for {frames} frames of {count}")
    return found.reshape(frames, count, size)


def products(epoch: int, unit: Unit, x: Features, weights: Frames) -> Frames:
    """Exact sums of products, shape (frames, rows * columns * NR). Raises ATN-006, ATN-007."""
    height, width = unit["KFORMAT.HEIGHT"], unit["KFORMAT.WIDTH"]
    down, across = unit["SAMPLE.VSTRD"], unit["SAMPLE.HSTRD"]
    if not down or not across:
        raise _unmodelled(epoch, unit, "stride 0")
    _, rows, columns, batch = x.values.shape
    if rows < height or columns < width:
        raise _failed(epoch, unit, f"kernel {height}x{width} on a {rows}x{columns} map")
    limit = (
        int(np.abs(x.values).max(initial=0))
        * int(np.abs(weights).max(initial=0))
        * weights.shape[2]
    )
    if limit >= 1 << 31 or int(np.abs(x.values).max(initial=0)) > 32767:
        raise _unmodelled(epoch, unit, "a sum of products beyond 31 bits")
    index = np.repeat(x.index, len(weights) // len(x.index)).astype(np.int32)
    flat = np.zeros(x.values.size + 1, np.int16)
    flat[:-1] = x.values.reshape(-1)
    kernel_count = weights.shape[1]
    made = ((rows - height) // down + 1) * ((columns - width) // across + 1) * kernel_count
    out = np.empty((len(weights), made), np.int32)
    shape = np.array((rows, columns, batch, height, width, down, across, kernel_count), np.int64)
    aton_convolve(flat, index, weights.astype(np.int16).reshape(-1), shape, out.reshape(-1))
    return out


def requantised(epoch: int, unit: Unit, total: Frames, carry: Frames | None) -> tuple[Frames, int]:
    """The output stage of a CONVACC: add the sum so far, shift, round, saturate; saturations."""
    shift, size = unit["DFORMAT.OUTSHIFT"], unit["DFORMAT.OBYTES"]
    in_shift = unit["DFORMAT.INSHIFT"] if carry is not None else 0
    if not 1 <= size <= 3 or in_shift > MAX_IN_SHIFT or shift > 62:
        reason = f"shifts {in_shift} and {shift} to {size} bytes"
        raise _unmodelled(epoch, unit, reason)
    limit = 1 if unit["DFORMAT.SAT"] else 0
    if unit["CTRL.FUNSIGNED"] and unit["CTRL.KUNSIGNED"]:
        limit = 2
    flat = np.ascontiguousarray(total).reshape(-1)
    more = None if carry is None else np.ascontiguousarray(carry).reshape(-1)
    out = np.empty(flat.size, np.int32)
    met = aton_requantise(
        flat, more, in_shift, shift, bool(unit["DFORMAT.ROUND"]), limit, 8 * size, out
    )
    return out.reshape(total.shape), met


def _counters(unit: Unit) -> tuple[list[int], list[int]]:
    """Period and step of the index counters; the last that ends wins, counter 3 before 2 before 1.

    A counter counts when its CNT bit is set; every program seen sets all three or none.
    """
    every, step = [unit["INCCNT.INCVAL"] + 1], [unit.signed("INCOFFSET.VAL")]
    for n in (1, 2, 3):
        every.append(unit[f"RSTCNT{n}.RSTCNT"] + 1 if unit[f"CTRL.CNT{n}"] else 0)
        step.append(unit.signed(f"ADDROFFSET.OFFSET{n}"))
    return every, step


LIMITS = 0x37
"""Operation that limits a stream, numbered as in the register table."""
_STAGES = ("SHIFT.AX", "SHIFT.BY", "SHIFT.C", "SHIFT.RES", "COEFFB.B", "CTRL.COEFFA", "CTRL.COEFFC")


def _clipped(epoch: int, unit: Unit, x: Stream) -> Result:
    """Operation 55: limits from A to C (evidence grade C); what no program combines is refused."""
    used = [name for name in _STAGES if unit[name]]
    size, made = unit["INSHIFTER.FBYTESX"], unit["CTRL.OBYTES"]
    if used or size != made or not 1 <= size <= 2:
        raise _unmodelled(epoch, unit, f"limits with {' '.join(used)}, {size} bytes to {made}")
    low, high = unit.signed("COEFFAC.A"), unit.signed("COEFFAC.C")
    return Result(Stream(np.clip(signed(x.values, size), low, high), x.index))


def arith(epoch: int, unit: Unit, x: Stream, y: Stream | None) -> Result:
    """An ARITH on one or two streams: affine (0), product (7) or limits (55)."""
    if y is not None and y.size != x.size:
        raise _failed(epoch, unit, f"{x.size} elements on X, {y.size} on Y")
    operation = unit["CTRL.OP"]
    if operation == LIMITS and y is None:
        return _clipped(epoch, unit, x)
    if operation not in (0, 7) or (operation == 7 and y is None):
        raise _unmodelled(epoch, unit, f"operation {operation}")
    sizes = [unit["INSHIFTER.FBYTESX"], unit["INSHIFTER.FBYTESY"] or 1, unit["CTRL.OBYTES"]]
    if not all(1 <= size <= 3 for size in sizes):
        raise _unmodelled(epoch, unit, f"operands and result of {sizes} bytes")
    every, step = _counters(unit)
    params = np.array(
        (
            operation,
            sizes[0],
            sizes[1],
            unit["SHIFT.AX"],
            unit["SHIFT.BY"],
            unit["SHIFT.C"],
            unit["SHIFT.RES"],
            unit["CTRL.ROUND"],
            unit["CTRL.SAT"],
            unit["CTRL.CLIPOUT"],
            unit.signed("CLIPRANGE.CLIPMIN"),
            unit.signed("CLIPRANGE.CLIPMAX"),
            sizes[2],
            unit["CTRL.COMBINEBC"],
            *(unit[f"CTRL.COEFF{name}"] for name in "ABC"),
            unit["COEFFAC.A"],
            unit["COEFFB.B"],
            unit["COEFFAC.C"],
            *every,
            *step,
        ),
        np.int32,
    )
    first = x.all()
    second = None if y is None else np.ascontiguousarray(y.all()).reshape(-1)
    out = np.empty(first.shape, np.int32)
    flat = np.ascontiguousarray(first).reshape(-1)
    met = aton_arith(flat, second, params, unit.table, out.reshape(-1))
    return Result(Stream(out), met)


def activ(epoch: int, unit: Unit, stream: Stream) -> Result:
    """An ACTIV: piecewise quadratic function or thresholded ReLU."""
    size, kind = unit["CTRL.OBYTES"], unit["CTRL.TYPE"]
    if unit["CTRL.FBYTES"] not in (1, 2, 3):
        raise _unmodelled(epoch, unit, f"features of {unit['CTRL.FBYTES']} bytes")
    x = signed(stream.all(), unit["CTRL.FBYTES"]).astype(np.int64) - unit.signed("FSUB.FSUB")
    if kind == 2:
        limit, value = (unit.signed(name) for name in ("ACTIVPARAM.PARAM", "ACTIVPARAM2.PARAM2"))
        return Result(Stream(np.where(x > limit, x, value).astype(np.int32)))
    if kind != 3:
        raise _unmodelled(epoch, unit, f"activation type {kind}")
    top = unit["FUNC.BWIDTH"]
    u = (x << unit["ACTIVPARAM.FUNC"]) + (0x8000 if unit["FUNC.SIGNEDOP"] else 0) & 0xFFFF
    registers = unit.registers
    rom0 = np.array([registers.get(256 + n, 0) & 255 for n in range(1 << top)], np.int64)
    rom1 = np.array(
        [(registers.get(512 + 2 * n, 0), registers.get(513 + 2 * n, 0)) for n in range(128)],
        np.int64,
    )
    outer = rom0[u >> 16 - top]
    inner = (u & (1 << 16 - top) - 1) >> 16 - top - (outer >> 6)
    row = np.minimum((outer & 63) + inner, 127)
    a, b, c = (
        ((part & 0xFFFF) ^ 0x8000) - 0x8000
        for part in (rom1[row, 0], rom1[row, 0] >> 16, rom1[row, 1])
    )
    total = a * x * x + (b * x << unit["FUNC.BSHIFT"]) + (c << unit["FUNC.CSHIFT"])
    shift = unit["FUNC.OUTSHIFT"]
    total = rounding_shift(total, shift) if unit["CTRL.ROUND"] else total >> shift
    return _limited(unit, total, 8 * size, bool(unit["CTRL.SAT"]))


def _limited(unit: Unit, total: Ints, bits: int, limit: bool) -> Result:
    if not limit:
        return Result(Stream(signed(total.astype(np.int32), bits // 8)))
    kept = saturated(total, bits)
    return Result(Stream(kept.astype(np.int32)), int(np.count_nonzero(kept != total)))


def pool(epoch: int, unit: Unit, stream: Stream) -> Result:
    """A POOL: maximum, average or global average."""
    kind, batch = unit["CTRL.TYPE"], unit["PDIMS.BSIZE"] or 1
    width, height = unit["FDIMS.FEATX"], unit["FDIMS.FEATY"]
    if not width * height or stream.size % (width * height) or width % batch:
        raise _failed(epoch, unit, f"{stream.size} elements, frames of {width}x{height}")
    flat = signed(stream.all(), unit["CTRL.FBYTES"] or 1).reshape(-1, height, width)
    if unit["CTRL.CROPEN"]:
        flat = flat[:, unit["YCROP.TCROP"] : unit["YCROP.BCROP"] + 1]
        flat = flat[:, :, unit["XCROP.LCROP"] : unit["XCROP.RCROP"] + 1]
    x = flat.reshape(len(flat), flat.shape[1], -1, batch)
    shift, scale = unit["CTRL.OUTSHIFT"], unit["MULVAL.MULVAL"]
    bits = 8 * (unit["RNDCTRL.OBYTES"] or 1)
    if kind == 10:
        total = x.sum(axis=(1, 2), dtype=np.int64) * scale
        return _limited(unit, rounding_shift(total, shift), bits, True)
    if kind not in (0, 2):
        raise _unmodelled(epoch, unit, f"pooling type {kind}")
    if any(unit[f"PDIMS.{side}PAD"] for side in "TBLR"):
        raise _unmodelled(epoch, unit, "padding in a pool")
    high, wide = unit["PDIMS.WINY"], unit["PDIMS.WINX"]
    down, across = unit["PDIMS.STRDY"] or 1, unit["PDIMS.STRDX"] or 1
    rows, columns = (x.shape[1] - high) // down + 1, (x.shape[2] - wide) // across + 1
    if not high or not wide or rows < 1 or columns < 1:
        raise _failed(epoch, unit, f"window {high}x{wide} on a {x.shape[1]}x{x.shape[2]} map")
    parts = [
        x[:, i : i + (rows - 1) * down + 1 : down, j : j + (columns - 1) * across + 1 : across]
        for i in range(high)
        for j in range(wide)
    ]
    if kind == 0:
        best = parts[0].copy()
        for part in parts[1:]:
            np.maximum(best, part, out=best)
        return Result(Stream(best.reshape(len(x), -1)))
    total = np.sum(parts, axis=0, dtype=np.int64).reshape(len(x), -1) * scale
    return _limited(unit, rounding_shift(total, shift), bits, True)
