"""One import of a source at a time: it holds the claim on the source's marker, an item that is never offered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

from coordinator.client import ClaimLost, Fleet
from coordinator.interchange.identity import item_tag
from coordinator.interchange.model import ImportProblem

_TTL_SECONDS = 60
_RENEW_SECONDS = 15.0
_ASK_SECONDS = 1.0
_SUMMARY = (
    "Marks a source of imports, so that two of them do not run at once. It is never offered. Delete it when nothing is "
    "imported from there any more."
)


@asynccontextmanager
async def locked(fleet: Fleet, source: str, say: Callable[[str], None]) -> AsyncIterator[str]:
    """Holds the source while the block runs, and yields the UUID of its marker; waits for another import to end.

    A lost claim cancels the block.

    Raises:
        ImportProblem: the claim was lost, or the marker cannot be claimed.
        FleetError: the fleet refuses a call.
    """
    marker = await _marker(fleet, source)
    # An identity of its own, because an agent has one claim: its others are to stay.
    agent = f"{fleet.agent}{'-' if '/' in fleet.agent else '/'}import-{uuid4().hex[:8]}"
    fence = await _claim(fleet, marker, source, agent, say)
    try:
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(_renew(fleet, marker, agent, fence))
            try:
                yield marker
            finally:
                renewing.cancel()
    except* ClaimLost:
        raise ImportProblem(f"another import of {source} has begun, because this one was silent for too long") from None
    finally:
        releases = [{"itemId": marker, "fenceToken": fence}]
        await fleet.call("claim_item", {"releases": releases}, agent=agent)


async def find_marker(fleet: Fleet, source: str) -> str | None:
    """The marker's UUID; None: nothing was imported from there yet."""
    name = item_tag(source, "")
    search = {"operation": "search", "tags": name, "sortBy": "createdAt", "sortOrder": "asc", "limit": 1}
    markers = (await fleet.call("query_items", search))["items"]
    return str(markers[0]["id"]) if markers else None


async def _marker(fleet: Fleet, source: str) -> str:
    """The marker's UUID; it is made where there is none. Of two that are made at once, the older one is the marker."""
    marker = await find_marker(fleet, source)
    if marker is None:
        spec = {
            "title": f"Imports from {source}",
            "summary": _SUMMARY,
            "role": "blocked",
            "container": True,
            "statusLabel": "import marker",
            "tags": f"import-marker,{item_tag(source, '')}",
        }
        answer = await fleet.call("manage_items", {"operation": "create", "items": [spec]})
        for failure in answer.get("failures", ()):
            raise ImportProblem(failure["error"])
        mine = answer["items"][0]["id"]
        marker = await find_marker(fleet, source) or mine
        if marker != mine:
            await fleet.call("manage_items", {"operation": "delete", "ids": [mine]})
    return str(marker)


async def _claim(fleet: Fleet, marker: str, source: str, agent: str, say: Callable[[str], None]) -> int:
    waits = False
    while True:
        claim = {"itemId": marker, "ttlSeconds": _TTL_SECONDS}
        (result,) = (await fleet.call("claim_item", {"claims": [claim]}, agent=agent))["claimResults"]
        if result["outcome"] == "success":
            return int(result["fenceToken"])
        if result["outcome"] == "terminal_item":
            moves = [{"itemId": marker, "trigger": trigger} for trigger in ("reopen", "block")]
            await fleet.call("advance_item", {"transitions": moves})
        elif result["outcome"] == "already_claimed":
            if not waits:
                say(f"another import of source {source} is running: waiting for its end (--source names others)")
            waits = True
            await asyncio.sleep(min(_ASK_SECONDS, result.get("retryAfterMs", 0) / 1000 + 0.05))
        else:
            raise ImportProblem(f"the import cannot be begun: {result.get('error') or result['outcome']}")


async def _renew(fleet: Fleet, marker: str, agent: str, fence: int) -> None:
    claim = {"itemId": marker, "ttlSeconds": _TTL_SECONDS, "fenceToken": fence}
    while True:
        await asyncio.sleep(_RENEW_SECONDS)
        (result,) = (await fleet.call("claim_item", {"claims": [claim]}, agent=agent))["claimResults"]
        if result["outcome"] != "success":
            raise ClaimLost("stale_fence", "the claim of the import is lost")
