"""Answers as text: TOON, headers and raw blocks, byte for byte as clients expect them.

Summaries of workflows are slow to build, so they are cached by the digest of the definition.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import UNSET

from coordinator.definitions import META, Checkpoint, Library, LoadedText, LoadedWorkflow, shipped, toon

SEPARATOR = "\n\n---\n\n"


def discovery(server: str, version: str, library: Library) -> str:
    """The answer of discover: the server, and the bootstrap guide of the workflow ``meta`` or the built-in one."""
    folder = library.folders.get(META)
    guide = None if folder is None else folder.resource("00", 3)
    return f"server: {server}\nversion: {version}\n\n{_own_guide() if guide is None else guide.text}"


def listed(library: Library) -> list[LoadedWorkflow]:
    """The workflows for users: all except ``meta``."""
    return [workflow for name, workflow in library.workflows.items() if name != META]


def listing(library: Library) -> str:
    """The answer of list_workflows, in TOON."""
    rows = [
        {
            "id": one.id,
            "title": one.workflow.title,
            "version": one.version,
            "tags": None if one.workflow.tags is UNSET else list(one.workflow.tags),
        }
        for one in listed(library)
    ]
    return toon.write(rows)


def summary(workflow: LoadedWorkflow, token: str) -> str:
    """The workflow part of get_workflow with summary, in TOON."""
    # A token contains no characters that TOON would quote.
    return f"{_summary(workflow)}\nsession_token: {token}"


def whole(workflow: LoadedWorkflow, token: str) -> str:
    """The workflow part of get_workflow without summary: the definition with all of its activities, in TOON."""
    return headed(token, _whole(workflow))


def checkpoint(definition: Checkpoint, handle: str) -> str:
    """The answer of present_checkpoint, in TOON."""
    document: dict[str, Any] = {"id": definition.id, "name": definition.name, "message": definition.message}
    if definition.condition is not UNSET:
        document["condition"] = msgspec.to_builtins(definition.condition)
    document["options"] = [_option(option) for option in definition.options]
    document["blocking"] = definition.blocking
    if definition.default_option is not UNSET:
        document["defaultOption"] = definition.default_option
    if definition.auto_advance_ms is not UNSET:
        document["autoAdvanceMs"] = definition.auto_advance_ms
    return f"{toon.write(document)}\ncheckpoint_handle: {handle}"


def resource(reference: str, loaded: LoadedText, version: str, token: str) -> str:
    """The answer of get_resource: a head, a blank line, and the body.

    Args:
        version: that of the resource's workflow, for a resource that states none.
    """
    head = (
        f"resource_id: {reference}\nid: {loaded.front.id or loaded.name}\nversion: {loaded.front.version or version}\n"
        f"session_token: {token}"
    )
    return f"{head}\n\n{loaded.front.body}"


def headed(token: str, text: str) -> str:
    """A raw file below the session's token."""
    return f"session_token: {token}\n\n{text}"


@cache
def _own_guide() -> str:
    return (shipped() / META / "resources" / "00-bootstrap.md").read_text()


@lru_cache(maxsize=128)
def _whole(workflow: LoadedWorkflow) -> str:
    # ``workflow.toon`` only names the files of activities; their content is here.
    head = {name: value for name, value in workflow.data.items() if name not in ("activities", "activitiesDir")}
    return toon.write({**head, "activities": [dict(one.data) for one in workflow.activities.values()]})


@lru_cache(maxsize=128)
def _summary(workflow: LoadedWorkflow) -> str:
    definition = workflow.workflow
    summary: dict[str, Any] = {
        "id": workflow.id,
        "version": definition.version,
        "title": definition.title,
        "description": _or_null(definition.description),
        "rules": _or_null(definition.rules),
        "variables": _or_null(definition.variables),
    }
    if definition.modes is not UNSET:
        summary["modes"] = msgspec.to_builtins(definition.modes)
    summary["initialActivity"] = _or_null(definition.initial_activity)
    summary["activities"] = [
        {"id": name, "name": one.activity.name, "required": one.activity.required}
        for name, one in workflow.activities.items()
    ]
    return toon.write(summary)


def _option(option: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"id": option.id, "label": option.label}
    if option.description is not UNSET:
        document["description"] = option.description
    if effect := msgspec.to_builtins(option.effects):
        document["effect"] = effect
    return document


def _or_null(value: Any) -> Any:
    """Converts a value to builtins. A missing value becomes None: clients expect null."""
    return None if value is UNSET else msgspec.to_builtins(value)
