"""Definitions as JSON documents, and indexes of them. Pure functions, used once per library.

An activity has all fields of its file, including unknown ones, and the format's
defaults. Lists are ordered by id, numbered files by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from coordinator.definitions import (
    META,
    Checkpoint,
    Library,
    LoadedActivity,
    LoadedSkill,
    LoadedText,
    LoadedWorkflow,
    display_name,
)

Json = dict[str, Any]


def workflow(loaded: LoadedWorkflow) -> Json:
    """The whole definition, activities included."""
    return {
        **msgspec.to_builtins(loaded.workflow),
        "id": loaded.id,
        "activities": [activity(loaded_activity) for loaded_activity in loaded.activities.values()],
    }


def activity(loaded: LoadedActivity) -> Json:
    known = msgspec.to_builtins(loaded.activity)
    known.pop("artifactPrefix", None)
    # Missing lists are left out, not shown as empty.
    stated = {key: value for key, value in known.items() if value != () or key in loaded.data}
    return {**loaded.data, **stated}


def checkpoint(definition: Checkpoint) -> Json:
    """One checkpoint, with its options and their effects."""
    document: Json = msgspec.to_builtins(definition)
    return document


def workflows(library: Library) -> list[Json]:
    """All workflows, meta included."""
    return [
        {
            "id": name,
            "title": workflow.workflow.title,
            "version": workflow.version,
            **({"description": workflow.workflow.description} if workflow.workflow.description else {}),
        }
        for name, workflow in library.workflows.items()
    ]


def activities(library: Library) -> Json | list[Json]:
    """The index of activities, the entry point of agents. If there are none, an empty list."""
    entries: list[Json] = []
    quick_match: dict[str, str] = {}
    for name, workflow in library.workflows.items():
        for loaded in workflow.activities.values():
            if loaded.owner != name:
                continue
            activity = loaded.activity
            skill = activity.primary_skill
            entry: Json = {
                "id": activity.id,
                "workflowId": name,
                "problem": activity.problem or activity.description or activity.name,
            }
            if skill is not None:
                # A workflow's own skill is found only together with the workflow, even if a universal one has its id.
                universal = library.skill(META, skill)
                alone = universal is not None and universal is library.skill(name, skill)
                own = {} if alone else {"workflow_id": name}
                entry |= {"primary_skill": skill, "next_action": _next("get_skill", skill_id=skill, **own)}
            entries.append(entry)
            quick_match |= {phrase.lower(): activity.id for phrase in activity.recognition or ()}
    if not entries:
        return []
    index: Json = {
        "description": "Match the user's goal to an activity: activities are the entry points, and lead to skills.",
        "usage": "Compare the goal with quick_match, else with each problem, then call get_activity with the id.",
        "next_action": _next("get_activity", activity_id="<the id that matched>"),
        "activities": entries,
        "quick_match": quick_match,
    }
    rules = library.folders[META].rules if META in library.folders else None
    return index if rules is None else index | {"rules": dict(rules)}


def activity_found(loaded: LoadedActivity) -> Json:
    """One activity as get_activity shows it: with its workflow, and the skill to load next."""
    workflow, skill = loaded.owner, loaded.activity.primary_skill
    more = {} if skill is None else {"next_action": _next("get_skill", skill_id=skill, workflow_id=workflow)}
    return {**activity(loaded), "workflowId": workflow, **more}


def skills(library: Library) -> Json:
    """The index of skills with their capabilities."""

    def entry(skill: LoadedSkill, **where: str) -> Json:
        arguments = {"skill_id": skill.id, **where}
        return {
            "id": skill.id,
            "capability": skill.skill.capability,
            **where,
            "next_action": _next("get_skill", **arguments),
        }

    return {
        "description": "What the skills can do. Universal ones serve every workflow, others their own.",
        "usage": "Choose a skill by its capability or as an activity names it, then call get_skill.",
        "universal": [entry(skill) for skill in skills_of(library, META)],
        "workflow_specific": {
            name: [entry(skill, workflow_id=name) for skill in own]
            for name in library.folders
            if name != META and (own := skills_of(library, name))
        },
    }


def skills_of(library: Library, workflow_id: str) -> list[LoadedSkill]:
    """A workflow's own skills, by number."""
    folder = library.folders.get(workflow_id)
    return [] if folder is None else sorted(folder.skills.values(), key=lambda one: (int(one.index), one.id))


def listed_skills(library: Library, workflow_id: str | None) -> Json | list[Json]:
    """The universal skills; if a workflow is given, also its own skills."""
    universal = [_listed(skill, f"{META}/skills/") for skill in skills_of(library, META)]
    if workflow_id is None:
        return universal
    own = [] if workflow_id == META else skills_of(library, workflow_id)
    return {
        "universal": universal,
        "workflow": [{**_listed(skill, "skills/"), "workflowId": workflow_id} for skill in own],
    }


def texts(loaded: Sequence[LoadedText], formats: bool) -> list[Json]:
    """Resources or templates, by number."""
    words = {"md": "markdown", "toon": "toon"}
    return [
        {
            "index": text.index,
            "name": text.name,
            "title": display_name(text.name),
            **({"format": words[text.format]} if formats else {}),
        }
        for text in loaded
    ]


def discovery(library: Library) -> Json:
    """All readable documents, with the call for each."""
    calls: Json = {
        "activities": {"tool": "get_activities", "description": "Entry points: match the user's goal to one."},
        "universal_skills": {
            "items": [one.id for one in skills_of(library, META)],
            "tool": "get_skill { skill_id }",
            "description": "Skills that serve every workflow.",
        },
        "workflows": [
            {"id": name, "title": one.workflow.title, "tool": f'get_workflow {{ workflow_id: "{name}" }}'}
            for name, one in library.workflows.items()
        ],
    }
    for name, folder in library.folders.items():
        here: Json = {}
        argument = f'workflow_id: "{name}"'
        if folder.resources:
            here["resources"] = {
                "count": len(folder.resources),
                "tool": f"list_workflow_resources {{ {argument} }}",
            }
        if folder.templates:
            here["templates"] = {"count": len(folder.templates), "tool": f"list_templates {{ {argument} }}"}
        if folder.skills and name != META:
            here["skills"] = {
                "items": [one.id for one in skills_of(library, name)],
                "tool": f"list_skills {{ {argument} }}",
                "get": f"get_skill {{ skill_id, {argument} }}",
            }
        if here:
            calls[f"workflow {name}" if name in calls else name] = here
    return calls


def _listed(skill: LoadedSkill, folder: str) -> Json:
    file = skill.place.rpartition("/")[2]
    return {"index": skill.index, "id": skill.id, "name": display_name(skill.id), "path": folder + file}


def _next(tool: str, **parameters: str) -> Json:
    return {"tool": tool, "parameters": parameters}
