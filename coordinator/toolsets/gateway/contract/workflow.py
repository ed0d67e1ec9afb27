"""workflow.start, workflow.get and workflow.submit."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.gateway.contract.base import (
    Arguments,
    Chain,
    DefinitionId,
    DefinitionRef,
    Failed,
    Json,
    Links,
    Result,
    StateName,
    Version,
    WorkflowId,
    WorkflowRef,
)
from coordinator.toolsets.request_id import RequestId
from coordinator.toolsets.waiting_reads import After, Waited, WaitMs

WAITS_FOR = ("ended", "attention", "changed")


class Start(Arguments):
    """workflow.start."""

    definition_id: DefinitionRef
    input: Annotated[Json, Meta(description="Input as the workflow's schema asks for it; {} where it asks for none.")]
    request_id: RequestId = None


class Get(Arguments):
    """workflow.get."""

    workflow_id: WorkflowRef
    wait_for: Annotated[
        str | None,
        Meta(
            description="attention: ended, or you may take it further now.",
            extra_json_schema={"enum": [*WAITS_FOR, None]},
        ),
    ] = None
    wait_ms: WaitMs = None
    after: After = None
    result: Annotated[str | None, Meta(description="Key of a cut value in context: reads a page of it instead.")] = None
    offset: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="With result: nextOffset of the page before.")
    ] = None


class Submit(Arguments):
    """workflow.submit."""

    workflow_id: WorkflowRef
    expected_version: Annotated[int, Meta(description="The version that the link shows; any other is refused.")]
    transition: Annotated[str, Meta(description="The transition to take.")]
    arguments: Annotated[Json, Meta(description="Its arguments; {} where it takes none.")]
    request_id: RequestId = None


class Guidance(Result, kw_only=True):
    """What is to be achieved in a state, and how."""

    goal: Annotated[str, Meta(description="In a few words.")] | UnsetType = UNSET
    instructions: Annotated[str, Meta(description="In full.")] | UnsetType = UNSET


class EvidenceShown(Result, kw_only=True):
    """Something that was done, for guards to ask for."""

    kind: Annotated[str, Meta(description="What kind of evidence.")]
    transition: Annotated[str, Meta(description="The transition that left it.")]
    at: Annotated[str, Meta(description="When, UTC.", extra_json_schema={"format": "date-time"})]


class UnderWay(Result, kw_only=True):
    """A transition that is being carried out."""

    transition: Annotated[str, Meta(description="Its name; empty: what follows the start, or the end of its time.")]
    since: Annotated[str, Meta(description="Since when, UTC.", extra_json_schema={"format": "date-time"})]
    retry_after_ms: Annotated[int, Meta(description="When to look again, in milliseconds.")]


class PendingHuman(Result, kw_only=True):
    """Something that waits for a person."""

    request_id: Annotated[str, Meta(description="The approval that is asked for.")]
    queue: Annotated[str, Meta(description="The queue it is in.")]
    requested_at: Annotated[
        str, Meta(description="When it was asked for, UTC.", extra_json_schema={"format": "date-time"})
    ]


class LastFailure(Result, kw_only=True):
    """The last transition that failed, until another one succeeds."""

    transition: Annotated[str, Meta(description="Its name.")]
    code: Annotated[str, Meta(description="The error's code.")]
    message: Annotated[str, Meta(description="What went wrong.")]
    at: Annotated[str, Meta(description="When, UTC.", extra_json_schema={"format": "date-time"})]


class WorkflowAnswer(Result, kw_only=True):
    """An instance as it stands."""

    workflow_id: WorkflowId
    definition_id: DefinitionId
    state: StateName
    version: Version
    context: Annotated[Json, Meta(description="Data that its transitions have collected so far.")]
    terminal: Annotated[bool, Meta(description="true: it has ended; absent: it has not.")] | UnsetType = UNSET
    outcome: (
        Annotated[str, Meta(description="How it ended, where its definition says so: success, failure, timed_out.")]
        | UnsetType
    ) = UNSET
    links: Links
    chain: Chain | UnsetType = UNSET
    chain_stopped: Annotated[str, Meta(description="Why no more were taken; absent: there were none.")] | UnsetType = (
        UNSET
    )
    guidance: Annotated[Guidance, Meta(description="What to do here; absent: nothing in particular.")] | UnsetType = (
        UNSET
    )
    evidence: Annotated[list[EvidenceShown], Meta(description="Newest last, at most 20; absent: none.")] | UnsetType = (
        UNSET
    )
    in_flight: Annotated[UnderWay, Meta(description="What goes on now; absent: nothing.")] | UnsetType = UNSET
    pending_human: (
        Annotated[list[PendingHuman], Meta(description="What waits for a person; absent: nothing.")] | UnsetType
    ) = UNSET
    last_failure: Annotated[LastFailure, Meta(description="Absent: the last one succeeded.")] | UnsetType = UNSET
    error: Failed | UnsetType = UNSET
    waited: Annotated[Waited, Meta(description="With waitMs.")] | UnsetType = UNSET


class ResultPage(Result, kw_only=True):
    """A page of a value that is too large for the context."""

    workflow_id: WorkflowId
    result: Annotated[str, Meta(description="Its key in the context.")]
    version: Annotated[int, Meta(description="The version that wrote it; another one: it was replaced meanwhile.")]
    offset: Annotated[int, Meta(description="Where the page begins, in bytes.")]
    total: Annotated[int, Meta(description="Bytes of the whole text.")]
    text: Annotated[
        str, Meta(description="The page: a part of JSON, in which images and sounds are replaced by where they are.")
    ]
    next_offset: Annotated[int, Meta(description="offset of the next page; absent: this is the last.")] | UnsetType = (
        UNSET
    )
    links: Links
