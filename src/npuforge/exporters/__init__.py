"""The exporters room: a graph written as a TFLite or ONNX file."""

from npuforge.exporters.tflite.exporter import export_tflite

__all__ = ["export_tflite"]
