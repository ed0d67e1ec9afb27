"""The tools that show definitions (of workflows, activities, skills, resources, templates)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from coordinator.toolsets.navigator.contract.base import ActivityId, Arguments, Result, WorkflowId

SkillId = Annotated[str, Meta(description="Id of a skill.")]
Index = Annotated[str, Meta(description="Its number, as the list shows it: 3 and 03 mean the same.")]


class GetWorkflow(Arguments):
    """Arguments of get_workflow."""

    workflow_id: WorkflowId


class GetWorkflowActivity(Arguments):
    """Arguments of get_workflow_activity."""

    workflow_id: WorkflowId
    activity_id: ActivityId


class GetCheckpoint(Arguments):
    """Arguments of get_checkpoint."""

    workflow_id: WorkflowId
    activity_id: ActivityId
    checkpoint_id: Annotated[str, Meta(description="Id of a checkpoint of the activity.")]


class ValidateTransition(Arguments):
    """Arguments of validate_transition."""

    workflow_id: WorkflowId
    from_activity: Annotated[str, Meta(description="Id of the activity that is left.")]
    to_activity: Annotated[str, Meta(description="Id of the activity that is entered.")]


class GetActivity(Arguments):
    """Arguments of get_activity."""

    activity_id: ActivityId


class ListSkills(Arguments):
    """Arguments of list_skills."""

    workflow_id: Annotated[str | None, Meta(description="Also list the skills of this workflow.")] = None


class GetSkill(Arguments):
    """Arguments of get_skill."""

    skill_id: SkillId
    workflow_id: Annotated[str | None, Meta(description="Look in this workflow first, then in meta.")] = None


class OfWorkflow(Arguments):
    """Arguments of list_workflow_resources and list_templates."""

    workflow_id: WorkflowId


class GetText(Arguments):
    """Arguments of get_resource and get_template."""

    workflow_id: WorkflowId
    index: Index


class Validity(Result, kw_only=True):
    """What validate_transition answers."""

    valid: Annotated[bool, Meta(description="Whether the definition leads from the one to the other at all.")]
    reason: Annotated[str, Meta(description="Why not; absent: it does.")] | UnsetType = UNSET


class Health(msgspec.Struct, kw_only=True):
    """What health_check answers."""

    status: Annotated[str, Meta(description="healthy.")]
    server: Annotated[str, Meta(description="Name of the server.")]
    version: Annotated[str, Meta(description="Its version.")]
    workflows_available: Annotated[int, Meta(description="Number of workflows that can be used.")]
    uptime_seconds: Annotated[int, Meta(description="Seconds since this process began to serve.")]
