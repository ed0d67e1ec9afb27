"""What operators have done by hand to processes, agents, claims and flows: who, what, and why.

Kept among the events of the fleet (``keys.fleet_events``), which are capped. An action is noted before it is done,
because one of a project can be in no one script with its record: if a process dies in between, the record tells of an
action that was perhaps not done, but nothing is done without one.
"""

from __future__ import annotations

from typing import NamedTuple

from coordinator.store import keys
from coordinator.store.scripts import STORE, Script
from coordinator.store.store import Store

MOST = 50
"""How many are read at most."""
_KIND = "operator."
_KEPT = 10_000
_SCANNED = 500
"""Entries of the stream that one read looks through: it has other events, too."""
_NOTE: Script[bytes] = Script(STORE, "note_action", scope="fleet")


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


async def note_action(
    store: Store, who: str, action: str, project: str, target: str, reason: str, request: str
) -> bytes:
    """Notes one that is about to be done.

    Args:
        request: of those of a person that have the same, only the first is told; empty: it is told anyway.

    Returns:
        The entry, for ``withdraw_action``.

    Raises:
        ToolFailure: as ``Store.run`` says.
    """
    fields = (_KIND + action, who, project, target, reason, request)
    return await store.run(_NOTE, keys.FLEET, _KEPT, *fields)


async def withdraw_action(store: Store, entry: bytes) -> None:
    """Removes the note of one that was not done. Raises ToolFailure as ``Store.command`` says."""
    await store.command("XDEL", keys.fleet_events.key(keys.FLEET), entry)


async def read_actions(store: Store, limit: int = MOST) -> list[OperatorAction]:
    """The last ones, newest first. One round trip; raises as ``withdraw_action``."""
    found = await store.command("XREVRANGE", keys.fleet_events.key(keys.FLEET), "+", "-", "COUNT", _SCANNED)
    actions = dict[tuple[str, str], OperatorAction]()
    for entry, flat in found:
        fields: dict[str, str] = dict(zip(map(bytes.decode, flat[::2]), map(bytes.decode, flat[1::2]), strict=True))
        if fields["k"].startswith(_KIND):
            at, action = int(entry.partition(b"-")[0]), fields["k"].removeprefix(_KIND)
            one = OperatorAction(at, fields["a"], action, fields["p"], fields["i"], fields["r"])
            actions[one.who, fields.get("q") or entry.decode()] = one
    return list(actions.values())[: min(limit, MOST)]
