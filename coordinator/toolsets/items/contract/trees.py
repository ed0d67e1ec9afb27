"""create_work_tree and complete_tree."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.canonical import meant
from coordinator.toolsets.items.contract.base import (
    Arguments,
    Count,
    Depth,
    ExpectedNotes,
    GivenNoteKey,
    GivenPhase,
    ItemId,
    NoteId,
    NoteKey,
    OptionalActor,
    Phase,
    RequestId,
    Result,
    RoleName,
    SchemaMatch,
    StatusLabel,
    Tags,
    Title,
)
from coordinator.toolsets.items.contract.dependencies import (
    DependencyId,
    DependencyType,
    EdgeType,
    Threshold,
    UnblockAt,
)
from coordinator.toolsets.items.contract.specs import TreeChild, TreeItem

COMPLETIONS = ("complete", "cancel")

Ref = Annotated[str, Meta(description="'root', or the ref of a child.")]


class TreeDependency(Arguments, kw_only=True, rename={"source": "from", "target": "to", "unblock_at": "unblockAt"}):
    """An edge between items of the tree."""

    source: Ref
    target: Ref
    type: DependencyType = None
    unblock_at: Threshold = None


class TreeNote(Arguments, kw_only=True):
    """A note on an item of the tree."""

    item_ref: Ref
    key: GivenNoteKey
    role: GivenPhase
    body: Annotated[str | None, Meta(description="Default empty.")] = None


class CreateWorkTree(Arguments, kw_only=True):
    """A root with children, edges and notes, created in one step."""

    root: Annotated[TreeItem, Meta(description="The root of the new tree.")]
    parent_id: Annotated[str | None, Meta(description="Existing item to put the root under.")] = None
    children: Annotated[list[TreeChild], Meta(description="Children of the root.")] = []
    deps: Annotated[list[TreeDependency], Meta(description="Edges between root and children.")] = []
    create_notes: Annotated[bool, Meta(description="Add blank notes for what the schemas ask for.")] = False
    notes: Annotated[list[TreeNote], Meta(description="Notes with text; they win over createNotes.")] = []
    actor: OptionalActor = None
    request_id: RequestId = None


class TreeNode(Result, kw_only=True):
    """An item of the created tree; the root has no ref."""

    ref: Annotated[str, Meta(description="As given.")] | UnsetType = UNSET
    id: ItemId
    title: Title
    role: RoleName
    depth: Depth
    tags: Tags | UnsetType = UNSET
    schema_match: SchemaMatch
    expected_notes: ExpectedNotes


class TreeEdge(Result, kw_only=True):
    """An edge of the created tree."""

    id: DependencyId
    from_ref: Ref
    to_ref: Ref
    type: EdgeType
    unblock_at: UnblockAt | UnsetType = UNSET


class CreatedNote(Result, kw_only=True):
    """A note of the created tree."""

    item_ref: Ref
    key: NoteKey
    role: Phase
    id: NoteId


class CreateWorkTreeResult(Result, kw_only=True):
    """Everything that was created."""

    root: TreeNode
    children: Annotated[list[TreeNode], Meta(description="In the order given.")]
    dependencies: Annotated[list[TreeEdge], Meta(description="In the order given.")]
    notes: Annotated[list[CreatedNote], Meta(description="Those given, then the blank ones of createNotes.")]


class CompleteTree(Arguments, kw_only=True):
    """Complete or cancel a subtree, or a list of items, in dependency order."""

    root_id: Annotated[str | None, Meta(description="All descendants of this item.")] = None
    item_ids: Annotated[
        list[str] | None,
        Meta(
            description="Instead of rootId: these items.",
            extra_json_schema={"maxItems": 2000},
        ),
    ] = None
    trigger: Annotated[
        str | None,
        Meta(
            description="Default complete.", extra_json_schema={"enum": [*COMPLETIONS, None]}, extra=meant("complete")
        ),
    ] = None
    include_root: Annotated[bool, Meta(description="With rootId: the root itself too, last.")] = False
    actor: OptionalActor = None
    request_id: RequestId = None


class CompletedItem(Result, kw_only=True):
    """What became of one item."""

    item_id: Annotated[str, Meta(description="The item's UUID; a prefix where no item has it.")]
    title: Annotated[Title, Meta(description="Its title; absent: not found.")] | UnsetType = UNSET
    applied: Annotated[bool, Meta(description="Whether it is terminal by this call.")]
    trigger: (
        Annotated[str, Meta(description="If applied: the call's.", extra_json_schema={"enum": list(COMPLETIONS)})]
        | UnsetType
    ) = UNSET
    status_label: StatusLabel | UnsetType = UNSET
    gate_errors: (
        Annotated[list[str], Meta(description="Required notes not filled, as in: missing: done-criteria.")] | UnsetType
    ) = UNSET
    error: Annotated[str, Meta(description="With gateErrors: the call that fills the notes.")] | UnsetType = UNSET
    skipped: Annotated[bool, Meta(description="True: left alone for skippedReason.")] | UnsetType = UNSET
    skipped_reason: Annotated[str, Meta(description="Why it was skipped.")] | UnsetType = UNSET
    error_code: (
        Annotated[
            str,
            Meta(
                description="If somebody else holds it, or there is no such item.",
                extra_json_schema={"enum": ["not_claim_holder", "not_found"]},
            ),
        ]
        | UnsetType
    ) = UNSET


class CompleteSummary(Result, kw_only=True):
    """Counts over the call: total is the sum of the others."""

    total: Annotated[Count, Meta(description="completed + skipped + gateFailures.")]
    completed: Annotated[Count, Meta(description="Completed, or cancelled.")]
    skipped: Annotated[Count, Meta(description="Skipped.")]
    gate_failures: Annotated[Count, Meta(description="Refused for missing notes.")]


class CompleteTreeResult(Result, kw_only=True):
    """One entry per item, in the order they were taken."""

    results: Annotated[list[CompletedItem], Meta(description="One per item, blockers first.")]
    summary: CompleteSummary
