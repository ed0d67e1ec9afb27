"""The schemas of all tools, and those that stay open."""

from __future__ import annotations

from tests.support.contracts import toolsets

TOOLS = {f"{name}/{tool.name}": tool for name, toolset in toolsets().items() for tool in toolset.tools}
OPEN = {
    "items/advance_item": [
        ".transitions[].result<3>: is an open object",
        ".transitions[].result<4>[]<3>: is an open object",
    ],
    "items/claim_item": [
        ".releases[].result<3>: is an open object",
        ".releases[].result<4>[]<3>: is an open object",
    ],
    "worker/work_done": [".result<3>: is an open object", ".result<4>[]<3>: is an open object"],
    "flows/workflow_create": [
        ".flow: is an open object",
        ".flow.start.args: is an open object",
        ".flow.*: is an open object",
        ".input<0>: is an open object",
    ],
    "navigator/nav_start": [".initial_variables<0>: is an open object"],
    "navigator/nav_action": [".loop_items<0>[]<0>: is an open object", ".variables<0>: is an open object"],
    "gateway/workflow.start": [".input: is an open object"],
    "gateway/workflow.submit": [".arguments: is an open object"],
}
"""Arguments whose names only the caller knows. Strict mode has no such objects; its hosts then call without it."""
