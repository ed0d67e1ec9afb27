"""gateway.home, gateway.search, gateway.describe and workflow.explain."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.gateway.contract.base import (
    Arguments,
    DefinitionId,
    DefinitionRef,
    Failed,
    ItemRef,
    Json,
    Links,
    Result,
)

KINDS = ("workflow", "capability", "connection")
MAX_QUERY = 1_000
MAX_WORDS = 32
MAX_LIMIT = 100
MAX_BYTES = 20_000
"""Most bytes of the items in one answer, as JSON; the first one is there whatever its size."""


class Home(Arguments):
    """gateway.home."""

    cursor: Annotated[str | None, Meta(description="From the link next.")] = None


class Search(Arguments):
    """gateway.search."""

    query: Annotated[
        str, Meta(description="Search terms; empty: everything.", extra_json_schema={"maxLength": MAX_QUERY})
    ]
    kind: Annotated[
        str | None, Meta(description="Only items of this kind.", extra_json_schema={"enum": [*KINDS, None]})
    ] = None
    limit: Annotated[int, Meta(description="Most results.", extra_json_schema={"minimum": 1, "maximum": MAX_LIMIT})] = (
        10
    )


class Describe(Arguments):
    """gateway.describe."""

    id: ItemRef


class Explain(Arguments):
    """workflow.explain."""

    definition_id: DefinitionRef
    transition: Annotated[str | None, Meta(description="A transition to focus on.")] = None


class Item(Result, kw_only=True):
    """Something that can be started."""

    id: Annotated[str, Meta(description="Its id.")]
    kind: Annotated[str, Meta(description="What it is.", extra_json_schema={"enum": list(KINDS)})]
    title: Annotated[str, Meta(description="For people.")]
    description: Annotated[str, Meta(description="What it does.")]
    tags: Annotated[list[str], Meta(description="Words it is found by.")]
    available: (
        Annotated[bool, Meta(description="false: the server that does it cannot be reached; absent: it can.")]
        | UnsetType
    ) = UNSET
    examples: Annotated[list[Any], Meta(description="Inputs that make sense; absent: none.")] | UnsetType = UNSET
    links: Links


class HomeAnswer(Result, kw_only=True):
    """gateway.home."""

    items: Annotated[list[Item], Meta(description="Workflows, then capabilities.")]
    total: Annotated[int, Meta(description="How many there are; absent: these.")] | UnsetType = UNSET
    links: Links
    error: Failed | UnsetType = UNSET


class Hit(Result, kw_only=True):
    """A result of a search."""

    score: Annotated[float, Meta(description="How well it fits.")]
    item: Annotated[Item, Meta(description="What was found.")]


class SearchAnswer(Result, kw_only=True):
    """gateway.search."""

    results: Annotated[list[Hit], Meta(description="Best first.")]
    total: Annotated[int, Meta(description="How many there are; absent: these.")] | UnsetType = UNSET
    links: Links
    error: Failed | UnsetType = UNSET


class DescribeAnswer(Item, kw_only=True):
    """gateway.describe: the item, its link with the schema of its input."""

    error: Failed | UnsetType = UNSET


class StateShown(Result, kw_only=True):
    """A state in an explanation."""

    transitions: Annotated[list[str], Meta(description="Ways out; absent: none.")] | UnsetType = UNSET
    terminal: Annotated[bool, Meta(description="Whether workflows end here; absent: they do not.")] | UnsetType = UNSET
    outcome: Annotated[str, Meta(description="How they have ended then.")] | UnsetType = UNSET


class Explanation(Result, kw_only=True):
    """workflow.explain of a whole definition."""

    definition_id: DefinitionId
    description: Annotated[str, Meta(description="What it is for.")]
    initial_state: Annotated[str, Meta(description="Where it begins.")]
    states: Annotated[dict[str, StateShown], Meta(description="Its states by name.")]
    links: Links
    error: Failed | UnsetType = UNSET


class TransitionShown(Result, kw_only=True):
    """workflow.explain of one transition."""

    definition_id: DefinitionId
    transition: Annotated[str, Meta(description="Its name.")]
    title: Annotated[str, Meta(description="For people.")]
    target: Annotated[str, Meta(description="The state it leads to.")]
    actor: Annotated[str, Meta(description="Who may take it: agent, human, system, deterministic.")]
    guards: Annotated[list[Json], Meta(description="What must hold.")]
    input_schema: Annotated[Json | None, Meta(description="JSON Schema of its arguments; null: any.")]
    executor: Annotated[Json | None, Meta(description="What does the work, without secrets; null: nothing.")]
    branches: Annotated[list[Json], Meta(description="Other targets and when; absent: none.")] | UnsetType = UNSET
    from_states: Annotated[list[str], Meta(description="Every state that has it, if several.")] | UnsetType = UNSET
    links: Links
    error: Failed | UnsetType = UNSET
