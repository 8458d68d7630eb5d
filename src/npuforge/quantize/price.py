"""What a quantised network costs on a target; who asks gives the function that knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npuforge.graph import Graph


@dataclass(frozen=True)
class Price:
    """A network on a target.

    Attributes:
        ms: predicted milliseconds of one inference; None where there is no model of the target.
        weight_bytes: constants.
        activation_bytes: peak of activations; None when the network does not fit.
        narrow_share: share of all multiply-accumulates that the NPU does in 8x8-bit mode, 0..1;
            None without such an NPU.
        why: what does not fit, "" when it does.
    """

    ms: float | None
    weight_bytes: int
    activation_bytes: int | None
    narrow_share: float | None
    why: str = ""

    @property
    def fits(self) -> bool:
        """Whether the network fits the target's memory."""
        return not self.why


Pricing = Callable[[Graph], Price]
"""The price of a network on one target at one operating point."""
