"""What can be wrong between a camera and a class: the causes that triage tells apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from npuforge.messages import render


class Cause(StrEnum):
    """One thing that spoils an inference although the network itself is right."""

    MATCH = "match"
    RANGE = "range"
    DIV256 = "div256"
    MEAN_STD = "mean_std"
    BGR = "bgr"
    GREY = "grey"
    LAYOUT = "layout"
    TRANSPOSED = "transposed"
    FLIP = "flip"
    ROTATED = "rotated"
    CROP = "crop"
    LETTERBOX = "letterbox"
    PITCH = "pitch"
    SHIFTED = "shifted"
    SIGNED = "signed"
    ZERO_POINT = "zero_point"
    SCALE = "scale"
    FLOAT_BYTES = "float_bytes"
    CONSTANT = "constant"
    LATE = "late"
    WEIGHTS = "weights"
    FROZEN = "frozen"
    ZEROS = "zeros"
    NOT_FINITE = "not_finite"
    ONE_CLASS = "one_class"
    OUTPUT_DTYPE = "output_dtype"
    OUTPUT_SCALE = "output_scale"
    OUTPUT_LAYOUT = "output_layout"
    OUTPUT_SWAPPED = "output_swapped"
    CACHE_LINES = "cache_lines"
    SATURATED = "saturated"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Verdict:
    """One explanation of the recorded outputs.

    Attributes:
        cause: what is wrong.
        detail: which variant, for example ``0..255 instead of -1..1``.
        distance: mean absolute deviation of the explanation from the recorded outputs, over that of
            the undisturbed reference: 0 explains everything, 1 nothing.
        exact: samples whose outputs the explanation gives to the last bit.
        samples: samples compared.
        second: a second cause that acts together with the first, or None.
    """

    cause: Cause
    detail: str
    distance: float
    exact: int
    samples: int
    second: Cause | None = None

    @property
    def reproduces(self) -> bool:
        """Whether the recorded outputs come out of it."""
        return self.distance <= 0.05 or (self.samples > 0 and self.exact == self.samples)

    @property
    def causes(self) -> frozenset[Cause]:
        """Its cause or causes."""
        return frozenset({self.cause} | ({self.second} if self.second is not None else set()))

    @property
    def message(self) -> str:
        """What is wrong, in the language in use."""
        return render(f"TRI-{self.cause.value}", {"detail": self.detail})[0]

    @property
    def hint(self) -> str:
        """What to do about it."""
        return render(f"TRI-{self.cause.value}", {"detail": self.detail})[1]
