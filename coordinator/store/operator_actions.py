"""What operators have done by hand to processes, agents, claims and flows: who, what, and why.

Kept among the events of the fleet (``keys.fleet_events``), which are capped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from coordinator.store import keys
from coordinator.store.store import Store

MOST = 50
"""How many are read at most."""
_KIND = "operator."
_KEPT = 10_000
_SCANNED = 500
"""Entries of the stream that one read looks through: it has other events, too."""


class OperatorAction(NamedTuple):
    """One of them."""

    at: int
    """In ms of the store's clock."""
    who: str
    action: str
    """Such as ``drain`` or ``end_claim``."""
    project: str
    """Empty: it was about the fleet."""
    target: str
    """Of what: the scope of a drain, an agent, an item, a flow."""
    reason: str


async def note_action(store: Store, who: str, action: str, project: str, target: str, reason: str) -> None:
    """Adds one. Raises ToolFailure as ``Store.command`` says."""
    fields = ("k", _KIND + action, "i", target, "a", who, "p", project, "r", reason)
    await store.command("XADD", keys.fleet_events.key(keys.FLEET), "MAXLEN", "~", _KEPT, "*", *fields)


async def read_actions(store: Store, limit: int = MOST) -> list[OperatorAction]:
    """The last ones, newest first. One round trip; raises as ``note_action``."""
    found = await store.command("XREVRANGE", keys.fleet_events.key(keys.FLEET), "+", "-", "COUNT", _SCANNED)
    actions = (_action(*entry) for entry in found)
    return [one for one in actions if one is not None][: min(limit, MOST)]


def _action(entry: bytes, flat: list[bytes]) -> OperatorAction | None:
    fields: dict[str, Any] = dict(zip(map(bytes.decode, flat[::2]), map(bytes.decode, flat[1::2]), strict=True))
    if not fields["k"].startswith(_KIND):
        return None
    action = fields["k"].removeprefix(_KIND)
    at = int(entry.partition(b"-")[0])
    return OperatorAction(at, fields["a"], action, fields["p"], fields["i"], fields["r"])
