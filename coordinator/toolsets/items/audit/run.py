"""Walks the keys of a project and checks each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Any

from coordinator.errors import ToolFailure
from coordinator.store import Store, keys
from coordinator.toolsets.items.audit import agents, dependencies, items, listings, notes, ranked
from coordinator.toolsets.items.audit.reader import SLICE, Moved, Reader
from coordinator.toolsets.items.audit.report import AuditReport, Difference
from coordinator.toolsets.items.audit.subject import Read, Subject, nothing
from coordinator.toolsets.items.audit.tally import Tally

_TRIES = 8
_OWED: Read = ("EXISTS", keys.owed.suffix)


async def audit(store: Store, project: str) -> AuditReport:
    """Audits one project.

    Takes time in proportion to the number of keys in the server, and memory in proportion to the project's lapsed
    claims.

    In a cluster, it starts again if the project moves to another node meanwhile: SCAN finds nothing on the old one.

    Raises:
        ToolFailure: ``store_unavailable``, also if the project moves again and again, or VALIDATION_ERROR for a bad
            project name.
    """
    for _ in range(_TRIES):
        try:
            return await _Audit(Reader(store, project)).run()
        except Moved:
            continue
    raise ToolFailure("store_unavailable", f"the project {project} is being moved: audit it later", retry_after_ms=5000)


class _Audit:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._tally = Tally()
        self._found: set[Difference] = set()
        self._restless = 0
        self._subjects: dict[str, Callable[[str, str], Subject]] = {
            keys.item.suffix: partial(items.subject, self._tally),
            keys.text.suffix: notes.owned,
            keys.note.suffix: notes.subject,
            keys.dependency.suffix: dependencies.subject,
            keys.queue.suffix: listings.queue,
            keys.answered.suffix: listings.answered,
        }
        """Families of keys that are one subject each."""
        self._walkers: dict[str, Callable[[Reader, str, str], AsyncIterator[Subject]]] = {
            keys.edges.suffix: partial(dependencies.edges, self._tally),
            keys.notes.suffix: notes.marks,
            keys.ranked.suffix: ranked.scope,
            keys.beneath.suffix: ranked.beneath,
            keys.apart.suffix: ranked.apart,
            keys.leases.suffix: agents.leases,
            keys.agents.suffix: agents.agents,
            keys.agent_seen.suffix: agents.seen,
            keys.prefixes.suffix: listings.bucket,
            keys.abandoned.suffix: listings.listed,
            keys.usage_ranked.suffix: listings.listed,
            **{family.suffix: listings.listed for family in items.BY_TIME},
            keys.spent_budgets.suffix: listings.spent,
        }
        """Families of keys with many subjects each."""

    async def run(self) -> AuditReport:
        before = await self._reader.last_event()
        pending: list[Subject] = []
        async for page in self._reader.all_keys():
            async for subject in self._subjects_of(page):
                pending.append(subject)
                if len(pending) == SLICE:
                    await self._judge(pending)
                    pending = []
        await self._judge(pending)
        counters = await self._tally.differences(self._reader)
        judged = await self._reader.last_event() == before
        return AuditReport(
            items=self._tally.items,
            terminal=self._tally.terminal,
            edges=self._tally.edges,
            claims=self._tally.claims,
            counters_judged=judged,
            restless=self._restless,
            differences=sorted({*self._found, *(counters if judged else ())}),
        )

    async def _subjects_of(self, page: list[bytes]) -> AsyncIterator[Subject]:
        """The subjects of some keys."""
        walks = []
        for key in page:
            name = key.removeprefix(self._reader.prefix).decode()
            suffix, _, rest = name.partition(":")
            if suffix in self._subjects:
                yield self._subjects[suffix](name, rest)
            elif suffix in self._walkers:
                walks.append(self._walkers[suffix](self._reader, name, rest))
        # Most keys are small and come whole with their first read, so these reads are sent together.
        firsts = await asyncio.gather(*(anext(walk, None) for walk in walks))
        for first, walk in zip(firsts, walks, strict=True):
            if first is not None:
                yield first
                async for subject in walk:
                    yield subject

    async def _judge(self, subjects: list[Subject]) -> None:
        """Checks each subject on a consistent snapshot.

        Where only the first reads show what else to read, everything is read together after them; a subject that has
        changed in between is retried.
        """
        pending = subjects
        for _ in range(_TRIES):
            deep = [subject for subject in pending if subject.extra_reads is not nothing]
            replies = await self._reader.moment([read for subject in deep for read in subject.first])
            looks = dict(zip(map(id, deep), _split(replies, [len(subject.first) for subject in deep]), strict=True))
            wanted = [subject.first + _extra_reads(subject, looks.get(id(subject))) for subject in pending]
            owing, *flat = await self._reader.moment([_OWED, *(read for reads in wanted for read in reads)])
            if owing:
                await self._reader.settle()
                continue
            moved: list[Subject] = []
            for subject, replies in zip(pending, _split(flat, [len(reads) for reads in wanted]), strict=True):
                first, extra = replies[: len(subject.first)], replies[len(subject.first) :]
                if first == looks.get(id(subject), first):
                    self._found.update(Difference(subject.key, problem) for problem in _problems(subject, first, extra))
                else:
                    moved.append(subject)
            pending = moved
            if not pending:
                return
        self._restless += len(pending)


def _extra_reads(subject: Subject, look: list[Any] | None) -> list[Read]:
    try:
        return subject.extra_reads(look) if look is not None else []
    except (KeyError, ValueError):
        return []  # the check reports the same problem


def _problems(subject: Subject, first: list[Any], extra: list[Any]) -> Iterator[str]:
    """The problems of a subject. Unreadable data is also a problem, and does not end the audit."""
    try:
        yield from subject.judge(first, extra)
    except (KeyError, ValueError) as error:
        yield f"cannot be read: {error!r}"


def _split(replies: list[Any], lengths: Iterable[int]) -> list[list[Any]]:
    """Splits the replies to joined reads again."""
    parts, at = [], 0
    for length in lengths:
        parts.append(replies[at : at + length])
        at += length
    return parts
