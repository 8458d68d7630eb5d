"""The tasks room: pre- and post-processing, declared once."""

from npuforge.tasks.dataset import Dataset, Item, Sample, open_dataset
from npuforge.tasks.images import ImageRange, image_to_input, is_image, read_image
from npuforge.tasks.preprocess import (
    Colour,
    Fit,
    Geometry,
    Preprocessing,
    image_geometry,
    load_preprocessing,
)
from npuforge.tasks.samples import Axis, Samples, load_samples, split_samples

__all__ = [
    "Axis",
    "Colour",
    "Dataset",
    "Fit",
    "Geometry",
    "ImageRange",
    "Item",
    "Preprocessing",
    "Sample",
    "Samples",
    "image_geometry",
    "image_to_input",
    "is_image",
    "load_preprocessing",
    "load_samples",
    "open_dataset",
    "read_image",
    "split_samples",
]
