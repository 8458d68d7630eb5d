"""Preprocessing as C: a frame becomes the bytes that the PC makes of the same picture."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from tests.builders import single, tensor
from tests.tools import needs_gcc

from npuforge.errors import UsageError
from npuforge.firmware.preprocess import PictureInput, preprocess_header, preprocess_source
from npuforge.firmware.project import template_files
from npuforge.graph import NoAttrs
from npuforge.tasks import Colour, Fit, Preprocessing
from npuforge.tasks.images import store
from npuforge.tasks.preprocess import Geometry, arranged
from npuforge.tasks.resample import axis_table, load_pixels, plan_frame
from npuforge.vocab import DType

FRAMES = [(640, 480), (96, 96), (97, 61), (31, 200), (20, 12)]
DECLARATIONS = [
    Preprocessing(),
    Preprocessing(crop=0.875, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    Preprocessing(fit=Fit.STRETCH, colour=Colour.BGR, scale=1.0, mean=(103.9, 116.8, 123.7)),
    Preprocessing(fit=Fit.LETTERBOX, background=114, scale=1 / 127.5, mean=(1.0,)),
    Preprocessing(fit=Fit.LETTERBOX, crop=0.7, scale=1.0),
]
INPUTS = {
    "int8": tensor("x", (1, 40, 56, 3), quant=(0.02, -5)),
    "uint8": tensor("x", (1, 33, 17, 3), DType.UINT8, quant=(0.01, 128)),
    "planar": tensor("x", (1, 3, 24, 31), DType.FLOAT32),
    "grey": tensor("x", (1, 28, 28, 1), quant=(1 / 255, -128)),
}


def picture_of(kind: str, pre: Preprocessing, frame: tuple[int, int]) -> PictureInput:
    given = INPUTS[kind]
    same = tensor("y", given.shape, given.dtype, quant=None)
    graph = single("relu", [given], [same], NoAttrs())
    return PictureInput("net", 0, graph, pre, frame, "test")


def on_the_board(picture: PictureInput, frame: npt.NDArray[np.uint8], folder: Path) -> bytes:
    """The generated C, compiled for this machine and given the frame with a gap behind each row."""
    files = template_files("app", "application")
    for name in ("picture.c", "picture.h"):
        (folder / name).write_bytes(files[f"app/{name}"])
    (folder / "preprocess.h").write_text(preprocess_header([picture]))
    (folder / "preprocess.c").write_text(preprocess_source([picture]))
    library = folder / "picture.so"
    subprocess.run(
        ["gcc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-shared",
         "-fPIC", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error",
         "picture.c", "preprocess.c", "-o", str(library)],
        cwd=folder, check=True, timeout=60,
    )  # fmt: skip
    made = ctypes.CDLL(str(library))
    wide = np.full((frame.shape[0], frame[0].size + 7), 0xA5, np.uint8)
    wide[:, : frame[0].size] = frame.reshape(frame.shape[0], -1)
    given = picture.graph.tensors["x"]
    out = np.full(given.nbytes + 16, 0x5A, np.uint8)
    made.nf_picture_input(
        ctypes.byref(ctypes.c_char.in_dll(made, picture.name)),
        wide.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_uint32(wide.shape[1]),
        out.ctypes.data_as(ctypes.c_void_p),
    )
    assert (out[given.nbytes :] == 0x5A).all()
    return out[: given.nbytes].tobytes()


@needs_gcc
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("pre", DECLARATIONS, ids=range(len(DECLARATIONS)))
def test_equal_to_the_pc(kind: str, pre: Preprocessing, tmp_path: Path) -> None:
    if kind == "grey" and len(pre.mean) == 3:
        pre = Preprocessing(pre.fit, pre.crop, pre.background, pre.colour, pre.scale)
    rng = np.random.default_rng(len(kind))
    for number, (width, height) in enumerate(FRAMES):
        folder = tmp_path / str(number)
        folder.mkdir()
        picture = picture_of(kind, pre, (width, height))
        size = picture.geometry
        frame = rng.integers(0, 256, (height, width, size.channels), np.uint8)
        Image.fromarray(frame if size.channels == 3 else frame[..., 0]).save(folder / "frame.png")
        pixels = load_pixels(folder / "frame.png", size, pre)
        given = picture.graph.tensors["x"]
        want = store(given, arranged(pre.apply(pixels), size))
        assert on_the_board(picture, frame, folder) == want.tobytes(), (width, height)


def test_weights_sum_to_one() -> None:
    table = axis_table(3, 10.5, 200.25, 210, 17)
    sums = table.weights.sum(axis=1)
    assert (abs(sums - (1 << 22)) <= table.taps).all()
    assert (np.diff(table.first) >= 0).all()
    assert (table.first + table.count <= 213).all()


@pytest.mark.parametrize("frame", [(0, 5), (5000, 10)])
def test_impossible_frames(frame: tuple[int, int]) -> None:
    with pytest.raises(UsageError):
        preprocess_source([picture_of("int8", Preprocessing(), frame)])


def test_thin_frame_leaves_nothing() -> None:
    with pytest.raises(UsageError):
        plan_frame(Preprocessing(fit=Fit.LETTERBOX), Geometry(8, 8, 3, False), 4000, 1)
