"""The verbs of the command line and the functions behind them."""

from __future__ import annotations

from collections.abc import Callable

VERBS: dict[str, Callable[..., None]] = {}
