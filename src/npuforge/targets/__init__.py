"""The targets room: chips and boards as data."""

from npuforge.targets.load import load_target, parse_target, target_names
from npuforge.targets.model import Boot, OperatingPoint, Pool, Reach, Target, Use, pool_groups

__all__ = [
    "Boot",
    "OperatingPoint",
    "Pool",
    "Reach",
    "Target",
    "Use",
    "load_target",
    "parse_target",
    "pool_groups",
    "target_names",
]
