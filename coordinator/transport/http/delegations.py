"""Tokens for one claim: whoever runs a command for a work item gives it such a token in place of its own.

A caller with the permission ``items.delegate`` gets one with its claim: ``claim_item`` with ``include: ["token"]``, for
a new claim or a renewal, answers with ``token`` beside the other fields of the claim. It is sent like any other bearer
token, to the endpoints of the same project, and its bearer is the agent that holds the claim. It is good for

- ``work_next``, which gives the claimed item and never another one, ``work_note``, and ``work_ask``, which ends the
  claim, also for whoever holds it. What else becomes of the item is for the holder to say: there is no ``work_done``;
- reading the item: ``query_items`` (get), ``query_notes`` (list) and ``get_context`` (itemId) with its full id, as long
  as the claim lasts.

It ends with the claim: by then ``work_next`` says ``stop``, a report that was made before is answered again, and all
else is refused. A claim has one token: each call that asks for one replaces the one before, so a holder revokes one by
asking for another. A repeated call (by its ``requestId``) gives a token of the first one's number: both are good, or
neither is if another call has replaced it since. A token also ends when the credential of the caller who asked for it
may not claim and delegate any more (``coordinator.identity.callers.rights``). Its bearer renews the claim for at most
the time that it was made for.

The token names its project, and is sealed with the project's signing keys. The store keeps only a number, by which the
newest one is told from others; nothing that could be used as a token is stored or logged.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import msgspec

from coordinator.identity.callers.grants import Denied, Grant
from coordinator.identity.callers.permissions import sufficient
from coordinator.store.keys import PROJECT
from coordinator.toolsets.caller import DELEGATES, Caller, Delegation
from coordinator.toolsets.items.store.agents.tokens import TokenStore
from coordinator.transport.rounds.sealing import Seals

PREFIX = b"fcc_"
"""How such a token begins."""
_PURPOSE = "claim"
_CLAIMS = sufficient("items", read_only=False)
"""Permissions of which each allows a caller to claim."""


class _Token(msgspec.Struct, array_like=True):
    """What a token says."""

    number: str
    project: str
    item: str
    fence: int
    agent: str
    kind: str
    ttl_ms: int
    owner: Caller
    """Who has asked for it, with the permissions for that."""


class Delegations:
    """Makes tokens for claims, and reads them.

    Args:
        still: what a caller may do now in a project; None: nothing.
    """

    def __init__(self, tokens: TokenStore, seals: Seals, still: Callable[[Caller, str], Caller | None]) -> None:
        self._tokens = tokens
        self._seals = seals
        self._purpose = f"{_PURPOSE}:{seals.audience}"
        self._still = still

    async def make(self, caller: Caller, agent: str, claim: Delegation, number: str) -> str:
        """A token for a claim that ``agent`` holds.

        Args:
            caller: who asks, and has made sure that it may.
            number: what the token is known by; it is good as long as no other number has replaced this one.

        Raises:
            ToolFailure: the store does not answer.
        """
        owner = Caller(caller.id, permissions=caller.permissions & (_CLAIMS | DELEGATES), credential=caller.credential)
        said = _Token(number, claim.project, claim.item, claim.fence, agent, caller.kind, claim.ttl_ms, owner)
        text = await self._seals.seal(self._purpose, msgspec.msgpack.encode(said), claim.project)
        return f"{PREFIX.decode()}{claim.project}.{text}"

    async def grant(self, token: bytes) -> Grant:
        """What a token grants.

        Raises:
            Denied: it is none, or it was replaced or revoked.
            ToolFailure: the store does not answer.
        """
        project, _, text = token[len(PREFIX) :].decode("latin-1").partition(".")
        known = PROJECT.fullmatch(project) is not None
        sealed = await self._seals.open(self._purpose, text, project) if known else None
        try:
            said = msgspec.msgpack.decode(sealed, type=_Token) if sealed is not None else None
        except msgspec.MsgspecError:
            said = None  # of a release that seals something else
        newest = live = older = False
        if said is not None:
            newest, live, older = await self._tokens.read(said.project, said.item, said.number, said.fence, said.agent)
        if said is None or not newest:
            raise Denied("unknown", "no such token is known here; the token of a claim ends when another one is made")
        owner = self._still(said.owner, said.project)
        if owner is None or _CLAIMS.isdisjoint(owner.permissions) or DELEGATES.isdisjoint(owner.permissions):
            raise Denied("unknown", "whoever has asked for this token may not claim and delegate any more")
        claim = Delegation(said.project, said.item, said.fence, said.ttl_ms, live, older)
        caller = Caller(said.agent, said.kind, claim=claim)
        return Grant(caller=caller, digest=sha256(token).digest(), projects=frozenset((said.project,)))
