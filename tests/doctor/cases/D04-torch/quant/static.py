import torch
from onnxruntime.quantization import CalibrationDataReader


class Reader(CalibrationDataReader):
    def __init__(self, count=64):
        self.samples = iter([{"x": torch.randn(1, 3, 224, 224).numpy()} for _ in range(count)])

    def get_next(self):
        return next(self.samples, None)
