"""create_work_tree and complete_tree."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, UnsetType

from coordinator.toolsets.canonical import meant
from coordinator.toolsets.doc import doc
from coordinator.toolsets.items.contract.dependencies import (
    DependencyId,
    DependencyType,
    EdgeType,
    Threshold,
    UnblockAt,
)
from coordinator.toolsets.items.contract.specs import TreeChild, TreeItem
from coordinator.toolsets.items.field_types import base

COMPLETIONS = ("complete", "cancel")

Ref = Annotated[str, doc("'root', or the ref of a child.")]


class TreeDependency(
    base.Arguments, kw_only=True, rename={"source": "from", "target": "to", "unblock_at": "unblockAt"}
):
    """An edge between items of the tree."""

    source: Ref
    target: Ref
    type: DependencyType = None
    unblock_at: Threshold = None


class TreeNote(base.Arguments, kw_only=True):
    """A note on an item of the tree."""

    item_ref: Ref
    key: base.GivenNoteKey
    role: base.GivenPhase
    body: Annotated[str | None, doc("Default empty.")] = None


class CreateWorkTree(base.Arguments, kw_only=True):
    """A root with children, edges and notes, created in one step."""

    root: Annotated[TreeItem, doc("The root of the new tree.")]
    parent_id: Annotated[str | None, doc("Existing item to put the root under.")] = None
    children: Annotated[list[TreeChild], doc("Children of the root.")] = []
    deps: Annotated[list[TreeDependency], doc("Edges between root and children.")] = []
    create_notes: Annotated[bool, doc("Add blank notes for what the schemas ask for.")] = False
    notes: Annotated[list[TreeNote], doc("Notes with text; they win over createNotes.")] = []
    actor: base.OptionalActor = None
    request_id: base.RequestId = None


class TreeNode(base.Result, kw_only=True):
    """An item of the created tree; the root has no ref."""

    ref: Annotated[str, doc("As given.")] | UnsetType = UNSET
    id: base.ItemId
    title: base.Title
    role: base.RoleName
    depth: base.Depth
    tags: base.Tags | UnsetType = UNSET
    schema_match: base.SchemaMatch
    expected_notes: base.ExpectedNotes


class TreeEdge(base.Result, kw_only=True):
    """An edge of the created tree."""

    id: DependencyId
    from_ref: Ref
    to_ref: Ref
    type: EdgeType
    unblock_at: UnblockAt | UnsetType = UNSET


class CreatedNote(base.Result, kw_only=True):
    """A note of the created tree."""

    item_ref: Ref
    key: base.NoteKey
    role: base.Phase
    id: base.NoteId


class CreateWorkTreeResult(base.Result, kw_only=True):
    """Everything that was created."""

    root: TreeNode
    children: Annotated[list[TreeNode], doc("In the order given.")]
    dependencies: Annotated[list[TreeEdge], doc("In the order given.")]
    notes: Annotated[list[CreatedNote], doc("Those given, then the blank ones of createNotes.")]


class CompleteTree(base.Arguments, kw_only=True):
    """Complete or cancel a subtree, or a list of items, in dependency order."""

    root_id: Annotated[str | None, doc("All descendants of this item.")] = None
    item_ids: Annotated[list[str] | None, doc("Instead of rootId: these items.", published={"maxItems": 2000})] = None
    trigger: Annotated[str | None, doc("Default complete.", enum=[*COMPLETIONS, None], extra=meant("complete"))] = None
    include_root: Annotated[bool, doc("With rootId: the root itself too, last.")] = False
    actor: base.OptionalActor = None
    request_id: base.RequestId = None


class CompletedItem(base.Result, kw_only=True):
    """What became of one item."""

    item_id: Annotated[str, doc("The item's UUID; a prefix where no item has it.")]
    title: Annotated[base.Title, doc("Its title; absent: not found.")] | UnsetType = UNSET
    applied: Annotated[bool, doc("Whether it is terminal by this call.")]
    trigger: Annotated[str, doc("If applied: the call's.", enum=COMPLETIONS)] | UnsetType = UNSET
    status_label: base.StatusLabel | UnsetType = UNSET
    gate_errors: Annotated[list[str], doc("Required notes not filled, as in: missing: done-criteria.")] | UnsetType = (
        UNSET
    )
    error: Annotated[str, doc("With gateErrors: the call that fills the notes.")] | UnsetType = UNSET
    skipped: Annotated[bool, doc("True: left alone for skippedReason.")] | UnsetType = UNSET
    skipped_reason: Annotated[str, doc("Why it was skipped.")] | UnsetType = UNSET
    error_code: (
        Annotated[
            str, doc("If somebody else holds it, or there is no such item.", enum=["not_claim_holder", "not_found"])
        ]
        | UnsetType
    ) = UNSET


class CompleteSummary(base.Result, kw_only=True):
    """Counts over the call: total is the sum of the others."""

    total: Annotated[base.Count, doc("completed + skipped + gateFailures.")]
    completed: Annotated[base.Count, doc("Completed, or cancelled.")]
    skipped: Annotated[base.Count, doc("Skipped.")]
    gate_failures: Annotated[base.Count, doc("Refused for missing notes.")]


class CompleteTreeResult(base.Result, kw_only=True):
    """One entry per item, in the order they were taken."""

    results: Annotated[list[CompletedItem], doc("One per item, blockers first.")]
    summary: CompleteSummary
