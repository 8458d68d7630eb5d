"""The exporters room: a graph written as a TFLite or ONNX file."""

from npuforge.exporters.convert import Conversion, Format, convert, format_of
from npuforge.exporters.onnx.exporter import export_onnx
from npuforge.exporters.tflite.exporter import export_tflite

__all__ = ["Conversion", "Format", "convert", "export_onnx", "export_tflite", "format_of"]
