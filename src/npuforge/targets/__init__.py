"""The targets room: chips and boards as data."""

from npuforge.targets.load import load_target, parse_target, target_names
from npuforge.targets.model import OperatingPoint, Pool, Reach, Target, Use

__all__ = [
    "OperatingPoint",
    "Pool",
    "Reach",
    "Target",
    "Use",
    "load_target",
    "parse_target",
    "target_names",
]
