"""The tools that show definitions (of workflows, activities, skills, resources, templates)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from coordinator.toolsets.doc import doc
from coordinator.toolsets.navigator.contract.base import ActivityId, Arguments, Result, WorkflowId

SkillId = Annotated[str, doc("Id of a skill.")]
Index = Annotated[str, doc("Its number, as the list shows it: 3 and 03 mean the same.")]


class GetWorkflow(Arguments):
    workflow_id: WorkflowId


class GetWorkflowActivity(Arguments):
    workflow_id: WorkflowId
    activity_id: ActivityId


class GetCheckpoint(Arguments):
    workflow_id: WorkflowId
    activity_id: ActivityId
    checkpoint_id: Annotated[str, doc("Id of a checkpoint of the activity.")]


class ValidateTransition(Arguments):
    workflow_id: WorkflowId
    from_activity: Annotated[str, doc("Id of the activity that is left.")]
    to_activity: Annotated[str, doc("Id of the activity that is entered.")]


class GetActivity(Arguments):
    activity_id: ActivityId


class ListSkills(Arguments):
    workflow_id: Annotated[str | None, doc("Also list the skills of this workflow.")] = None


class GetSkill(Arguments):
    skill_id: SkillId
    workflow_id: Annotated[str | None, doc("Look in this workflow first, then in meta.")] = None


class OfWorkflow(Arguments):
    """Arguments of list_workflow_resources and list_templates."""

    workflow_id: WorkflowId


class GetText(Arguments):
    """Arguments of get_resource and get_template."""

    workflow_id: WorkflowId
    index: Index


class Validity(Result, kw_only=True):
    """What validate_transition answers."""

    valid: Annotated[bool, doc("Whether the definition leads from the one to the other at all.")]
    reason: Annotated[str, doc("Why not; absent: it does.")] | UnsetType = UNSET


class Health(msgspec.Struct, kw_only=True):
    """What health_check answers."""

    status: Annotated[str, doc("healthy.")]
    server: Annotated[str, doc("Name of the server.")]
    version: Annotated[str, doc("Its version.")]
    workflows_available: Annotated[int, doc("Number of workflows that can be used.")]
    uptime_seconds: Annotated[int, doc("Seconds since this process began to serve.")]
