"""Graph → ONNX file."""
