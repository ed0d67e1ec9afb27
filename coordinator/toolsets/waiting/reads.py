"""Waiting reads: what tools that read one thing have in common if they can wait for it (``coordinator.feed.waits``).

Such a tool has the arguments ``waitMs``, ``waitFor`` and ``after``. Its answer is that of the plain read, after the
wait, with ``waited``.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from time import monotonic
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from coordinator.errors import invalid
from coordinator.feed import Cursor, position
from coordinator.feed.cursor import START
from coordinator.feed.subjects import Met, Moment, Reading, SubjectSource, WaitOutcome
from coordinator.service import Service
from coordinator.toolsets.deferral import LONGEST_WAIT_MS
from coordinator.toolsets.doc import doc
from coordinator.toolsets.tool import Call, Services

_LONGEST_KEY = 200
_VERSION = re.compile(r"v[0-9a-f]{16}")
WaitMs = Annotated[Annotated[int, Meta(ge=0, le=LONGEST_WAIT_MS)] | None, doc("Longest wait for it.")]
After = Annotated[Annotated[str, Meta(max_length=64)] | None, doc("With changed: waited.after of the last answer.")]


class Waited(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """How a wait ended."""

    met: Annotated[bool, doc("False: ask again.")]
    ms: Annotated[int, doc("Its length.")]
    after: Annotated[str, doc("For after of the next call.")]


def waits(args: Any) -> bool:
    """``Tool.waits`` of such tools."""
    return bool(args.wait_ms)


def wait_ms(args: Any) -> int:
    """``Tool.wait_ms`` of such tools."""
    return args.wait_ms or 0


def check(wait_ms: int | None, wait_for: str | None, after: str | None, allowed: Sequence[str]) -> str | None:
    """What a call waits for; None: it does not.

    Args:
        allowed: values of waitFor; one that ends with a colon is followed by a text.

    Raises:
        ToolFailure: VALIDATION_ERROR, naming the argument and what is allowed.
    """
    if wait_ms is None:
        for name, value in (("waitFor", wait_for), ("after", after)):
            if value is not None:
                raise invalid(name, f"needs waitMs (0 to {LONGEST_WAIT_MS})")
        return None
    shown = ", ".join(f"{one}<key>" if one.endswith(":") else one for one in allowed)
    if wait_for is None:
        raise invalid("waitFor", f"must be given with waitMs; allowed: {shown}")
    head, colon, rest = wait_for.partition(":")
    if head + colon not in allowed or (colon and not rest.strip()):
        raise invalid("waitFor", f"'{wait_for[:80]}' is not allowed; allowed: {shown}")
    if len(rest) > _LONGEST_KEY:
        raise invalid("waitFor", f"the key of a note has at most {_LONGEST_KEY} characters")
    if after is not None and wait_for != "changed":
        raise invalid("after", "goes with waitFor changed only")
    if after is not None and not _VERSION.fullmatch(after):
        raise invalid("after", "must be waited.after of an earlier answer")
    return wait_for


def version(*facts: object) -> str:
    """The version of a state: another one for other facts, which can be packed."""
    return marked(blake2b(msgspec.msgpack.encode(facts), digest_size=8).hexdigest())


def marked(digest: str) -> str:
    """The version with these 16 hex digits."""
    return f"v{digest}"


def waited(outcome: WaitOutcome) -> Waited:
    """What an answer says about its wait."""
    return Waited(met=outcome.met, ms=outcome.ms, after=outcome.reading.version if outcome.reading is not None else "")


class WaitingReads(Service):
    def __init__(self, services: Services) -> None:
        self._room = services.room()
        self._store = services.store
        self._longest_ms = services.settings.longest_wait_ms

    async def wait(
        self,
        call: Call,
        source: SubjectSource,
        key: str,
        milliseconds: int,
        *,
        changed: bool = False,
        after: str | None = None,
        met: Met | None = None,
    ) -> WaitOutcome:
        """Waits for what a call asks for, which was checked. Arguments as of ``Waits.wait``.

        Raises:
            ToolFailure: ``actor_quota``; the store does not answer, or the caller may not read any longer.
        """
        began = monotonic()
        try:
            outcome = await self._room.wait(
                source,
                call.project,
                key,
                min(milliseconds, self._longest_ms) / 1000,
                changed=changed,
                after=after,
                met=met,
                caller=call.caller.id if call.caller is not None else "",
                recheck=call.recheck,
                hung_up=call.hung_up,
            )
        finally:
            if call.idle is not None:
                call.idle(monotonic() - began)
        # The wait of a task is as long as the task.
        return outcome if call.elapsed_ms is None else outcome._replace(ms=call.elapsed_ms)

    def source(self, name: str, reading: Callable[[str, str], Awaitable[Reading | None]]) -> SubjectSource:
        """Subjects that have no script of their own; the key of each is the id of a thing.

        Args:
            reading: reads one of a project; None: there is no such thing. Raises ToolFailure.
        """

        async def read(project: str, asked: Sequence[tuple[str, Reading | None]]) -> Moment:
            # The position first, so an entry about anything that the reads lack has a higher id.
            at = await position.read(self._store, Cursor(project, "", START), 0)
            return Moment(at.epoch, at.last, await asyncio.gather(*(reading(project, key) for key, _ in asked)))

        return SubjectSource(name, read, lambda key: (key,))

    def hold(self, held: bool) -> None:
        """Ends all waits, because this process takes no new work, or allows them again."""
        self._room.hold(held)

    async def stop(self, deadline: float = 0.0) -> None:
        self._room.hold(True)
