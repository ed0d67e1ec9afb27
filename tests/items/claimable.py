"""What claims and attempts make of an item, in the models of items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

OPEN = ("queue", "work", "review")
ATTEMPTS = ("time", "failed", "gave_up", "hopeless")
"""Reasons for which an end of work is an attempt."""


@dataclass(kw_only=True)
class Claimable:
    role: str = "queue"
    previous: str | None = None
    """The role from which it was blocked."""
    requires: set[str] = field(default_factory=set)
    assignee: str | None = None
    held: str = ""
    """backoff or quarantine."""
    count: int = 0
    """Attempts."""
    ended: int = 0
    """All attempts ever."""
    begun: bool = False
    """Claimed before, and not brought to its role by a reopening or a cascade without a claim since."""
    resumed: bool = False
    """It came back from quarantine, and was not claimed since."""
    holder: str = ""
    """Whose claim it records, live or expired."""
    live: bool = False
    own_role: bool = False
    """The claim was placed in the role in which the item still is."""
    takeover: bool = False
    """Until the first start."""

    @property
    def left(self) -> bool:
        """Whether it is abandoned."""
        in_review = self.resumed or (self.holder != "" and self.own_role)
        return not self.live and (self.begun if self.role == "work" else self.role == "review" and in_review)

    def suits(self, agent: str, able: Iterable[str]) -> bool:
        """Whether it may be offered to an agent with these capabilities."""
        return self.requires <= set(able) and self.assignee in (None, agent)

    def unclaim(self) -> None:
        self.holder, self.live, self.takeover = "", False, False

    def acquire(self, agent: str, *, by_id: bool) -> None:
        self.takeover = self.left and not (self.holder == agent and by_id)
        self.holder, self.live, self.begun, self.own_role, self.resumed = agent, True, True, True, False

    def change(self, role: str, *, cascade: bool = False) -> None:
        """It comes to a role, by a transition of its own or a ``cascade``."""
        kept = self.held == "quarantine" or (self.resumed and "blocked" in (self.role, role))
        self.resumed = kept and not self.live and role != "terminal"
        if not self.holder and (cascade or self.role == "terminal"):
            self.begun = False
        if self.held == "quarantine" or self.role == "terminal":
            self.count = 0
        self.previous, self.role, self.held = self.role if role == "blocked" else None, role, ""
        self.takeover = self.own_role = False

    def end(self, reason: str, most: int) -> None:
        """Its live claim ends, by ``time`` or for the reason of a release, perhaps as an attempt.

        Args:
            most: attempts that it may have; 0: any number.
        """
        hopeless = reason == "hopeless" and self.role in OPEN
        worked_on = self.role == "work" or (self.role == "review" and self.own_role)
        if self.role == "terminal":
            self.unclaim()
        self.live = False
        if hopeless or (worked_on and reason in ATTEMPTS):
            self.count, self.ended, self.held = self.count + 1, self.ended + 1, "backoff"
            if hopeless or self.count >= most > 0:
                self.held = ""
                self.change("blocked")
                self.held = "quarantine"
