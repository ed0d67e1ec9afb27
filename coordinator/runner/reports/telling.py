"""What a runner says to the fleet about a job, and what the command may have said itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coordinator.client import ClaimLost, Fleet, FleetError, Job, Refused, Unavailable
from coordinator.runner.options import Options
from coordinator.runner.outcomes import Outcome
from coordinator.runner.reports.usage import TELL_SECONDS, RunNote
from coordinator.runner.stages import Access, AttemptReport, AttemptRun

T = TypeVar("T")
Say = Callable[[str], None]

AGAIN_SECONDS = 1.0
"""The pause before something is said again to a fleet that could not be reached."""


async def access_of(fleet: Fleet, job: Job, options: Options) -> Access:
    """What a command is told of the fleet; with --mcp, a token for its claim, if callers have tokens there."""
    headers: dict[str, str] | None = None
    if options.mcp:
        headers = {"Fleet-Agent": job.agent}
        if fleet.token:
            headers = {"Authorization": f"Bearer {await _renew(job, options.ttl, 'token')}"}
    return Access(fleet.url, fleet.project, job.agent, (fleet.token,) if fleet.token else (), headers, fleet.at)


async def tell(
    job: Job, note: RunNote, report: AttemptReport, options: Options, say: Say, goes_on: Callable[[], bool]
) -> Outcome:
    """Tells the fleet what came of an attempt: notes first, because only what follows is fenced.

    Args:
        note: of the attempt; it tells what was used.
        goes_on: whether another attempt is to follow, whose item comes with the last word on this one.

    Returns:
        What came of it, where the fleet did not take it as reported.

    Raises:
        FleetError: it refuses the last word, too; ``ClaimLost``: the claim is over.
    """
    outcome = report.outcome
    for key, body in report.notes.items():
        if (problem := await _note(job, key, body, say)) and outcome.kind == "done":
            outcome = Outcome("failed", problem)
    facts = {**report.note, "outcome": outcome.kind, "reason": outcome.reason}
    try:
        await _insist(job, lambda: note.tell(facts, report.used), say)
    except ClaimLost:
        raise
    except FleetError as error:
        say(f"{job.id[:8]} the note of the attempt could not be written: {error.message}")
        job.usage(**note.left(report.used))
    if options.mcp:
        # The command may have ended the claim itself; a transition of an item that nobody holds would be taken.
        await _insist(job, lambda: _renew(job, options.ttl), say)
    if outcome.kind == "done":
        outcome = await _complete(job, report, say, goes_on)
    if outcome.kind == "failed":
        await _insist(job, lambda: job.fail(outcome.reason), say)
    elif outcome.kind == "hopeless":
        await _insist(job, lambda: job.quarantine(outcome.reason), say)
    elif outcome.kind in ("later", "broken"):
        await _insist(job, lambda: job.hand_back(outcome.reason), say)
    return outcome


async def keep_telling(job: Job, note: RunNote, run: AttemptRun) -> None:
    """Tells what an attempt has used while it runs, until it is cancelled."""
    while True:
        await asyncio.sleep(TELL_SECONDS)
        try:
            await note.tell(run.facts(), run.used())
        except FleetError:  # the next report has it, too: it says what was used in all
            continue
        job.look()  # the answer says whether a budget is spent now


async def own_report(job: Job) -> Outcome | None:
    """What the command has told the fleet itself, with its token, which ends the claim; None: it has not."""
    try:
        item = await job.call("query_items", {"operation": "get", "id": job.id})
        seen = await job.call("get_context", {"itemId": job.id})
    except FleetError:
        return None
    last = (item.get("transitions") or [{}])[0]
    if last.get("actor", {}).get("id") == job.agent:
        if last["toRole"] in ("terminal", "review"):
            return Outcome("done", "")
        if last["toRole"] == "blocked":
            return Outcome("blocked", "it asks a question, or has set the item aside")
    ended = (seen.get("attempts", {}).get("last") or [{}])[-1]
    if ended.get("claimedBy") == job.agent and ended.get("ended") == "released":
        return Outcome("failed", ended.get("detail") or "it says that it failed")
    return None


async def _renew(job: Job, ttl: int, *include: str) -> str:
    """Renews the claim; returns its token, if that is included. Raises ClaimLost: it is over."""
    renewed = {"itemId": job.id, "fenceToken": job.fence, "ttlSeconds": ttl}
    answer = await job.call("claim_item", {"claims": [renewed], "include": [*include]})
    (claim,) = answer["claimResults"]
    if claim["outcome"] != "success":
        raise ClaimLost("stale_fence", f"the claim is over: {claim['outcome']}")
    return str(claim.get("token", ""))


async def _note(job: Job, key: str, body: str, say: Say) -> str:
    """Writes a note; returns why it could not be written."""
    try:
        await _insist(job, lambda: job.note(key, body), say)
    except ClaimLost:
        raise
    except FleetError as error:
        problem = f"note {key} could not be written: {error.message}"
        say(f"{job.id[:8]} {problem}")
        return problem
    return ""


async def _complete(job: Job, report: AttemptReport, say: Say, goes_on: Callable[[], bool]) -> Outcome:
    try:
        await _insist(job, lambda: job.done(report.result, report.summary or None, next=goes_on()), say)
    except Refused as error:
        item = await _insist(job, lambda: job.call("query_items", {"operation": "get", "id": job.id}), say)
        if item["role"] != "terminal":
            return Outcome("failed", f"the item cannot be completed: {error.message}")
        await job.hand_back()  # completed by a call whose answer was lost, or by the command itself
    except ClaimLost:
        raise
    except FleetError as error:
        return Outcome("failed", f"the item cannot be completed: {error.message}")
    return report.outcome


async def _insist(job: Job, act: Callable[[], Awaitable[T]], say: Say) -> T:
    """Does it again for as long as the fleet cannot be reached and the claim lives."""
    while True:
        try:
            return await act()
        except Unavailable as error:
            job.check()
            say(f"{job.id[:8]} the fleet cannot be told: {error.message}")
            await asyncio.sleep(AGAIN_SECONDS)
