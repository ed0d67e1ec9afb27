"""Waiting reads: what tools that read one thing have in common if they can wait for it (``coordinator.feed.waits``).

Such a tool has the arguments ``waitMs``, ``waitFor`` and ``after``. Its answer is that of the plain read, after the
wait, with ``waited``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta

from coordinator.errors import invalid
from coordinator.feed.waits import Met, Outcome, Source
from coordinator.toolsets.tool import Call, Services

LONGEST_WAIT_MS = 50_000
WaitMs = Annotated[
    Annotated[int, Meta(ge=0, le=LONGEST_WAIT_MS)] | None,
    Meta(description="Waits so long at most for waitFor."),
]
After = Annotated[
    Annotated[str, Meta(max_length=64)] | None,
    Meta(description="With changed: waited.after of the last answer."),
]


class Waited(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """How a wait ended."""

    met: Annotated[bool, Meta(description="False: ask again.")]
    ms: Annotated[int, Meta(description="Its length.")]
    after: Annotated[str, Meta(description="For after of the next call.")]


class Arguments(Protocol):
    """The arguments of a tool that can wait."""

    wait_ms: int | None
    wait_for: str | None
    after: str | None


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
    if head + colon not in allowed or (colon and not rest):
        raise invalid("waitFor", f"'{wait_for[:80]}' is not allowed; allowed: {shown}")
    if after is not None and wait_for != "changed":
        raise invalid("after", "goes with waitFor changed only")
    return wait_for


class WaitingReads:
    """The waiting reads of one toolset."""

    def __init__(self, services: Services) -> None:
        self._room = services.room()
        self._longest_ms = services.settings.longest_wait_ms

    async def wait(self, call: Call, source: Source, key: str, args: Arguments, *, met: Met | None = None) -> Outcome:
        """Waits for what a call asks for, which was checked.

        Raises:
            ToolFailure: ``actor_quota``; the store does not answer, or the caller may not read any longer.
        """
        milliseconds = min(args.wait_ms or 0, self._longest_ms)
        outcome = await self._room.wait(
            source,
            call.project,
            key,
            milliseconds / 1000,
            changed=args.wait_for == "changed",
            after=args.after,
            met=met,
            caller=call.caller.id if call.caller is not None else "",
            recheck=call.recheck,
            hung_up=call.hung_up,
        )
        if call.idle is not None:
            call.idle(outcome.ms / 1000)
        return outcome

    def hold(self, held: bool) -> None:
        """``Toolset.hold``."""
        self._room.hold(held)
