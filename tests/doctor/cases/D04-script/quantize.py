"""Quantise the keyword model."""

from pathlib import Path

import numpy as np
import tensorflow as tf


def representative_dataset():
    for _ in range(200):
        yield [np.random.rand(1, 96, 64, 1).astype(np.float32)]


converter = tf.lite.TFLiteConverter.from_saved_model("export")
converter.representative_dataset = representative_dataset
Path("model.tflite").write_bytes(converter.convert())
