"""The format of definition files as JSON Schemas, for agents that read or write such files.

The schemas are made from the structs that the files are read with. Only the head of a skill is read by the server, the
rest is for agents; ``SkillFile`` has all of it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from coordinator.definitions.model import Activity, Condition, OptionalText, Part, Skill, Text, Workflow

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
Texts = tuple[str, ...]


class WorkflowFile(Workflow, frozen=True, kw_only=True):
    """A workflow: the file ``workflow.toon``. Its activities are files of their own in the folder ``activities``."""

    activities: (
        Annotated[
            tuple[str | Activity, ...],
            Meta(min_length=1, description="Activities written here, or files: NN-id.toon, or workflow/NN-id.toon."),
        ]
        | UnsetType
    ) = UNSET
    activities_dir: Annotated[str, Meta(description="The folder of the activities.")] = "activities"


class SkillInput(Part, frozen=True, kw_only=True):
    """An input of a skill."""

    id: Text
    description: OptionalText = UNSET
    required: bool = True
    default: Any = UNSET


class OutputArtifact(Part, frozen=True, kw_only=True):
    """The document that an output is written to."""

    name: Text
    action: OptionalText = UNSET


class SkillOutput(Part, frozen=True, kw_only=True):
    """An output of a skill."""

    id: Text
    description: OptionalText = UNSET
    components: dict[str, Any] | UnsetType = UNSET
    artifact: OutputArtifact | UnsetType = UNSET


class SkillTool(Part, frozen=True, kw_only=True):
    """How a skill uses a tool."""

    when: OptionalText = UNSET
    params: Any = UNSET
    returns: OptionalText = UNSET
    next: OptionalText = UNSET
    action: OptionalText = UNSET
    usage: OptionalText = UNSET
    preserve: Texts | UnsetType = UNSET


class SkillError(Part, frozen=True, kw_only=True):
    """Something that can go wrong, and what to do then."""

    cause: OptionalText = UNSET
    detection: OptionalText = UNSET
    recovery: OptionalText = UNSET
    resolution: str | Texts | UnsetType = UNSET
    note: OptionalText = UNSET


class Operation(Part, frozen=True, kw_only=True):
    """Something that a skill can be asked to do, by the harness that the agent runs in."""

    description: OptionalText = UNSET
    inputs: Annotated[tuple[str | dict[str, str], ...], Meta(description="Name and meaning of each.")] | UnsetType = (
        UNSET
    )
    harness: dict[str, Any] | UnsetType = UNSET
    note: OptionalText = UNSET


class SkillFile(Skill, frozen=True, kw_only=True):
    """A skill: a file ``NN-id.toon`` in the folder ``skills``. Further keys are passed on to agents as they are."""

    inputs: tuple[SkillInput, ...] | UnsetType = UNSET
    protocol: Annotated[dict[str, Texts], Meta(description="What to do, by phase.")] | UnsetType = UNSET
    flow: Annotated[Texts, Meta(description="What to do, in order.")] | UnsetType = UNSET
    output: tuple[SkillOutput, ...] | UnsetType = UNSET
    rules: Annotated[dict[str, str | Texts], Meta(description="Rules by name.")] | UnsetType = UNSET
    errors: Annotated[dict[str, SkillError], Meta(description="What can go wrong, by name.")] | UnsetType = UNSET
    resources: Annotated[Texts, Meta(description="Ids of resources that it needs.")] | UnsetType = UNSET
    tools: dict[str, SkillTool] | UnsetType = UNSET
    operations: dict[str, Operation] | UnsetType = UNSET
    architecture: dict[str, Any] | UnsetType = UNSET
    matching: dict[str, Any] | UnsetType = UNSET
    execution_pattern: dict[str, str | Texts] | UnsetType = field(name="execution_pattern", default=UNSET)
    interpretation: dict[str, Any] | UnsetType = UNSET
    initialization: dict[str, Any] | UnsetType = UNSET
    resumption: dict[str, Any] | UnsetType = UNSET
    state: Annotated[dict[str, Any], Meta(description="The state that an agent keeps.")] | UnsetType = UNSET


_KINDS: dict[str, Any] = {"workflow": WorkflowFile, "activity": Activity, "skill": SkillFile, "condition": Condition}


def json_schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schema (2020-12) of each kind of definition: workflow, activity, skill and condition."""
    return {kind: json_schema(struct) for kind, struct in _KINDS.items()}


def json_schema(struct: Any) -> dict[str, Any]:
    schema = msgspec.json.schema(struct)
    text = msgspec.json.encode({"$schema": _DIALECT, **schema})
    # The regular expressions of JSON Schema write the end of a text differently.
    found: dict[str, Any] = msgspec.json.decode(text.replace(rb"\\Z", b"$"))
    return found
