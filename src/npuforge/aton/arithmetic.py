"""The units behind the engines: CONVACC, ARITH, ACTIV and POOL on whole streams of integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npuforge.aton.program import Unit
from npuforge.aton.streams import Frames
from npuforge.errors import ModelError
from npuforge.numerics.fixedpoint import rounding_shift

Ints = NDArray[np.int64]


def saturated(value: Ints, bits: int) -> Ints:
    """Clamped to a signed number of so many bits."""
    return np.clip(value, -(1 << bits - 1), (1 << bits - 1) - 1)


def signed(value: Ints, size: int) -> Ints:
    """The low ``size`` bytes in two's complement."""
    half = 1 << 8 * size - 1
    return ((value & (1 << 8 * size) - 1) ^ half) - half


def _failed(epoch: int, unit: Unit, reason: str) -> ModelError:
    return ModelError("ATN-006", epoch=epoch, unit=unit.name, reason=reason)


def _bytes_of(stream: Frames, size: int) -> Ints:
    lanes = [stream >> 8 * lane & 255 for lane in range(size)]
    return np.stack(lanes, axis=-1).reshape(len(stream), -1)


def features(epoch: int, unit: Unit, stream: Frames) -> Ints:
    """Padded feature frames of a CONVACC, shape (frames, height, width, batch)."""
    batch = unit["KFORMAT.BTCDEPTH"] or 1
    width, height = unit["FFORMAT.WIDTH"], unit["FFORMAT.HEIGHT"]
    deep, dss2 = unit["CTRL.DEEPMODE"], unit["CTRL.DSS2MODE"]
    size = unit["DFORMAT.FBYTES"]
    values = stream
    if deep or dss2:
        lanes = 3 if deep else 2
        values = _bytes_of(stream, lanes)
        pixels = max(1, width // batch) * height
        per_pixel = values.shape[1] // pixels
        if per_pixel > batch and per_pixel == -(-batch // lanes) * lanes:
            values = values[:, : pixels * per_pixel].reshape(len(values), pixels, per_pixel)
            values = values[:, :, :batch].reshape(len(stream), -1)
        elif 0 <= values.shape[1] - width * height < lanes:
            values = values[:, : width * height]
        size = 1
    if values.size % (width * height) or not values.size:
        raise _failed(epoch, unit, f"{values.size} feature elements, frames of {width * height}")
    if not unit["CTRL.FUNSIGNED"]:
        values = signed(values, size)
    else:
        values = values & (1 << 8 * size) - 1
    x = values.reshape(-1, height, width // batch, batch) - unit.signed("FSUB.FSUB")
    left, right = unit["FHCROP.LEFT"] // batch, (unit["FHCROP.RIGHT"] + 1) // batch
    top, bottom = unit["FVCROP.TOP"], unit["FVCROP.BOTTOM"] + 1
    x = x[:, top:bottom, left:right]
    frame = [unit[f"ZFRAME.{side}"] for side in ("TOP", "BOTTOM", "LEFT", "RIGHT")]
    fill = unit.signed("ZFBIAS.ZFBIAS")
    x = np.pad(x, ((0, 0), frame[:2], frame[2:], (0, 0)), constant_values=fill)
    pads = [unit[f"SAMPLE.{side}PAD"] for side in "TBLR"]
    return np.pad(x, ((0, 0), pads[:2], pads[2:], (0, 0)))


def kernels(epoch: int, unit: Unit, stream: Frames, frames: int) -> Ints:
    """Kernels of a CONVACC, shape (frames, NR, height * width * batch)."""
    count = unit["KFORMAT.NR"]
    size = unit["KFORMAT.WIDTH"] * unit["KFORMAT.HEIGHT"] * (unit["KFORMAT.BTCDEPTH"] or 1)
    total, first, last = (unit[f"KFILT.{name}"] for name in ("TOT", "FIRST", "LAST"))
    flat = stream.ravel()
    wide = unit["CTRL.SIMD"] == 0
    if unit["CTRL.DEEPMODE"]:
        padded = -(-count * size // 3) * 3
        data = _bytes_of(stream.reshape(1, -1), 3).ravel()
        if data.size % padded:
            raise _failed(epoch, unit, f"{data.size} kernel bytes, passes of {padded}")
        passes = data.reshape(-1, padded)[:, : count * size]
        groups, at = [], 0
        for start in range(0, count, 8):
            n = min(8, count - start)
            part = passes[:, at : at + n * size].reshape(-1, size, n)
            groups.append(part.transpose(0, 2, 1))
            at += n * size
        found = np.concatenate(groups, axis=1).reshape(-1, size)
    else:
        if flat.size % size:
            raise _failed(epoch, unit, f"{flat.size} kernel elements, kernels of {size}")
        found = flat.reshape(-1, size)
    width = 2 if wide and int(np.abs(found).max(initial=0)) > 255 else 1
    found = found & 255 if unit["CTRL.KUNSIGNED"] else signed(found, width)
    if total > 1:
        number = np.arange(len(found)) % total
        found = found[(number >= first) & (number <= last)]
    if len(found) != count * frames:
        raise _failed(epoch, unit, f"{len(found)} kernels for {frames} frames of {count}")
    return found.reshape(frames, count, size)


def products(epoch: int, unit: Unit, x: Ints, weights: Ints) -> Ints:
    """Exact sums of products, shape (frames, rows * columns * NR)."""
    height, width = unit["KFORMAT.HEIGHT"], unit["KFORMAT.WIDTH"]
    down, across = unit["SAMPLE.VSTRD"] or 1, unit["SAMPLE.HSTRD"] or 1
    if x.shape[1] < height or x.shape[2] < width:
        raise _failed(epoch, unit, f"kernel {height}x{width} on a {x.shape[1]}x{x.shape[2]} map")
    rows, columns = (x.shape[1] - height) // down + 1, (x.shape[2] - width) // across + 1
    repeat = len(weights) // len(x)
    out = np.empty((len(weights), rows * columns * weights.shape[1]), np.int64)
    last, taps = None, None
    for j, kernel in enumerate(weights):
        frame = x[j // repeat]
        if taps is None or last is None or not np.array_equal(frame, last):
            parts = [
                frame[i : i + rows * down : down, k : k + columns * across : across]
                for i in range(height)
                for k in range(width)
            ]
            cut = [part[:rows, :columns] for part in parts]
            taps = np.concatenate(cut, axis=2).reshape(rows * columns, -1).astype(np.float64)
            last = frame
        out[j] = (taps @ kernel.T.astype(np.float64)).ravel()
    return out


def requantised(unit: Unit, total: Ints) -> Ints:
    """The output stage of a CONVACC: shift, round, saturate."""
    shift, bits = unit["DFORMAT.OUTSHIFT"], 8 * unit["DFORMAT.OBYTES"]
    value = rounding_shift(total, shift) if unit["DFORMAT.ROUND"] else total >> shift
    if unit["CTRL.FUNSIGNED"] and unit["CTRL.KUNSIGNED"]:
        return np.clip(value, 0, (1 << bits) - 1)
    return saturated(value, bits) if unit["DFORMAT.SAT"] else signed(value, bits // 8)


def _coefficient_index(unit: Unit, count: int) -> Ints:
    steps = np.zeros(count, np.int64)
    i = np.arange(1, count + 1)
    steps[i % (unit["INCCNT.INCVAL"] + 1) == 0] = unit.signed("INCOFFSET.VAL")
    for n in (1, 2, 3):
        hit = i % (unit[f"RSTCNT{n}.RSTCNT"] + 1) == 0
        if unit[f"CTRL.CNT{n}"]:
            steps[hit] = unit.signed(f"ADDROFFSET.OFFSET{n}")
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(steps)[:-1]]) & 511


def _coefficients(unit: Unit, count: int) -> tuple[Ints, Ints, Ints]:
    scalar = (unit["COEFFAC.A"], unit["COEFFB.B"], unit["COEFFAC.C"])
    table = np.zeros((512, 3), np.int64)
    for entry, (pair, third) in unit.coefficients.items():
        table[entry] = (pair & 0xFFFF, pair >> 16, third & 0xFFFF)
    vector = [unit[f"CTRL.COEFF{name}"] for name in "ABC"]
    index = _coefficient_index(unit, count) if any(vector) else np.zeros(1, np.int64)
    picked = [
        table[index, n] if use else np.full(1, value, np.int64)
        for n, (use, value) in enumerate(zip(vector, scalar, strict=True))
    ]
    return picked[0], picked[1], picked[2]


def arith(epoch: int, unit: Unit, x: Frames, y: Frames | None) -> Frames:
    """An ARITH on one or two streams: affine (operation 0) or product (operation 7)."""
    flat = signed(x.ravel(), unit["INSHIFTER.FBYTESX"])
    other = None if y is None else signed(y.ravel(), unit["INSHIFTER.FBYTESY"])
    if other is not None and other.size != flat.size:
        raise _failed(epoch, unit, f"{flat.size} elements on X, {other.size} on Y")
    operation = unit["CTRL.OP"]
    if operation == 7 and other is not None:
        total = flat * other
    elif operation == 0:
        a, b, c = _coefficients(unit, flat.size)
        total = signed(a, 2) * flat >> unit["SHIFT.AX"]
        if unit["CTRL.COMBINEBC"]:
            total = total + (signed(b << 16 | c, 4) << unit["SHIFT.C"])
        else:
            if other is not None:
                total = total + (signed(b, 2) * other >> unit["SHIFT.BY"])
            total = total + (signed(c, 2) << unit["SHIFT.C"])
    else:
        raise ModelError("ATN-007", epoch=epoch, unit=unit.name, reason=f"operation {operation}")
    shift, size = unit["SHIFT.RES"], unit["CTRL.OBYTES"]
    total = rounding_shift(total, shift) if unit["CTRL.ROUND"] else total >> shift
    if unit["CTRL.CLIPOUT"]:
        total = np.clip(total, unit.signed("CLIPRANGE.CLIPMIN"), unit.signed("CLIPRANGE.CLIPMAX"))
    total = saturated(total, 8 * size) if unit["CTRL.SAT"] else signed(total, size)
    return total.reshape(x.shape)


def activ(epoch: int, unit: Unit, stream: Frames) -> Frames:
    """An ACTIV: piecewise quadratic function or thresholded ReLU."""
    x = signed(stream, unit["CTRL.FBYTES"]) - unit.signed("FSUB.FSUB")
    kind, size = unit["CTRL.TYPE"], unit["CTRL.OBYTES"]
    if kind == 2:
        limit, value = (unit.signed(name) for name in ("ACTIVPARAM.PARAM", "ACTIVPARAM2.PARAM2"))
        return np.where(x > limit, x, value)
    if kind != 3:
        raise ModelError("ATN-007", epoch=epoch, unit=unit.name, reason=f"activation type {kind}")
    top = unit["FUNC.BWIDTH"]
    u = (x << unit["ACTIVPARAM.FUNC"]) + (0x8000 if unit["FUNC.SIGNEDOP"] else 0) & 0xFFFF
    registers = unit.registers
    rom0 = np.array([registers.get(256 + n, 0) & 255 for n in range(1 << top)], np.int64)
    rom1 = np.array(
        [
            (registers.get(512 + 2 * n, 0), registers.get(513 + 2 * n, 0) & 0xFFFF)
            for n in range(128)
        ],
        np.int64,
    )
    outer = rom0[u >> 16 - top]
    inner = (u & (1 << 16 - top) - 1) >> 16 - top - (outer >> 6)
    row = np.minimum((outer & 63) + inner, 127)
    a, b = signed(rom1[row, 0] & 0xFFFF, 2), signed(rom1[row, 0] >> 16, 2)
    total = a * x * x + (b * x << unit["FUNC.BSHIFT"])
    total = total + (signed(rom1[row, 1], 2) << unit["FUNC.CSHIFT"])
    shift = unit["FUNC.OUTSHIFT"]
    total = rounding_shift(total, shift) if unit["CTRL.ROUND"] else total >> shift
    return saturated(total, 8 * size) if unit["CTRL.SAT"] else signed(total, size)


def pool(epoch: int, unit: Unit, stream: Frames) -> Frames:
    """A POOL: maximum, average or global average."""
    kind, batch = unit["CTRL.TYPE"], unit["PDIMS.BSIZE"] or 1
    width, height = unit["FDIMS.FEATX"], unit["FDIMS.FEATY"]
    if not width * height or stream.size % (width * height):
        raise _failed(epoch, unit, f"{stream.size} elements, frames of {width * height}")
    x: Ints = signed(stream, unit["CTRL.FBYTES"]).reshape(-1, height, width)
    if unit["CTRL.CROPEN"]:
        x = x[:, unit["YCROP.TCROP"] : unit["YCROP.BCROP"] + 1]
        x = x[:, :, unit["XCROP.LCROP"] : unit["XCROP.RCROP"] + 1]
    x = x.reshape(len(x), x.shape[1], -1, batch)
    shift, scale = unit["CTRL.OUTSHIFT"], unit["MULVAL.MULVAL"]
    bits = 8 * unit["RNDCTRL.OBYTES"]
    if kind == 10:
        return saturated(rounding_shift(x.sum(axis=(1, 2)) * scale, shift), bits)
    if kind not in (0, 2):
        raise ModelError("ATN-007", epoch=epoch, unit=unit.name, reason=f"pooling type {kind}")
    window = unit["PDIMS.WINY"], unit["PDIMS.WINX"]
    if any(unit[f"PDIMS.{side}PAD"] for side in "TBLR"):
        raise ModelError("ATN-007", epoch=epoch, unit=unit.name, reason="padding in a pool")
    view = np.lib.stride_tricks.sliding_window_view(x, window, (1, 2))
    view = view[:, :: unit["PDIMS.STRDY"] or 1, :: unit["PDIMS.STRDX"] or 1]
    if kind == 0:
        largest: Ints = view.max(axis=(-1, -2)).reshape(len(x), -1)
        return largest
    return saturated(rounding_shift(view.sum(axis=(-1, -2)) * scale, shift), bits).reshape(
        len(x), -1
    )
