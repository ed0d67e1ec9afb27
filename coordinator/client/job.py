"""A job: one claimed item, and what its worker can say about it."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from coordinator.client.core import Core
from coordinator.client.errors import ClaimLost, FleetError, JobStopped, Refused, Unavailable, error_of
from coordinator.client.metering import Meter, Told, checked, taken
from coordinator.client.renewals import KeptClaim, now
from coordinator.client.slot import Loop, Outcome, Slot
from coordinator.units import demands

Usage = Mapping[str, Any]
"""What was used, as ``Job.usage`` takes it."""
REPORT_SECONDS = 15.0
"""How often usage is reported by itself, at most."""
RELEASE_SECONDS = 5.0
"""How long a job that was interrupted may take to give its item back."""
UNANSWERED = "the fleet does not answer"
"""Why that failed."""
PROGRESS = "progress"
"""The key of a note."""
UNTOUCHED = "untouched"
"""Why an item is released whose work was not begun."""
_STARTED = {"applied": True}
_ENDED = ("terminal_item", "stale_fence", "already_claimed")
"""The outcomes of a renewal that comes after the last word on the item."""
_LONGEST_DETAIL, _LONGEST_SUMMARY = 500, 2_000
_AT_ONCE = 16
"""Long results are read side by side."""

_log = logging.getLogger(__name__)


class Job:
    """An item that this agent has claimed and begun, as an async context manager around the work on it.

    Its claim is renewed until the work ends. If the claim is lost, the block is cancelled. The block is left without an
    exception, so that a loop over jobs goes on with the next (``raises`` of ``Fleet.jobs`` changes that):

    - an exception of the work is logged with its traceback and gives the item back as a failed attempt;
    - leaving it without ``done`` or another last word gives the item up, which counts as well, with a warning;
    - a lost claim leaves the item alone, with a warning;
    - a spent budget cancels the block and gives the item back, uncounted (``stop_reason``, ``JobStopped``);
    - cancellation from outside gives the item back, uncounted, and passes through.

    Attributes:
        item: the item as ``query_items`` shows it.
        id: its UUID.
        notes: its notes, oldest first: ``[{"key", "role", "body", ...}]``.
        results: what came of the items that it waited for, all of it: ``[{"itemId", "title", "result", ...}]``.
        takeover: another agent has begun the work and left it; its notes may say how far it came.
        role: where the item stands: queue, work, review.
        fence: larger than that of every earlier claim of the item: show it to systems that should refuse late writers.
        agent: who holds it.
        claim: its claim, as it is renewed.
        needs: notes that have to be written before the item can be started (``[{"key", "description", ...}]``).
        outcome: how it ended; None: it has not.
        error: the exception that ended it, if one did.
        stop_reason: which budget is spent, so that the work ends; None: none is.
        stopping: called with that reason in place of cancelling the block, by whoever ends the work otherwise.
        entered: whether work on it has begun.
    """

    error: BaseException | None = None
    stop_reason: str | None = None
    stopping: Callable[[str], None] | None = None
    entered = False
    _unseen_since = (0.0, 0)
    """When ``_unseen`` was sent first, and how many requests were sent before."""
    _reporting: asyncio.Task[None] | None = None
    _task: asyncio.Task[Any] | None = None
    _cancels = 0
    _why = ""
    _moving = False
    """Whether a call is under way by which the item is taken further."""

    def __init__(
        self, core: Core, granted: Mapping[str, Any], loop: Loop[Job], slot: Slot[Job], sent: float, raises: bool
    ) -> None:
        self.item: dict[str, Any] = granted["item"]
        self.notes: list[dict[str, Any]] = granted.get("notes", [])
        self.results: list[dict[str, Any]] = granted.get("results", [])
        self.takeover: bool = granted.get("takeover", False)
        self.id: str = self.item["id"]
        self.role: str = self.item["role"]
        self.fence: int = granted["fenceToken"]
        self.agent: str = granted["claimedBy"]
        self.needs: list[dict[str, Any]] = []
        # What calls look at is set here: that of the class is found more slowly.
        self.outcome: Outcome | None = None
        self._interrupted: Outcome | None = None
        """Why the body was cancelled by this job."""
        self._unseen: Told | None = None
        """A call that tells of usage, or ends the job, and whose answer was not seen."""
        self._core, self._loop, self._slot, self._granted, self._raises = core, loop, slot, granted, raises
        self._meter = Meter()
        self._told_at = moment = now()
        self.claim: KeptClaim = loop.keep(slot, granted, sent)
        # If it was granted at some time during a long wait, what is left of it is known when it has been renewed.
        self._late = moment - sent > self.claim.ttl / 4
        self.claim.placed(moment if self._late else sent)
        core.keeper.keep(self.claim)

    @property
    def title(self) -> str:
        return str(self.item["title"])

    @property
    def description(self) -> str:
        """The item's long text; empty: it has none."""
        return str(self.item.get("description") or "")

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        attempts = self.item.get("attempts")
        return 1 + int(attempts["count"]) if attempts else 1

    @property
    def lost(self) -> bool:
        """Whether the work has to end, because the claim is lost or is being given back. For work that cannot be
        cancelled, such as that of a thread."""
        return self.outcome == "lost" or self._interrupted is not None

    def check(self) -> None:
        """Raises ``ClaimLost`` if the work has to end; ``JobStopped`` if that is because a budget is spent."""
        if self.lost and self.stop_reason is not None:
            raise JobStopped("budget_exhausted", self.stop_reason)
        if self.lost:
            raise ClaimLost("stale_fence", self._why or "the claim is lost")

    def _check_claim(self) -> None:
        """The same if the claim is lost: what is being given back may still be finished."""
        if "lost" in (self.outcome, self._interrupted):
            self.check()

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Calls a tool as the agent of this job; see ``Fleet.call``."""
        return await self._core.call(tool, arguments, agent=self.agent)

    def usage(self, **used: Any) -> None:
        """Counts what was used since the last time: ``job.usage(inputTokens=900, outputTokens=80, model="opus")``.

        It is told with the next call about the item, and during long work after 15 seconds at the latest. Each is
        added once, whatever has to be repeated.

        Args:
            used: whole numbers ``inputTokens``, ``outputTokens``, ``cachedTokens`` (a part of the input),
                ``costMicroUsd`` and ``wallMs``; and ``model``.

        Raises:
            Invalid: one of them is unknown or wrong.
        """
        counted = checked(used)
        if self.outcome is not None:
            raise RuntimeError(f"the job has ended: {self.outcome}")
        self._meter.add(counted)
        self._report_in_time()

    def _report_in_time(self) -> None:
        if (self._meter or self._unseen is not None) and self._reporting is None and self.outcome is None:
            self._reporting = self._core.background(self._report_later(self._told_at + REPORT_SECONDS - now()))

    async def note(self, key: str, body: str, role: str | None = None, usage: Usage | None = None) -> None:
        """Writes a note, in place of one under this key.

        Args:
            role: the phase that it belongs to: queue, work or review. Default: that of the item.
            usage: what was used besides what ``usage`` has counted. So with the other calls.
        """
        self._check_claim()
        self._written(await self._tell("manage_notes", self._note(key, body, role), usage))

    def _note(self, key: str, body: str, role: str | None) -> dict[str, Any]:
        written = {"itemId": self.id, "key": key, "role": role or self.role, "body": body}
        return {"operation": "upsert", "notes": [written]}

    def _written(self, answer: dict[str, Any]) -> None:
        if answer["failed"]:
            raise error_of("VALIDATION_ERROR", str(answer["failures"][0].get("error")), answer)

    async def take(self, *resources: str | Mapping[str, Any]) -> bool:
        """Takes further resources for the claim, all of them or none; they are given back with it.

        Args:
            resources: keys (or ``gpu=2``, ``repo/app=shared``), or mappings of key, mode and units.

        Returns:
            Whether they were free. If not, the claim is as before: go on without them, ask again later, or give up.

        Raises:
            ValueError: a text has another form; it says which is allowed.
        """
        self._check_claim()
        wanted = [each for need in resources for each in (demands(need) if isinstance(need, str) else [dict(need)])]
        result = (await self._tell("claim_item", self._renewal(resources=wanted)))["claimResults"][0]
        if result["outcome"] not in ("success", "resource_busy"):
            raise ClaimLost("stale_fence", f"the claim is lost: {result['outcome']}")
        return bool(result["outcome"] == "success")

    async def progress(self, text: str, usage: Usage | None = None) -> None:
        """Says how far the work is, as the note ``progress``."""
        await self.note(PROGRESS, text, usage=usage)

    async def done(
        self, result: Any = None, summary: str | None = None, usage: Usage | None = None, next: bool = False
    ) -> None:
        """Finishes the item, or hands it to review where its type has such a phase.

        If the loop waits for a job, as that of ``Fleet.work`` does, the same call claims the next one.

        Args:
            result: what came of it, text or JSON; becomes the note ``result``, which dependents get with their job.
            summary: a sentence for the history.
            next: whether the call claims the next job in any case: the loop is about to go on. A job that it does not
                begin soon is given back, untouched.

        Raises:
            Refused: a rule is against it, such as a missing note; write it and repeat the call.
            ClaimLost: the claim is lost, and nothing was changed.
        """
        self._check_open()
        released = {"itemId": self.id, "fenceToken": self.fence, "reason": "done"}
        if result is not None:
            released["result"] = result
        if summary:
            released["summary"] = summary[:_LONGEST_SUMMARY]
        ended = {"releases": [released]}
        (said,) = (await self._tell("claim_item", ended, usage, moves=True, ends="done", asked=next))["releaseResults"]
        if said["outcome"] in ("success", "refused"):
            self._moved(said["transition"])
        else:
            self._why = self._why or f"the claim is lost: {said['outcome']}"
            raise ClaimLost("stale_fence", self._why)
        self._end("done")

    async def fail(self, detail: str, usage: Usage | None = None) -> None:
        """Gives the item back as a failed attempt: it is offered again later, or put into quarantine."""
        await self._release("failed", detail, usage=usage)

    async def give_up(self, detail: str, usage: Usage | None = None) -> None:
        """The same for work that this agent will not do, which was not tried or has not failed."""
        await self._release("gave_up", detail, usage=usage)

    async def quarantine(self, detail: str, usage: Usage | None = None) -> None:
        """Gives the item up for all agents: it is put into quarantine at once, until somebody resumes it."""
        await self._release("hopeless", detail, usage=usage)

    async def hand_back(self, detail: str = "", usage: Usage | None = None, untouched: bool = False) -> None:
        """Gives the item back for another agent, at once and uncounted.

        Args:
            untouched: whether the work was not begun: then the item is again as it was before its claim.
        """
        if untouched:
            await self._release(UNTOUCHED, "", outcome="handed_back", usage=usage)
        else:
            await self._release("handed_back", detail, usage=usage)

    async def block(self, reason: str, usage: Usage | None = None) -> None:
        """Sets the item aside until somebody resumes it."""
        self._check_open()
        blocked = {
            "itemId": self.id,
            "trigger": "block",
            "fenceToken": self.fence,
            "summary": reason[:_LONGEST_SUMMARY],
        }
        (moved,) = (await self._tell("advance_item", {"transitions": [blocked]}, usage, moves=True))["results"]
        self._moved(moved)
        await self._release("handed_back", "", outcome="blocked")

    async def ask(self, question: str, usage: Usage | None = None) -> None:
        """The same with a question, as the note ``question-1``, or the next number. Who resumes it answers in the note
        ``answer-1``; whoever works on it next finds both in ``notes``, with who wrote them (``actor``)."""
        self._check_open()
        try:
            answer = await self._tell("work_ask", {"itemId": self.id, "question": question}, usage, moves=True)
            self.role = answer["role"]
        except ClaimLost as error:
            self._why = self._why or error.message
            raise
        self._end("asked")

    async def __aenter__(self) -> Self:
        self.enter(asyncio.current_task(self._loop.event_loop))
        return self

    def enter(self, task: asyncio.Task[Any] | None = None) -> None:
        """Work on it begins, in this task; None: in a thread, which has to look at ``lost`` by itself."""
        self.entered = True
        self._task = task
        if task is not None:
            self._cancels = task.cancelling()
            if self._interrupted is not None or self.outcome == "lost":
                task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if self._core.forked:
            return False  # the work goes on in the process that has claimed it
        task, self._task = self._task, None
        if error is None and self._interrupted is None and self.outcome not in (None, "lost"):
            return False
        ours = isinstance(error, asyncio.CancelledError) and self._interrupted is not None
        if self._interrupted is not None and task is not None and task.uncancel() > self._cancels:
            ours = False  # somebody else has cancelled it, too
        stopped = JobStopped("budget_exhausted", self.stop_reason) if ours and self.stop_reason is not None else None
        self.error = stopped if ours else error
        await self.leave(self.error)
        if error is not None and not ours and not isinstance(error, Exception):
            return False
        if self._raises and self.outcome == "lost":
            raise ClaimLost("stale_fence", self._why) from None
        if self._raises and stopped is not None:
            raise stopped from None
        return not self._raises or ours

    async def leave(self, error: BaseException | None = None) -> None:
        """The last word on work that has ended, with this exception or without one, unless it has said one itself."""
        if self._interrupted == "lost" or (isinstance(error, ClaimLost) and self._interrupted is None):
            self._why = self._why or str(error)
            self._end("lost")
            _log.warning("the claim on '%s' (%s) was lost: %s", self.title, self.id, self._why)
        elif isinstance(error, Exception) and not isinstance(error, ClaimLost | JobStopped):
            reason = "has failed" if self.outcome is None else f"has failed after it was {self.outcome}"
            _log.error("the work on '%s' (%s) %s", self.title, self.id, reason, exc_info=error)
            await self._give_back("failed", "".join(traceback.format_exception_only(error)).strip())
        elif error is not None or self._interrupted is not None:
            await self._give_back("handed_back", self._why or "the worker was stopped", goes_on=False)
        elif self.outcome is None:
            _log.warning("the work on '%s' (%s) has ended without done(): it is given up", self.title, self.id)
            await self._give_back("gave_up", "the worker has left without saying what came of it")

    def interrupt(self, why: str, outcome: Outcome = "lost") -> None:
        """Cancels the work, because the claim is lost or the fleet is being left. In the event loop of the fleet."""
        if self.outcome is not None or self._interrupted is not None:
            return
        if self._moving and why in _ENDED:
            return  # probably by its last word, the answer to which is on its way and will tell
        self._interrupted, self._why = outcome, why
        if self._task is not None:
            self._task.cancel()
        elif not self.entered and outcome == "lost":
            self._end("lost")

    def halt(self, why: str) -> None:
        """Ends the work, because a budget is spent. In the event loop of the fleet."""
        if self.outcome is not None or self.stop_reason is not None or self._moving:
            return  # its last word is under way
        self.stop_reason = why
        if self.stopping is not None:
            self.stopping(why)
        else:
            _log.warning("the work on '%s' (%s) is stopped: %s", self.title, self.id, why)
            self.interrupt(why, "handed_back")

    def look(self) -> None:
        """Renews the claim soon, for what the answer may say."""
        self._core.keeper.renew_soon(self.claim)

    @property
    def is_whole(self) -> bool:
        """Whether the claim has said all that belongs to the job, and its work can begin."""
        granted = self._granted
        cut = self._late or "sizes" in self.item or "notesTotal" in granted or granted.get("resultsLeft")
        if cut or not granted.get("start", _STARTED)["applied"]:
            return False
        return not (self.notes or self.results) or not any("size" in one for one in (*self.notes, *self.results))

    async def check_claim(self) -> None:
        """Notes in ``needs`` what is missing because of which the item could not be started; ``done`` will try again.

        Raises:
            FleetError: something else was against it; ClaimLost: the claim was granted long ago, and is over.
        """
        if self._late:
            (renewed,) = (await self._tell("claim_item", self._renewal()))["claimResults"]
            if renewed["outcome"] != "success":
                raise ClaimLost("stale_fence", f"the claim is lost: {renewed['outcome']}")
        start = self._granted.get("start", _STARTED)
        if start["applied"] or (self.role != "queue" and not self.takeover):
            return
        self.needs = start.get("missingNotes", [])
        if not self.needs:
            self._moved(start)

    async def read_whole(self) -> None:
        """Reads what the claim has left out: further notes and results, and long texts of which it showed the
        beginning."""
        if "sizes" in self.item:
            self.item = await self.call("query_items", {"operation": "get", "id": self.id})
        if "notesTotal" in self._granted or any("size" in note for note in self.notes):
            self.notes = (await self.call("query_notes", {"operation": "list", "itemId": self.id}))["notes"]
        page = self._granted
        while page.get("resultsLeft"):
            read = {"itemId": self.id, "include": ["results"], "offset": page["nextOffset"]}
            page = await self.call("get_context", read)
            self.results += page["results"]
            if not page["results"]:
                break
        cut = [result for result in self.results if "size" in result]
        for some in (cut[first : first + _AT_ONCE] for first in range(0, len(cut), _AT_ONCE)):
            await asyncio.gather(*map(self._read_result, some))

    async def _read_result(self, result: dict[str, Any]) -> None:
        note = await self.call("query_notes", {"operation": "get", "id": result["noteId"]})
        result["result"] = msgspec.json.decode(note["body"]) if result.get("format") == "json" else note["body"]
        del result["size"]

    async def _give_back(
        self, reason: Literal["failed", "gave_up", "handed_back"], detail: str, goes_on: bool = True
    ) -> None:
        """Releases the item whatever happens to this task. If that fails, the end of the claim does it.

        Args:
            goes_on: whether the loop may be about to claim the next one.
        """
        if self.outcome is None and not (goes_on and self._leave_later(reason, detail)):
            await self._core.settle(self._try_release(reason, detail))

    def _leave_later(self, reason: Literal["failed", "gave_up", "handed_back"], detail: str) -> bool:
        """Ends the job at once if the next claim can release its item."""
        models = self._meter.models()
        if self._unseen is not None or self._slot.telling.locked() or len(models) > 1:
            return False
        told = Told("claim_item", {"releases": [self._released(reason, detail)]}, {}, self._meter.take("".join(models)))
        if not self._loop.leave(self._slot, told.sent["releases"][0]):
            self._meter.add(told.metered)
            return False
        self._end(reason)
        return True

    async def _try_release(self, reason: Literal["failed", "gave_up", "handed_back"], detail: str) -> None:
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._release(reason, detail)
        except (FleetError, TimeoutError) as error:
            _log.warning("'%s' (%s) could not be released: %s", self.title, self.id, f"{error}" or UNANSWERED)
        finally:
            self._end(reason)

    def _moved(self, moved: Mapping[str, Any]) -> None:
        """Takes the result of a transition. Raises FleetError if it was refused."""
        if not moved["applied"]:
            code = moved.get("errorCode")
            error = error_of(code, moved["error"], moved) if code else Refused("refused", moved["error"], moved)
            if isinstance(error, ClaimLost):
                self._why = self._why or error.message
            raise error
        self.role = moved["newRole"]

    async def _release(
        self, reason: str, detail: str, outcome: Outcome | None = None, usage: Usage | None = None
    ) -> None:
        self._check_open()
        ended: Outcome = outcome or reason  # type: ignore[assignment]  # the reasons are outcomes
        released = {"releases": [self._released(reason, detail)]}
        answer = await self._tell("claim_item", released, usage, moves=True, ends=ended)
        self._end(ended)
        if answer["releaseResults"][0]["outcome"] != "success":
            _log.debug("'%s' was not ours any more: %s", self.id, answer["releaseResults"][0])

    def _released(self, reason: str, detail: str = "") -> dict[str, Any]:
        if reason == "handed_back" and not self.entered:
            reason = UNTOUCHED
        released: dict[str, Any] = {"itemId": self.id, "fenceToken": self.fence, "reason": reason}
        if detail.strip() and reason != UNTOUCHED:  # names of files in a message may be no text
            released["detail"] = detail[:_LONGEST_DETAIL].encode(errors="replace").decode()
        return released

    def _renewal(self, **more: Any) -> dict[str, Any]:
        claim = {"itemId": self.id, "fenceToken": self.fence, "ttlSeconds": self.claim.ttl, **more}
        return {"claims": [claim]}

    async def _report_later(self, seconds: float) -> None:
        """Tells what was used by then, by a renewal, and again what could not be told, or was used meanwhile."""
        try:
            await asyncio.sleep(seconds)
            async with self._slot.telling:
                await self._send_unseen()
                for model in self._meter.models():
                    await self._send(Told("claim_item", self._renewal(), {}, self._meter.take(model)))
        except FleetError as error:
            _log.debug("the usage of '%s' (%s) could not be reported yet: %s", self.title, self.id, error)
        finally:
            self._told_at, self._reporting = now(), None
        self._report_in_time()

    async def _tell(
        self,
        tool: str,
        arguments: dict[str, Any],
        usage: Usage | None = None,
        *,
        moves: bool = False,
        ends: Outcome | None = None,
        asked: bool = False,
    ) -> dict[str, Any]:
        """Calls a tool about the item, and tells with it what was used.

        Args:
            moves: whether it takes the item further, so that its claim may end by it.
            ends: what becomes of the job by it; then it claims the next one, if that is wanted or ``asked`` for.
        """
        used = checked(usage) if usage else {}
        await self._slot.telling.acquire()  # `async with` costs twice as much
        self._moving = moves
        try:
            if self._unseen is not None and (answer := await self._send_unseen(tool, arguments, used)) is not None:
                return answer
            metered: dict[str, Any] = {}
            if self._meter:
                # An element has one model; the others need reports of their own.
                models = self._meter.models()
                model = used.get("model", "") if used else models[-1]
                for other in models:
                    if other != model:
                        await self._send(Told("claim_item", self._renewal(), {}, self._meter.take(other)))
                metered = self._meter.take(model)
            claim = self._loop.next_claim(self._slot, ends, asked) if ends is not None else {}
            return await self._send(Told(tool, arguments, used, metered, claim))
        finally:
            self._moving = False
            self._slot.telling.release()

    async def _send_unseen(
        self, tool: str = "", arguments: Mapping[str, Any] | None = None, used: Usage | None = None
    ) -> dict[str, Any] | None:
        """Repeats the call whose answer was not seen; returns the answer if it is the one that is to be made now."""
        if (unseen := self._unseen) is None:
            return None
        same = unseen.is_same(tool, arguments or {}, dict(used or {}))
        try:
            answer = await self._send(unseen)
        except FleetError as error:
            if same or isinstance(error, Unavailable):
                raise
            return None
        return answer if same else None

    async def _send(self, call: Told) -> dict[str, Any]:
        if call is not self._unseen:
            self._unseen_since = now(), self._core.sent.requests
        self._unseen = call if call.tells or "releases" in call.arguments else None
        try:
            answer = await self._core.call(call.tool, call.sent, agent=self.agent)
        except FleetError as error:
            if not isinstance(error, Unavailable):
                self._unseen = None
                self._meter.add(call.metered)
            raise
        self._unseen, self._told_at = None, now()
        if call.tells and not taken(answer):
            self._meter.add(call.metered)
        elif call.tells and call.tool == "manage_notes" and now() - self.claim.sent >= REPORT_SECONDS:
            self._core.keeper.renew_soon(self.claim)  # whose answer says whether a budget is spent now
        if call.claim:
            self._loop.hear(self._slot, answer["claimResults"][0], self._unseen_since[0])
        else:
            for claim in answer.get("claimResults", ()):
                if claim.get("stop") and "budget" in claim:
                    self.halt(claim["stopReason"])
        return answer

    def _check_open(self) -> None:
        if self._interrupted is not None or self.outcome == "lost":
            self._check_claim()
        if self.outcome is not None:
            raise RuntimeError(f"the job has ended: {self.outcome}")

    def _end(self, outcome: Outcome) -> None:
        if self.outcome is not None:
            return
        self.outcome = outcome
        if self._unseen is not None and self._unseen.claim:
            self._slot.unseen = self._unseen.sent, *self._unseen_since
        if self._meter or (self._unseen is not None and self._unseen.tells):
            _log.warning("some usage of '%s' (%s) could not be reported", self.title, self.id)
        if self._reporting is not None and self._reporting is not asyncio.current_task():
            self._reporting.cancel()
        self._core.keeper.forget(self.claim)
        self._loop.free(self, self._slot)
