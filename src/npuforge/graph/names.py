"""Names that nobody uses yet."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """The names in use, growing with each one that is made."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def fresh(self, name: str) -> str:
        """The name itself, or with as many primes behind it as it takes to be new."""
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name
