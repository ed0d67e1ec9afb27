"""work_note, work_done, work_failed and work_ask: what an agent reports of the item that it holds."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from coordinator.errors import invalid
from coordinator.toolsets.actor import Trusted, attribution
from coordinator.toolsets.items.fields import MAX_SUMMARY
from coordinator.toolsets.items.rules.ids import dashed, new_id
from coordinator.toolsets.items.rules.notes import check_key
from coordinator.toolsets.items.rules.results import result_of
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.usage.budgets import Used, packed
from coordinator.toolsets.items.rules.values import MAX_NOTE_KEY, long_text, not_blank, short_text
from coordinator.toolsets.items.store.agents.take import Reported, TakeStore
from coordinator.toolsets.metrics import count_conflict
from coordinator.toolsets.tool import Call, Services
from coordinator.toolsets.worker.contract import work
from coordinator.toolsets.worker.tools.agents import acts_for, agent_of, claim_of, conflict
from coordinator.toolsets.worker.tools.refusals import refusal, why_to_stop
from coordinator.toolsets.worker.tools.shown import needed_notes

_Report = work.WorkNote | work.WorkDone | work.WorkFailed | work.WorkAsk


class Reports:
    def __init__(self, store: TakeStore, services: Services) -> None:
        self._store = store
        self._services = services

    async def work_note(self, call: Call, args: work.WorkNote) -> work.WorkNoteResult:
        """Writes a note of the item."""
        key = short_text(args.key, "key", MAX_NOTE_KEY)
        check_key(key, "key", runs=False)
        words = new_id(), long_text(args.body, "body"), key
        reply = await self._report(call, args, "note", words)
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
            usage=_told(call, args),
        )

    async def work_done(self, call: Call, args: work.WorkDone) -> work.WorkEnded:
        """Passes the item on: to review where its type has that, else to its end."""
        result = None if args.result is None else result_of(args.result, "result")
        summary = not_blank(args.summary)
        if len(summary) > MAX_SUMMARY:
            raise invalid("summary", f"must be at most {MAX_SUMMARY} characters")
        words = (result.id, result.text, result.format, summary) if result else ("", "", False, summary)
        return _ended(await self._report(call, args, "done", words), _told(call, args))

    async def work_failed(self, call: Call, args: work.WorkFailed) -> work.WorkEnded:
        """Gives the item back, as failed or not."""
        reason = short_text(args.reason, "reason", work.MAX_REASON)
        kind = "handed_back" if args.hand_back else "failed"
        return _ended(await self._report(call, args, kind, (new_id(), reason)), _told(call, args))

    async def work_ask(self, call: Call, args: work.WorkAsk) -> work.WorkEnded:
        """Blocks the item until its question is answered."""
        question = long_text(args.question, "question")
        if not question:
            raise invalid("question", "must not be blank")
        words = new_id(), question, question[:MAX_SUMMARY]
        return _ended(await self._report(call, args, "ask", words), _told(call, args))

    async def _report(self, call: Call, args: _Report, kind: str, words: Sequence[object]) -> Reported:
        """What came of a report. Raises ToolFailure if it was not taken."""
        used = False if _told(call, args) else packed(args.usage, "usage")
        who = await agent_of(call, self._services.resolve_actor)
        reference, only = not_blank(args.item_id), claim_of(call)
        item = (
            await self._store.resolve_one(call.project, reference, "itemId") if reference else only.item if only else ""
        )
        reply = await self._reported(call, who.id, who, item, kind, words, used)
        if reply.outcome == "other" and acts_for(call, who.id, str(reply.key)):
            reply = await self._reported(call, str(reply.key), who, item, kind, words, used)
        if reply.outcome not in ("done", "repeated"):
            if counted := conflict(only, held=reply.outcome == "other"):
                count_conflict(counted, call.project, dashed(reply.id))
            raise refusal(reply, self._store.schemas.current)
        return reply

    async def _reported(
        self, call: Call, agent: str, who: Trusted, item: str, kind: str, report: Sequence[object], used: Used | bool
    ) -> Reported:
        by = attribution(who)
        words = (by.actor, by.verification), kind, report, used, claim_of(call)
        return await self._store.report(call.project, agent, item, *words)


def _told(call: Call, args: _Report) -> str | UnsetType:
    """What is said of usage that is not added: the bearer of a token for a claim could spend the budgets of others."""
    return work.NOT_COUNTED if args.usage is not None and claim_of(call) is not None else UNSET


def _ended(reply: Reported, usage: str | UnsetType) -> work.WorkEnded:
    return work.WorkEnded(
        item_id=dashed(reply.id),
        role=ROLE_NAMES[reply.role],
        note=reply.key or UNSET,
        repeated=True if reply.outcome == "repeated" else UNSET,
        usage=usage,
    )
