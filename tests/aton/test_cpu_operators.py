"""CPU and hybrid operators on a memory image, against the same thing said with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.aton.compiled import Buffer, Operand, Work
from npuforge.aton.software import run_work
from npuforge.aton.streams import Memory
from npuforge.errors import ModelError

RAM = 0x34000000
Array = np.ndarray


class Bench:
    """A megabyte of memory that tensors are put into one after another."""

    def __init__(self) -> None:
        self.memory, self.at = Memory({RAM: np.zeros(1 << 20, np.uint8)}), RAM

    def room(self, size: int) -> int:
        place, self.at = self.at, self.at + size + 32
        return place

    def operand(self, values: Array) -> Operand:
        made = self.target(values.shape, values.dtype)
        self.memory.load(made.address, values.tobytes())
        return made

    def target(self, shape: tuple[int, ...], kind: np.dtype | type) -> Operand:
        full = (1,) * (4 - len(shape)) + shape
        size = np.dtype(kind).itemsize
        strides = tuple(int(np.prod(full[i + 1 :])) * size for i in range(4))
        address = self.room(int(np.prod(full)) * size)
        signed = np.dtype(kind).kind != "u"
        return Operand(address, full, strides, signed, int(np.prod(full)))  # type: ignore[arg-type]

    def run(self, kind: str, operands: dict[str, Operand], **options: object) -> None:
        work = Work(kind, "node", "is" in operands, operands, (), (), options)  # type: ignore[arg-type]
        run_work(work, self.memory, 3)

    def values(self, item: Operand, kind: type) -> Array:
        data = self.memory.peek(item.address, item.count * np.dtype(kind).itemsize)
        return np.frombuffer(data, kind).reshape(item.shape)

    def buffer(self, shape: tuple[int, ...], batch: int, values: Array | None = None) -> Buffer:
        """A picture (rows, columns, channels) of bytes with channels in groups."""
        size = int(np.prod(shape))
        made = Buffer(
            f"b{self.at:x}", self.room(size), size, 0, batch, (), "", 8, False, False, (), (),
            False, shape=(1, *shape),
        )  # fmt: skip
        if values is not None:
            self.memory.load(made.address, grouped(values, batch).tobytes())
        return made

    def move(self, kind: str, sources: list[Buffer], targets: list[Buffer], *numbers: int) -> None:
        work = Work(kind, "node", True, {}, tuple(sources), tuple(targets), {"numbers": numbers})
        run_work(work, self.memory, 3)

    def held(self, item: Buffer) -> bytes:
        return self.memory.peek(item.address, item.size)


def grouped(values: Array, batch: int) -> Array:
    """Rows, columns and channels with every `batch` channels as a picture of their own."""
    rows, columns, channels = values.shape
    parts = values.reshape(rows, columns, channels // batch, batch)
    return np.ascontiguousarray(parts.transpose(2, 0, 1, 3))


def numbers(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def reals(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, 2, shape).astype("<f4")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_concatenation_along_every_axis_in_every_order_of_channels(data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from([1, 2, 3]))
    place = {1: 2, 2: 0, 3: 1}[axis]
    batch = data.draw(st.sampled_from([1, 2, 3]))
    shape = [*data.draw(st.tuples(st.integers(1, 4), st.integers(1, 4))), 6]
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    bench, parts, buffers = Bench(), [], []
    for n, size in enumerate(sizes):
        own = list(shape)
        own[place] = size * 6 if place == 2 else size
        parts.append(numbers(tuple(own), n))
        held = data.draw(st.sampled_from([1, 2, 3, 6, own[2]]))
        buffers.append(bench.buffer(tuple(own), held, parts[-1]))
    whole = np.concatenate(parts, axis=place)
    target = bench.buffer(whole.shape, data.draw(st.sampled_from([batch, whole.shape[2]])))
    bench.move("Concat", buffers, [target], len(sizes), axis, 0, 1)
    assert bench.held(target) == grouped(whole, min(target.batch, whole.shape[2])).tobytes()


def test_parts_that_do_not_fill_the_whole_are_refused() -> None:
    bench = Bench()
    part, whole = bench.buffer((2, 2, 3), 3, numbers((2, 2, 3))), bench.buffer((2, 2, 7), 7)
    with pytest.raises(ModelError, match="ATN-013"):
        bench.move("Concat", [part, part], [whole], 2, 1)
    with pytest.raises(ModelError, match="ATN-013"):
        bench.move("Concat", [part, part, part], [whole], 3, 1)


@pytest.mark.parametrize(("down", "across"), [(2, 2), (2, 1), (1, 3), (3, 2)])
def test_depth_to_space_and_back(down: int, across: int) -> None:
    deep = numbers((2, 3, 5 * down * across))
    blocks = deep.reshape(2, 3, down, across, 5).transpose(0, 2, 1, 3, 4)
    wide = blocks.reshape(2 * down, 3 * across, 5)
    bench = Bench()
    # the runtime takes channels last whatever the descriptor says
    source, target = bench.buffer(deep.shape, deep.shape[2], deep), bench.buffer(wide.shape, 5)
    back = bench.buffer(deep.shape, 1)
    bench.move("DepthToSpace", [source], [target])
    assert bench.held(target) == wide.tobytes()
    bench.move("SpaceToDepth", [target], [back])
    assert bench.held(back) == deep.tobytes()


def test_split_and_slice() -> None:
    bench, values = Bench(), numbers((3, 4, 6))
    source = bench.buffer((3, 4, 6), 6, values)
    pieces = [bench.buffer((3, 4, n), n) for n in (1, 3, 2)]
    bench.move("Split", [source], pieces, 3)
    for piece, wanted in zip(pieces, np.split(values, [1, 4], axis=2), strict=True):
        assert bench.held(piece) == wanted.tobytes()
    rows = [bench.buffer((1, 4, 6), 6) for _ in range(3)]
    bench.move("Split", [source], rows, 3)
    assert bench.held(rows[2]) == values[2].tobytes()
    with pytest.raises(ModelError, match="ATN-013"):
        bench.move("Split", [source], rows[:2], 2)
    cut = bench.buffer((3, 4, 2), 2)
    bench.move("Slice", [source], [cut], 24, 2, 12, 6, 8, 0, 1)
    assert bench.held(cut) == np.ascontiguousarray(values[:, :, :2]).tobytes()
    with pytest.raises(ModelError, match="ATN-013"):
        bench.move("Slice", [source], [cut], 25, 2, 12, 6, 8, 0, 1)


def test_casts_round_only_behind_the_point() -> None:
    def cast(values: list[float], fraction: int) -> list[int]:
        bench = Bench()
        data = np.array(values, "<f4")
        ends = [
            Buffer("x", bench.room(64), data.nbytes, 0, 1, (), "", 32, False, True, (), (), False),
            Buffer("y", bench.room(64), data.nbytes // 2, 0, 1, (), "", 16, False, False, (), (),
                   False, fraction=fraction),
        ]  # fmt: skip
        bench.memory.load(ends[0].address, data.tobytes())
        bench.move("Cast", ends[:1], ends[1:])
        made = np.frombuffer(bench.held(ends[1]), "<i2").tolist()
        bench.move("Cast", ends[1:], ends[:1])
        back = np.frombuffer(bench.held(ends[0]), "<f4").tolist()
        assert back == [value / 2.0**fraction for value in made]
        return made

    assert cast([0.5, -0.5, 1.49, -2.5, 1e9, -1e9], 0) == [1, -1, 1, -3, 32767, -32768]
    assert cast([0.24, 0.25, -0.25], 1) == [0, 1, -1]
    assert cast([7.0, -7.0, 8.0, 65534.0, 65536.0], -1) == [3, -3, 4, 32767, 32767]


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_a_float_convolution(groups: int, dilation: int) -> None:
    bench = Bench()
    x, k, bias = reals((1, 7, 6, 6), 1), reals((3, 3, 2, 6 // groups), 2), reals((3,), 3)
    padded = np.pad(x[0].astype(np.float64), ((1, 0), (0, 2), (0, 0)))
    rows = (8 - 2 * dilation - 1) // 2 + 1
    columns = (8 - dilation - 1) + 1
    wanted = np.zeros((rows, columns, 3))
    for r in range(rows):
        for c in range(columns):
            for made in range(3):
                first = made // (3 // groups) * (6 // groups)
                lines = padded[r * 2 : r * 2 + 2 * dilation + 1 : dilation]
                part = lines[:, c : c + dilation + 1 : dilation, first : first + 6 // groups]
                wanted[r, c, made] = (part * k[made]).sum() + bias[made]
    out = bench.target((1, rows, columns, 3), np.float32)
    ends = {"input": bench.operand(x), "weights": bench.operand(k), "bias": bench.operand(bias)}
    options = {
        "pads": (1, 0, 0, 2), "strides": (2, 1), "dilations": (dilation, dilation),
        "ngroup": groups,
    }  # fmt: skip
    bench.run("Conv", {**ends, "output": out}, **options)
    np.testing.assert_allclose(bench.values(out, np.float32)[0], wanted, rtol=1e-6, atol=1e-6)
    short = bench.target((1, rows - 1, columns, 3), np.float32)
    with pytest.raises(ModelError, match="ATN-013"):
        bench.run("Conv", {**ends, "output": short}, **options)


def test_float_pooling() -> None:
    bench, x = Bench(), reals((1, 4, 4, 2))
    options = {"pads": (1, 1, 0, 0), "strides": (2, 2), "k_shape": (3, 3)}
    source, out = bench.operand(x), bench.target((1, 2, 2, 2), np.float32)
    ends = {"input": source, "output": out}
    function = {"function": "ll_sw_forward_pool", **options}
    bench.run("MaxPool", ends, **function, **{"general.type": "LL_SW_MAXPOOL"})
    assert bench.values(out, np.float32)[0, 0, 0].tolist() == x[0, :2, :2].max(axis=(0, 1)).tolist()
    assert bench.values(out, np.float32)[0, 1, 1].tolist() == x[0, 1:, 1:].max(axis=(0, 1)).tolist()
    for included, share in ((0, 4), (1, 9)):
        kind = {"general.type": "LL_SW_AVGPOOL", "count_include_pad": included}
        bench.run("AveragePool", ends, **function, **kind)
        corner = x[0, :2, :2].astype(np.float64).sum(axis=(0, 1)) / share
        np.testing.assert_allclose(bench.values(out, np.float32)[0, 0, 0], corner, rtol=1e-6)


def test_pairs_of_tensors() -> None:
    bench = Bench()
    x, y = reals((1, 1, 3, 4), 1), reals((1, 1, 1, 4), 2)
    out = bench.target((1, 1, 3, 4), np.float32)
    ends = {"input": bench.operand(x), "operand": bench.operand(y), "output": out}
    for name, wanted in (("ADD", x + y), ("SUB", x - y), ("MUL", x * y), ("MAX", np.maximum(x, y))):
        kind = {"general.type": f"LL_SW_ARITH{name}", "function": "ll_sw_forward_arith"}
        bench.run("Pair", ends, **kind)
        assert bench.values(out, np.float32).tolist() == wanted.tolist()
    with pytest.raises(ModelError, match="ATN-013"):
        bench.run("Pair", ends, **{"general.type": "XOR", "function": "ll_sw_forward_arith"})


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
def test_integer_pairs_round_once_into_the_type_of_their_output(kind: type) -> None:
    bench, x, y = Bench(), numbers((1, 1, 3, 4), 1), numbers((1, 1, 1, 4), 2)
    out = bench.target((1, 1, 3, 4), kind)
    scale, zero = 0.125, np.array([7 if kind is np.uint8 else -3]).astype(kind)
    ends = {
        "input": bench.operand(x), "is": bench.operand(np.array([0.5], "<f4")),
        "izp": bench.operand(np.array([4], np.int8)), "operand": bench.operand(y),
        "operand_s": bench.operand(np.array([0.25], "<f4")),
        "operand_zp": bench.operand(np.array([-9], np.int8)),
        "os": bench.operand(np.array([scale], "<f4")), "ozp": bench.operand(zero), "output": out,
    }  # fmt: skip
    options = {"general.type": "LL_SW_ARITHMUL", "function": "ll_sw_forward_eltwise_integer"}
    bench.run("Mul", ends, **options)
    exact = (x.astype(float) - 4) * 0.5 * (y.astype(float) + 9) * 0.25 / scale
    limits = np.iinfo(kind)
    wanted = np.clip(np.rint(exact) + int(zero[0]), limits.min, limits.max)
    assert bench.values(out, kind).tolist() == wanted.astype(kind).tolist()


def test_normalisation_and_slopes() -> None:
    bench, x = Bench(), reals((1, 2, 2, 3))
    parts = {name: reals((3,), n) for n, name in enumerate(("scale", "bias", "mean"))}
    spread = np.abs(reals((3,), 9)) + 1
    out = bench.target(x.shape, np.float32)
    ends = {"input": bench.operand(x), "output": out, "var": bench.operand(spread)}
    ends |= {name: bench.operand(values) for name, values in parts.items()}
    bench.run("BatchNormalization", ends, function="ll_sw_forward_bn", epsilon=0.001)
    exact = (x - parts["mean"]) / np.sqrt(spread + 0.001) * parts["scale"] + parts["bias"]
    np.testing.assert_allclose(bench.values(out, np.float32), exact, rtol=1e-5)
    slopes = np.array([0.5, 2.0, -1.0, 99.0], "<f4")  # compilers state one more
    bench.run("PRelu", {"input": ends["input"], "operand": bench.operand(slopes), "output": out})
    wanted = np.where(x > 0, x, slopes[:3] * x)
    np.testing.assert_allclose(bench.values(out, np.float32), wanted, rtol=1e-6)


def test_zero_points_that_are_left_out_are_zero() -> None:
    bench, x = Bench(), numbers((1, 1, 2, 4))
    out = bench.target(x.shape, np.float32)
    step = bench.operand(np.array([0.5], "<f4"))
    bench.run("DequantizeLinear", {"input": bench.operand(x), "is": step, "output": out})
    assert bench.values(out, np.float32).tolist() == (x * 0.5).tolist()
