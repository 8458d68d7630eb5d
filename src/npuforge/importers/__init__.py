"""The importers room: model files to graphs."""

from npuforge.importers.load import Shapes, load_model, read_model_bytes

__all__ = ["Shapes", "load_model", "read_model_bytes"]
