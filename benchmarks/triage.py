"""Triage of failing inferences: injected faults in the data path, and whether their cause is named.

Faults are written here from what firmware does wrong, not with the functions the search tries. The
"device" is the reference executor on the spoilt buffer; outputs are recorded as it gives them.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from common import arguments, model_files, report
from PIL import Image

from npuforge.doctor.triage import Cause, read_recorded, triage
from npuforge.importers import load_model
from npuforge.numerics import Executor
from npuforge.tasks.images import guess_range, input_quantization, store

MODELS = ("image_classification", "visual_wake_words", "keyword_spotting", "anomaly_detection")
SAMPLES = 4


def pictures(shape, rng):
    """Smooth colourful pictures with edges: uint8 [n, h, w, c]."""
    height, width, channels = shape
    rows = []
    for _ in range(SAMPLES):
        small = rng.integers(0, 256, (6, 6, 3), np.uint8)
        big = np.asarray(Image.fromarray(small).resize((width, height), Image.BICUBIC), np.float32)
        y, x = rng.integers(0, height // 2), rng.integers(0, width // 2)
        big = big.copy()
        big[y : y + height // 3, x : x + width // 3] = rng.integers(0, 256, 3)
        big += rng.normal(0, 6, big.shape)
        image = np.clip(big, 0, 255).astype(np.uint8)
        rows.append(image if channels == 3 else image.mean(axis=2, keepdims=True).astype(np.uint8))
    return np.stack(rows)


def signals(tensor, quant, rng):
    """Correlated random numbers over the middle of the input's range."""
    low, high = ((-128 - quant.z) * float(quant.s), (127 - quant.z) * float(quant.s))
    walk = rng.normal(0, 1, (SAMPLES, *tensor.shape)).cumsum(axis=2)
    walk = (walk - walk.min()) / np.ptp(walk)
    return (low + (high - low) * (0.15 + 0.7 * walk)).astype(np.float32)


def image_faults(right):
    """(name, expected causes, pixels -> real numbers or stored array, how)."""
    span = {"0..1": lambda p: p / 255.0, "-1..1": lambda p: p / 127.5 - 1, "0..255": lambda p: p}
    good = span[right]
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    faults = [
        ("BGR", {Cause.BGR}, lambda p: good(p[..., ::-1])),
        ("mirrored", {Cause.FLIP}, lambda p: good(np.fliplr(p))),
        ("upside down", {Cause.FLIP}, lambda p: good(np.flipud(p))),
        ("turned by 90", {Cause.ROTATED}, lambda p: good(np.rot90(p, axes=(0, 1)))),
        ("grey", {Cause.GREY}, lambda p: good(np.repeat(
            (0.299 * p[..., :1] + 0.587 * p[..., 1:2] + 0.114 * p[..., 2:]), 3, -1))),
        ("ImageNet mean/std", {Cause.MEAN_STD}, lambda p: (p / 255.0 - mean) / std),
        ("centre crop", {Cause.CROP}, lambda p: good(np.asarray(Image.fromarray(p).crop((
            p.shape[1] // 8, p.shape[0] // 8, p.shape[1] - p.shape[1] // 8,
            p.shape[0] - p.shape[0] // 8)).resize(p.shape[1::-1], Image.BILINEAR), np.float64))),
        ("channels first", {Cause.LAYOUT}, lambda p: good(p.transpose(2, 0, 1).reshape(p.shape))),
        ("BGR and channels first", {Cause.BGR, Cause.LAYOUT},
         lambda p: good(p[..., ::-1].transpose(2, 0, 1).reshape(p.shape))),
    ]  # fmt: skip
    for name, make in span.items():
        if name != right:
            faults.append((f"range {name}", {Cause.RANGE}, make))
    divided = (lambda p: p / 128.0 - 1) if right == "-1..1" else (lambda p: p / 256.0)
    if right != "0..255":
        faults.append(("divided by 256", {Cause.DIV256}, divided))
    other = (lambda p: p - 128.0) if right == "0..255" else (lambda p: p * 1.0)
    faults.append(
        ("BGR and another range", {Cause.BGR, Cause.RANGE}, lambda p: other(p[..., ::-1]))
    )
    return faults


def byte_faults(tensor, quant):
    """Faults in the bytes of the buffer: (name, causes, stored array, real -> stored array)."""
    faults = [
        ("sample before", {Cause.LATE}, None),
        ("buffer never written", {Cause.CONSTANT, Cause.FROZEN}, lambda s, r: np.zeros_like(s)),
        ("real values halved", {Cause.SCALE}, lambda s, r: keep(tensor, r * 0.5)),
        ("offset of 16 elements", {Cause.SHIFTED}, lambda s, r: rolled(s, 16)),
    ]  # fmt: skip
    if tensor.dtype.is_float:
        white = {Cause.CONSTANT, Cause.FROZEN}
        faults.append(("all 255 (white)", white, lambda s, r: np.full_like(s, 255)))
    else:
        faults += [
            ("uint8 for int8", {Cause.SIGNED}, lambda s, r: (s.view(np.uint8) ^ 128).view(np.int8)),
            ("float bytes copied", {Cause.FLOAT_BYTES},
             float_bytes),
            ("scale of another build", {Cause.SCALE, Cause.RANGE, Cause.DIV256},
             lambda s, r: int8_of(r / (float(quant.s) * 2) + quant.z, s.shape)),
        ]  # fmt: skip
    return faults


def rolled(array, count):
    return np.roll(array.ravel(), count).reshape(array.shape)


def int8_of(values, shape):
    return np.clip(np.rint(values), -128, 127).astype(np.int8).reshape(shape)


def float_bytes(stored, real):
    return np.frombuffer(real.astype("<f4").tobytes()[: stored.size], np.int8).reshape(stored.shape)


def signal_faults(tensor):
    shape = tensor.shape
    axes = sorted(range(len(shape)), key=lambda i: -shape[i])[:2]
    return [
        ("axes exchanged", {Cause.TRANSPOSED}, lambda s, r: s.swapaxes(*axes).reshape(s.shape)),
        ("time reversed", {Cause.FLIP}, lambda s, r: s.ravel()[::-1].reshape(s.shape)),
        ("mean removed", {Cause.MEAN_STD}, lambda s, r: keep(tensor, r - r.mean())),
        ("a quarter of the level", {Cause.SCALE}, lambda s, r: keep(tensor, r / 4)),
        ("twice too loud", {Cause.SCALE}, lambda s, r: keep(tensor, r * 2)),
        # next to nothing is left after quantisation: the same bytes as a buffer full of zeros
        ("int16 scaling twice", {Cause.SCALE, Cause.CONSTANT},
         lambda s, r: keep(tensor, r / 32768)),
    ]  # fmt: skip


def keep(tensor, real):
    return store(tensor, np.ascontiguousarray(real, np.float32).reshape(tensor.shape))


def output_faults(graph):
    tensor = graph.tensors[graph.outputs[0]]
    size = tensor.size
    faults = [
        ("output frozen", {Cause.FROZEN}, lambda ys: [ys[0]] * len(ys)),
        (
            "output buffer never written",
            {Cause.ZEROS, Cause.WEIGHTS},
            lambda ys: [np.zeros_like(y) for y in ys],
        ),
        ("one frame late", {Cause.LATE}, lambda ys: [ys[-1], *ys[:-1]]),
    ]
    if tensor.quantization is not None:
        scale, zero = float(tensor.quant.s), tensor.quant.z
        faults += [
            ("output read as uint8", {Cause.OUTPUT_DTYPE},
             lambda ys: [y.view(np.uint8) for y in ys]),
            ("zero point forgotten", {Cause.OUTPUT_SCALE},
             lambda ys: [y.astype(np.float32) * np.float32(scale) for y in ys]),
            ("scale of another output", {Cause.OUTPUT_SCALE},
             lambda ys: [(y.astype(np.float32) - zero) * np.float32(scale * 1.7) for y in ys]),
        ]  # fmt: skip
    else:
        faults.append(("outputs times 128", {Cause.OUTPUT_SCALE}, lambda ys: [y * 128 for y in ys]))
    if size * tensor.dtype.nbytes >= 128:
        per = 32 // tensor.dtype.nbytes

        def stale(ys):
            rows = []
            for i, y in enumerate(ys):
                row = y.copy().ravel()
                row[per : 3 * per] = ys[i - 1].ravel()[per : 3 * per]
                rows.append(row.reshape(y.shape))
            return rows

        faults.append(("two stale cache lines", {Cause.CACHE_LINES}, stale))
    return faults


def emptied(tensor):
    if tensor.data is None or tensor.size <= 16 or tensor.quantization is None:
        return tensor
    return replace(tensor, data=np.zeros_like(tensor.data))


def injected(path: Path):
    """Yield (fault, causes, right inputs, recorded outputs) of one model."""
    graph = load_model(path)
    tensor = graph.tensors[graph.inputs[0]]
    quant = input_quantization(graph, tensor)
    rng = np.random.default_rng(7)
    executor = Executor(graph)

    def run(stored):
        executor.reset()
        return executor.run({graph.inputs[0]: stored})[graph.outputs[0]]

    shape = tensor.shape
    image = len(shape) == 4 and shape[3] in (1, 3) and min(shape[1:3]) >= 16
    if image:
        pixels = pictures(shape[1:], rng)
        right = guess_range(graph, tensor)
        reals = [right.apply(p.astype(np.float32)) for p in pixels]
    else:
        reals = list(signals(tensor, quant, rng))
    stored = [keep(tensor, real) for real in reals]
    outputs = [run(one) for one in stored]
    if image:
        for name, causes, make in image_faults(right.value):
            if shape[3] == 1 and causes & {Cause.BGR, Cause.GREY, Cause.MEAN_STD, Cause.LAYOUT}:
                continue
            yield name, causes, stored, [run(keep(tensor, make(p))) for p in pixels]
    for name, causes, make in byte_faults(tensor, quant):
        if make is None:
            fed = [stored[i - 1] for i in range(len(stored))]
        else:
            fed = [make(s, r.reshape(shape)) for s, r in zip(stored, reals, strict=True)]
        yield name, causes, stored, [run(np.ascontiguousarray(f)) for f in fed]
    if not image:
        for name, causes, make in signal_faults(tensor):
            fed = [make(s, r.reshape(shape)) for s, r in zip(stored, reals, strict=True)]
            yield name, causes, stored, [run(np.ascontiguousarray(f)) for f in fed]
    for name, causes, make in output_faults(graph):
        yield name, causes, stored, make(outputs)
    broken = {n: emptied(t) for n, t in graph.tensors.items()}
    empty = Executor(replace(graph, tensors=broken))
    yield "weights never loaded", {Cause.WEIGHTS, Cause.FROZEN, Cause.ZEROS}, stored, [
        empty.run({graph.inputs[0]: s})[graph.outputs[0]] for s in stored
    ]  # fmt: skip
    yield "nothing wrong", {Cause.MATCH}, stored, outputs


def run_model(path: Path, rows: list) -> None:
    graph = load_model(path)
    for name, causes, stored, outputs in injected(path):
        same = all(np.array_equal(a, b) for a, b in pairwise(outputs))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "recorded.npz"
            np.savez(file, input=np.stack(stored), output=np.stack(outputs))
            result = triage(graph, read_recorded(file, graph))
        got = {result.best.cause} | ({result.best.second} if result.best.second else set())
        # a pair is right when both of its causes are named; alternatives count singly
        pair = " and " in name
        right = causes <= got if pair else bool(got & causes)
        named = [result.best.cause, *([result.best.second] if result.best.second else [])]
        rows.append(
            (
                path.stem,
                name,
                "/".join(sorted(cause.value for cause in causes)),
                " + ".join(cause.value for cause in named),
                result.best.detail[:40],
                f"{result.best.distance:.3f}",
                result.tried,
                "right" if right else "WRONG",
                "all equal" if same else "",
            )
        )


def main() -> int:
    options = arguments(__doc__ or "")
    rows: list[tuple] = []
    for path in model_files(*MODELS):
        run_model(path, rows)
    right = sum(row[7] == "right" for row in rows)
    columns = ("model", "fault", "cause", "named", "detail", "distance", "tried", "verdict", "")
    share = f"{right / len(rows):.1%}"
    report("Triage", columns, rows, options.json, faults=len(rows), right=right, share=share)
    return 0 if right >= 0.9 * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
