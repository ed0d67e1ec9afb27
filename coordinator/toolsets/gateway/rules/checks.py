"""Checks before an operation begins, in order; the first that fails rejects the call (README.md, 'Submitting')."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from coordinator.errors import that_exist
from coordinator.settings.sections.gateway.executor import Guard
from coordinator.settings.sections.gateway.model import Transition, Workflow
from coordinator.toolsets.gateway.rules import machine
from coordinator.toolsets.gateway.rules.catalogue import Catalogue
from coordinator.toolsets.gateway.rules.graph import ends
from coordinator.toolsets.gateway.rules.guards import Circumstances, Principal, failing
from coordinator.toolsets.gateway.rules.redact import redacted
from coordinator.toolsets.gateway.rules.resolve import Resolved
from coordinator.toolsets.gateway.rules.schemas.inputs import Unusable, Violation, sentence, violations, with_defaults
from coordinator.toolsets.gateway.rules.task import Event

STALE, INVALID, ACTOR = "STALE_WORKFLOW_VERSION", "INVALID_TRANSITION", "ACTOR_MISMATCH"
GUARD, SCHEMA, FAILED = "GUARD_REJECTED", "INPUT_SCHEMA_VIOLATION", "EXECUTOR_FAILED"
NO_WORKFLOW, NO_DEFINITION, NO_ITEM = "WORKFLOW_NOT_FOUND", "DEFINITION_NOT_FOUND", "ITEM_NOT_FOUND"
_SHOWN = 200
"""The most characters of an unknown name that a message quotes."""
_CAPABILITY, _ARGUMENTS = "capability", "arguments"

_encode = msgspec.json.Encoder().encode


class Rejected(Exception):
    """A rejected call, in the gateway's own form.

    Args:
        code: one of those at the top of this module.
        details: further facts for the error.
        guards: those that were evaluated, and whether they held.

    Attributes:
        snapshot: the instance concerned, if any; set by the code that read it.
    """

    def __init__(
        self,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        guards: Sequence[tuple[str, bool]] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = dict(details or {})
        self.guards = tuple(guards)
        self.snapshot: Any = None


class Fired(NamedTuple):
    """A transition that may be taken."""

    arguments: dict[str, Any]
    """With the defaults of its schema."""
    guards: tuple[tuple[str, bool], ...]
    """The evaluated ones."""


class Called(NamedTuple):
    """The capability of a session to start."""

    capability: Resolved
    arguments: dict[str, Any] | None
    """None: not called yet."""


def stale(expected: int, current: int) -> Rejected:
    """Somebody else has advanced the workflow."""
    return Rejected(STALE, f"Expected workflow version {expected}, but current version is {current}.")


def busy(expected: int, current: int, transition: str, retry_after_ms: int) -> Rejected:
    """Another operation on the workflow is in progress."""
    what = f"The transition {transition!r}" if transition else "What follows its start, or the end of its time,"
    return Rejected(
        STALE,
        f"Expected workflow version {expected}, but current version is {current} and about to change. "
        f"{what} is being carried out.",
        {"retryAfterMs": retry_after_ms, "inFlight": transition},
    )


def unknown_workflow(workflow: str) -> Rejected:
    """No such instance, or it was deleted."""
    return Rejected(NO_WORKFLOW, f"There is no workflow {_quoted(workflow)} in this project.")


def unknown_definition(definition: str, known: Iterable[str]) -> Rejected:
    """No such definition; ``known`` are the existing ones."""
    exist = that_exist(definition, known)
    return Rejected(NO_DEFINITION, f"There is no workflow definition {_quoted(definition)}{exist}")


def unknown_capability(name: str, known: Iterable[str]) -> Rejected:
    """No such capability, or the caller must not see it; ``known`` are the visible ones."""
    exist = that_exist(name, known)
    return _violated([Violation("input.capability", f"there is no capability {_quoted(name)}{exist}")])


def unknown_item(id: str, known: Iterable[str]) -> Rejected:
    """No such workflow, capability or connection, or the caller must not see it; ``known`` are the visible ones."""
    return Rejected(NO_ITEM, f"There is nothing with the id {_quoted(id)} here{that_exist(id, known)}")


def lost_cursor(cursor: str) -> Rejected:
    """The item after which a page was to begin is not there any more."""
    return Rejected(
        NO_ITEM, f"The catalogue has changed, so the cursor {_quoted(cursor)} leads nowhere. Begin again without it."
    )


def unknown_transition(definition: str, transition: str, known: Iterable[str]) -> Rejected:
    """No state of the definition has such a transition; ``known`` are those of all states."""
    exist = that_exist(transition, known)
    return Rejected(INVALID, f"The workflow {definition!r} has no transition {_quoted(transition)} in any state{exist}")


def fired(
    workflow: Workflow,
    state: str,
    name: str,
    arguments: dict[str, Any],
    at: Circumstances,
    requesters: Sequence[str] = (),
) -> Fired:
    """Checks whether a transition may be taken, and with which arguments.

    Args:
        requesters: principals who must not answer their own requests.

    Raises:
        Rejected: INVALID_TRANSITION, ACTOR_MISMATCH, INPUT_SCHEMA_VIOLATION, GUARD_REJECTED; in this order.
    """
    definition = workflow.states.get(state)
    transition = definition.transitions.get(name) if definition is not None and not ends(definition) else None
    if transition is None:
        names = ", ".join(definition.transitions) if definition is not None else ""
        possible = f"possible there: {names}" if names else "nothing is possible there any more"
        raise Rejected(INVALID, f"The transition {_quoted(name)} is not possible in state {state!r}; {possible}.")
    if rejected := actor_refusal(transition, at.principal, requesters):
        raise rejected
    filled = checked(transition.input_schema, arguments, _ARGUMENTS)
    return Fired(filled, passed(transition.guards, at._replace(scope=at.scope._replace(arguments=filled))))


def actor_refusal(transition: Transition, principal: Principal, requesters: Sequence[str]) -> Rejected | None:
    """Why a principal may not take a transition, whatever guards say; None: it may.

    Args:
        requesters: principals who must not answer their own requests.
    """
    if problem := machine.actor_problem(transition, principal.roles):
        return Rejected(ACTOR, problem, {"actor": transition.actor})
    if transition.actor == "human" and principal.id in requesters:
        return Rejected(ACTOR, "The requester must not decide this.", {"distinctFrom": "requester"})
    return None


def passed(guards: Sequence[Guard], at: Circumstances) -> tuple[tuple[str, bool], ...]:
    """The guards that were evaluated, if all of them hold.

    Raises:
        Rejected: GUARD_REJECTED.
    """
    seen: list[tuple[str, bool]] = []
    guard = failing(guards, at, lambda kind, held: seen.append((kind, held)))
    if guard is not None:
        raise Rejected(
            GUARD, "One or more guards rejected the transition.", {"guard": msgspec.to_builtins(guard)}, seen
        )
    return tuple(seen)


def checked(schema: Mapping[str, Any] | None, value: dict[str, Any], name: str) -> dict[str, Any]:
    """A value with the defaults of its schema.

    Raises:
        Rejected: INPUT_SCHEMA_VIOLATION; EXECUTOR_FAILED if the schema is at fault.
    """
    filled = with_defaults(schema, value)
    try:
        wrong = violations(schema, filled, name)
    except Unusable as why:
        raise Rejected(FAILED, f"Nothing was carried out: {why}.", {"errorClass": "permanent_error"}) from None
    if wrong:
        raise _violated(wrong)
    return filled


def called(catalogue: Catalogue, input: dict[str, Any]) -> Called:
    """The capability that the input of ``proxy_default`` names, and what it is to be called with.

    Raises:
        Rejected: INPUT_SCHEMA_VIOLATION.
    """
    name = input.get(_CAPABILITY)
    if not isinstance(name, str):
        raise _violated([Violation("input.capability", "is required: the id of a capability (string)")])
    capability = catalogue.capabilities.get(name)
    if capability is None:
        raise unknown_capability(name, ())
    arguments = call_arguments(input)
    if arguments is None:
        return Called(capability, None)
    place = f"input.{_ARGUMENTS}" if input.get(_ARGUMENTS) is arguments else "input"
    return Called(capability, checked(capability.schema, arguments, place))


def call_arguments(input: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments of a capability in the input of ``proxy_default``; None: there are none.

    ``{capability, arguments: {...}}`` and nothing else is the nested form, whatever the capability takes. Everything
    else is flat. So a parameter called ``capability``, or one object called ``arguments``, needs the nested form.
    """
    rest = {key: value for key, value in input.items() if key != _CAPABILITY}
    nested = rest.get(_ARGUMENTS)
    return nested if len(rest) == 1 and isinstance(nested, dict) else rest or None


def needs_nesting(schema: Mapping[str, Any] | None) -> bool:
    """Whether a capability is to be called by the nested form: it may have a parameter of these names."""
    properties = (schema or {}).get("properties")
    return isinstance(properties, Mapping) and not properties.keys().isdisjoint((_CAPABILITY, _ARGUMENTS))


def refusal_events(transition: str, rejected: Rejected, **more: str) -> Sequence[Event]:
    """The audit events of a rejection: the evaluated guards, then the reason.

    Args:
        more: further fields of the last event.
    """
    events = [
        Event("guard.evaluated", _encode({"transition": transition, "guard": kind, "passed": held}).decode())
        for kind, held in rejected.guards
    ]
    message = rejected.message
    if rejected.code == SCHEMA:
        # Names the invalid fields, but not their values.
        places = ", ".join(violation["path"] for violation in rejected.details["violations"])
        message = f"The input does not match its schema: {places}."
    details = redacted({"transition": transition[:200], **more, "code": rejected.code, "message": message})
    return [*events, Event("transition.rejected", _encode(details).decode())]


def _violated(problems: Sequence[Violation]) -> Rejected:
    return Rejected(
        SCHEMA,
        f"The input does not match its schema: {sentence(problems)}.",
        {"violations": [{"path": problem.path, "message": problem.message} for problem in problems]},
    )


def _quoted(text: str) -> str:
    return repr(text[:_SHOWN])
