"""Descriptors in clear (builds without epoch controller) to the same epochs that blobs give.

Which structure field sets which register field follows the public driver's behaviour; both forms go
through one simulator (evidence grade B).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from npuforge.artefacts.c_values import Apply, Record, Symbol, Value, integers, unwrapped
from npuforge.artefacts.network_c import Block, NetworkCall
from npuforge.aton.program import Epoch, Route, Unit
from npuforge.aton.registers import PORTS, UNITS, fields_of
from npuforge.errors import ModelError

Peek = Callable[[int, int], bytes]
"""Bytes of the constants: (address, size)."""

_ARITH_OPERATIONS = {"ARITH_AFFINE": 0, "ARITH_MIN": 1, "ARITH_MAX": 2, "ARITH_MUL": 7}
_ACTIV_TYPES = {"ACTIV_RELU": 0, "ACTIV_PRELU": 1, "ACTIV_TRELU": 2, "ACTIV_FUNC": 3}
_POOL_TYPES = {
    "POOL_MAX": 0,
    "POOL_MIN": 1,
    "POOL_AVG": 2,
    "POOL_GMAX": 8,
    "POOL_GMIN": 9,
    "POOL_GAVG": 10,
}
_NEUTRAL = 16  # input shifters store their shift plus 16
_ENTRIES = 512


class _Registers:
    """Registers of one unit while its structure is taken over."""

    def __init__(self, kind: str) -> None:
        self.fields = fields_of(kind)
        self.words: dict[int, int] = {0: 1}

    def put(self, name: str, value: int) -> None:
        self.fields[name].put(self.words, value)

    def copy(self, record: Record, names: Mapping[str, str]) -> None:
        for field, name in names.items():
            self.put(name, record.integer(field))


def _refuse(block: Block, reason: str) -> ModelError:
    return ModelError("ATN-012", epoch=block.epoch, reason=reason)


def _choice(block: Block, record: Record, field: str, known: Mapping[str, int]) -> int:
    word = record.text(field)
    if word not in known:
        raise _refuse(block, f"{field} {word or 'missing'} is not modelled")
    return known[word]


def base_address(value: Value | None) -> int:
    """An address field as a number; 0 when it holds none."""
    value = unwrapped(value)
    return value if isinstance(value, int) else 0


_STREAM = {
    "raw": "CTRL.RAW",
    "raw_out": "CTRL.RAW_OUT",
    "noblk": "CTRL.NOBLK",
    "noinc": "CTRL.NOINC",
    "continuous": "CTRL.CONT",
    "align_right": "CTRL.LSBMODE",
    "frame_offset": "FOFFSET.REG",
    "loop_offset": "FRPTOFF.REG",
    "frame_loop_cnt": "FRAME_RPT.REG",
    "frame_tot_cnt": "LIMIT.CNT",
}


def _stream(block: Block, record: Record) -> _Registers:
    made = _Registers("STRENG")
    made.copy(record, _STREAM)
    write = record.integer("dir") != 0
    made.put("CTRL.DIR", int(write))
    right = record.integer("align_right") == 1
    made.put("CTRL.SIGNEXT", int(right and record.integer("nbits_unsigned") == 0))
    memory = record.integer("nbits_out" if write else "nbits_in", 8)
    stream = record.integer("nbits_in" if write else "nbits_out", 8)
    if memory > 24 or memory % 8 or not memory:
        raise _refuse(block, f"stream elements of {memory} bits")
    lanes = memory // 8 if memory <= stream else stream // 8
    if memory > stream:
        raise _refuse(block, f"elements of {memory} bits in memory, {stream} in the stream")
    for lane in range(lanes):
        made.put(f"CTRL.SIZE{lane}", 8)
    made.put("ADDR.REG", base_address(record.get("addr_base")) + record.integer("offset_start"))
    if record.integer("raw"):
        count = record.integer("frame_count")
        span = record.integer("offset_end") - record.integer("offset_start")
        made.words[made.fields["FSIZE.WIDTH"].register] = count or span * 8 // memory
        return made
    step = record.integer("batch_offset")
    line = record.integer("line_offset") or record.integer("fwidth") * step
    made.put("FSIZE.WIDTH", record.integer("fwidth"))
    made.put("FSIZE.HEIGHT", record.integer("fheight"))
    made.put("DEPTH.SIZE", record.integer("batch_depth"))
    made.put("DEPTH.OFFSET", step)
    made.put("LIMITEN.DOFF_MSB", step >> 16)
    made.put("STRD.LOFF", line)
    made.put("CID_CACHE.LOFF_MSB", line >> 16)
    return made


_CONVOLUTION = {
    "simd": "CTRL.SIMD",
    "accumulate_gen_first": "CTRL.GEN1SUM",
    "kseten": "CTRL.KSETEN",
    "f_unsigned": "CTRL.FUNSIGNED",
    "k_unsigned": "CTRL.KUNSIGNED",
    "fstat": "CTRL.FSTAT",
    "deepmode": "CTRL.DEEPMODE",
    "dss2mode": "CTRL.DSS2MODE",
    "inbytes_f": "DFORMAT.FBYTES",
    "rounding_o": "DFORMAT.ROUND",
    "saturation_o": "DFORMAT.SAT",
    "outbytes_o": "DFORMAT.OBYTES",
    "shift_o": "DFORMAT.OUTSHIFT",
    "shift_a": "DFORMAT.INSHIFT",
    "fHeight": "FFORMAT.HEIGHT",
    "kernelWidth": "KFORMAT.WIDTH",
    "kernelHeight": "KFORMAT.HEIGHT",
    "batchDepth": "KFORMAT.BTCDEPTH",
    "nKernels": "KFORMAT.NR",
    "hstride": "SAMPLE.HSTRD",
    "vstride": "SAMPLE.VSTRD",
    "fstatcnt": "SAMPLE.FSTATCNT",
    "top_crop": "FVCROP.TOP",
    "bot_crop": "FVCROP.BOTTOM",
    "fsub": "FSUB.FSUB",
    "zfbias": "ZFBIAS.ZFBIAS",
    "kfilt_tot": "KFILT.TOT",
    "kfilt_first": "KFILT.FIRST",
    "kfilt_last": "KFILT.LAST",
    "afilt_tot": "AFILT.TOT",
    "afilt_first": "AFILT.FIRST",
    "afilt_last": "AFILT.LAST",
}
_FILTERS = {
    "": 0,
    "AFILT_MODE_NONE": 0,
    "AFILT_MODE_PIXELDROP": 1,
    "AFILT_MODE_FRAMEDROP": 2,
    "AFILT_MODE_FRAMEZERO": 3,
}


def _convolution(block: Block, record: Record) -> _Registers:
    made = _Registers("CONVACC")
    made.copy(record, _CONVOLUTION)
    made.put("CTRL.NOSUM", int(record.integer("accumulate") == 0))
    made.put("CTRL.NO1SUM", int(record.integer("accumulate_first") == 0))
    mode = record.get("afilt_mode")
    made.put(
        "CTRL.AFILTMODE",
        mode if isinstance(mode, int) else _choice(block, record, "afilt_mode", _FILTERS),
    )
    batch = record.integer("batchDepth", 1)
    made.put("FFORMAT.WIDTH", record.integer("fWidth") * batch)
    made.put("FHCROP.LEFT", record.integer("left_crop") * batch)
    right = record.integer("right_crop")
    made.put("FHCROP.RIGHT", right * batch + batch - 1 if right > 0 else 0)
    frame_only = any(record.integer(name) for name in ("deepmode", "dss2mode", "zfbias"))
    for side, letter, frame, length, step in (
        ("top", "T", "TOP", "kernelHeight", 1),
        ("bot", "B", "BOTTOM", "kernelHeight", 1),
        ("left", "L", "LEFT", "kernelWidth", batch),
        ("right", "R", "RIGHT", "kernelWidth", batch),
    ):
        wanted = record.integer(f"{side}_padding")
        near = 0 if frame_only else min(wanted, record.integer(length) - 1, 2)
        made.put(f"SAMPLE.{letter}PAD", near)
        made.put(f"ZFRAME.{frame}", (wanted - near) * step)
    return made


_ARITH = {
    "rounding_o": "CTRL.ROUND",
    "saturation_o": "CTRL.SAT",
    "round_mode_o": "CTRL.ORNDMODE",
    "outbytes_o": "CTRL.OBYTES",
    "dualinput": "CTRL.DUALIN",
    "combinebc": "CTRL.COMBINEBC",
    "clipout": "CTRL.CLIPOUT",
    "inbytes_x": "INSHIFTER.FBYTESX",
    "inbytes_y": "INSHIFTER.FBYTESY",
    "Ax_shift": "SHIFT.AX",
    "By_shift": "SHIFT.BY",
    "C_shift": "SHIFT.C",
    "shift_o": "SHIFT.RES",
    "A_scalar": "COEFFAC.A",
    "B_scalar": "COEFFB.B",
    "C_scalar": "COEFFAC.C",
    "clipmin": "CLIPRANGE.CLIPMIN",
    "clipmax": "CLIPRANGE.CLIPMAX",
}


def _counted(block: Block, record: Record, made: _Registers) -> int:
    """Index counters of a broadcast; how many coefficients it takes."""
    width, height = record.integer("fWidth"), record.integer("fHeight")
    channels, batch = record.integer("fChannels"), record.integer("batchDepth")
    kind = record.text("bcast").removeprefix("ARITH_BCAST_")
    made.put("CTRL.CNT1", 1)
    made.put("INCOFFSET.VAL", 1)
    if kind == "CHAN":
        made.put("CTRL.CNT2", 1)
        made.put("CTRL.CNT3", 1)
        made.put("RSTCNT1.RSTCNT", batch - 1)
        made.put("RSTCNT2.RSTCNT", width * height * batch - 1)
        made.put("RSTCNT3.RSTCNT", width * height * channels - 1)
        made.put("ADDROFFSET.OFFSET1", -(batch - 1))
        made.put("ADDROFFSET.OFFSET2", 1)
        made.put("ADDROFFSET.OFFSET3", -(channels - 1))
        return channels
    if kind == "SCALAR":
        made.put("INCOFFSET.VAL", 0)
        return 1
    steps = {
        "HEIGHT": (width * batch, width * height * batch, height),
        "WIDTH": (batch, width * batch, width),
        "HEIGHT_WIDTH": (batch, width * height * batch, width * height),
    }
    if kind not in steps:
        raise _refuse(block, f"broadcast {kind} is not modelled")
    advance, wrap, count = steps[kind]
    made.put("INCCNT.INCVAL", advance - 1)
    made.put("RSTCNT1.RSTCNT", wrap - 1)
    made.put("ADDROFFSET.OFFSET1", -(count - 1))
    return count


def _vector(
    block: Block, record: Record, name: str, count: int, bits: int, peek: Peek
) -> list[int] | None:
    """Coefficients of one vector from the constants; None when the structure has no address."""
    address = base_address(record.get(f"{name}_vector"))
    if not address:
        return None
    if bits not in (8, 16, 24, 32):
        raise _refuse(block, f"coefficients of {bits} bits")
    size = bits // 8
    data = peek(address, count * size)
    if len(data) != count * size:
        raise _refuse(block, f"coefficients at 0x{address:x} are not in the weight image")
    return [
        int.from_bytes(data[n * size : n * size + size], "little", signed=True)
        for n in range(count)
    ]


def _arithmetic(
    block: Block, record: Record, peek: Peek
) -> tuple[_Registers, dict[int, tuple[int, int]]]:
    made = _Registers("ARITH")
    made.copy(record, _ARITH)
    made.put("CTRL.OP", _choice(block, record, "operation", _ARITH_OPERATIONS))
    made.put("INSHIFTER.FSHIFTX", record.integer("shift_x") + _NEUTRAL)
    made.put("INSHIFTER.FSHIFTY", record.integer("shift_y") + _NEUTRAL)
    if record.integer("scalar"):
        return made, {}
    for name in "ABC":
        made.put(f"CTRL.COEFF{name}", 1)
    count = min(_counted(block, record, made), _ENTRIES)
    sizes = integers(record.get("vec_precision"))
    if len(sizes) != 3:
        raise _refuse(block, "vec_precision is no triple")
    a, b, c = (
        _vector(block, record, name, count, size, peek)
        for name, size in zip("ABC", sizes, strict=True)
    )
    sign = -1 if record.integer("C_scalar") == -1 else 1
    table = {}
    for n in range(count):
        gain = a[n] if a else record.integer("A_scalar")
        second = b[n] if b else record.integer("B_scalar")
        third = sign * c[n] if c else record.integer("C_scalar")
        if record.integer("combinebc") and c:
            second, third = third >> 16, third & 0xFFFF
        table[n] = ((gain & 0xFFFF) | (second & 0xFFFF) << 16, third & 0xFFFF)
    return made, table


_ACTIV = {
    "inbytes_f": "CTRL.FBYTES",
    "rounding_o": "CTRL.ROUND",
    "saturation_o": "CTRL.SAT",
    "outbytes_o": "CTRL.OBYTES",
    "fsub": "FSUB.FSUB",
    "signedop": "FUNC.SIGNEDOP",
    "shift_o": "FUNC.OUTSHIFT",
    "shift_b": "FUNC.BSHIFT",
    "shift_c": "FUNC.CSHIFT",
    "bwidth": "FUNC.BWIDTH",
    "parameter": "ACTIVPARAM.PARAM",
    "parameter_2": "ACTIVPARAM2.PARAM2",
    "shift_norm": "ACTIVPARAM.FUNC",
}


def _activation(block: Block, record: Record, peek: Peek) -> _Registers:
    made = _Registers("ACTIV")
    made.copy(record, _ACTIV)
    made.put("CTRL.TYPE", _choice(block, record, "operation", _ACTIV_TYPES))
    for name, first, width in (("ROM0", 256, 1), ("ROM1", 512, 6)):
        size = record.integer(f"{name}_nbytes")
        address = base_address(record.get(f"{name}_vector"))
        if not size or not address:
            continue
        if size > 256 * width:
            raise _refuse(block, f"{name} of {size} bytes")
        data = peek(address, size)
        if len(data) != size:
            raise _refuse(block, f"{name} at 0x{address:x} is not in the weight image")
        for n in range(size // width):
            entry = data[n * width : n * width + width]
            if width == 1:
                made.words[first + n] = entry[0]
            else:
                made.words[first + 2 * n] = int.from_bytes(entry[:4], "little")
                made.words[first + 2 * n + 1] = int.from_bytes(entry[4:], "little")
    return made


_POOL = {
    "rounding_o": "CTRL.ROUND",
    "saturation_o": "CTRL.SAT",
    "shift_o": "CTRL.OUTSHIFT",
    "inbytes_f": "CTRL.FBYTES",
    "dualLine": "CTRL.DUALLINE",
    "outbytes_o": "RNDCTRL.OBYTES",
    "poolWinX": "PDIMS.WINX",
    "poolWinY": "PDIMS.WINY",
    "strideX": "PDIMS.STRDX",
    "strideY": "PDIMS.STRDY",
    "topPad": "PDIMS.TPAD",
    "bottomPad": "PDIMS.BPAD",
    "leftPad": "PDIMS.LPAD",
    "rightPad": "PDIMS.RPAD",
    "batchSize": "PDIMS.BSIZE",
    "inputY": "FDIMS.FEATY",
    "mulval": "MULVAL.MULVAL",
    "topCrop": "YCROP.TCROP",
    "bottomCrop": "YCROP.BCROP",
}


def _pooling(block: Block, record: Record) -> _Registers:
    made = _Registers("POOL")
    made.copy(record, _POOL)
    made.put("CTRL.TYPE", _choice(block, record, "operation", _POOL_TYPES))
    batch = record.integer("batchSize", 1)
    made.put("FDIMS.FEATX", record.integer("inputX") * batch)
    made.put("CTRL.CROPEN", 1)
    made.put("XCROP.LCROP", record.integer("leftCrop") * batch)
    made.put("XCROP.RCROP", record.integer("rightCrop") * batch + batch - 1)
    return made


def _port(block: Block, value: Value | None, arguments: int) -> tuple[str, int]:
    """``(unit name, port)`` of a port macro ``X(switch, 0, KIND, number, port)``."""
    if isinstance(value, Apply) and len(value.arguments) == arguments:
        kind, number, port = value.arguments[2:5]
        if isinstance(kind, Symbol) and isinstance(number, int) and isinstance(port, int):
            name = f"{kind.name}{number}"
            if name in UNITS:
                return name, port
    raise _refuse(block, "a switch port that is none of the unit's")


def _routes(block: Block, call: NetworkCall) -> dict[tuple[int, int], Route]:
    found: dict[tuple[int, int], Route] = {}
    items = call.arguments[0] if call.arguments else ()
    for item in items if isinstance(items, tuple) else (items,):
        if not isinstance(item, Record):
            continue
        name, port = _port(block, item.get("LL_Switch_Init_Dest()"), 5)
        ends: list[int | None] = []
        frames: list[int] = []
        for n in (0, 1):
            source = item.get(f"LL_Switch_Init_Source({n})")
            on = item.integer(f"LL_Switch_Init_Context({n})")
            ends.append(
                UNITS.index(_port(block, source, 5)[0]) if source is not None and on else None
            )
            frames.append(item.integer(f"LL_Switch_Init_Frames({n})"))
        place = (UNITS.index(name), port)
        if place not in PORTS:
            raise _refuse(block, f"{name} has no port {port}")
        found[place] = Route((ends[0], ends[1]), (frames[0], frames[1]))
    return found


def _enabled(call: NetworkCall) -> set[str]:
    names = set()
    items = call.arguments[0] if call.arguments else ()
    for item in items if isinstance(items, tuple) else (items,):
        pair = unwrapped(item)
        if isinstance(pair, tuple) and len(pair) == 2:
            kind, number = pair
            if isinstance(kind, Symbol) and isinstance(number, int):
                names.add(f"{kind.name}{number}")
    return names


_PREFIX = {
    "LL_Streng_TensorInit": "STRENG",
    "LL_Convacc_Init": "CONVACC",
    "LL_Arithacc_Init": "ARITH",
    "LL_Activacc_Init": "ACTIV",
    "LL_Poolacc_Init": "POOL",
}


def epoch_of(block: Block, peek: Peek) -> Epoch | None:
    """The epoch a block configures with structures; None when it configures no unit.

    Args:
        block: of the generated code.
        peek: reads the constants, for coefficient vectors and function tables.

    Raises:
        ModelError: ATN-012 with what the structures say that is not modelled.
    """
    units: dict[int, Unit] = {}
    routes: dict[tuple[int, int], Route] = {}
    enabled: set[str] = set()
    for call in block.start:
        if call.function == "LL_Switch_Init":
            routes = _routes(block, call)
        elif call.function == "LL_ATON_EnableUnits_Init":
            enabled |= _enabled(call)
        elif call.function in _PREFIX:
            number, record = call.arguments[0], call.arguments[1]
            name = f"{_PREFIX[call.function]}{number}"
            if name not in UNITS or not isinstance(record, Record):
                raise _refuse(block, f"{call.function} of {name}")
            page = UNITS.index(name)
            made, table = _unit(block, call.function, record, peek)
            units[page] = Unit(page, made.words, table)
    if not units:
        return None
    running = {page: unit for page, unit in units.items() if unit.name in enabled}
    return Epoch(block.epoch, running, routes, -1)


def _unit(
    block: Block, function: str, record: Record, peek: Peek
) -> tuple[_Registers, dict[int, tuple[int, int]]]:
    if function == "LL_Arithacc_Init":
        return _arithmetic(block, record, peek)
    if function == "LL_Streng_TensorInit":
        return _stream(block, record), {}
    if function == "LL_Convacc_Init":
        return _convolution(block, record), {}
    if function == "LL_Activacc_Init":
        return _activation(block, record, peek), {}
    return _pooling(block, record), {}
