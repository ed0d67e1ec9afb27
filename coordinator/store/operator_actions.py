"""What operators have done by hand to processes, agents, claims and flows: who, what, and why.

Kept among the events of the fleet (``keys.fleet_events``), which are capped. An action on the fleet is recorded in the
step that does it (``Drains``). One on a project can be in no one step with its record, because their keys are in
different slots: it is noted before, and the note settled after it. If a process dies in between, the record says that
it is not known whether the action was done; nothing is done without one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from coordinator.store import keys
from coordinator.store.scripts import STORE, Script
from coordinator.store.store import Store

MOST = 50
"""How many are read at most."""
_KIND = "operator."
KEPT = 10_000
_SCANNED = 500
"""Entries of the stream that one read looks through: it has other events, too."""
_pack = msgspec.msgpack.Encoder().encode
_NOTE: Script[bytes] = Script(STORE, "note_action", scope="fleet")
_SETTLE: Script[Any] = Script(STORE, "settle_action", scope="fleet")


class Intent(NamedTuple):
    """What an operator does."""

    action: str
    """Such as ``drain`` or ``end_claim``."""
    who: str
    project: str
    """Empty: it is about the fleet."""
    target: str
    """Of what: the scope of a drain, an agent, an item, a flow."""
    reason: str
    request: str
    """Of those of a person that have the same, only one is told; empty: it is told anyway."""

    @property
    def record(self) -> bytes:
        """As scripts take it (``lua/operators/operator_actions.lua``)."""
        return _pack((_KIND + self.action, *self[1:]))


class OperatorAction(NamedTuple):
    """One of them."""

    at: int
    """In ms of the store's clock."""
    who: str
    action: str
    project: str
    target: str
    reason: str
    done: bool
    """False: it is being done, or a process died over it: it is not known whether it was done."""


async def note_action(store: Store, intent: Intent) -> bytes:
    """Notes one on a project that is about to be done; returns the entry, for ``settle_action``.

    Raises:
        ToolFailure: as ``Store.run`` says.
    """
    return await store.run(_NOTE, keys.FLEET, KEPT, intent.record)


async def settle_action(store: Store, entry: bytes, intent: Intent, *, done: bool) -> None:
    """Records that a noted one was done, or removes its note. Raises ToolFailure as ``Store.run`` says."""
    await store.run(_SETTLE, keys.FLEET, entry, KEPT, int(done), intent.record)


async def read_actions(store: Store, limit: int = MOST) -> list[OperatorAction]:
    """The last ones, newest first. One round trip; raises ToolFailure as ``Store.command`` says."""
    found = await store.command("XREVRANGE", keys.fleet_events.key(keys.FLEET), "+", "-", "COUNT", _SCANNED)
    actions = dict[tuple[str, str], OperatorAction]()
    for entry, flat in found:
        fields: dict[str, str] = dict(zip(map(bytes.decode, flat[::2]), map(bytes.decode, flat[1::2]), strict=True))
        if fields["k"].startswith(_KIND):
            at, action = int(entry.partition(b"-")[0]), fields["k"].removeprefix(_KIND)
            one = OperatorAction(at, fields["a"], action, fields["p"], fields["i"], fields["r"], "d" not in fields)
            click = one.who, fields.get("q") or entry.decode()
            if one.done or click not in actions or not actions[click].done:  # the first of them, if possible done
                actions[click] = one
    return sorted(actions.values(), key=lambda one: -one.at)[: min(limit, MOST)]
