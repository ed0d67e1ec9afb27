"""The resources of the sessions toolset: JSON Schemas, which agents read at the start of real bootstrap procedures.

The URIs are those that published workflow definitions name.
"""

from __future__ import annotations

from functools import cache

import msgspec

from coordinator.definitions.formats import json_schema, json_schemas
from coordinator.toolsets.sessions.contract.results import Status
from coordinator.toolsets.tool import Resource

_ALL = "workflow-server://schemas"
_DESCRIPTIONS = {
    "workflow": "JSON Schema of workflow.toon, the head of a workflow's definition.",
    "activity": "JSON Schema of an activity: its steps, checkpoints, decisions, loops and transitions.",
    "skill": "JSON Schema of a skill: its protocol, inputs, outputs, rules and errors.",
    "condition": "JSON Schema of the conditions on variables in transitions, decisions, loops and steps.",
    "state": "JSON Schema of the state of a session, as get_workflow_status returns it.",
}


@cache
def resources() -> tuple[Resource, ...]:
    """All schemas together, and each on its own."""
    schemas = {**json_schemas(), "state": json_schema(Status)}
    together = Resource(_ALL, "schemas", "The JSON Schemas of all kinds of definitions, by kind.", _json(schemas))
    return (
        together,
        *(Resource(f"{_ALL}/{kind}", f"{kind}-schema", _DESCRIPTIONS[kind], _json(schemas[kind])) for kind in schemas),
    )


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
