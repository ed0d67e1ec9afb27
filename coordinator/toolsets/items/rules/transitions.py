"""advance_item: builds the elements for its script, and results from the script's replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET

from coordinator.errors import ToolFailure, invalid
from coordinator.settings.sections.work import NoteSettings
from coordinator.toolsets.actor import Distrusted, Trusted, attribution, stored_verification
from coordinator.toolsets.items.contract.transitions import (
    CascadeEvent,
    MissingNote,
    Transition,
    TransitionResult,
    UnblockedItem,
)
from coordinator.toolsets.items.rules.dependencies.graph import unsatisfied
from coordinator.toolsets.items.rules.ids import dashed
from coordinator.toolsets.items.rules.refusals import ALL_PHASES, busy, gate_refusal, not_applicable
from coordinator.toolsets.items.rules.results import Given
from coordinator.toolsets.items.rules.roles import ROLE_NAMES
from coordinator.toolsets.items.rules.schema import Filled, Resolved, SchemaConfig, expected, phase
from coordinator.toolsets.items.rules.usage.budgets import Used
from coordinator.toolsets.items.rules.values import not_blank
from coordinator.toolsets.timestamp import iso


class Advanced(msgspec.Struct, array_like=True):
    """What became of a transition."""

    id: str
    reason: str
    """Why it was refused; '': it was applied."""
    from_role: int
    to_role: int
    label: str | bool
    cascades: list[Any]
    """Of an applied transition: (id, title, role before, role after, applied, missing notes, their phases) of each
    parent of the cascade. Of a refused one, by ``reason``: for ``dependencies`` (blocker, role, role that it must
    reach) of each; for ``gate`` missing notes and their phases; for ``claim`` when it expires, whether no actor was
    given, and whether an older fence was; for ``result`` the role to which the transition leads, because it does not
    end the item; for ``resource_busy`` what the item demands and is not free."""
    unblocked: list[tuple[str, str]]
    """Id and title."""
    title: str
    filled: Filled
    verification: str = ""
    """As recorded."""
    blocked_again: list[str] = []
    """Ids of items that got one more unsatisfied blocker; some of them may have lost another one."""


def check_one_actor(transitions: Sequence[Transition]) -> None:
    """Raises ToolFailure VALIDATION_ERROR unless all elements have the same actor, or none has one."""
    if len({t.actor.id if t.actor else None for t in transitions}) > 1:
        raise invalid("transitions", "either every element has the same actor.id or none has an actor")


def element(
    item: str, trigger: str, who: Trusted | None, transition: Transition, result: Given | None, used: Used | bool
) -> tuple[Any, ...]:
    """One transition for ``advance_item.lua``."""
    summary = not_blank(transition.summary) if transition.summary else ""
    change = item, trigger, *attribution(who), summary, transition.fence_token or 0
    if used:
        return (*change, result or False, used)
    return (*change, result) if result else change


_REFUSED = "refused "


def refused_element(trigger: str, failure: ToolFailure) -> tuple[Any, ...]:
    """An element for ``advance_item.lua`` whose actor is malformed or not trusted.

    It names no item, so nothing is looked up. The reason is recorded with the reply, so a retry gets the first answer,
    even if its proofs have expired since.
    """
    return f"?{_REFUSED}{failure.code} {failure.message}", trigger, "", "", "", "", 0


def refused_actor(transition: Transition, trigger: str, failure: ToolFailure) -> TransitionResult:
    """The result of an element that was rejected for its actor (``refused_element``)."""
    policy = failure.code != "VALIDATION_ERROR"
    return TransitionResult(
        item_id=transition.item_id,
        trigger=trigger,
        applied=False,
        error=failure.message,
        error_kind=failure.kind if policy else UNSET,
        error_code=failure.code if policy else UNSET,
    )


def rendered(
    transition: Transition,
    trigger: str,
    who: Trusted | ToolFailure | None,
    reply: Advanced | None,
    schemas: SchemaConfig,
) -> TransitionResult:
    """The result of one element from the script's reply.

    Args:
        reply: None: the script was not run, because every element was rejected.
    """
    if reply is None:
        return refused_actor(transition, trigger, cast("ToolFailure", who))
    if reply.reason.startswith(_REFUSED):
        code, message = reply.reason.removeprefix(_REFUSED).split(" ", 1)
        return refused_actor(transition, trigger, ToolFailure(code, message))
    if isinstance(who, ToolFailure):  # a retry: at the first call, its proof was valid
        who = who.claim if isinstance(who, Distrusted) else None
    schema = schemas.resolve_reported(reply.filled)
    if reply.reason:
        return _refused(transition, trigger, reply, schema)
    result = _applied(transition, trigger, who, reply)
    if schema is not None:
        _add_notes(result, schema, reply.filled)
    return result


def _add_notes(result: TransitionResult, schema: Resolved, filled: Filled) -> None:
    """Adds the notes required in the new role: expectedNotes, guidancePointer, noteProgress."""
    role = str(result.new_role)
    existing = {key for key, _ in filled.notes}
    result.expected_notes = [expected(note, note.key in existing) for note in schema.notes if note.role == role]
    if role == "terminal":
        return
    state = phase(schema, role, filled.notes)
    result.note_progress = state.progress
    result.guidance_pointer = state.guidance or UNSET
    result.skill_pointer = state.skill or UNSET


def _applied(transition: Transition, trigger: str, who: Trusted | None, reply: Advanced) -> TransitionResult:
    return TransitionResult(
        item_id=dashed(reply.id),
        previous_role=ROLE_NAMES[reply.from_role],
        new_role=ROLE_NAMES[reply.to_role],
        trigger=trigger,
        applied=True,
        cascade_events=[_cascade(event) for event in reply.cascades],
        unblocked_items=[UnblockedItem(item_id=dashed(item), title=title) for item, title in reply.unblocked],
        expected_notes=[],
        status_label=reply.label if isinstance(reply.label, str) else UNSET,
        summary=(transition.summary and not_blank(transition.summary)) or UNSET,
        actor=who.echo if who else UNSET,
        # From the reply, because for a retry the verification of the first call's proof counts.
        verification=stored_verification(reply.verification),
    )


def _cascade(event: list[Any]) -> CascadeEvent:
    item, title, before, after, applied, missing, phases = event
    return CascadeEvent(
        item_id=dashed(item),
        title=title,
        previous_role=ROLE_NAMES[before],
        target_role=ROLE_NAMES[after],
        applied=applied,
        trigger="cascade",
        gate_blocked=UNSET if applied else True,
        missing_notes=UNSET if applied else missing,
        error=UNSET if applied else gate_refusal(dashed(item), missing, phases, ALL_PHASES),
    )


def _refused(transition: Transition, trigger: str, reply: Advanced, schema: Resolved | None) -> TransitionResult:
    reason, detail = reply.reason, reply.cascades
    if reason in ("not_found", "ambiguous"):
        error = not_applicable(reason, trigger)
        return TransitionResult(item_id=transition.item_id, trigger=trigger, applied=False, error=error)
    item = dashed(reply.id)
    result = TransitionResult(item_id=item, trigger=trigger, applied=False)
    if reason in ("claim", "stale_fence"):
        result.error_kind, result.error_code, result.contended_item_id = "permanent", reason, item
    if reason == "claim":
        expires, nameless, _ = detail
        problem = "actor is required" if nameless else "it is claimed by a different agent"
        result.error = f"Cannot apply '{trigger}': {problem}; the claim expires at {iso(expires)}"
        result.error_code = "not_claim_holder"
    elif reason == "resource_busy":
        result.error_kind, result.error_code = "transient", reason
        result.error = f"Cannot apply '{trigger}': {busy(detail[0])}, or release the claim first"
    elif reason == "dependencies":
        result.blockers = unsatisfied(detail)
        result.error = f"Cannot apply '{trigger}': {len(detail)} blocking dependencies are not satisfied"
    elif reason == "gate":
        phase_name = f"{ROLE_NAMES[reply.from_role]} phase" if trigger == "start" else ALL_PHASES
        keys, phases = detail
        specs = {note.key: note for note in schema.notes} if schema else {}
        result.error = gate_refusal(item, keys, phases, phase_name)
        result.missing_notes = [_missing(key, role, specs.get(key)) for key, role in zip(keys, phases, strict=True)]
    elif reason == "result":
        leads = "leaves it in" if detail[0] == reply.from_role else "leads to"
        result.error = (
            f"result: is allowed only with a transition that ends the item; '{trigger}' {leads} role "
            f"{ROLE_NAMES[detail[0]]} here. Write what there is so far as a note (manage_notes)"
        )
    else:
        result.error = not_applicable(reason, trigger)
    return result


def is_late(reply: Advanced) -> bool:
    """Whether a transition was refused to a caller that has shown the fence of an older claim."""
    return reply.reason == "stale_fence" or (reply.reason == "claim" and bool(reply.cascades[2]))


def _missing(key: str, role: str, note: NoteSettings | None) -> MissingNote:
    if note is None:
        return MissingNote(key=key, role=role, description="")
    return MissingNote(
        key=key,
        role=role,
        description=note.description,
        guidance=note.guidance or UNSET,
        skill=note.skill or UNSET,
    )


def unblocked_in_the_end(replies: Sequence[Advanced]) -> list[UnblockedItem]:
    """The open items unblocked after all transitions, in the order in which they were unblocked."""
    found: dict[str, str] = {}
    ended: dict[str, bool] = {}
    for reply in replies:
        for item in reply.blocked_again:
            found.pop(item, None)
        found.update(reply.unblocked)
        ended[reply.id] = ROLE_NAMES[reply.to_role] == "terminal"
        if not reply.reason:
            ended |= {parent[0]: ROLE_NAMES[parent[3]] == "terminal" for parent in reply.cascades if parent[4]}
    return [UnblockedItem(item_id=dashed(item), title=title) for item, title in found.items() if not ended.get(item)]
