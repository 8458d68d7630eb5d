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
Narrow = NDArray[np.int8] | NDArray[np.uint8] | NDArray[np.int16] | NDArray[np.uint16]
"""Features and kernels at their own width."""
_MAX = 32767
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


def _bytes_of(values: Frames, size: int) -> NDArray[np.uint8]:
    lanes = np.ascontiguousarray(values, np.int32).view(np.uint8)
    return lanes.reshape(len(values), -1, 4)[:, :, :size].reshape(len(values), -1)


def _narrow(values: Frames, size: int, unsigned: int) -> Narrow:
    """The low one or two bytes, as integers of that width."""
    if size == 1:
        return values.astype(np.uint8) if unsigned else values.astype(np.int8)
    return values.astype(np.uint16) if unsigned else values.astype(np.int16)


@dataclass(frozen=True)
class Features:
    """Padded feature frames of a CONVACC.

    Attributes:
        flat: the different frames one after the other, and one element more.
        shape: rows, columns and channels of a frame.
        index: number of the different frame for each feature frame.
        most: largest magnitude.
    """

    flat: NDArray[np.int16]
    shape: tuple[int, int, int]
    index: NDArray[np.int64]
    most: int


def _feature_values(epoch: int, unit: Unit, values: Frames) -> Narrow:
    """Elements of features as integers, lanes of deep and DSS2 mode taken apart."""
    batch = unit["KFORMAT.BTCDEPTH"] or 1
    width, height = unit["FFORMAT.WIDTH"], unit["FFORMAT.HEIGHT"]
    deep, dss2 = unit["CTRL.DEEPMODE"], unit["CTRL.DSS2MODE"]
    size, unsigned = unit["DFORMAT.FBYTES"], unit["CTRL.FUNSIGNED"]
    if not (deep or dss2):
        if not 1 <= size <= 2:
            raise _unmodelled(epoch, unit, f"features of {size} bytes")
        return _narrow(values, size, unsigned)
    lanes = 3 if deep else 2
    count = len(values)
    found = _bytes_of(values, lanes)
    pixels = max(1, width // batch) * height
    per_pixel = found.shape[1] // pixels
    if per_pixel > batch and per_pixel == -(-batch // lanes) * lanes:
        found = found[:, : pixels * per_pixel].reshape(count, pixels, per_pixel)
        found = found[:, :, :batch].reshape(count, -1)
    elif 0 <= found.shape[1] - width * height < lanes:
        found = found[:, : width * height]
    return found if unsigned else found.view(np.int8)


def features(epoch: int, unit: Unit, stream: Stream) -> Features:
    """Padded feature frames of a CONVACC.

    Raises:
        ModelError: ATN-006 when the stream is no whole frames; ATN-007 beyond 16 bits.
    """
    batch = unit["KFORMAT.BTCDEPTH"] or 1
    width, height = unit["FFORMAT.WIDTH"], unit["FFORMAT.HEIGHT"]
    index = stream.index
    if not width * height or width % batch:
        raise _failed(epoch, unit, f"feature frames of {width}x{height}, {batch} channels")
    numbers = _feature_values(epoch, unit, stream.values)
    if numbers.shape[1] != width * height:
        numbers = _feature_values(epoch, unit, stream.all())
        index = None
    if numbers.size % (width * height) or not numbers.size:
        raise _failed(epoch, unit, f"{numbers.size} feature elements, frames of {width * height}")
    x = numbers.reshape(-1, height, width // batch, batch)
    left = unit["FHCROP.LEFT"] // batch
    right = (unit["FHCROP.RIGHT"] or width - 1) // batch + 1  # 0: the last column is not cropped
    top, bottom = unit["FVCROP.TOP"], unit["FVCROP.BOTTOM"] + 1
    x = x[:, top:bottom, left:right]
    # Inside out: the map, a frame of ZFBIAS, a frame of zeros.
    frame = [unit["ZFRAME.TOP"], unit["ZFRAME.BOTTOM"]]
    frame += [unit["ZFRAME.LEFT"] // batch, unit["ZFRAME.RIGHT"] // batch]
    pads = [unit[f"SAMPLE.{side}PAD"] for side in "TBLR"]
    fill, subtract = unit.signed("ZFBIAS.ZFBIAS"), unit.signed("FSUB.FSUB")
    ends = [int(x.min()) - subtract, int(x.max()) - subtract] if x.size else []
    most = max(abs(end) for end in (*ends, fill if any(frame) else 0))
    if most > _MAX:
        raise _unmodelled(epoch, unit, "a sum of products beyond 31 bits")
    rows, columns = x.shape[1] + frame[0] + frame[1], x.shape[2] + frame[2] + frame[3]
    shape = (rows + pads[0] + pads[1], columns + pads[2] + pads[3], batch)
    flat = np.zeros(len(x) * shape[0] * shape[1] * batch + 1, np.int16)
    inside = flat[:-1].reshape(len(x), *shape)
    inside = inside[:, pads[0] : pads[0] + rows, pads[2] : pads[2] + columns]
    if any(frame):
        inside[...] = fill
        inside = inside[:, frame[0] : rows - frame[1], frame[2] : columns - frame[3]]
    inside[...] = x
    if subtract:
        inside -= np.int16(subtract)
    order = np.arange(len(x), dtype=np.int64) if index is None else index
    return Features(flat, shape, order, most)


def _deep_kernels(epoch: int, unit: Unit, stream: Stream, size: int) -> NDArray[np.uint8]:
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


def kernels(epoch: int, unit: Unit, stream: Stream, frames: int) -> Narrow:
    """Kernels of a CONVACC, shape (frames, NR, height * width * batch). Raises ATN-006.

    Kernel elements are 16 bit in mode 0 (16 x 16) and 8 bit otherwise: the engines that feed mode
    0 move two bytes an element in every program seen.
    """
    count = unit["KFORMAT.NR"]
    size = unit["KFORMAT.WIDTH"] * unit["KFORMAT.HEIGHT"] * (unit["KFORMAT.BTCDEPTH"] or 1)
    if not count or not size:
        raise _failed(epoch, unit, f"{count} kernels of {size} elements")
    width, unsigned = 1 if unit["CTRL.SIMD"] else 2, unit["CTRL.KUNSIGNED"]
    if unit["CTRL.DEEPMODE"]:
        lanes = _deep_kernels(epoch, unit, stream, size)
        wide = width == 2 or unsigned  # a lane holds a byte: with 16 bits its value is positive
        found: Narrow = lanes if wide else lanes.view(np.int8)
    else:
        if stream.size % size:
            raise _failed(epoch, unit, f"{stream.size} kernel elements, kernels of {size}")
        found = _narrow(stream.all().reshape(-1, size), width, unsigned)
    total, first, last = (unit[f"KFILT.{name}"] for name in ("TOT", "FIRST", "LAST"))
    if total > 1:
        number = np.arange(len(found)) % total
        found = found[(number >= first) & (number <= last)]
    if len(found) != count * frames:
        raise _failed(epoch, unit, f"{len(found)} kernels for {frames} frames of {count}")
    return found.reshape(frames, count, size)


def products(epoch: int, unit: Unit, x: Features, weights: Narrow) -> Frames:
    """Exact sums of products, shape (frames, rows * columns * NR). Raises ATN-006, ATN-007."""
    height, width = unit["KFORMAT.HEIGHT"], unit["KFORMAT.WIDTH"]
    down, across = unit["SAMPLE.VSTRD"], unit["SAMPLE.HSTRD"]
    if not down or not across:
        raise _unmodelled(epoch, unit, "stride 0")
    rows, columns, batch = x.shape
    if rows < height or columns < width:
        raise _failed(epoch, unit, f"kernel {height}x{width} on a {rows}x{columns} map")
    low, high = int(weights.min(initial=0)), int(weights.max(initial=0))
    if x.most * max(high, -low) * weights.shape[2] >= 1 << 31 or high > _MAX:
        raise _unmodelled(epoch, unit, "a sum of products beyond 31 bits")
    index = np.repeat(x.index, len(weights) // len(x.index)).astype(np.int32)
    kernel_count = weights.shape[1]
    made = ((rows - height) // down + 1) * ((columns - width) // across + 1) * kernel_count
    out = np.empty((len(weights), made), np.int32)
    shape = np.array((rows, columns, batch, height, width, down, across, kernel_count), np.int64)
    packed = weights.astype(np.int16).reshape(-1)
    aton_convolve(x.flat, index, packed, shape, out.reshape(-1))
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
    first = x.all()
    second = None if y is None else np.ascontiguousarray(y.all()).reshape(-1)
    out = np.empty(first.shape, np.int32)
    flat = np.ascontiguousarray(first).reshape(-1)
    met = aton_arith(flat, second, unit.affine, unit.table, out.reshape(-1))
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
