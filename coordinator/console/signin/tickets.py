"""Tickets: how an operator at a terminal signs in. ``fleet console`` makes one, and its link spends it.

Whoever can make one has the fleet's signing keys, and so may do anything already.
"""

from __future__ import annotations

import secrets

import msgspec

from coordinator.store import Store
from coordinator.store.once import spend
from coordinator.transport.rounds.sealing import Seals

SECONDS = 60
PATH = "/console/signin"
_PURPOSE = "console-ticket"


class _Ticket(msgspec.Struct, array_like=True):
    number: str
    name: str
    ends: int


async def make_ticket(store: Store, seals: Seals, name: str) -> str:
    """The path of a link with a new ticket, which signs in whom ``name`` names."""
    ticket = _Ticket(secrets.token_hex(16), name, await store.time() + SECONDS * 1000)
    text = await seals.seal(_purpose(store), msgspec.msgpack.encode(ticket))
    return f"{PATH}?ticket={text}"


async def spend_ticket(store: Store, seals: Seals, text: str) -> str | None:
    """The name of whom a ticket signs in; None: it is none, has ended or was spent."""
    sealed = await seals.open(_purpose(store), text)
    if sealed is None:
        return None
    ticket = msgspec.msgpack.decode(sealed, type=_Ticket)
    return ticket.name if await spend(store, ticket.number, ticket.ends) else None


def _purpose(store: Store) -> str:
    # The store, because others may have the same keys by the setting signing.keys.
    return f"{_PURPOSE}:{store.identity.known}"
