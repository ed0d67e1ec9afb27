"""The sessions toolset: joins the contract, the rules, the store and the definitions."""

from __future__ import annotations

import dataclasses

from coordinator.definitions import Definitions
from coordinator.toolsets.sessions.contract.examples import EXAMPLES
from coordinator.toolsets.sessions.contract.resources import resources
from coordinator.toolsets.sessions.rules.texts import listed
from coordinator.toolsets.sessions.tools import catalogue, checkpoints, moves, people, reads, start
from coordinator.toolsets.sessions.tools.backend import Backend, refusal
from coordinator.toolsets.sessions.tools.documents import documents
from coordinator.toolsets.tool import Services, Toolset, starting_with

INSTRUCTIONS = (
    "Workflow sessions. Call discover for the bootstrap procedure and list_workflows to match the user's goal, then "
    "start_session, get_skills, get_workflow, next_activity with initialActivity, and get_activity. For each step with "
    "a skill call get_skill with its step_id; at a checkpoint yield_checkpoint, hand the handle to the orchestrator, "
    "and resume_checkpoint once it is resolved. Read transitions from get_activity and go on with next_activity and a "
    "step_manifest; activity_id __terminal__ ends the session. Always pass on the newest session_token, unchanged."
)

ORDER = (
    "discover",
    "list_workflows",
    "health_check",
    "start_session",
    "get_workflow_status",
    "get_workflow",
    "next_activity",
    "get_activity",
    "yield_checkpoint",
    "resume_checkpoint",
    "present_checkpoint",
    "respond_checkpoint",
    "get_skills",
    "get_skill",
    "get_resource",
    "get_trace",
)
"""The tools in the order in which they are listed."""


def toolset(services: Services, definitions: Definitions | None = None) -> Toolset:
    """The sessions toolset over one process's services; without ``definitions``, those of the settings."""
    backend = Backend(services, definitions)
    made = (
        *catalogue.tools(backend),
        *start.tools(backend),
        *moves.tools(backend),
        *reads.tools(backend),
        *checkpoints.tools(backend),
    )
    by_name = {tool.name: dataclasses.replace(tool, refusal=refusal) for tool in made}
    return Toolset(
        "sessions",
        "Workflow sessions",
        INSTRUCTIONS,
        tuple(by_name[name] for name in ORDER),
        people=people.tools(backend, services.store),
        service=backend,
        examples=EXAMPLES,
        resources=resources(),
        offers=lambda: backend.definitions.newest,
        documents=documents(backend),
        completes={"procedure": starting_with(lambda: [one.id for one in listed(backend.current)])},
    )
