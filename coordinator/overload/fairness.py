"""Fair shares: no agent or project may take all the capacity while others want some."""

from __future__ import annotations


class Shares:
    """How many calls of each party (an agent, a project) are in progress or waiting in this process.

    Only parties with such calls are remembered, so the size is bounded by the calls in flight.
    """

    __slots__ = ("_has",)

    def __init__(self) -> None:
        self._has: dict[str, int] = {}

    def take(self, party: str) -> None:
        """A call of ``party`` begins; '' is an unknown party, which is not counted."""
        if party:
            self._has[party] = self._has.get(party, 0) + 1

    def give_back(self, party: str) -> None:
        """A call of ``party`` has ended."""
        if party:
            left = self._has[party] - 1
            if left:
                self._has[party] = left
            else:
                del self._has[party]

    def exceeds(self, party: str, most: int) -> bool:
        """Whether ``party`` has at least ``most`` calls, and is not the only party."""
        return len(self._has) > 1 and self._has.get(party, 0) >= most

    def __len__(self) -> int:
        return len(self._has)
