"""The sessions toolset's contract, beyond the checks for every toolset: its tools and parameters."""

from __future__ import annotations

from typing import Any

import msgspec

from coordinator.toolsets.schema import input_schema
from coordinator.toolsets.tool import Criticality
from tests.support.contracts import toolsets

CONTRACT: dict[str, tuple[str, ...]] = {
    "discover": (),
    "list_workflows": (),
    "health_check": (),
    "start_session": ("agent_id?", "workflow_id?", "parent_session_token?", "session_token?"),
    "get_workflow_status": ("session_token",),
    "get_workflow": ("session_token", "summary?"),
    "next_activity": (
        "session_token",
        "activity_id",
        "transition_condition?",
        "step_manifest?",
        "activity_manifest?",
    ),
    "get_activity": ("session_token",),
    "yield_checkpoint": ("session_token", "checkpoint_id"),
    "resume_checkpoint": ("session_token",),
    "present_checkpoint": ("checkpoint_handle?", "session_token?"),
    "respond_checkpoint": (
        "checkpoint_handle?",
        "session_token?",
        "option_id?",
        "auto_advance?",
        "condition_not_met?",
    ),
    "get_skills": ("session_token",),
    "get_skill": ("session_token", "step_id?"),
    "get_resource": ("session_token", "resource_id"),
    "get_trace": ("session_token", "trace_tokens?"),
}
"""The tools of the contract in its order, with their parameters."""
MORE = {
    "get_workflow_status": ("answered_checkpoints?", "waitFor?", "waitMs?", "after?"),
    "start_session": ("item_id?", "actor?", "fence_token?"),
    "yield_checkpoint": ("ask_again?",),
}
"""The additions of the fleet."""

TOOLS = {tool.name: tool for tool in toolsets()["sessions"].tools}


def test_the_tools_and_parameters_are_those_of_the_contract() -> None:
    found = {}
    for name, tool in TOOLS.items():
        schema = input_schema(tool.arguments)
        required = schema.get("required", [])
        found[name] = tuple(one if one in required else f"{one}?" for one in schema.get("properties", {}))
    assert found == {name: (*fields, *MORE.get(name, ())) for name, fields in CONTRACT.items()}
    assert list(TOOLS) == list(CONTRACT)


def test_read_only_tools_are_annotated() -> None:
    changing = {name for name, tool in TOOLS.items() if not tool.read_only}
    assert changing == {
        "start_session", "next_activity", "yield_checkpoint", "resume_checkpoint", "respond_checkpoint"
    }  # fmt: skip


def test_tools_that_finish_work_are_shed_last() -> None:
    def weight(name: str, **arguments: Any) -> Criticality:
        return TOOLS[name].weigh(msgspec.convert(arguments, TOOLS[name].arguments))

    assert weight("respond_checkpoint") is Criticality.CRITICAL
    assert weight("next_activity", session_token="t", activity_id="a") is Criticality.CRITICAL
    assert weight("get_activity", session_token="t") is Criticality.READ
    assert weight("list_workflows") is Criticality.SHEDDABLE
    assert weight("start_session") is Criticality.NORMAL
    assert weight("start_session", session_token="t") is Criticality.CRITICAL
