"""workflow.start, workflow.get and workflow.submit."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.gateway.contract import base
from coordinator.toolsets.request_id import RequestId
from coordinator.toolsets.waiting.reads import After, Waited, WaitMs

WAITS_FOR = ("ended", "attention", "changed")


class Start(base.Arguments):
    definition_id: base.DefinitionRef
    input: Annotated[base.Json, doc("Input as the workflow's schema asks for it; {} where it asks for none.")]
    request_id: RequestId = None


class Get(base.Arguments):
    workflow_id: base.WorkflowRef
    wait_for: Annotated[
        str | None, doc("attention: ended, or you may take it further now.", enum=[*WAITS_FOR, None])
    ] = None
    wait_ms: WaitMs = None
    after: After = None
    result: Annotated[str | None, doc("Key of a cut value in context: reads a page of it instead.")] = None
    offset: Annotated[Annotated[int, Meta(ge=0)] | None, doc("With result: nextOffset of the page before.")] = None


class Submit(base.Arguments):
    workflow_id: base.WorkflowRef
    expected_version: Annotated[int, doc("The version that the link shows; any other is refused.")]
    transition: Annotated[str, doc("The transition to take.")]
    arguments: Annotated[base.Json, doc("Its arguments; {} where it takes none.")]
    request_id: RequestId = None


class Guidance(base.Result, kw_only=True):
    """What is to be achieved in a state, and how."""

    goal: Annotated[str, doc("In a few words.")] | UnsetType = UNSET
    instructions: Annotated[str, doc("In full.")] | UnsetType = UNSET


class EvidenceShown(base.Result, kw_only=True):
    """Something that was done, for guards to ask for."""

    kind: Annotated[str, doc("What kind of evidence.")]
    transition: Annotated[str, doc("The transition that left it.")]
    at: Annotated[str, doc("When, UTC.", published={"format": "date-time"})]


class UnderWay(base.Result, kw_only=True):
    """A transition that is being carried out."""

    transition: Annotated[str, doc("Its name; empty: what follows the start, or the end of its time.")]
    since: Annotated[str, doc("Since when, UTC.", published={"format": "date-time"})]
    retry_after_ms: Annotated[int, doc("When to look again, in milliseconds.")]


class PendingHuman(base.Result, kw_only=True):
    """Something that waits for a person."""

    request_id: Annotated[str, doc("The approval that is asked for.")]
    queue: Annotated[str, doc("The queue it is in.")]
    requested_at: Annotated[str, doc("When it was asked for, UTC.", published={"format": "date-time"})]


class LastFailure(base.Result, kw_only=True):
    """The last transition that failed, until another one succeeds."""

    transition: Annotated[str, doc("Its name.")]
    code: Annotated[str, doc("The error's code.")]
    message: Annotated[str, doc("What went wrong.")]
    at: Annotated[str, doc("When, UTC.", published={"format": "date-time"})]


class WorkflowAnswer(base.Result, kw_only=True):
    """An instance as it stands."""

    workflow_id: base.WorkflowId
    definition_id: base.DefinitionId
    state: base.StateName
    version: base.Version
    context: Annotated[base.Json, doc("Data that its transitions have collected so far.")]
    terminal: Annotated[bool, doc("true: it has ended; absent: it has not.")] | UnsetType = UNSET
    outcome: (
        Annotated[str, doc("How it ended, where its definition says so: success, failure, timed_out.")] | UnsetType
    ) = UNSET
    links: base.Links
    chain: base.Chain | UnsetType = UNSET
    chain_stopped: Annotated[str, doc("Why no more were taken; absent: there were none.")] | UnsetType = UNSET
    guidance: Annotated[Guidance, doc("What to do here; absent: nothing in particular.")] | UnsetType = UNSET
    evidence: Annotated[list[EvidenceShown], doc("Newest last, at most 20; absent: none.")] | UnsetType = UNSET
    in_flight: Annotated[UnderWay, doc("What goes on now; absent: nothing.")] | UnsetType = UNSET
    pending_human: Annotated[list[PendingHuman], doc("What waits for a person; absent: nothing.")] | UnsetType = UNSET
    last_failure: Annotated[LastFailure, doc("Absent: the last one succeeded.")] | UnsetType = UNSET
    error: base.Failed | UnsetType = UNSET
    waited: Annotated[Waited, doc("With waitMs.")] | UnsetType = UNSET


class ResultPage(base.Result, kw_only=True):
    """A page of a value that is too large for the context."""

    workflow_id: base.WorkflowId
    result: Annotated[str, doc("Its key in the context.")]
    version: Annotated[int, doc("The version that wrote it; another one: it was replaced meanwhile.")]
    offset: Annotated[int, doc("Where the page begins, in bytes.")]
    total: Annotated[int, doc("Bytes of the whole text.")]
    text: Annotated[str, doc("The page: a part of JSON, in which images and sounds are replaced by where they are.")]
    next_offset: Annotated[int, doc("offset of the next page; absent: this is the last.")] | UnsetType = UNSET
    links: base.Links
