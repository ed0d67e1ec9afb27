"""Approvals asked of the person behind a client: the question, and the transition that its answer takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from coordinator.settings.sections.gateway.model import Transition
from coordinator.toolsets.gateway.rules import forms, machine
from coordinator.toolsets.gateway.rules.guards import HUMAN, Principal
from coordinator.toolsets.gateway.snapshot import Snapshot
from coordinator.toolsets.questions import Question

DECISION = "decision"
"""The field of the form that names the transition."""
_MOST_TEXT = 2_000


class Gate(msgspec.Struct, array_like=True, frozen=True):
    """The state of a question: the gate that it is about."""

    workflow: str
    version: int
    decisions: list[str]
    """The transitions to choose from."""


def gate_of(state: Any) -> Gate:
    return msgspec.convert(state, Gate)


def question(snapshot: Snapshot, principal: Principal, otherwise: Any) -> Question | None:
    """The question whose answer an instance waits for; None: it waits for none, or not for one of this principal.

    Args:
        otherwise: the answer of the call if nothing is asked.
    """
    instance, ending = snapshot.instance, snapshot.ending
    if instance.ended or instance.operation or not instance.approvals:
        return None
    if ending is not None and (ending.error is not None or ending.version != instance.version):
        return None
    if any(approval.distinct and approval.requester == principal.id for approval in instance.approvals):
        return None
    if any(principal.id in msgspec.json.decode(approval.declined or "[]") for approval in instance.approvals):
        return None
    choices = dict(_choices(snapshot, principal))
    if not choices:
        return None
    fields: dict[str, Any] = {
        DECISION: {
            "type": "string",
            "title": "Decision",
            "oneOf": [{"const": name, "title": choice.title or name} for name, choice in choices.items()],
        }
    }
    for choice in choices.values():
        fields |= forms.form(choice.input_schema) or {}
    needed = [forms.required(choice.input_schema) for choice in choices.values()]
    return Question(
        message=_message(snapshot, choices),
        fields=fields,
        required=(DECISION, *sorted(set.intersection(*needed))),
        state=Gate(snapshot.id, instance.version, list(choices)),
        otherwise=otherwise,
        key=f"approval-{instance.version}",
    )


def left_gate(snapshot: Snapshot) -> bool:
    """Whether the requested operation ended where people decide, and the instance has moved on since."""
    ending = snapshot.ending
    if ending is None or ending.error is not None or ending.version == snapshot.instance.version:
        return False
    return any(transition.actor == HUMAN for transition in snapshot.workflow.states[ending.state].transitions.values())


def arguments_of(transition: Transition, content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: content[name] for name in forms.properties(transition.input_schema) if name in content}


def _choices(snapshot: Snapshot, principal: Principal) -> Iterator[tuple[str, Transition]]:
    """The transitions by which this principal may answer, and whose arguments fit into a form.

    A field that several of them have must be the same in all.
    """
    seen: dict[str, Any] = {}
    for name, transition in machine.offered(
        snapshot.workflow, snapshot.instance.state, snapshot.circumstances(principal)
    ):
        if transition.actor != HUMAN or machine.actor_problem(transition, principal.roles):
            continue
        fields = forms.form(transition.input_schema)
        if fields is None or DECISION in fields:
            continue
        if any(seen.setdefault(field, part) != part for field, part in fields.items()):
            continue
        yield name, transition


def _message(snapshot: Snapshot, choices: Mapping[str, Transition]) -> str:
    """What the person has to know to decide; all of it is from the definition."""
    workflow, instance = snapshot.workflow, snapshot.instance
    state = workflow.states[instance.state]
    queues = ", ".join(dict.fromkeys(approval.queue for approval in instance.approvals if approval.queue))
    lines = [
        f"{workflow.title or instance.definition} ({snapshot.id}) waits in state {instance.state!r} for a decision"
        + (f" of {queues}." if queues else "."),
        state.goal or state.description,
        state.guidance,
        *(f"{choice.title or name}: {choice.description}" for name, choice in choices.items() if choice.description),
    ]
    return "\n".join(line for line in lines if line)[:_MOST_TEXT]
