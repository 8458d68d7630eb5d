"""The smallest cut between two nodes of a directed graph, by shortest augmenting paths."""

from __future__ import annotations

from collections import deque

FREE = 1 << 60
"""Capacity of an edge that no smallest cut contains."""


class Cut:
    """A directed graph with capacities, built edge by edge.

    Nodes are numbers from 0; node 0 is the source, node 1 the sink.
    """

    def __init__(self, nodes: int) -> None:
        self._edges: list[list[int]] = [[] for _ in range(nodes)]
        self._head: list[int] = []
        self._room: list[int] = []

    def add(self, tail: int, head: int, capacity: int) -> None:
        """An edge; its reverse has no capacity."""
        for at, to, room in ((tail, head, capacity), (head, tail, 0)):
            self._edges[at].append(len(self._head))
            self._head.append(to)
            self._room.append(room)

    def smallest(self, enough: int) -> int:
        """Capacity of the smallest cut, or a lower bound of it that is at least `enough`."""
        total = 0
        while total < enough:
            came = self._path()
            if came is None:
                break
            path = []
            at = 1
            while at:
                edge = came[at]
                path.append(edge)
                at = self._head[edge ^ 1]
            flow = min(self._room[edge] for edge in path)
            for edge in path:
                self._room[edge] -= flow
                self._room[edge ^ 1] += flow
            total += flow
        return total

    def side(self) -> list[bool]:
        """For each node whether it is on the source's side of the smallest cut that was found."""
        seen = [False] * len(self._edges)
        seen[0] = True
        queue = deque((0,))
        while queue:
            for edge in self._edges[queue.popleft()]:
                to = self._head[edge]
                if self._room[edge] and not seen[to]:
                    seen[to] = True
                    queue.append(to)
        return seen

    def _path(self) -> list[int] | None:
        """For each node the edge it was reached by; None when the sink is not reached."""
        came = [-1] * len(self._edges)
        seen = [False] * len(self._edges)
        seen[0] = True
        queue = deque((0,))
        while queue:
            at = queue.popleft()
            for edge in self._edges[at]:
                to = self._head[edge]
                if self._room[edge] and not seen[to]:
                    seen[to], came[to] = True, edge
                    if to == 1:
                        return came
                    queue.append(to)
        return None
