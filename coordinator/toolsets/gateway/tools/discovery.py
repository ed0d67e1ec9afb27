"""gateway.home, gateway.search, gateway.describe and workflow.explain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from coordinator.errors import invalid
from coordinator.settings.sections.gateway.executor import Executor
from coordinator.settings.sections.gateway.model import PROXY, Transition, Workflow
from coordinator.toolsets.gateway.contract import discovery
from coordinator.toolsets.gateway.contract.base import Link, Refusal
from coordinator.toolsets.gateway.rules import checks
from coordinator.toolsets.gateway.rules.catalogue import CatalogueItem
from coordinator.toolsets.gateway.rules.graph import ends
from coordinator.toolsets.gateway.rules.guards import Principal
from coordinator.toolsets.gateway.rules.links import Links
from coordinator.toolsets.gateway.rules.search import words
from coordinator.toolsets.gateway.rules.visibility import seen_sessions, sees, visible
from coordinator.toolsets.gateway.tools.answers import refusal_of, rejected
from coordinator.toolsets.gateway.tools.backend import Backend
from coordinator.toolsets.tool import Call, Criticality, Reply, Tool

_HOME = (
    "List workflows and capabilities, each with the link that starts it; 20 KB at a time, then the link next. Start "
    "with this, or with gateway.search if there are many; then follow links."
)
_SEARCH = "Find workflows and capabilities by words in their titles, ids, tags and descriptions. Tolerates typos."
_DESCRIBE = "One workflow or capability in full. Its start link has the JSON Schema of the input."
_EXPLAIN = "How a workflow or one of its transitions works: states, guards, inputs, executors. Starts nothing."

R = TypeVar("R", discovery.Item, discovery.Hit)
_encode = msgspec.json.Encoder().encode

_SHOWN = ("kind", "command", "connection", "tool", "method", "path", "queue", "definition_id")
"""Fields of an executor that may be shown: no arguments, headers or environments, which may have secrets."""


class Discovery:
    """Handlers of the read-only tools that find workflows and capabilities."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._links = backend.links

    async def home(self, call: Call, args: discovery.Home) -> discovery.HomeAnswer | Reply:
        """The visible items, each with the link that starts it: all of them, or as many as fit into an answer."""
        every = visible(self._backend.catalogue, Principal.of(call.caller))
        begin = 0
        if args.cursor is not None:
            # A cursor is the id of the last item before it, so what is added and removed elsewhere does no harm.
            begin = next((number for number, item in enumerate(every, 1) if item.id == args.cursor), -1)
            if begin < 0:
                return rejected(checks.lost_cursor(args.cursor), Principal.of(call.caller), self._links)
        entries = _that_fit(_item(item, self._links) for item in every[begin:])
        more = [self._links.next(entries[-1].id)] if begin + len(entries) < len(every) else []
        total = len(every) if more or begin else UNSET
        return discovery.HomeAnswer(items=entries, total=total, links=[*more, self._links.search()])

    async def search(self, call: Call, args: discovery.Search) -> discovery.SearchAnswer:
        """The visible items that match the words, best match first."""
        if len(args.query) > discovery.MAX_QUERY or len(words(args.query)) > discovery.MAX_WORDS:
            raise invalid("query", f"must be at most {discovery.MAX_WORDS} words and {discovery.MAX_QUERY} characters")
        if not 1 <= args.limit <= discovery.MAX_LIMIT:
            raise invalid("limit", f"must be 1 to {discovery.MAX_LIMIT}")
        if args.kind is not None and args.kind not in discovery.KINDS:
            raise invalid("kind", f"must be one of {', '.join(discovery.KINDS)}")
        catalogue = self._backend.catalogue
        if catalogue.gateway.discovery.visibility == "all":
            results = catalogue.index.search(args.query, args.kind, args.limit)
        else:
            seen = {item.id for item in visible(catalogue, Principal.of(call.caller))}
            every = catalogue.index.search(args.query, args.kind, len(catalogue.index))
            results = [hit for hit in every if hit.id in seen][: args.limit]
        hits = _that_fit(
            discovery.Hit(score=hit.score, item=_item(catalogue.items[hit.id], self._links)) for hit in results
        )
        total = len(results) if len(hits) < len(results) else UNSET
        return discovery.SearchAnswer(results=hits, total=total, links=[self._links.home()])

    async def describe(self, call: Call, args: discovery.Describe) -> discovery.DescribeAnswer | Reply:
        """One workflow or capability in full."""
        item = self._backend.catalogue.items.get(args.id)
        if item is None or not sees(self._backend.catalogue, item.id, Principal.of(call.caller)):
            known = [other.id for other in visible(self._backend.catalogue, Principal.of(call.caller))]
            return rejected(checks.unknown_item(args.id, known), Principal.of(call.caller), self._links)
        summary = _item(item, self._links)
        return discovery.DescribeAnswer(
            id=summary.id,
            kind=summary.kind,
            title=summary.title,
            description=summary.description,
            tags=summary.tags,
            available=summary.available,
            examples=list(item.examples) or UNSET,
            links=self._links.start(item, with_schema=True),
        )

    async def explain(
        self, call: Call, args: discovery.Explain
    ) -> discovery.Explanation | discovery.TransitionShown | Reply:
        """A workflow's definition, or one transition of it."""
        catalogue = self._backend.catalogue
        name = args.definition_id
        workflow = catalogue.sessions() if name == PROXY else catalogue.workflows.get(name)
        if workflow is None:
            return rejected(
                checks.unknown_definition(name, catalogue.workflows), Principal.of(call.caller), self._links
            )
        more = self._start_links(name)
        if name == PROXY:
            workflow = seen_sessions(catalogue, workflow, Principal.of(call.caller))
        if args.transition is None:
            return _definition(name, workflow, more)
        places = [
            (key, state.transitions[args.transition])
            for key, state in workflow.states.items()
            if args.transition in state.transitions
        ]
        if not places:
            known = dict.fromkeys(other for state in workflow.states.values() for other in state.transitions)
            unknown = checks.unknown_transition(name, args.transition, known)
            return rejected(unknown, Principal.of(call.caller), self._links, more=[self._links.explain(name)])
        if name == PROXY:
            more = self._start_links(args.transition)
        return _transition(name, args.transition, places, more)

    def _start_links(self, name: str) -> list[Link]:
        listed = self._backend.catalogue.items.get(name)
        return self._links.start(listed) if listed is not None else [self._links.home()]


def tools(backend: Backend) -> tuple[Tool, ...]:
    handle = Discovery(backend)
    common: dict[str, Any] = {"read_only": True, "idempotent": True, "refusal": refusal_of(backend.links)}
    sheddable = {**common, "criticality": Criticality.SHEDDABLE}
    return (
        Tool("gateway.home", _HOME, discovery.Home, (discovery.HomeAnswer,), handle.home, **sheddable),
        Tool("gateway.search", _SEARCH, discovery.Search, (discovery.SearchAnswer,), handle.search, **sheddable),
        Tool("gateway.describe", _DESCRIBE, discovery.Describe, (discovery.DescribeAnswer,), handle.describe, **common),
        Tool(
            "workflow.explain",
            _EXPLAIN,
            discovery.Explain,
            (discovery.Explanation, discovery.TransitionShown, Refusal),
            handle.explain,
            **common,
        ),
    )


def _that_fit(made: Iterable[R]) -> list[R]:
    """The first ones, up to ``MAX_BYTES`` together, and at least one. No more are made than that."""
    fitting: list[R] = []
    left = discovery.MAX_BYTES - len(b"[]")
    for row in made:
        left -= len(_encode(row)) + len(b",")
        if fitting and left < 0:
            break
        fitting.append(row)
    return fitting


def _item(listed: CatalogueItem, links: Links) -> discovery.Item:
    """An item as gateway.home and gateway.search show it."""
    return discovery.Item(
        id=listed.id,
        kind=listed.kind,
        title=listed.title,
        description=listed.description,
        tags=list(listed.tags),
        available=UNSET if listed.available else False,
        links=links.start(listed),
    )


def _definition(name: str, workflow: Workflow, links: list[Link]) -> discovery.Explanation:
    """All states of a workflow, with the names of their transitions."""
    states = {}
    for key, state in workflow.states.items():
        if ends(state):
            states[key] = discovery.StateShown(terminal=True, outcome=state.outcome or UNSET)
        else:
            states[key] = discovery.StateShown(transitions=list(state.transitions))
    return discovery.Explanation(
        definition_id=name,
        description=workflow.description,
        initial_state=workflow.initial_state,
        states=states,
        links=links,
    )


def _transition(
    name: str, transition: str, places: Sequence[tuple[str, Transition]], links: list[Link]
) -> discovery.TransitionShown:
    """The transition of the first state that has it, and all states that do."""
    first = places[0][1]
    return discovery.TransitionShown(
        definition_id=name,
        transition=transition,
        title=first.title or transition,
        target=first.target,
        actor=first.actor,
        guards=msgspec.to_builtins(first.guards),
        input_schema=first.input_schema,
        executor=_executor(first.executor),
        branches=msgspec.to_builtins(first.branches) or UNSET,
        from_states=[state for state, _ in places] if len(places) > 1 else UNSET,
        links=links,
    )


def _executor(executor: Executor | None) -> dict[str, Any] | None:
    """The fields of an executor that may be shown."""
    if executor is None:
        return None
    names = {field.name: field.encode_name for field in msgspec.structs.fields(executor)}
    fields = {names[name]: getattr(executor, name) for name in _SHOWN}
    kind = executor.kind
    return {
        key: value
        for key, value in fields.items()
        if value not in (None, "") and (key != "method" or kind == "rest") and (key != "queue" or kind == "human")
    }
