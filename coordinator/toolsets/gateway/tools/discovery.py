"""gateway.home, gateway.search, gateway.describe and workflow.explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from coordinator.errors import invalid
from coordinator.settings.gateway.executor import Executor
from coordinator.settings.gateway.model import PROXY, Transition, Workflow
from coordinator.toolsets.gateway.contract.base import Link, Refusal
from coordinator.toolsets.gateway.contract.discovery import (
    KINDS,
    MAX_LIMIT,
    MAX_QUERY,
    MAX_WORDS,
    Describe,
    DescribeAnswer,
    Explain,
    Explanation,
    Hit,
    Home,
    HomeAnswer,
    Item,
    Search,
    SearchAnswer,
    StateShown,
    TransitionShown,
)
from coordinator.toolsets.gateway.rules import checks
from coordinator.toolsets.gateway.rules.catalogue import Catalogue, Listed
from coordinator.toolsets.gateway.rules.graph import ends
from coordinator.toolsets.gateway.rules.guards import Circumstances, Principal, all_hold
from coordinator.toolsets.gateway.rules.links import Links
from coordinator.toolsets.gateway.rules.resolve import READY
from coordinator.toolsets.gateway.rules.schemas import with_defaults
from coordinator.toolsets.gateway.rules.scope import Scope
from coordinator.toolsets.gateway.rules.search import words
from coordinator.toolsets.gateway.tools.answers import refusal_of, rejected
from coordinator.toolsets.gateway.tools.desk import Desk
from coordinator.toolsets.tool import Call, Criticality, Reply, Tool

_HOME = (
    "Everything that can be done here: workflows and capabilities, each with the link that starts it. Start with this, "
    "or with gateway.search where there is much; then follow links instead of guessing names."
)
_SEARCH = "Find workflows and capabilities by words in their titles, ids, tags and descriptions; typos are forgiven."
_DESCRIBE = "One workflow or capability in full: its start link carries the JSON Schema of the input."
_EXPLAIN = "How a workflow works, or one transition of it: states, guards, inputs, executors. Starts nothing."

_SHOWN = ("kind", "command", "connection", "tool", "method", "path", "queue", "definition_id")
"""Fields of an executor that may be told: never arguments, headers or environments."""


def tools(desk: Desk) -> tuple[Tool, ...]:
    """The tools."""
    links, refusal = desk.links, refusal_of(desk.links)

    async def home(call: Call, args: Home) -> HomeAnswer:
        del args
        found = [item(one, links) for one in visible(desk.catalogue, Principal.of(call.caller))]
        return HomeAnswer(items=found, links=[links.search()])

    async def search(call: Call, args: Search) -> SearchAnswer:
        if len(args.query) > MAX_QUERY or len(words(args.query)) > MAX_WORDS:
            raise invalid("query", f"must be at most {MAX_WORDS} words and {MAX_QUERY} characters")
        if not 1 <= args.limit <= MAX_LIMIT:
            raise invalid("limit", f"must be 1 to {MAX_LIMIT}")
        if args.kind is not None and args.kind not in KINDS:
            raise invalid("kind", f"must be one of {', '.join(KINDS)}")
        catalogue = desk.catalogue
        if catalogue.gateway.discovery.visibility == "all":
            found = catalogue.index.search(args.query, args.kind, args.limit)
        else:
            seen = {one.id for one in visible(catalogue, Principal.of(call.caller))}
            every = catalogue.index.search(args.query, args.kind, len(catalogue.index))
            found = [one for one in every if one.id in seen][: args.limit]
        hits = [Hit(score=one.score, item=item(catalogue.items[one.id], links)) for one in found]
        return SearchAnswer(results=hits, links=[links.home()])

    async def describe(call: Call, args: Describe) -> DescribeAnswer | Reply:
        found = desk.catalogue.items.get(args.id)
        if found is None or not sees(desk.catalogue, found.id, Principal.of(call.caller)):
            return rejected(checks.unknown_item(args.id), Principal.of(call.caller), links)
        shown = item(found, links)
        return DescribeAnswer(
            id=shown.id,
            kind=shown.kind,
            title=shown.title,
            description=shown.description,
            tags=shown.tags,
            available=shown.available,
            examples=list(found.examples) or UNSET,
            links=links.start(found, with_schema=True),
        )

    async def explain(call: Call, args: Explain) -> Explanation | TransitionShown | Reply:
        catalogue = desk.catalogue
        name = args.definition_id
        workflow = catalogue.sessions() if name == PROXY else catalogue.workflows.get(name)
        if workflow is None:
            return rejected(checks.unknown_definition(name), Principal.of(call.caller), links)
        more = _links(desk, name)
        if name == PROXY:
            workflow = _seen_of(catalogue, workflow, Principal.of(call.caller))
        if args.transition is None:
            return _explained(name, workflow, more)
        places = [(key, state.transitions[args.transition]) for key, state in workflow.states.items()
                  if args.transition in state.transitions]  # fmt: skip
        if not places:
            unknown = checks.unknown_transition(name, args.transition)
            return rejected(unknown, Principal.of(call.caller), links, more=[links.explain(name)])
        return _shown(name, args.transition, places, more)

    reading: dict[str, Any] = {"read_only": True, "idempotent": True, "refusal": refusal}
    return (
        Tool("gateway.home", _HOME, Home, (HomeAnswer,), home, criticality=Criticality.SHEDDABLE, **reading),
        Tool("gateway.search", _SEARCH, Search, (SearchAnswer,), search, criticality=Criticality.SHEDDABLE, **reading),
        Tool("gateway.describe", _DESCRIBE, Describe, (DescribeAnswer,), describe, **reading),
        Tool("workflow.explain", _EXPLAIN, Explain, (Explanation, TransitionShown, Refusal), explain, **reading),
    )


def item(listed: Listed, links: Links) -> Item:
    """An item as gateway.home and gateway.search show it."""
    return Item(
        id=listed.id,
        kind=listed.kind,
        title=listed.title,
        description=listed.description,
        tags=list(listed.tags),
        available=UNSET if listed.available else False,
        links=links.start(listed),
    )


def visible(catalogue: Catalogue, principal: Principal) -> Sequence[Listed]:
    """What a principal may see, in the catalogue's order."""
    return [one for one in catalogue.items.values() if sees(catalogue, one.id, principal)]


def sees(catalogue: Catalogue, id: str, principal: Principal, arguments: Mapping[str, Any] | None = None) -> bool:
    """Whether there is, as far as a principal is told, something with this id.

    Args:
        arguments: what he calls it with; None: he does not yet.
    """
    if catalogue.gateway.discovery.visibility == "all":
        return True
    capability = catalogue.capabilities.get(id)
    if capability is None:
        return True
    given = {} if arguments is None else with_defaults(capability.schema, dict(arguments))
    return all_hold(capability.guards, Circumstances(principal, Scope({}, given)))


def _seen_of(catalogue: Catalogue, sessions: Workflow, principal: Principal) -> Workflow:
    """The definition of sessions with what a principal may see."""
    ready = sessions.states[READY]
    seen = {name: one for name, one in ready.transitions.items() if sees(catalogue, name, principal)}
    return replace(sessions, states={READY: replace(ready, transitions=seen)})


def _links(desk: Desk, name: str) -> list[Link]:
    listed = desk.catalogue.items.get(name)
    return desk.links.start(listed) if listed is not None else [desk.links.home()]


def _explained(name: str, workflow: Workflow, links: list[Link]) -> Explanation:
    states = {}
    for key, state in workflow.states.items():
        if ends(state):
            states[key] = StateShown(terminal=True, outcome=state.outcome or UNSET)
        else:
            states[key] = StateShown(transitions=list(state.transitions))
    return Explanation(
        definition_id=name,
        description=workflow.description,
        initial_state=workflow.initial_state,
        states=states,
        links=links,
    )


def _shown(name: str, transition: str, places: Sequence[tuple[str, Transition]], links: list[Link]) -> TransitionShown:
    """The transition of the first state that has it, and all states that do."""
    found = places[0][1]
    return TransitionShown(
        definition_id=name,
        transition=transition,
        title=found.title or transition,
        target=found.target,
        actor=found.actor,
        guards=msgspec.to_builtins(found.guards),
        input_schema=found.input_schema,
        executor=_executor(found.executor),
        branches=msgspec.to_builtins(found.branches) or UNSET,
        from_states=[state for state, _ in places] if len(places) > 1 else UNSET,
        links=links,
    )


def _executor(executor: Executor | None) -> dict[str, Any] | None:
    if executor is None:
        return None
    names = {field.name: field.encode_name for field in msgspec.structs.fields(executor)}
    told = {names[name]: getattr(executor, name) for name in _SHOWN}
    kind = executor.kind
    return {
        key: value
        for key, value in told.items()
        if value not in (None, "") and (key != "method" or kind == "rest") and (key != "queue" or kind == "human")
    }
