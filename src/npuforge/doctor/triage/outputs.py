"""Faults behind the network: outputs frozen, empty, mistyped, misread or cut by cache lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from npuforge.doctor.triage.causes import Cause, Verdict
from npuforge.graph import Array, Graph, Tensor

Outputs = Mapping[str, Array]
Floats = npt.NDArray[np.float64]
LINE = 32
"""Bytes of a Cortex-M55 data-cache line."""


def real_of(tensor: Tensor, array: Array) -> Floats:
    """Real numbers of stored values; floating-point arrays are real already."""
    values = array.astype(np.float64)
    if array.dtype.kind in "iu" and tensor.quantization is not None:
        values = (values - tensor.quant.z) * float(tensor.quant.s)
    return np.nan_to_num(values, nan=1e30, posinf=1e30, neginf=-1e30)


def step_of(tensor: Tensor, reference: Floats) -> float:
    """Smallest difference of a tensor that counts, in real numbers."""
    if tensor.quantization is not None:
        return float(tensor.quant.s)
    return max(1e-6, 1e-4 * float(np.abs(reference).max(initial=0.0)))


def deviation(graph: Graph, recorded: Outputs, given: Outputs) -> float:
    """Mean absolute difference over all outputs, each in its own steps."""
    total, count = 0.0, 0
    for name, array in recorded.items():
        tensor = graph.tensors[name]
        want = real_of(tensor, given[name])
        got = real_of(tensor, array)
        total += float(np.abs(got - want).sum()) / step_of(tensor, want)
        count += want.size
    return total / max(1, count)


def same(graph: Graph, recorded: Outputs, given: Outputs, steps: float = 0.51) -> bool:
    """Whether all outputs agree to within some steps, element by element."""
    for name, array in recorded.items():
        tensor = graph.tensors[name]
        want = real_of(tensor, given[name])
        if np.abs(real_of(tensor, array) - want).max(initial=0.0) > steps * step_of(tensor, want):
            return False
    return True


def _distinct(rows: Sequence[Outputs]) -> int:
    return len({tuple(row[name].tobytes() for name in sorted(row)) for row in rows})


def judge_outputs(
    graph: Graph,
    recorded: Sequence[Outputs],
    reference: Sequence[Outputs],
    typed: Sequence[str] = (),
) -> Iterator[Verdict]:
    """Verdicts that the outputs alone allow, decisive ones first.

    Args:
        graph: the network.
        recorded: outputs of the device by sample.
        reference: outputs of the undisturbed network by sample.
        typed: outputs that were recorded in another integer type.
    """
    yield from _plain(graph, recorded, reference)
    yield from _frozen(graph, recorded, reference)
    base = sum(deviation(graph, r, y) for r, y in zip(recorded, reference, strict=True))
    for cause, detail, rows in _misread(graph, recorded, reference, typed):
        pairs = list(zip(rows, reference, strict=True))
        share = sum(deviation(graph, r, y) for r, y in pairs) / max(base, 1e-9)
        exact = sum(same(graph, r, y) for r, y in pairs)
        if share <= 0.05 or exact == len(pairs):
            yield Verdict(cause, detail, share, exact, len(pairs))
    yield from _lines(graph, recorded, reference)


def _plain(
    graph: Graph, recorded: Sequence[Outputs], reference: Sequence[Outputs]
) -> Iterator[Verdict]:
    count = len(recorded)
    bad = sum(
        int((~np.isfinite(a)).sum())
        for row in recorded
        for a in row.values()
        if a.dtype.kind == "f"
    )
    if bad:
        yield Verdict(Cause.NOT_FINITE, f"{bad} values", 0.0, 0, count)
        return
    if all(not np.any(a) for row in recorded for a in row.values()) and any(
        np.any(a) for row in reference for a in row.values()
    ):
        yield Verdict(Cause.ZEROS, "every output byte is 0", 0.0, 0, count)


def _frozen(
    graph: Graph, recorded: Sequence[Outputs], reference: Sequence[Outputs]
) -> Iterator[Verdict]:
    count = len(recorded)
    if count >= 2 and _distinct(recorded) == 1 and _distinct(reference) > 1:
        first = same(graph, recorded[0], reference[0])
        detail = "the first result, again and again" if first else "one value for all inputs"
        yield Verdict(Cause.FROZEN, detail, 0.0, 0, count)
    elif count >= 3:
        late = sum(same(graph, r, y) for r, y in zip(recorded[1:], reference[:-1], strict=True))
        if late == count - 1 and _distinct(reference) > 1:
            yield Verdict(Cause.LATE, "outputs belong to the sample before", 0.0, late, count)


def _misread(
    graph: Graph, recorded: Sequence[Outputs], reference: Sequence[Outputs], typed: Sequence[str]
) -> Iterator[tuple[Cause, str, list[dict[str, Array]]]]:
    """Recorded outputs put right under one assumption each."""
    names = sorted(recorded[0])
    if len(names) > 1:
        for i, one in enumerate(names):
            for other in names[i + 1 :]:
                if recorded[0][one].size == recorded[0][other].size:
                    yield (
                        Cause.OUTPUT_SWAPPED,
                        f"{one} and {other}",
                        [{**row, one: row[other].reshape(row[one].shape),
                          other: row[one].reshape(row[other].shape)} for row in recorded],
                    )  # fmt: skip
    eight = [n for n in names if recorded[0][n].dtype.itemsize == 1]
    if eight:
        stored = graph.tensors[eight[0]]
        kind = np.int8 if stored.dtype.value == "int8" else np.uint8
        view = [{**row, **{n: row[n].view(kind) for n in eight}} for row in recorded]
        if typed:
            yield Cause.OUTPUT_DTYPE, f"{stored.dtype} read as the other sign", view
        turned = [
            {**row, **{n: (row[n].view(np.uint8) ^ 0x80).view(kind) for n in eight}}
            for row in recorded
        ]
        yield Cause.OUTPUT_DTYPE, "offset by 128", turned
    for axes, detail in (((0, 2, 3, 1), "channels first"), ((0, 3, 1, 2), "channels last")):
        rows = [
            {n: a if a.ndim != 4 else _permuted(a, axes) for n, a in row.items()}
            for row in recorded
        ]
        if any(a.ndim == 4 for a in recorded[0].values()):
            yield Cause.OUTPUT_LAYOUT, f"{detail} in the output buffer", rows
    swapped = [{n: _exchanged(a) for n, a in row.items()} for row in recorded]
    yield Cause.OUTPUT_LAYOUT, "last two axes exchanged", swapped
    yield from _affine(graph, recorded, reference)


def _exchanged(array: Array) -> Array:
    if array.ndim < 2:
        return array
    return array.reshape(*array.shape[:-2], array.shape[-1], array.shape[-2]).swapaxes(-1, -2)


def _permuted(array: Array, axes: tuple[int, ...]) -> Array:
    """Reads bytes that lie in the order ``axes`` as the shape that is meant."""
    inverse = tuple(int(i) for i in np.argsort(axes))
    lying = tuple(array.shape[i] for i in inverse)
    return np.ascontiguousarray(array.reshape(lying).transpose(axes)).reshape(array.shape)


def _affine(
    graph: Graph, recorded: Sequence[Outputs], reference: Sequence[Outputs]
) -> Iterator[tuple[Cause, str, list[dict[str, Array]]]]:
    """Outputs that are a straight line of the right ones: a wrong scale or zero point."""
    lines = {}
    for name in recorded[0]:
        tensor = graph.tensors[name]
        got = np.concatenate([real_of(tensor, row[name]).ravel() for row in recorded])
        want = np.concatenate([real_of(tensor, row[name]).ravel() for row in reference])
        if want.size < 4 or np.ptp(want) == 0 or np.ptp(got) == 0:
            return
        slope, offset = np.polyfit(want, got, 1)
        if abs(np.corrcoef(want, got)[0, 1]) < 0.999 or slope <= 0:
            return
        lines[name] = (float(slope), float(offset))
    moved = {n: (a, b) for n, (a, b) in lines.items() if abs(a - 1) > 0.02 or abs(b) > step_of(
        graph.tensors[n], real_of(graph.tensors[n], reference[0][n]))}  # fmt: skip
    if not moved:
        return
    detail = "; ".join(f"{n}: times {a:.4g}, plus {b:.4g}" for n, (a, b) in moved.items())
    rows: list[dict[str, Array]] = [
        {n: (real_of(graph.tensors[n], a) - lines[n][1]) / lines[n][0] for n, a in row.items()}
        for row in recorded
    ]
    yield Cause.OUTPUT_SCALE, detail, rows


def _lines(
    graph: Graph, recorded: Sequence[Outputs], reference: Sequence[Outputs]
) -> Iterator[Verdict]:
    """Whole cache lines that are wrong while all others are right to the last bit.

    A wrong line holds what another sample left there, or differs almost everywhere: single values
    that deviate are arithmetic.
    """
    wrong = right = 0
    for index, (row, want) in enumerate(zip(recorded, reference, strict=True)):
        for name, array in row.items():
            if array.dtype != want[name].dtype:
                return
            per = LINE // array.dtype.itemsize
            if array.size < 2 * per:
                continue
            got = _by_line(array, per)
            equal = got == _by_line(want[name], per)
            clean = equal.all(axis=1)
            others = [_by_line(y[name], per) for i, y in enumerate(reference) if i != index]
            stale = np.zeros(len(got), bool)
            for other in others:
                stale |= (got == other).all(axis=1)
            if not (clean | stale | (equal.mean(axis=1) < 0.5)).all():
                return
            wrong += int((~clean).sum())
            right += int(clean.sum())
    if wrong and right >= wrong // 4:
        detail = f"{wrong} of {wrong + right} lines of {LINE} bytes"
        yield Verdict(Cause.CACHE_LINES, detail, 0.0, 0, len(recorded))


def _by_line(array: Array, per: int) -> Array:
    flat = array.ravel()
    padded: Array = np.concatenate([flat, np.zeros(-flat.size % per, flat.dtype)])
    return padded.reshape(-1, per)


def one_class(
    graph: Graph, recorded: Sequence[Outputs], reference: Sequence[Outputs]
) -> str | None:
    """The class that always wins although the reference changes its mind, or None."""
    if len(recorded) < 3:
        return None
    for name in recorded[0]:
        if recorded[0][name].size < 2:
            continue
        got = {int(row[name].ravel().argmax()) for row in recorded}
        want = {int(row[name].ravel().argmax()) for row in reference}
        if len(got) == 1 and len(want) > 1:
            return str(got.pop())
    return None


def saturated(recorded: Sequence[Outputs], reference: Sequence[Outputs]) -> str | None:
    """Share of the values at the ends of their type, when it is far more than it should be."""

    def share(rows: Sequence[Outputs]) -> float:
        ends = total = 0
        for row in rows:
            for array in row.values():
                if array.dtype.kind in "iu" and array.dtype.itemsize <= 2:
                    bits = 8 * array.dtype.itemsize
                    low = -(1 << (bits - 1)) if array.dtype.kind == "i" else 0
                    ends += int(np.isin(array, (low, low + (1 << bits) - 1)).sum())
                    total += array.size
        return ends / total if total else 0.0

    got, want = share(recorded), share(reference)
    return f"{got:.0%} at the limits, {want:.0%} in the reference" if got > 2 * want + 0.2 else None
