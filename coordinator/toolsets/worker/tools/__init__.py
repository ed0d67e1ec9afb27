"""The tools of the worker toolset."""

from __future__ import annotations

from functools import partial

from coordinator.prompts import instructions
from coordinator.toolsets.caller import Delegation
from coordinator.toolsets.items.rules.ids import to_inner
from coordinator.toolsets.items.rules.values import not_blank
from coordinator.toolsets.items.store.agents.take import TakeStore
from coordinator.toolsets.items.tools import ClaimServices, claim_services
from coordinator.toolsets.tool import RESULT_CHARS, Criticality, Services, Tool, Toolset
from coordinator.toolsets.worker.contract import work
from coordinator.toolsets.worker.contract.examples import EXAMPLES
from coordinator.toolsets.worker.tools.next import Next
from coordinator.toolsets.worker.tools.reports import Reports, wait_ms, waits

INSTRUCTIONS = instructions("worker")
_NEXT = (
    "Take an item: the one that you still hold, else the best one that is ready or that another agent has left. It is "
    "started, and yours until claimExpiresAt. Comes with notes, questions with answers, results of the items it waited "
    "for. nextOffset: there are more; call again with it as offset, and read all first. Waits up to waitMs."
)
_NOTE = (
    "Write a note of your item: one that it needs (notesNeeded), or what the next agent would want to know. Keeps the "
    "item yours."
)
_DONE = (
    "Your item is done. It goes on to review where its type has that, else it ends, and what waits for it can begin."
)
_FAILED = "Give your item back, so that another agent can try. Counts as a failed attempt, unless handBack."
_ASK = (
    "Ask what you cannot decide. Your item is blocked until somebody answers, and no longer yours; the answer comes "
    "with it to whoever takes it then."
)


def _of_its_item(claim: Delegation, arguments: work.WorkNote | work.WorkAsk) -> bool:
    """They report on no other item; whether their claim has ended is for the store to say."""
    named = not_blank(arguments.item_id)
    return not named or to_inner(named) == claim.item


def toolset(services: Services, claiming: ClaimServices | None = None) -> Toolset:
    """The worker toolset over one process's services; ``claiming``: shared with its items toolset."""
    shared = claiming or claim_services(services)
    store = TakeStore(services.store, services.settings, shared.schemas)
    taking, steady = Next(store, shared, services), shared.schemas.steady
    reporting = Reports(store, services, taking)
    # They also keep the claim, or end it: without them, work is lost and done again.
    report = partial(Tool, idempotent=True, criticality=Criticality.CRITICAL)
    ends = partial(report, waits=waits, wait_ms=wait_ms, parks=True, result_chars=RESULT_CHARS)
    ended = (work.WorkEnded,)
    tools = (
        Tool(
            "work_next",
            _NEXT,
            work.WorkNext,
            (work.WorkNextResult,),
            steady(taking.work_next),
            waits=lambda args: args.wait_ms > 0,
            wait_ms=lambda args: args.wait_ms,
            parks=True,
            for_claims=lambda claim, args: True,  # the store decides by the fence
            result_chars=RESULT_CHARS,
        ),
        report(
            "work_note",
            _NOTE,
            work.WorkNote,
            (work.WorkNoteResult,),
            steady(reporting.work_note),
            for_claims=_of_its_item,
        ),
        # What becomes of the item otherwise is for whoever holds the claim, and has made a token for it, to say.
        ends("work_done", _DONE, work.WorkDone, ended, steady(reporting.work_done)),
        ends("work_failed", _FAILED, work.WorkFailed, ended, steady(reporting.work_failed)),
        ends("work_ask", _ASK, work.WorkAsk, ended, steady(reporting.work_ask), for_claims=_of_its_item),
    )
    return Toolset("worker", "Work", INSTRUCTIONS, tools, part_of="items", examples=EXAMPLES)
