"""gateway.home, gateway.search, gateway.describe and workflow.explain."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.gateway.contract import base

KINDS = ("workflow", "capability", "connection")
MAX_QUERY = 1_000
MAX_WORDS = 32
MAX_LIMIT = 100
MAX_BYTES = 20_000
"""Most bytes of the items in one answer, as JSON; the first one is there whatever its size."""


class Home(base.Arguments):
    cursor: Annotated[str | None, doc("From the link next.")] = None


class Search(base.Arguments):
    query: Annotated[str, doc("Search terms; empty: everything.", published={"maxLength": MAX_QUERY})]
    kind: Annotated[str | None, doc("Only items of this kind.", enum=[*KINDS, None])] = None
    limit: Annotated[int, doc("Most results.", published={"minimum": 1, "maximum": MAX_LIMIT})] = 10


class Describe(base.Arguments):
    id: base.ItemRef


class Explain(base.Arguments):
    definition_id: base.DefinitionRef
    transition: Annotated[str | None, doc("A transition to focus on.")] = None


class Item(base.Result, kw_only=True):
    """Something that can be started."""

    id: Annotated[str, doc("Its id.")]
    kind: Annotated[str, doc("What it is.", enum=KINDS)]
    title: Annotated[str, doc("For people.")]
    description: Annotated[str, doc("What it does.")]
    tags: Annotated[list[str], doc("Words it is found by.")]
    available: Annotated[bool, doc("false: the server that does it cannot be reached; absent: it can.")] | UnsetType = (
        UNSET
    )
    examples: Annotated[list[Any], doc("Inputs that make sense; absent: none.")] | UnsetType = UNSET
    links: base.Links


class HomeAnswer(base.Result, kw_only=True):
    items: Annotated[list[Item], doc("Workflows, then capabilities.")]
    total: Annotated[int, doc("How many there are; absent: these.")] | UnsetType = UNSET
    links: base.Links
    error: base.Failed | UnsetType = UNSET


class Hit(base.Result, kw_only=True):
    """A result of a search."""

    score: Annotated[float, doc("How well it fits.")]
    item: Annotated[Item, doc("What was found.")]


class SearchAnswer(base.Result, kw_only=True):
    results: Annotated[list[Hit], doc("Best first.")]
    total: Annotated[int, doc("How many there are; absent: these.")] | UnsetType = UNSET
    links: base.Links
    error: base.Failed | UnsetType = UNSET


class DescribeAnswer(Item, kw_only=True):
    """gateway.describe: the item, its link with the schema of its input."""

    error: base.Failed | UnsetType = UNSET


class StateShown(base.Result, kw_only=True):
    """A state in an explanation."""

    transitions: Annotated[list[str], doc("Ways out; absent: none.")] | UnsetType = UNSET
    terminal: Annotated[bool, doc("Whether workflows end here; absent: they do not.")] | UnsetType = UNSET
    outcome: Annotated[str, doc("How they have ended then.")] | UnsetType = UNSET


class Explanation(base.Result, kw_only=True):
    """workflow.explain of a whole definition."""

    definition_id: base.DefinitionId
    description: Annotated[str, doc("What it is for.")]
    initial_state: Annotated[str, doc("Where it begins.")]
    states: Annotated[dict[str, StateShown], doc("Its states by name.")]
    links: base.Links
    error: base.Failed | UnsetType = UNSET


class TransitionShown(base.Result, kw_only=True):
    """workflow.explain of one transition."""

    definition_id: base.DefinitionId
    transition: Annotated[str, doc("Its name.")]
    title: Annotated[str, doc("For people.")]
    target: Annotated[str, doc("The state it leads to.")]
    actor: Annotated[str, doc("Who may take it: agent, human, system, deterministic.")]
    guards: Annotated[list[base.Json], doc("What must hold.")]
    input_schema: Annotated[base.Json | None, doc("JSON Schema of its arguments; null: any.")]
    executor: Annotated[base.Json | None, doc("What does the work, without secrets; null: nothing.")]
    branches: Annotated[list[base.Json], doc("Other targets and when; absent: none.")] | UnsetType = UNSET
    from_states: Annotated[list[str], doc("Every state that has it, if several.")] | UnsetType = UNSET
    links: base.Links
    error: base.Failed | UnsetType = UNSET
