"""Enumerations shared by all rooms. Imports nothing from the package."""

from __future__ import annotations

from enum import StrEnum


class DType(StrEnum):
    """Element types of tensors."""

    INT4 = "int4"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT16 = "float16"
    FLOAT32 = "float32"
    BOOL = "bool"

    @property
    def bits(self) -> int:
        """Width of one element in bits."""
        return _BITS[self]

    @property
    def nbytes(self) -> int:
        """Bytes of one element as npuforge stores it; int4 is stored one element a byte."""
        return max(1, _BITS[self] // 8)

    @property
    def is_float(self) -> bool:
        """Whether the type is a floating-point type."""
        return self is DType.FLOAT32 or self is DType.FLOAT16

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.is_float or self is DType.BOOL:
            raise ValueError(f"{self} has no integer limits")
        if self is DType.UINT8:
            return 0, 255
        half = 1 << (self.bits - 1)
        return -half, half - 1


_BITS = {
    DType.INT4: 4,
    DType.INT8: 8,
    DType.UINT8: 8,
    DType.INT16: 16,
    DType.INT32: 32,
    DType.INT64: 64,
    DType.FLOAT16: 16,
    DType.FLOAT32: 32,
    DType.BOOL: 8,
}


class Contract(StrEnum):
    """Arithmetic rule of a node; "bit-exact" always means exact to one of these."""

    EXACT = "exact"
    """Data movement and comparisons: no arithmetic, nothing to round."""
    TFLITE_REFERENCE = "tflite_reference"
    """LiteRT's reference kernels: doubling high multiply, then a rounding shift, half away from
    zero; fully connected layers multiply by a double and round half away from zero."""
    TFLITE_MICRO = "tflite_micro"
    """tflite-micro's reference kernels: as tflite_reference, with the doubling high multiply in
    fully connected layers too."""
    ONNX_QLINEAR = "onnx_qlinear"
    """rint(float32(accumulator) * float32 scale), half to even."""
    NEURAL_ART = "neural_art"
    """Neural-ART's units with the two-stage requantisation of compiler 1.1.0: shift to 16 bit,
    gain a channel, global gain and offset, all rounded half away from zero."""
    NEURAL_ART_1_1_3 = "neural_art@1.1.3"
    """Neural-ART's units with the merged requantisation of compiler 1.1.3: shift to 16 bit, then
    gain and offset a channel."""
    FLOAT32 = "float32"
    """Single precision, with a stated tolerance."""


class Activation(StrEnum):
    """Activation fused into a node."""

    NONE = "none"
    RELU = "relu"
    RELU6 = "relu6"
    RELU_N1_TO_1 = "relu_n1_to_1"


class Severity(StrEnum):
    """Weight of a finding."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
