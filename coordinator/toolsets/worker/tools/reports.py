"""work_note, work_done, work_failed and work_ask: what an agent reports of the item that it holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from msgspec import UNSET, UnsetType

from coordinator.errors import invalid
from coordinator.toolsets.actor import attribution
from coordinator.toolsets.items.field_types.usage import Usage
from coordinator.toolsets.items.fields import MAX_SUMMARY
from coordinator.toolsets.items.rules.ids import dashed, new_id
from coordinator.toolsets.items.rules.notes import check_key
from coordinator.toolsets.items.rules.results import result_of
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.usage.budgets import packed
from coordinator.toolsets.items.rules.values import MAX_NOTE_KEY, long_text, not_blank, short_text
from coordinator.toolsets.items.store.agents.take import TAKEN, Report, Reported, TakeStore, ends_of
from coordinator.toolsets.metrics import count_conflict
from coordinator.toolsets.tool import Call, Services
from coordinator.toolsets.worker.contract import work
from coordinator.toolsets.worker.tools.agents import acts_for, agent_of, claim_of, conflict
from coordinator.toolsets.worker.tools.next import Ending, Next
from coordinator.toolsets.worker.tools.refusals import refusal, why_to_stop
from coordinator.toolsets.worker.tools.shown import needed_notes

_End = work.WorkDone | work.WorkFailed | work.WorkAsk
_Report = work.WorkNote | _End


class Reports:
    def __init__(self, store: TakeStore, services: Services, taking: Next) -> None:
        self._store = store
        self._next = taking
        self._services = services

    async def work_note(self, call: Call, args: work.WorkNote) -> work.WorkNoteResult:
        """Writes a note of the item."""
        key = short_text(args.key, "key", MAX_NOTE_KEY)
        check_key(key, "key", runs=False)
        words = new_id(), long_text(args.body, "body"), key
        report = await self._asked(call, args, "note", words)
        reply = await self._store.report(call.project, report)
        if reply.outcome not in TAKEN:
            reply = await self._retried(call, report, reply)
        needed = (
            needed_notes(reply.filled, ROLE_NAMES[reply.role], self._store.schemas.current) if reply.filled else UNSET
        )
        stop, why = why_to_stop(reply.drained, reply.told or None)
        return work.WorkNoteResult(
            item_id=dashed(reply.id),
            key=key,
            notes_needed=needed,
            stop=stop,
            stop_reason=why,
            usage=_told(call) if args.usage else UNSET,
        )

    async def work_done(self, call: Call, args: work.WorkDone) -> work.WorkEnded:
        """Passes the item on: to review where its type has that, else to its end."""
        result = None if args.result is None else result_of(args.result, "result")
        summary = not_blank(args.summary)
        if len(summary) > MAX_SUMMARY:
            raise invalid("summary", f"must be at most {MAX_SUMMARY} characters")
        words = (result.id, result.text, result.format, summary) if result else ("", "", False, summary)
        return await self._end(call, args, "done", words)

    async def work_failed(self, call: Call, args: work.WorkFailed) -> work.WorkEnded:
        """Gives the item back, as failed or not."""
        reason = short_text(args.reason, "reason", work.MAX_REASON)
        return await self._end(call, args, "handed_back" if args.hand_back else "failed", (new_id(), reason))

    async def work_ask(self, call: Call, args: work.WorkAsk) -> work.WorkEnded:
        """Blocks the item until its question is answered."""
        question = long_text(args.question, "question")
        if not question:
            raise invalid("question", "must not be blank")
        return await self._end(call, args, "ask", (new_id(), question, question[:MAX_SUMMARY]))

    async def _end(self, call: Call, args: _End, kind: str, words: Sequence[object]) -> work.WorkEnded:
        """Ends the work on the item, and takes the next one if that is asked for."""
        report = await self._asked(call, args, kind, words)
        taken: work.WorkNextResult | UnsetType = UNSET
        if args.next:
            if not report.item:
                raise invalid("itemId", "give it with next: by that a call is known that is repeated")
            ending = Ending(report, partial(self._instead, call))
            taken = await self._next.work_next(call, args.next.whole(work.WorkNext), "next.", ending)
            reply = cast("Reported", ending.reply)
        else:
            reply = await self._store.report(call.project, report)
            if reply.outcome not in TAKEN:
                reply = await self._retried(call, report, reply)
        return work.WorkEnded(
            item_id=dashed(reply.id),
            role=ROLE_NAMES[reply.role],
            note=reply.key or UNSET,
            repeated=True if reply.outcome == "repeated" else UNSET,
            usage=_told(call) if args.usage else UNSET,
            next=taken,
        )

    async def _asked(self, call: Call, args: _Report, kind: str, words: Sequence[object]) -> Report:
        """A report as the store takes it. Raises ToolFailure for wrong arguments."""
        used = packed(args.usage.whole(Usage), "usage") if args.usage and not _told(call) else False
        who = await agent_of(call, self._services.resolve_actor)
        reference, only, by = not_blank(args.item_id), claim_of(call), attribution(who)
        item = (
            await self._store.resolve_one(call.project, reference, "itemId") if reference else only.item if only else ""
        )
        author = by.actor, by.verification
        report = Report(who.id, item, ends_of(who.id), author, kind, words, used)
        return report if only is None else report._replace(fence=only.fence, most_ms=only.ttl_ms)

    async def _retried(self, call: Call, report: Report, reply: Reported) -> Reported:
        """What came of a report that was not taken at once. Raises ToolFailure if it was refused."""
        other = self._instead(call, report, reply)
        reply = await self._store.report(call.project, other)
        return reply if reply.outcome in TAKEN else await self._retried(call, other, reply)

    def _instead(self, call: Call, report: Report, reply: Reported) -> Report:
        """What to report in place of what was not taken: the same as the slot that holds the item.

        Raises ToolFailure if there is none.
        """
        holder = str(reply.key)
        if reply.outcome == "other" and acts_for(call, report.agent, holder):
            return report._replace(agent=holder, ends=ends_of(holder))
        if counted := conflict(claim_of(call), held=reply.outcome == "other"):
            count_conflict(counted, call.project, dashed(reply.id))
        raise refusal(reply, self._store.schemas.current)


def waits(args: _End) -> bool:
    """Whether the end of an item may wait for the next one."""
    return bool(args.next and args.next.wait_ms)


def wait_ms(args: _End) -> int:
    """For how long it does."""
    return args.next.wait_ms if args.next else 0


def _told(call: Call) -> str | UnsetType:
    """What is said of usage that is not added: the bearer of a token for a claim could spend the budgets of others."""
    return UNSET if claim_of(call) is None else work.NOT_COUNTED
