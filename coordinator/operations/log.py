"""The log of what operators do: ``record`` alone writes it, ``AuditLog`` alone reads it.

The records are among the events of the fleet (``keys.fleet_events``), which are capped. An act can mostly be in no one
step with its record, because their keys are in different slots: it is noted before, and the note is replaced by the
record after it. If a process dies in between, the note stays: its outcome is unknown. Nothing is done without one. A
step that changes the keys of the fleet writes the record itself (``in_step``).

A record never holds arguments, texts of items, or what a call has returned: only names and ids, the reason that the
operator gave, and sentences and codes of our own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from coordinator.errors import ToolFailure
from coordinator.operations.operator import Operator
from coordinator.store import Script, keys
from coordinator.store.fleet.drains import Records
from coordinator.store.scripts import STORE
from coordinator.store.store import Store

Outcome = Literal["allowed", "refused", "failed", "unknown"]
"""``refused``: it could not be done, for the reason in ``detail``; ``failed``: the fleet could not do it now;
``unknown``: it is being done, or was interrupted."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
KEPT = 10_000
"""Events that the fleet keeps."""
PAGE = 500
"""Events that are read at once."""
UNSETTLED_SECONDS = 60.0
"""For how long a note is not shown to those who follow the log: it mostly is replaced in a moment."""
FOLLOW_SECONDS = 0.5
_KIND = "operator."
_LONGEST = 600
"""Characters of a target, and of a detail."""
_UNKNOWN_CODES = ("store_unavailable", "deadline_exceeded", "INTERNAL_ERROR")
"""Codes of failures after which it is not known what was done."""
_pack = msgspec.msgpack.Encoder().encode
_RECORD: Script[bytes] = Script(STORE, "record_act", scope="fleet")


class Act(NamedTuple):
    """What an operator is about to do."""

    action: str
    """Such as ``pause_flow`` or ``end_claim``."""
    type: str
    """Of its target, such as ``flow``, ``item`` or ``agent``."""
    target: str
    project: str = ""
    """Empty: it is about the fleet."""
    detail: str = ""
    """What is done, more exactly, such as the fields that are changed."""


class ActResult(NamedTuple):
    """What came of an act."""

    outcome: Outcome
    said: str = ""
    """A sentence for the operator: why it was refused, or what else is to be known."""
    facts: Any = {}
    """For programs: a mapping, or JSON."""
    code: str | None = None
    """Kept in the log in place of ``said``, where that may quote others; None: it does not."""

    @property
    def done(self) -> bool:
        """Whether it was done, or was so before."""
        return self.outcome == "allowed"


async def record(
    by: Operator, act: Act, do: Callable[[], Awaitable[ActResult]], *, recorded: bool = False
) -> ActResult:
    """Does what an operator wants, and keeps who it was, why, and what came of it.

    Args:
        recorded: the step that does it records it (``in_step``), unless it fails.

    Raises:
        ToolFailure: as ``do``, and as ``Store.run`` says.
    """
    note = b"" if recorded else await by.store.run(_RECORD, keys.FLEET, "", KEPT, _packed(by, act, "unknown"))
    outcome, detail = OUTCOMES[-1], ""
    try:
        result = await do()
        outcome, detail = result.outcome, result.said if result.code is None else result.code
    except ToolFailure as failure:
        outcome, detail = outcome_of(failure), failure.code
        raise
    finally:
        if outcome != "unknown" and not (recorded and outcome == "allowed"):
            await by.store.run(_RECORD, keys.FLEET, note, KEPT, _packed(by, act, outcome, detail))
    return result


def in_step(by: Operator, act: Act, unchanged: str) -> Records:
    """The record of an act, for a step that does it; ``unchanged`` is the detail if it changes nothing."""
    return KEPT, _packed(by, act, "allowed"), _packed(by, act, "allowed", unchanged)


def outcome_of(failure: ToolFailure) -> Outcome:
    """What a failure says about the outcome of what was to be done."""
    if failure.code in _UNKNOWN_CODES:
        return "unknown"
    return "refused" if failure.kind == "permanent" else "failed"


def _packed(by: Operator, act: Act, outcome: Outcome, detail: str = "") -> bytes:
    """A record as an entry of the events of the fleet: kind, target, then fields and values."""
    detail = "; ".join(filter(None, (act.detail, detail)))[:_LONGEST]
    verified = "1" if by.actor.verification.status == "verified" else ""
    state = "" if outcome == "allowed" else outcome
    fields = {"w": by.actor.echo.kind, "v": by.via, "y": verified, "t": act.type, "m": detail, "d": state}
    fields = {name: value for name, value in fields.items() if value}
    fields |= {"a": by.id, "p": act.project, "r": by.reason, "q": by.request}
    return _pack((_KIND + act.action, act.target[:_LONGEST], *(text for pair in fields.items() for text in pair)))


class Who(msgspec.Struct, frozen=True):
    id: str
    kind: str
    """As that of actors: mostly ``user``."""
    via: str
    verified: bool
    """Whether they had signed in; at the command line, the operating system says who they are."""


class Target(msgspec.Struct, frozen=True):
    type: str
    id: str


class ActRecord(msgspec.Struct, frozen=True):
    at: int
    """In ms of the store's clock."""
    project: str
    action: str
    outcome: Outcome
    reason: str
    who: Who
    target: Target
    detail: str
    request: str
    entry: str


class AuditLog:
    """What operators have done. Every method raises ToolFailure as ``Store.command`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def last(self, count: int, project: str = "", scanned: int = KEPT) -> list[ActRecord]:
        """The last records, the oldest first; of repetitions of an act, the first that did it.

        Args:
            project: only those about it.
            scanned: of how many events of the fleet.
        """
        newest, before = dict[object, ActRecord](), "+"
        for _ in range(0, scanned, PAGE):
            page = await self._entries("XREVRANGE", before, "-")
            for one in filter(None, (_record(entry, flat, project) for entry, flat in page)):
                act = (one.who.id, one.request) if one.request else one.entry
                if act not in newest or OUTCOMES.index(one.outcome) <= OUTCOMES.index(newest[act].outcome):
                    newest[act] = one
            if len(page) < PAGE or len(newest) >= count:
                break
            before = f"({page[-1][0].decode()}"
        return sorted(newest.values(), key=lambda act: tuple(map(int, act.entry.split("-"))))[-count:]

    async def follow(self, after: str = "0-0", project: str = "") -> AsyncGenerator[ActRecord, None]:
        """Records as they come, from ``after`` on. A note is held back until its act is settled, or for a minute."""
        held, told = dict[bytes, float](), set[bytes]()
        while True:
            page = await self._entries("XRANGE", f"({after}", "+")
            holds = False
            for entry, flat in page:
                act = None if entry in told else _record(entry, flat, project)
                since = time.monotonic()
                if act is not None and act.outcome == "unknown":
                    since = held.setdefault(entry, since) + UNSETTLED_SECONDS
                if since > time.monotonic():
                    holds = True
                    continue
                if act is not None:
                    yield act
                if holds:
                    told.add(entry)
                else:
                    after = entry.decode()
            if holds or len(page) < PAGE:
                await asyncio.sleep(FOLLOW_SECONDS)

    async def _entries(self, command: str, begin: str, end: str) -> list[tuple[bytes, list[bytes]]]:
        stream = keys.fleet_events.key(keys.FLEET)
        entries: list[tuple[bytes, list[bytes]]] = await self._store.command(command, stream, begin, end, "COUNT", PAGE)
        return entries


def _record(entry: bytes, flat: list[bytes], project: str) -> ActRecord | None:
    """An event of the fleet as a record, which earlier releases wrote with fewer fields; None: it is none, or about
    another project."""
    texts = [text.decode() for text in flat]
    fields = dict(zip(texts[::2], texts[1::2], strict=True))
    if not fields["k"].startswith(_KIND) or project not in ("", fields["p"]):
        return None
    state = fields.get("d", "allowed")
    outcome = next((known for known in OUTCOMES if known == state), OUTCOMES[-1])
    who = Who(fields["a"], fields.get("w", ""), fields.get("v", ""), "y" in fields)
    target, more = Target(fields.get("t", ""), fields["i"]), (fields.get("m", ""), fields.get("q", ""))
    at, action = int(entry.partition(b"-")[0]), fields["k"].removeprefix(_KIND)
    return ActRecord(at, fields["p"], action, outcome, fields["r"], who, target, *more, entry.decode())
