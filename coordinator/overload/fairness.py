"""Shares of what is at work: nobody may take all of it while others want some."""

from __future__ import annotations


class Shares:
    """What each party (an agent, a project) has at work and waiting in this process.

    Only parties that have something are remembered, so this is as large as what is in flight.
    """

    __slots__ = ("_has",)

    def __init__(self) -> None:
        self._has: dict[str, int] = {}

    def take(self, party: str) -> None:
        """A call of ``party`` comes in; '' stands for nobody in particular."""
        if party:
            self._has[party] = self._has.get(party, 0) + 1

    def give_back(self, party: str) -> None:
        """A call of ``party`` has left."""
        if party:
            left = self._has[party] - 1
            if left:
                self._has[party] = left
            else:
                del self._has[party]

    def exceeds(self, party: str, most: int) -> bool:
        """Whether ``party`` has ``most`` or more already, and is not alone."""
        return bool(party) and len(self._has) > 1 and self._has.get(party, 0) >= most

    def __len__(self) -> int:
        return len(self._has)
