"""The tools that show definitions: workflows, activities, skills, resources, templates."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from coordinator import NAME, __version__
from coordinator.definitions import META, Library, LoadedActivity
from coordinator.toolsets.navigator.contract import catalogue
from coordinator.toolsets.navigator.contract.base import NoArguments
from coordinator.toolsets.navigator.rules import documents, routes
from coordinator.toolsets.navigator.tools.shared import Documents, folder_found, missing, workflow_found
from coordinator.toolsets.tool import Call, Criticality, Handler, Reply, Tool

_INDEXES = frozenset(
    (
        "list_workflows",
        "get_activities",
        "get_skills",
        "list_skills",
        "list_workflow_resources",
        "list_templates",
        "discover_resources",
    )
)
"""Tools that an overloaded front-end sheds first."""
_WIDTH = 2
"""Digits up to which zeros may be left out before a resource's number."""

_DESCRIPTIONS = {
    "list_workflows": "List all workflow definitions: id, title, version and description.",
    "get_workflow": "A workflow's complete definition, with all activities, variables and rules.",
    "get_workflow_activity": "One activity of a workflow: steps, checkpoints, decisions, loops and transitions.",
    "get_checkpoint": "One checkpoint of an activity, with its options and their effects.",
    "validate_transition": (
        "Whether a workflow's definition allows going from one activity to another, by a transition, a decision or a "
        "checkpoint option. Conditions are not evaluated; nav_action does that."
    ),
    "health_check": "Whether the server is healthy, its version, and how many workflows are available.",
    "get_activities": (
        "The index of activities: the primary entry point. quick_match maps what users say to activities. Each "
        "activity is listed with its problem and its skill."
    ),
    "get_activity": "One activity by its id, whichever workflow has it, with the skill to load next.",
    "get_skills": "The index of skills with what each can do: universal skills and those of single workflows.",
    "list_skills": "List the universal skills and, if workflow_id is given, those of that workflow.",
    "get_skill": "One skill. With workflow_id: the workflow's own skill if it has one, else the universal skill.",
    "list_workflow_resources": "List a workflow's resources: number, name, title and format.",
    "get_resource": "The content of a workflow's resource, as it was written.",
    "list_templates": "List a workflow's templates for documents: number, name and title.",
    "get_template": "The content of a workflow's template, as it was written.",
    "discover_resources": "List all activities, skills, workflows, resources and templates, with the call for each.",
}


class Catalogue:
    """Handlers of the tools that show definitions."""

    def __init__(self, documents: Documents) -> None:
        self._shown = documents
        self._began = time.monotonic()

    async def list_workflows(self, call: Call, args: NoArguments) -> Reply:
        return self._shown.reply(documents.workflows, "workflows")

    async def get_workflow(self, call: Call, args: catalogue.GetWorkflow) -> Reply:
        return self._shown.reply(
            lambda library: documents.workflow(workflow_found(library, args.workflow_id)), "workflow", args.workflow_id
        )

    async def get_workflow_activity(self, call: Call, args: catalogue.GetWorkflowActivity) -> Reply:
        return self._shown.reply(
            lambda library: documents.activity(_activity_found(args, library)),
            "activity",
            args.workflow_id,
            args.activity_id,
        )

    async def get_checkpoint(self, call: Call, args: catalogue.GetCheckpoint) -> Reply:
        return self._shown.reply(
            partial(_checkpoint, args), "checkpoint", args.workflow_id, args.activity_id, args.checkpoint_id
        )

    async def validate_transition(self, call: Call, args: catalogue.ValidateTransition) -> catalogue.Validity:
        """Whether a definition allows going from one activity to another."""
        workflow = workflow_found(self._shown.current, args.workflow_id)
        source = workflow.activity(args.from_activity)
        if source is None:
            return catalogue.Validity(
                valid=False,
                reason=missing("Source activity not found", args.from_activity, workflow.activities).message,
            )
        targets = routes.targets(source, {name: one.activity for name, one in workflow.activities.items()})
        if args.to_activity not in workflow.activities and args.to_activity not in targets:
            return catalogue.Validity(
                valid=False, reason=missing("Target activity not found", args.to_activity, workflow.activities).message
            )
        if args.to_activity not in targets:
            return catalogue.Validity(valid=False, reason=f"No valid transition. Valid: {', '.join(targets) or 'none'}")
        return catalogue.Validity(valid=True)

    async def health_check(self, call: Call, args: NoArguments) -> catalogue.Health:
        """Whether the server is healthy."""
        return catalogue.Health(
            status="healthy",
            server=NAME,
            version=__version__,
            workflows_available=len(self._shown.current.workflows),
            uptime_seconds=int(time.monotonic() - self._began),
        )

    async def get_activities(self, call: Call, args: NoArguments) -> Reply:
        return self._shown.reply(documents.activities, "activities")

    async def get_activity(self, call: Call, args: catalogue.GetActivity) -> Reply:
        """One activity, of whichever workflow."""
        return self._shown.reply(partial(_any_activity, args), "any activity", args.activity_id)

    async def get_skills(self, call: Call, args: NoArguments) -> Reply:
        return self._shown.reply(documents.skills, "skills")

    async def list_skills(self, call: Call, args: catalogue.ListSkills) -> Reply:
        """The universal skills, and those of a workflow."""
        workflow = args.workflow_id
        if workflow is not None:
            folder_found(self._shown.current, workflow)
        return self._shown.reply(lambda library: documents.listed_skills(library, workflow), "listed skills", workflow)

    async def get_skill(self, call: Call, args: catalogue.GetSkill) -> Reply:
        if args.workflow_id is not None:
            folder_found(self._shown.current, args.workflow_id)
        return self._shown.reply(partial(_skill, args), "skill", args.workflow_id, args.skill_id)

    async def list_workflow_resources(self, call: Call, args: catalogue.OfWorkflow) -> Reply:
        folder = folder_found(self._shown.current, args.workflow_id)
        return Reply(structured=documents.texts(folder.resources, formats=True))

    async def get_resource(self, call: Call, args: catalogue.GetText) -> Reply:
        folder = folder_found(self._shown.current, args.workflow_id)
        resource = folder.resource(args.index, _WIDTH)
        if resource is None:
            known = dict.fromkeys(one.index for one in folder.resources)
            raise missing("Resource not found", args.index, known, f" in workflow {args.workflow_id}")
        return Reply(text=resource.text)

    async def list_templates(self, call: Call, args: catalogue.OfWorkflow) -> Reply:
        folder = folder_found(self._shown.current, args.workflow_id)
        return Reply(structured=documents.texts(folder.templates, formats=False))

    async def get_template(self, call: Call, args: catalogue.GetText) -> Reply:
        folder = folder_found(self._shown.current, args.workflow_id)
        template = folder.template(args.index)
        if template is None:
            known = dict.fromkeys(one.index for one in folder.templates)
            raise missing("Template not found", f"index {args.index}", known, f" in workflow {args.workflow_id}")
        return Reply(text=template.text)

    async def discover_resources(self, call: Call, args: NoArguments) -> Reply:
        """All documents, each with its call."""
        return self._shown.reply(documents.discovery, "discovery")


def tools(shown: Documents) -> tuple[Tool, ...]:
    handle = Catalogue(shown)
    return (
        _tool(handle.list_workflows, NoArguments),
        _tool(handle.get_workflow, catalogue.GetWorkflow),
        _tool(handle.get_workflow_activity, catalogue.GetWorkflowActivity),
        _tool(handle.get_checkpoint, catalogue.GetCheckpoint),
        _tool(handle.validate_transition, catalogue.ValidateTransition, catalogue.Validity),
        _tool(handle.health_check, NoArguments, catalogue.Health),
        _tool(handle.get_activities, NoArguments),
        _tool(handle.get_activity, catalogue.GetActivity),
        _tool(handle.get_skills, NoArguments),
        _tool(handle.list_skills, catalogue.ListSkills),
        _tool(handle.get_skill, catalogue.GetSkill),
        _tool(handle.list_workflow_resources, catalogue.OfWorkflow),
        _tool(handle.get_resource, catalogue.GetText),
        _tool(handle.list_templates, catalogue.OfWorkflow),
        _tool(handle.get_template, catalogue.GetText),
        _tool(handle.discover_resources, NoArguments),
    )


def _tool(handler: Handler, arguments: Any, *result: Any) -> Tool:
    name = handler.__name__
    criticality = Criticality.SHEDDABLE if name in _INDEXES else Criticality.READ
    return Tool(
        name,
        _DESCRIPTIONS[name],
        arguments,
        result,
        handler,
        read_only=True,
        idempotent=True,
        stateless=True,
        criticality=criticality,
    )


def _activity_found(args: catalogue.GetWorkflowActivity | catalogue.GetCheckpoint, library: Library) -> LoadedActivity:
    activities = workflow_found(library, args.workflow_id).activities
    activity = activities.get(args.activity_id)
    if activity is None:
        raise missing("Activity not found", args.activity_id, activities)
    return activity


def _checkpoint(args: catalogue.GetCheckpoint, library: Library) -> Any:
    activity = _activity_found(args, library).activity
    checkpoint = activity.checkpoint(args.checkpoint_id)
    if checkpoint is None:
        raise missing("Checkpoint not found", args.checkpoint_id, (one.id for one in activity.checkpoints))
    return documents.checkpoint(checkpoint)


def _any_activity(args: catalogue.GetActivity, library: Library) -> Any:
    activity = library.activity(args.activity_id)
    if activity is None:
        known = dict.fromkeys(name for workflow in library.workflows.values() for name in workflow.activities)
        raise missing("Activity not found", args.activity_id, known)
    return documents.activity_found(activity)


def _skill(args: catalogue.GetSkill, library: Library) -> Any:
    skill = library.skill(args.workflow_id or META, args.skill_id)
    if skill is None:
        folders = [library.folders.get(name) for name in dict.fromkeys((args.workflow_id or META, META))]
        known = dict.fromkeys(name for folder in folders if folder is not None for name in folder.skills)
        raise missing("Skill not found", args.skill_id, known)
    return dict(skill.data)
