"""Bases and parts that the contracts of the gateway toolset share.

Names are camelCase; ``input_schema`` alone is spelt with an underscore.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.toolsets.doc import doc

MAX_ID = 200


class Arguments(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Arguments of a tool."""


class Result(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A result or a part of one; fields that are UNSET are left out."""


Json = dict[str, Any]

ItemRef = Annotated[str, doc("Id of a capability or workflow, as gateway.home and gateway.search show it.")]
DefinitionRef = Annotated[str, doc("Id of a workflow, or proxy_default for a single capability.")]
WorkflowRef = Annotated[str, doc("The workflowId of workflow.start.")]

DefinitionId = Annotated[str, doc("Its definition.")]
WorkflowId = Annotated[str, doc("The instance.")]
StateName = Annotated[str, doc("Its present state.")]
Version = Annotated[int, doc("Rises with each transition; the next submit has to name it.")]


class Link(Result, kw_only=True):
    """A call that makes sense now, ready to be made."""

    rel: Annotated[str, doc("What it does: start, transition, self, result, next, home, search, describe, explain.")]
    title: Annotated[str, doc("For people; absent: none.")] | UnsetType = UNSET
    description: Annotated[str, doc("More about it; absent: nothing.")] | UnsetType = UNSET
    method: Annotated[str, doc("The tool to call.")]
    args: Annotated[Json, doc("Its arguments; those that are known are filled in.")]
    actor: Annotated[str, doc("Who may do this; absent: any agent.")] | UnsetType = UNSET
    input_schema: (
        Annotated[Json, doc("JSON Schema of input (start) or arguments (transition); absent: none.")] | UnsetType
    ) = msgspec.field(default=UNSET, name="input_schema")


Links = Annotated[list[Link], doc("What can be done next.")]


class Problem(Result, kw_only=True):
    """Why a call failed."""

    code: Annotated[str, doc("The stable name of this failure.")]
    message: Annotated[str, doc("What went wrong, in a sentence.")]
    details: Annotated[Json, doc("errorClass, retryAfterMs and the like; absent: none.")] | UnsetType = UNSET


Failed = Annotated[Problem, doc("Why the call failed; present only then.")]


class Hop(Result, kw_only=True):
    """A transition that was taken without being asked for."""

    from_state: Annotated[str, doc("The state it left.")]
    transition: Annotated[str, doc("Its name.")]
    to_state: Annotated[str, doc("The state it led to.")]
    version: Annotated[int, doc("The version after it.")]


Chain = Annotated[list[Hop], doc("Transitions taken besides the one asked for; absent: none.")]


class Refusal(Result, kw_only=True):
    """The body of a failed call."""

    workflow_id: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    version: int | UnsetType = UNSET
    error: Problem
    links: list[Link]
    chain: list[Hop] | UnsetType = UNSET
