"""advance_item: moves items on."""

from __future__ import annotations

from coordinator.errors import ToolFailure, invalid
from coordinator.store.idempotency import NO_KEY, idempotency_key
from coordinator.toolsets.actor import Trusted, checked
from coordinator.toolsets.canonical import canonical
from coordinator.toolsets.items.contract.transitions import (
    TRIGGERS,
    AdvanceItem,
    AdvanceItemResult,
    AdvanceSummary,
    Transition,
)
from coordinator.toolsets.items.fields import MAX_SUMMARY
from coordinator.toolsets.items.rules import transitions as rules
from coordinator.toolsets.items.rules.ids import is_uuid, parse
from coordinator.toolsets.items.rules.results import Given, given
from coordinator.toolsets.items.rules.roles import one_of
from coordinator.toolsets.items.rules.transitions import Advanced
from coordinator.toolsets.items.rules.usage.budgets import Used, packed
from coordinator.toolsets.items.store.transitions import TransitionStore
from coordinator.toolsets.items.tools.shared import check_signed
from coordinator.toolsets.metrics import count_conflict
from coordinator.toolsets.tool import Call, Criticality, Services, Tool

MAX_TRANSITIONS = 100

_DESCRIPTION = (
    "Apply trigger-based role transitions, in order, each on its own. Triggers: start (queue to work, work to review "
    "or terminal, review to terminal; the first one after a claim with takeover leaves the role as it is), complete, "
    "block, hold, resume, cancel, reopen. Moving forward needs satisfied dependencies. Only the holder can move an "
    "item with a live claim. Parents follow by cascade. Reports the items that each transition unblocked. result "
    "is for the agents of items that depend on this one."
)

_COLLISIONS = {"not_claim_holder": "not_holder", "stale_fence": "stale_fence"}
"""Code of a rejected transition -> how it is counted."""


class Transitions:
    """The handler of ``advance_item``."""

    def __init__(self, transitions: TransitionStore, services: Services) -> None:
        self._transitions = transitions
        self._services = services

    async def advance_item(self, call: Call, args: AdvanceItem) -> AdvanceItemResult:
        """Applies transitions, in order, each atomically."""
        transitions = args.transitions
        triggers, wanted = _checked_elements(transitions)
        given_results = given(transitions)
        used = [
            one.usage is not None and packed(one.usage, f"transitions[{n}].usage") for n, one in enumerate(transitions)
        ]
        schemas = self._transitions.schemas.current
        if schemas.require_actor:
            check_signed(transitions, "transitions")
        if len(transitions) > 1:
            rules.check_one_actor(transitions)
        trusted = await self._trusted_by_element(transitions)
        replies, replayed = await self._applied(call.project, args, triggers, wanted, trusted, given_results, used)
        answers: list[Advanced | None] = [*replies] or [None] * len(transitions)
        results = [
            rules.rendered(transition, trigger, who, reply, schemas)
            for transition, trigger, who, reply in zip(transitions, triggers, trusted, answers, strict=True)
        ]
        for result, reply in zip(results, answers, strict=True):
            if result.error_code in _COLLISIONS and not replayed:
                kind = "stale_fence" if reply and rules.is_late(reply) else _COLLISIONS[result.error_code]
                count_conflict(kind, call.project, result.item_id)
        succeeded = [result.applied for result in results].count(True)
        return AdvanceItemResult(
            results=results,
            summary=AdvanceSummary(total=len(results), succeeded=succeeded, failed=len(results) - succeeded),
            all_unblocked_items=rules.unblocked_in_the_end(replies),
        )

    async def _applied(
        self,
        project: str,
        args: AdvanceItem,
        triggers: list[str],
        wanted: list[str],
        trusted: list[Trusted | ToolFailure | None],
        given_results: list[Given | None],
        used: list[Used | bool],
    ) -> tuple[list[Advanced], bool]:
        """The store's reply to each transition, and whether it is a replay; empty if the policy trusts no actor."""
        first = trusted[0]
        record = (
            idempotency_key(first.id, args.request_id, "advance_item", canonical(args))
            if isinstance(first, Trusted) and args.request_id and is_uuid(args.request_id)
            else NO_KEY
        )
        runnable = [n for n, who in enumerate(trusted) if not isinstance(who, ToolFailure)]
        if not runnable:
            return [], False
        # Only their items are looked up: for an element with a rejected actor, nothing is read.
        ids = dict(zip(runnable, await self._transitions.resolve(project, [wanted[n] for n in runnable]), strict=True))
        elements = [
            rules.refused_element(trigger, who)
            if isinstance(who, ToolFailure)
            else rules.element(ids[n], trigger, who, transition, result, more)
            for n, (transition, trigger, who, result, more) in enumerate(
                zip(args.transitions, triggers, trusted, given_results, used, strict=True)
            )
        ]
        return await self._transitions.advance(project, record, elements), record.replayed

    async def _trusted_by_element(self, transitions: list[Transition]) -> list[Trusted | ToolFailure | None]:
        """The trusted actor of each transition, or why it was rejected; None: the transition has no actor."""
        found: list[Trusted | ToolFailure | None] = []
        for number, transition in enumerate(transitions):
            if transition.actor is None:
                found.append(None)
                continue
            field = f"transitions[{number}].actor"
            try:
                found.append(await self._services.resolve_actor(checked(transition.actor, field)))
            except ToolFailure as failure:
                found.append(failure)
        return found


def _checked_elements(transitions: list[Transition]) -> tuple[list[str], list[str]]:
    """The triggers, and the ids or prefixes of ids, of well-formed elements.

    Raises:
        ToolFailure: VALIDATION_ERROR naming the field.
    """
    if not 1 <= len(transitions) <= MAX_TRANSITIONS:
        raise invalid("transitions", f"must hold 1 to {MAX_TRANSITIONS} elements")
    triggers = [one_of(t.trigger, TRIGGERS, f"transitions[{n}].trigger") for n, t in enumerate(transitions)]
    ids = [parse(t.item_id, f"transitions[{n}].itemId") for n, t in enumerate(transitions)]
    for n, transition in enumerate(transitions):
        if transition.summary is not None and len(transition.summary) > MAX_SUMMARY:
            raise invalid(f"transitions[{n}].summary", f"must be at most {MAX_SUMMARY} characters")
    return triggers, ids


def tools(transitions: TransitionStore, services: Services) -> tuple[Tool, ...]:
    handle = Transitions(transitions, services)
    return (
        Tool(
            "advance_item",
            _DESCRIPTION,
            AdvanceItem,
            (AdvanceItemResult,),
            handle.advance_item,
            criticality=Criticality.CRITICAL,
        ),
    )
