"""create_work_tree and complete_tree (seed 004)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.items.contract.base import (
    PRIORITIES,
    Arguments,
    ExpectedNote,
    OptionalActor,
    OptionalItemRef,
    RequestId,
    Result,
)
from coordinator.toolsets.items.contract.dependencies import DependencyType, Threshold
from coordinator.toolsets.items.contract.notes import NOTE_ROLES

Ref = Annotated[str, Meta(description="'root', or the ref of a child.")]


class TreeItem(Arguments, kw_only=True):
    """The root of a new tree."""

    title: Annotated[str, Meta(description="1 to 500 characters.")]
    priority: Annotated[
        str | None, Meta(description="Default medium.", extra_json_schema={"enum": [*PRIORITIES, None]})
    ] = None
    complexity: Annotated[
        int | None, Meta(description="1 (quick) to 10.", extra_json_schema={"minimum": 1, "maximum": 10})
    ] = None
    tags: Annotated[str | None, Meta(description="Comma-separated tags of a-z, 0-9 and '-'.")] = None
    type: Annotated[str | None, Meta(description="Selects the work-item schema.")] = None
    traits: Annotated[str | None, Meta(description="Comma-separated trait names.")] = None
    summary: Annotated[str | None, Meta(description="Up to 2000 characters.")] = None
    description: Annotated[str | None, Meta(description="Long text.")] = None
    requires_verification: bool = False


class TreeChild(TreeItem, kw_only=True):
    """A child of the new root."""

    ref: Annotated[str, Meta(description="Local name, unique in the call, not 'root'.")]


class TreeDependency(Arguments, kw_only=True, rename={"source": "from", "target": "to", "unblock_at": "unblockAt"}):
    """An edge between items of the tree."""

    source: Ref
    target: Ref
    type: DependencyType = None
    unblock_at: Threshold = None


class TreeNote(Arguments, kw_only=True):
    """A note on an item of the tree."""

    item_ref: Ref
    key: Annotated[str, Meta(description="1 to 200 characters.")]
    role: Annotated[str, Meta(extra_json_schema={"enum": list(NOTE_ROLES)})]
    body: Annotated[str | None, Meta(description="Default empty.")] = None


class CreateWorkTree(Arguments, kw_only=True):
    """A root with children, edges and notes, created in one step."""

    root: TreeItem
    parent_id: OptionalItemRef = None
    children: list[TreeChild] = []
    deps: list[TreeDependency] = []
    create_notes: Annotated[bool, Meta(description="Add blank notes for what the schemas ask for.")] = False
    notes: list[TreeNote] = []
    actor: OptionalActor = None
    request_id: RequestId = None


class TreeNode(Result, kw_only=True):
    """An item of the created tree; the root has no ref."""

    ref: str | UnsetType = UNSET
    id: str
    title: str
    role: str
    depth: int
    tags: str | UnsetType = UNSET
    schema_match: bool
    expected_notes: list[ExpectedNote]


class TreeEdge(Result, kw_only=True):
    """An edge of the created tree."""

    id: str
    from_ref: str
    to_ref: str
    type: str
    unblock_at: str | UnsetType = UNSET


class CreatedNote(Result, kw_only=True):
    """A note of the created tree."""

    item_ref: str
    key: str
    role: str
    id: str


class CreateWorkTreeResult(Result, kw_only=True):
    """Everything that was created."""

    root: TreeNode
    children: list[TreeNode]
    dependencies: list[TreeEdge]
    notes: list[CreatedNote]


class CompleteTree(Arguments, kw_only=True):
    """Complete or cancel a subtree, or a list of items, in dependency order."""

    root_id: OptionalItemRef = None
    item_ids: Annotated[list[str] | None, Meta(description="Instead of rootId: these items.")] = None
    trigger: Annotated[str | None, Meta(extra_json_schema={"enum": ["complete", "cancel", None]})] = None
    include_root: Annotated[bool, Meta(description="With rootId: the root itself too, last.")] = False
    actor: OptionalActor = None
    request_id: RequestId = None


class CompletedItem(Result, kw_only=True):
    """What became of one item."""

    item_id: str
    title: str
    applied: bool
    trigger: str | UnsetType = UNSET
    status_label: str | UnsetType = UNSET
    gate_errors: list[str] | UnsetType = UNSET
    skipped: bool | UnsetType = UNSET
    skipped_reason: str | UnsetType = UNSET
    error_code: str | UnsetType = UNSET


class CompleteSummary(Result, kw_only=True):
    """Counts over the call: total is the sum of the others."""

    total: int
    completed: int
    skipped: int
    gate_failures: int


class CompleteTreeResult(Result, kw_only=True):
    """One entry per item, in the order they were taken."""

    results: list[CompletedItem]
    summary: CompleteSummary
