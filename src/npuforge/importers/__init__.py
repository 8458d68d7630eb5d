"""The importers room: model files to graphs."""

from npuforge.importers.load import load_model, read_model_bytes

__all__ = ["load_model", "read_model_bytes"]
