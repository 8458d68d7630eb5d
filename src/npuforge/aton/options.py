"""Options of CPU operators."""

from __future__ import annotations

from npuforge.aton.compiled import Work


def option(work: Work, name: str, default: float) -> float:
    """A number among the options of an operator."""
    value = work.options.get(name, default)
    return float(value) if isinstance(value, int | float) else default


def listed(work: Work, name: str, count: int, default: int) -> tuple[int, ...]:
    """A list among the options of an operator; all `default` where it has none of that length."""
    value = work.options.get(name)
    if isinstance(value, tuple) and len(value) == count:
        return value
    return (default,) * count
