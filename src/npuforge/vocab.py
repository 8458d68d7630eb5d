"""Enumerations shared by all rooms. Imports nothing from the package."""

from __future__ import annotations

from enum import StrEnum


class DType(StrEnum):
    """Element types of tensors.

    Attributes:
        bits: width of one element.
        nbytes: bytes of one element as npuforge stores it; int4 is stored one element a byte.
        is_float: whether the type is a floating-point type.
    """

    bits: int
    nbytes: int
    is_float: bool

    def __new__(cls, name: str, bits: int = 0) -> DType:
        """A member, with what is asked most often ready to read."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.bits = bits
        member.nbytes = max(1, bits // 8)
        member.is_float = name.startswith("float")
        return member

    __hash__ = str.__hash__  # Enum's runs in Python, and looks up every tensor's type

    INT4 = "int4", 4
    INT8 = "int8", 8
    UINT8 = "uint8", 8
    INT16 = "int16", 16
    INT32 = "int32", 32
    INT64 = "int64", 64
    FLOAT16 = "float16", 16
    FLOAT32 = "float32", 32
    BOOL = "bool", 8

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self.is_float or self is DType.BOOL:
            raise ValueError(f"{self} has no integer limits")
        if self is DType.UINT8:
            return 0, 255
        half = 1 << (self.bits - 1)
        return -half, half - 1


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


class MachineProfile(StrEnum):
    """A kind of machine of the virtual board.

    ``mcu``: a Cortex-M55, cache lines of 32 bytes. ``linux``: lines of 64 bytes, DMA that is not
    coherent, shared buffers aligned to 64 and weights to 128 bytes, physical memory by pages.
    """

    MCU = "mcu"
    LINUX = "linux"


class DriverFault(StrEnum):
    """A mistake that a driver makes in every inference; what a user sees of it is a rate."""

    MISSING_CLEAN = "missing_clean"
    MISSING_INVALIDATE = "missing_invalidate"
    SYNC_OF_ENDS = "sync_of_ends"
    MAINTENANCE_SKIPPED = "maintenance_skipped"
    PHYSICALLY_MISALIGNED = "physically_misaligned"
    SCATTERED_PAGES = "scattered_pages"
