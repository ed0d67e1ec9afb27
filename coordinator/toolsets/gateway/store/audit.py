"""The audit and the approvals, in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from coordinator.settings import Settings
from coordinator.store import Script, Store, keys
from coordinator.toolsets.gateway.rules.task import Event
from coordinator.toolsets.gateway.store.instances import LIBRARY
from coordinator.toolsets.pages import stream_entry
from coordinator.toolsets.timestamp import iso

PAGE = 500
MOST_LISTED = 200
"""How many approvals a page has at most."""
OWN_PROJECT = keys.DEFAULT_PROJECT
"""The project whose audit takes the entries that belong to no project."""


class AuditEntry(Struct, frozen=True, kw_only=True, rename="camel"):
    id: str
    at: str
    """UTC with milliseconds."""
    workflow_id: str
    correlation_id: str
    actor: str
    type: str
    payload: Any
    position: str
    """Its id in the stream; later entries have higher ones."""


class PendingApproval(Struct, array_like=True, frozen=True):
    id: str
    workflow: str
    definition: str
    queue: str
    distinct: bool
    requester: str
    asked_at: int
    transition: str


class Answered(Struct, array_like=True, frozen=True):
    """An approval, answered or not."""

    workflow: str
    definition: str
    queue: str
    distinct: bool
    requester: str
    asked_at: int
    transition: str
    status: str
    """pending, resolved or withdrawn."""
    by: str
    answered_at: int
    answer: str
    """The transition that answered it."""
    via: str = ""
    """``client``: an agent's client was asked, and gave the answer; empty: by a call of its own."""


class ListedApproval(Answered, array_like=True, frozen=True):
    id: str = ""


class ApprovalPage(NamedTuple):
    now: int
    """The store's time in ms."""
    next: str
    """Where the next page begins; empty: this is the last one."""
    rows: list[ListedApproval]


class OwnEntries(NamedTuple):
    """A page of the entries about one instance."""

    rows: list[AuditEntry]
    """The last one first."""
    next: str
    """The entry with which the next page begins; empty: there are none before these that are kept."""
    begins: bool
    """Whether these reach back to the beginning of the instance."""


_WRITE: Script[Any] = Script(LIBRARY, "write_audit")
_OPEN = Script(LIBRARY, "open_approvals", list[PendingApproval])
_LIST = Script(LIBRARY, "list_approvals", ApprovalPage)
_OWN = Script(LIBRARY, "read_own_audit", tuple[list[tuple[str, list[str]]], str, bool])
_NOTE_COPIED: Script[Any] = Script(LIBRARY, "note_copied")
_ONE: Script[Any] = Script(LIBRARY, "read_approval")

_pack = msgspec.msgpack.Encoder().encode
_answered = msgspec.msgpack.Decoder(Answered).decode
_decode = msgspec.json.Decoder().decode


class AuditStore:
    """The audit and the approvals of any project. Raises ToolFailure as ``Store.run`` says."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._cap = settings.events_max

    async def write(
        self, project: str, events: Sequence[Event], *, workflow: str = "", operation: str = "", actor: str = ""
    ) -> None:
        """Appends entries that do not belong to a change of an instance; the scripts of changes write their own."""
        if events:
            await self._store.run(_WRITE, project, self._cap, workflow, operation, actor, _pack(list(events)))

    async def read(self, project: str, after: str = "", count: int = PAGE) -> list[AuditEntry]:
        """Entries after a position, oldest first; without a position from the oldest one kept."""
        start = f"({after}" if after else "-"
        entries = await self._store.command("XRANGE", keys.gate_audit.key(project), start, "+", "COUNT", count)
        return [_entry(position.decode(), [*map(bytes.decode, fields)]) for position, fields in entries or ()]

    async def newest(self, project: str, count: int) -> list[AuditEntry]:
        """The last entries, oldest first."""
        entries = await self._store.command("XREVRANGE", keys.gate_audit.key(project), "+", "-", "COUNT", count)
        return [_entry(position.decode(), [*map(bytes.decode, fields)]) for position, fields in reversed(entries or ())]

    async def of_instance(self, project: str, workflow: str, start: str = "", limit: int = 50) -> OwnEntries:
        """The entries about an instance, from an entry on (``OwnEntries.next``).

        Raises:
            ToolFailure: VALIDATION_ERROR for a malformed ``start``.
        """
        words = stream_entry(start, "start"), max(1, min(limit, PAGE))
        rows, following, begins = await self._store.run(_OWN, project, workflow, *words)
        return OwnEntries([_entry(position, fields) for position, fields in rows], following, begins)

    async def copied(self, project: str) -> str:
        """The position up to which the audit was copied to a file; empty: nothing was copied."""
        position = await self._store.command("GET", keys.gate_copied.key(project))
        return position.decode() if position else ""

    async def note_copied(self, project: str, position: str) -> None:
        """Records that the audit was copied up to a position, unless a later one is recorded."""
        await self._store.run(_NOTE_COPIED, project, position)

    async def first_open(self, project: str) -> PendingApproval | None:
        """The pending approval that was asked for first; None: there is none."""
        approvals = await self._store.run(_OPEN, project, 0, 1)
        return approvals[0] if approvals else None

    async def open_approvals(self, project: str) -> list[PendingApproval]:
        """All pending approvals, oldest first. They are read in pages."""
        approvals: dict[str, PendingApproval] = {}
        since, size = 0, PAGE
        while True:
            page = await self._store.run(_OPEN, project, since, size)
            approvals |= {approval.id: approval for approval in page}
            if len(page) < size:
                return list(approvals.values())
            # The next page begins with the last timestamp of this one. A page that has only one timestamp grows.
            size = PAGE if page[-1].asked_at > since else size * 2
            since = max(since, page[-1].asked_at)

    async def approvals(self, project: str, closed: bool, after: str = "", limit: int = 50) -> ApprovalPage:
        """A page of approvals, the last one first: open ones by when they were asked for, or those that were answered
        or withdrawn, by when they were.

        Args:
            after: ``ApprovalPage.next`` of the page before.
            limit: at most so many, and ``MOST_LISTED``.
        """
        return await self._store.run(_LIST, project, int(closed), after, max(1, min(limit, MOST_LISTED)))

    async def approval(self, project: str, approval: str) -> Answered | None:
        """One approval; None if there is none, or if its instance was deleted."""
        reply = await self._store.run(_ONE, project, approval)
        return None if len(reply) < 2 else _answered(reply)


def _entry(where: str, fields: Sequence[str]) -> AuditEntry:
    facts = dict(zip(fields[::2], fields[1::2], strict=True))
    return AuditEntry(
        id="evt_" + where.replace("-", "_"),
        at=iso(int(where.partition("-")[0])),
        workflow_id=facts["w"],
        correlation_id=facts["c"],
        actor=facts["a"],
        type=facts["e"],
        payload=_decode(facts["p"]),
        position=where,
    )
