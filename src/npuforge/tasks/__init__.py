"""The tasks room: pre- and post-processing, declared once."""

from npuforge.tasks.images import ImageRange, image_to_input, is_image, read_image
from npuforge.tasks.samples import Axis, Samples, load_samples, split_samples

__all__ = [
    "Axis",
    "ImageRange",
    "Samples",
    "image_to_input",
    "is_image",
    "load_samples",
    "read_image",
    "split_samples",
]
