"""get_workflow, get_activity, get_skills, get_skill and get_resource: show definitions to a session."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec
from msgspec import UNSET

from coordinator.definitions import META, Activity, Library, LoadedActivity, LoadedSkill, LoadedText, LoadedWorkflow
from coordinator.errors import ToolFailure
from coordinator.toolsets.sessions.contract.arguments import GetResource, GetSkill, GetWorkflow, SessionOnly
from coordinator.toolsets.sessions.rules import refusals, texts
from coordinator.toolsets.sessions.rules.tokens import Payload
from coordinator.toolsets.sessions.tools.backend import Backend, in_text, meta
from coordinator.toolsets.tool import Call, Handler, Reply, Tool

_GET_WORKFLOW = (
    "The session's workflow: its primary skill as raw TOON, a --- line, then the workflow. summary true (default): "
    "rules, variables, modes, initialActivity and stubs of the activities. summary false: the whole definition with "
    "all activities. Pass initialActivity as activity_id of the first next_activity."
)
_GET_ACTIVITY = (
    "The worker's tool: the complete definition of the session's current activity, with steps, checkpoints, loops, "
    "decisions, transitions, rules and skills. Call it after next_activity."
)
_GET_SKILLS = (
    "The workflow's primary skill as raw TOON, below a head with scope and session token. Use get_skill for the skills "
    "of steps."
)
_GET_SKILL = (
    "One skill as raw TOON. Before next_activity: the workflow's primary skill. In an activity: the skill of the step "
    "step_id, or without step_id the activity's skill. It is looked up in the workflow, then in the workflow that the "
    "activity is borrowed from, then in meta."
)
_GET_RESOURCE = "The content of a resource, with its id and version."


class Reads:
    """Handlers of the tools that show definitions to a session."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def get_workflow(self, call: Call, args: GetWorkflow) -> Reply:
        """The session's workflow, in short or in full."""
        read = await self._backend.reading(call, "get_workflow", args.session_token, _workflow)
        token = await self._backend.token(call.project, read.shown, read.state)
        skill, workflow = read.made
        if args.summary:
            text = texts.summary(workflow, token)
        else:
            # In a thread, because the first time is slow for a long definition.
            text = await asyncio.to_thread(texts.whole, workflow, token)
        return in_text(skill + text, meta(token, read.warnings))

    async def get_activity(self, call: Call, args: SessionOnly) -> Reply:
        read = await self._backend.reading(call, "get_activity", args.session_token, _activity)
        token = await self._backend.token(call.project, read.shown, read.state)
        return in_text(texts.headed(token, read.made), meta(token, read.warnings))

    async def get_skills(self, call: Call, args: SessionOnly) -> Reply:
        """The workflow's primary skill."""
        read = await self._backend.reading(call, "get_skills", args.session_token, _primary_skill)
        token = await self._backend.token(call.project, read.shown, read.state)
        skill, failed = read.made
        head = f"scope: workflow\nsession_token: {token}"
        if failed is not None:
            head += f"\nfailed_skills: {failed}"
        return in_text(head + texts.SEPARATOR + skill, meta(token, read.warnings))

    async def get_skill(self, call: Call, args: GetSkill) -> Reply:
        """The skill of a step, of the activity, or of the workflow."""
        read = await self._backend.reading(call, "get_skill", args.session_token, partial(_skill_of, args.step_id))
        reference, skill = read.made
        token = await self._backend.token(call.project, read.shown, read.state, skill=reference)
        return in_text(texts.headed(token, skill.text), meta(token, read.warnings))

    async def get_resource(self, call: Call, args: GetResource) -> Reply:
        read = await self._backend.reading(
            call, "get_resource", args.session_token, partial(_resource, args.resource_id)
        )
        token = await self._backend.token(call.project, read.shown, read.state)
        return in_text(texts.resource(args.resource_id, *read.made, token), meta(token, read.warnings))


def tools(backend: Backend) -> tuple[Tool, ...]:
    handle = Reads(backend)
    return (
        _tool("get_workflow", _GET_WORKFLOW, GetWorkflow, handle.get_workflow),
        _tool("get_activity", _GET_ACTIVITY, SessionOnly, handle.get_activity),
        _tool("get_skills", _GET_SKILLS, SessionOnly, handle.get_skills),
        _tool("get_skill", _GET_SKILL, GetSkill, handle.get_skill),
        _tool("get_resource", _GET_RESOURCE, GetResource, handle.get_resource),
    )


def _tool(name: str, description: str, arguments: type[msgspec.Struct], handler: Handler) -> Tool:
    return Tool(name, description, arguments, (), handler, read_only=True)


def _workflow(_shown: Payload, workflow: LoadedWorkflow, library: Library) -> tuple[str, LoadedWorkflow]:
    """The workflow, and its primary skill to show before it."""
    reference = workflow.workflow.primary_skill
    skill = library.skill(workflow.id, reference) if reference else None
    return "" if skill is None else skill.text + texts.SEPARATOR, workflow


def _activity(payload: Payload, workflow: LoadedWorkflow, _library: Library) -> str:
    """The definition of the token's activity."""
    if not payload.act:
        raise refusals.no_activity()
    return _current(payload, workflow).text


def _primary_skill(_shown: Payload, workflow: LoadedWorkflow, library: Library) -> tuple[str, str | None]:
    """The text of the workflow's primary skill, and its name if there is no such skill."""
    reference = workflow.workflow.primary_skill
    if reference is None:
        return "", None
    skill = library.skill(workflow.id, reference)
    return ("", reference) if skill is None else (skill.text, None)


def _skill_of(
    step_id: str | None, payload: Payload, workflow: LoadedWorkflow, library: Library
) -> tuple[str, LoadedSkill]:
    """The name and the skill: of a step, of the activity or, before the first activity, of the workflow."""
    if not payload.act:
        if step_id is not None:
            raise ToolFailure(
                "VALIDATION_ERROR",
                "Cannot provide step_id when no activity is active. Call next_activity first.",
            )
        return _of_workflow(workflow, library)
    current = _current(payload, workflow)
    reference = _reference(current.activity, step_id)
    return reference, _skill(library, workflow, reference, current.owner)


def _resource(resource_id: str, payload: Payload, workflow: LoadedWorkflow, library: Library) -> tuple[LoadedText, str]:
    """A resource, by its number in the session's workflow or as workflow/number, and the version of its workflow."""
    resource = library.resource(workflow.id, resource_id)
    if resource is None:
        head, slash, index = resource_id.partition("/")
        owner, index = (head, index) if slash and head else (workflow.id, resource_id)
        hint = "" if slash else _elsewhere(payload, workflow, library, index)
        if (folder := library.folders.get(owner)) is None:
            raise refusals.not_found("Workflow", owner, library.folders)
        known = None if hint else dict.fromkeys(one.index for one in folder.resources)
        raise refusals.not_found("Resource", index, known, f" in workflow {owner}{hint}")
    owning = library.workflows.get(resource.workflow)
    # The folder of a broken workflow can still have resources.
    return resource, "0.0.0" if owning is None else owning.version


def _skill(library: Library, workflow: LoadedWorkflow, reference: str, owner: str | None = None) -> LoadedSkill:
    skill = library.skill(workflow.id, reference, owner)
    if skill is None:
        folders = [library.folders.get(name) for name in dict.fromkeys((workflow.id, owner or workflow.id, META))]
        known = dict.fromkeys(name for folder in folders if folder is not None for name in folder.skills)
        raise refusals.not_found("Skill", reference, known)
    return skill


def _current(payload: Payload, workflow: LoadedWorkflow) -> LoadedActivity:
    activity = workflow.activities.get(payload.act)
    if activity is None:
        raise refusals.not_found("Activity", payload.act, workflow.activities)
    return activity


def _elsewhere(payload: Payload, workflow: LoadedWorkflow, library: Library, index: str) -> str:
    """A hint where the resource may be. Skills use the numbers of their own workflow, possibly another one."""
    current = workflow.activities.get(payload.act)
    skill = library.skill(workflow.id, payload.skill, current.owner if current else None)
    if skill is None or library.resource(skill.workflow, index) is None:
        return ""
    return f". The skill '{payload.skill}' is of workflow '{skill.workflow}', which has it: {skill.workflow}/{index}"


def _of_workflow(workflow: LoadedWorkflow, library: Library) -> tuple[str, LoadedSkill]:
    reference = workflow.workflow.primary_skill
    if reference is None:
        raise ToolFailure("RESOURCE_NOT_FOUND", f"Workflow '{workflow.id}' does not define a primary skill.")
    return reference, _skill(library, workflow, reference)


def _reference(activity: Activity, step_id: str | None) -> str:
    """The name of the skill of a step, or of the activity as a whole."""
    if step_id is None:
        if activity.primary_skill is None:
            raise ToolFailure("RESOURCE_NOT_FOUND", f"Activity '{activity.id}' does not define a primary skill.")
        return activity.primary_skill
    steps = activity.all_steps()
    step = next((step for step in steps if step.id == step_id), None)
    if step is None:
        available = ", ".join(step.id for step in steps)
        raise ToolFailure(
            "RESOURCE_NOT_FOUND",
            f"Step '{step_id[: refusals.SHOWN]}' not found in activity '{activity.id}'. Available steps: [{available}]",
        )
    if step.skill is UNSET or not step.skill:
        raise ToolFailure(
            "RESOURCE_NOT_FOUND",
            f"Step '{step_id}' in activity '{activity.id}' has no associated skill. Carry it out as it is described.",
        )
    return step.skill
