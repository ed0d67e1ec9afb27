"""An empty list means none: it is never confused with a missing argument and its default.

Every list among the arguments of every tool is of one of three kinds: it must not be empty; left out, it is empty; or
a test of its own shows what empty means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from coordinator.errors import ToolFailure
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.arguments import decoded
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.schema import input_schema
from coordinator.toolsets.tool import Call, Services, Tool
from tests.items import test_agents, test_completion, test_resources
from tests.items.client import Client, fresh_id
from tests.navigator import test_visits
from tests.sessions import test_moves, test_trace, test_validation
from tests.support.contracts import toolsets
from tests.worker import test_end_and_next, test_loop

ANYBODY = {"id": "agent-1", "kind": "subagent"}
BESIDE: dict[str, Any] = {
    "manage_items items": {"operation": "create"},
    "manage_items ids": {"operation": "delete"},
    "create_work_tree root.requires": {"root": {"title": "Root"}},
    "create_work_tree children": {"root": {"title": "Root"}},
    "create_work_tree deps": {"root": {"title": "Root"}},
    "create_work_tree notes": {"root": {"title": "Root"}},
    "get_next_item capabilities": {},
    "manage_notes notes": {"operation": "upsert"},
    "manage_dependencies dependencies": {"operation": "create"},
    "manage_dependencies itemIds": {"operation": "create", "pattern": "linear"},
    "manage_dependencies targets": {"operation": "create", "pattern": "fan-out", "source": "abcd"},
    "manage_dependencies sources": {"operation": "create", "pattern": "fan-in", "target": "abcd"},
    "claim_item claims": {"actor": ANYBODY, "requestId": fresh_id()},
    "claim_item releases": {"actor": ANYBODY, "requestId": fresh_id()},
    "claim_item include": {"actor": ANYBODY, "requestId": fresh_id(), "claims": [{"itemId": fresh_id()}]},
    "get_context include": {"itemId": fresh_id()},
    "workflow_create flow.start.branch": {
        "name": "w", "flow": {"start": {"name": "s", "tool": "get_next_item"}}, "actor": ANYBODY
    },
    "workflow_create flow.start.parallel": {
        "name": "w", "flow": {"start": {"name": "s", "tool": "get_next_item"}}, "actor": ANYBODY
    },
}  # fmt: skip
"""Arguments of a call that may have the list."""


@pytest.mark.anyio
async def test_an_empty_list_deletes_no_note(store: Store, project: str) -> None:
    tools = Client(store, project)
    item = await tools.add()
    note = {"itemId": item, "key": "plan", "role": "queue", "body": "Text."}
    await tools("manage_notes", operation="upsert", notes=[note])
    assert await tools("manage_notes", operation="delete", ids=[]) == {"deleted": 0, "failed": 0}
    assert (await tools("query_notes", operation="list", itemId=item))["total"] == 1


SHOWN: dict[str, Callable[..., Any]] = {
    "complete_tree itemIds": test_completion.test_an_empty_list_completes_nothing,
    "create_work_tree root.resources": test_resources.test_schemas_and_traits_say_what_items_demand_that_do_not_say_so,
    "claim_item capabilities": test_agents.test_capabilities_are_kept,
    "work_next capabilities": test_loop.test_no_capabilities_are_others_than_none_named,
    **dict.fromkeys(
        (f"{tool} next.capabilities" for tool in ("work_done", "work_failed", "work_ask")),
        test_end_and_next.test_capabilities_are_none_if_the_list_is_empty,
    ),
    "work_done result": test_loop.test_an_empty_list_is_a_result,
    "manage_notes ids": test_an_empty_list_deletes_no_note,
    "next_activity step_manifest": test_validation.test_step_manifests_by_example,
    "next_activity activity_manifest": test_moves.test_another_report_from_the_same_token_corrects_the_transition,
    "get_trace trace_tokens": test_trace.test_an_empty_list_of_tokens_is_as_none,
    "nav_action loop_items": test_visits.test_reentering_an_activity_begins_a_new_visit,
}
"""Lists of which empty is not the default, and the tests that show what it means."""


class ListArgument(NamedTuple):
    tool: Tool
    path: str
    schema: dict[str, Any]
    required: bool

    @property
    def name(self) -> str:
        return f"{self.tool.name} {self.path}"

    def given(self) -> dict[str, Any]:
        """Arguments in which the list is empty."""
        *above, last = self.path.split(".")
        found: dict[str, Any] = {**BESIDE.get(self.name, {})}
        place = found
        for key in above:
            place[key] = {**place[key]}
            place = place[key]
        place[last] = []
        return found


def lists(tool: Tool, node: dict[str, Any], above: str = "") -> Iterator[ListArgument]:
    for name, schema in node.get("properties", {}).items():
        for shape in (schema, *schema.get("anyOf", ())):
            if shape.get("type") == "array":
                yield ListArgument(tool, above + name, {**schema, **shape}, name in node.get("required", ()))
            else:
                yield from lists(tool, shape, f"{above}{name}.")


EVERY = [
    found
    for toolset in toolsets().values()
    for tool in toolset.tools
    for found in lists(tool, input_schema(tool.arguments))
]


@pytest.mark.anyio
@pytest.mark.parametrize("argument", [pytest.param(one, id=one.name) for one in EVERY])
async def test_an_empty_list_means_none_or_is_rejected(store: Store, project: str, argument: ListArgument) -> None:
    schema = input_schema(argument.tool.arguments)
    if argument.schema.get("minItems"):
        served = load_toolsets(Services(Settings(), store, trust_self_reported)).values()
        handler = next(one.handler for toolset in served for one in toolset.tools if one.name == argument.tool.name)
        with pytest.raises(ToolFailure) as refused:
            await handler(Call(project), decoded(argument.tool, schema, argument.given()))
        assert argument.path.rpartition(".")[2] in refused.value.message
    elif argument.schema.get("default") == []:
        without = decoded(argument.tool, schema, BESIDE[argument.name])
        assert decoded(argument.tool, schema, argument.given()) == without
    else:
        assert argument.name in SHOWN, "show by a test that [] differs from what is left out"


def test_there_are_lists_of_each_kind() -> None:
    names = {one.name for one in EVERY}
    assert len(names) == len(EVERY) > 15
    assert SHOWN.keys() <= names
    assert BESIDE.keys() <= names
