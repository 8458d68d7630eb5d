"""What a release of ST's compiler does differently, as far as time depends on it.

A release is an input of the cost model: the same network on the same board differs by a median of
11 % between releases. Every rule says what it was seen in.
"""

from __future__ import annotations

from dataclasses import dataclass

from npuforge.accelerators.neural_art.epochs import MERGED_FROM, release_number


@dataclass(frozen=True)
class Compiler:
    """Release-dependent rules.

    Attributes:
        release: major and minor number of ST Edge AI Core.
        merged_requantisation: one ARITH stage rescales a result instead of two (compiler 1.1.3
            programs); what is left of the four ARITH units takes swish and residual operators.
        plain_depthwise: depthwise weights of up to 512 channels are stored once, not as dense
            8-channel blocks (weight sizes of the same files under 2.0 and 3.0).
        split_pointwise_mean: the global average behind a 1x1 convolution has an epoch of its own
            (board log of one 1x1 layer under 2.2: one epoch, under 4.0: two).
    """

    release: tuple[int, int]
    merged_requantisation: bool
    plain_depthwise: bool
    split_pointwise_mean: bool


def compiler_rules(release: str) -> Compiler:
    """The rules of a release such as "2.2.0-20266" or "4.0".

    Raises:
        UsageError: not a release number.
    """
    number = release_number(release)
    return Compiler(number, number >= MERGED_FROM, number >= (3, 0), number >= (4, 0))
