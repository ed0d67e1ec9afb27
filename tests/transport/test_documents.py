"""Documents of a project: what each URI reads in every revision, and what of it nobody gets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.store import Store
from tests.authentication.support import Authenticators, Tokens
from tests.feed.rig import Front, serving
from tests.gateway.lab import section, states
from tests.transport.guarded import RESOURCE
from tests.transport.rig import modern

pytestmark = pytest.mark.anyio
Json = dict[str, Any]
ABSENT = "00000000-0000-4000-8000-000000000000"
GATEWAY = section(workflows={"review": states(open={"transitions": {"close": {"target": "done"}}}, done={})})
KINDS = ("items/{id}", "items/{id}/tree", "flows/{id}", "sessions/{id}", "operations/{id}")


@pytest.fixture
async def front(store: Store) -> AsyncIterator[Front]:
    async with serving(store, Settings(request_deadline_ms=60_000, gateway=GATEWAY)) as front:
        yield front


def client(front: Front, project: str, toolset: str, mode: Any = "auto") -> Client:
    return Client(f"http://127.0.0.1:{front.port}/p/{project}/mcp/{toolset}", mode=mode)


async def read(client: Client, uri: str) -> Json:
    found = await client.read_resource(uri)
    (content,) = found.contents
    assert (str(content.uri), content.mime_type) == (uri, "application/json")
    shown: Json = json.loads(content.text)  # type: ignore[union-attr]
    return shown


async def call(client: Client, tool: str, **arguments: Any) -> Json:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content or {}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_items_and_workflows_are_read_as_their_tools_show_them(front: Front, project: str, mode: Any) -> None:
    base = f"fleet://{project}"
    async with client(front, project, "items", mode) as items:
        tree = {"root": {"title": "Root"}, "children": [{"ref": "a", "title": "Child"}]}
        made = await call(items, "create_work_tree", **tree, requestId=ABSENT)
        root, child = made["root"]["id"], made["children"][0]["id"]
        whole = await call(items, "query_items", operation="get", id=child, includeAncestors=True)
        assert await read(items, f"{base}/items/{child}") == whole
        assert await read(items, f"{base}/items/{child.replace('-', '').upper()}") == whole
        overview = await call(items, "query_items", operation="overview", itemId=root)
        assert await read(items, f"{base}/items/{root}/tree") == overview
        assert [one["id"] for one in (await read(items, f"{base}/items"))["items"]] == [root]
    async with client(front, project, "flows", mode) as flows:
        flow = {"start": {"name": "wait", "tool": None, "done": True}}
        number = (await call(flows, "workflow_create", name="f", flow=flow))["id"]
        assert await read(flows, f"{base}/flows/{number}") == await call(flows, "workflow_get", id=number)
        assert [one["id"] for one in await read(flows, f"{base}/flows")] == [number]  # type: ignore[index]
    async with client(front, project, "gateway", mode) as gateway:
        instance = (await call(gateway, "workflow.start", definitionId="review", input={}))["workflowId"]
        shown = await call(gateway, "workflow.get", workflowId=instance)
        assert await read(gateway, f"{base}/operations/{instance}") == shown
        assert await read(gateway, f"{base}/gateway") == await call(gateway, "gateway.home")


async def test_a_session_is_shown_without_what_only_its_token_opens(front: Front, project: str) -> None:
    async with client(front, project, "items") as items:
        (item,) = (await call(items, "manage_items", operation="create", items=[{"title": "A"}]))["items"]
        actor = {"id": "agent-1", "kind": "subagent"}
        held = await call(items, "claim_item", claims=[{"itemId": item["id"]}], actor=actor, requestId=ABSENT)
        fence = held["claimResults"][0]["fenceToken"]
    async with client(front, project, "sessions") as sessions:
        workflow = await first_workflow(sessions)
        bound = {"item_id": item["id"], "fence_token": fence, "actor": actor}
        begun = await call(sessions, "start_session", workflow_id=workflow, agent_id="agent-1", **bound)
        (session,) = [one["data"]["id"] for one in (await front.poll(project, after="oldest"))["events"][-1:]]
        token = begun["session_token"]
        status = await call(sessions, "get_workflow_status", session_token=token)
        assert {"fence_token", "claimed_by"} <= set(status["work_item"])
        shown = await read(sessions, f"fleet://{project}/sessions/{session}")
        assert shown.pop("work_item") == {"item_id": item["id"], "claim_live": True}
        del status["work_item"], status["session_token"]
        assert shown == status
        # Reading is no call of the session: a token stays the newest, and nothing is recorded.
        trace = await call(sessions, "get_trace", session_token=token)
        assert not any("status" in event["name"] for event in trace["events"])


async def first_workflow(sessions: Client) -> str:
    listed = (await sessions.call_tool("list_workflows", {})).content[0].text  # type: ignore[union-attr]
    return str(listed).split("id: ")[1].split()[0].strip('"')


CREATIONS: tuple[tuple[str, str, Json], ...] = (
    ("items", "create_work_tree", {"root": {"title": "Root"}, "actor": {"id": "a", "kind": "subagent"}}),
    ("flows", "workflow_create", {"name": "f", "flow": {"start": {"name": "w", "tool": None, "done": True}}}),
    ("gateway", "workflow.start", {"definitionId": "review", "input": {}}),
)


@pytest.mark.parametrize(("toolset", "tool", "arguments"), CREATIONS, ids=[one for _, one, _ in CREATIONS])
async def test_what_was_created_is_linked(front: Front, project: str, toolset: str, tool: str, arguments: Json) -> None:
    arguments = {"requestId": ABSENT, **arguments}
    answers = []
    for front.app.fast in (True, False):  # the second call is a repetition of the first
        async with client(front, project, toolset) as modern_client:
            answers.append((await modern_client.call_tool(tool, arguments)).model_dump(by_alias=True))
    assert answers[0] == answers[1]
    text, link = answers[0]["content"]
    assert json.loads(text["text"]) == answers[0]["structuredContent"]
    async with client(front, project, toolset) as modern_client:
        shown = json.dumps(await read(modern_client, link["uri"]))
    made = answers[0]["structuredContent"]
    assert str(made["root"]["id"] if "root" in made else made.get("id", made.get("workflowId"))) in shown
    async with client(front, project, toolset, "legacy") as old_client:
        (only,) = (await old_client.call_tool(tool, arguments)).content
        assert only.type == "text"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_lists_have_a_few_entries_and_the_kinds(front: Front, project: str, mode: Any) -> None:
    async with client(front, project, "items,flows,gateway", mode) as all_but_sessions:
        for _ in range(3):
            await call(all_but_sessions, "manage_items", operation="create", items=[{"title": "A"}])
        listed = await all_but_sessions.list_resources()
        assert [str(one.uri) for one in listed.resources] == [
            f"fleet://{project}/{one}" for one in ("items", "flows", "gateway")
        ]
        templates = (await all_but_sessions.list_resource_templates()).resource_templates
        found = [one.uri_template for one in templates]
    async with client(front, project, "sessions", mode) as sessions:
        found += [one.uri_template for one in (await sessions.list_resource_templates()).resource_templates]
        assert all(str(one.uri).startswith("workflow-server:") for one in (await sessions.list_resources()).resources)
    assert sorted(found) == sorted(f"fleet://{{project}}/{kind}" for kind in KINDS)
    assert all(one.title and one.description and one.mime_type == "application/json" for one in templates)


@pytest.mark.parametrize(
    ("toolset", "paths"),
    [
        ("sessions", (f"sessions/{ABSENT}", "sessions/x")),
        (
            "items,flows,gateway",
            (
                *(f"items/{ABSENT}", f"items/{ABSENT}/tree", "items/00000000", "items/", "items/x"),
                *(f"items/{ABSENT}/children", "items/%00", "items?x=1", "nothing"),
                *("flows/1764131594123001", "flows/0", "flows/99999999999999999999"),
                *("operations/wf_000000000000", "operations/x", "operations"),
            ),
        ),
    ],
)
async def test_what_is_not_there_is_an_unknown_resource(
    front: Front, project: str, toolset: str, paths: tuple[str, ...]
) -> None:
    async with client(front, project, toolset) as any_client:
        for uri in (f"fleet://{project}/{path}" for path in paths):
            with pytest.raises(MCPError, match="Unknown resource: fleet://") as raised:
                await any_client.read_resource(uri)
            assert (raised.value.error.code, raised.value.error.data) == (-32602, {"uri": uri})


async def test_other_projects_are_out_of_reach(front: Front, project: str) -> None:
    async with client(front, project, "items") as items:
        (item,) = (await call(items, "manage_items", operation="create", items=[{"title": "A"}]))["items"]
    async with client(front, "elsewhere", "items") as elsewhere:
        for there in (project, "elsewhere"):
            with pytest.raises(MCPError, match="Unknown resource"):
                await elsewhere.read_resource(f"fleet://{there}/items/{item['id']}")


async def test_only_what_the_caller_may_read_is_there(store: Store, project: str, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.yaml")
    creator = tokens.add("creator", permissions=("items", "workflow"))
    other = tokens.add("other", permissions=("workflow.read",))
    settings = Settings(
        auth=Auth(tokens=str(tokens.path), mode="required", resource=RESOURCE), request_deadline_ms=60_000
    )
    authenticators = Authenticators()
    authenticator = authenticators.make(settings)
    await authenticator.start()
    async with serving(store, settings, authenticator) as front:
        asked = [Asking(front, project, token) for token in (creator, other)]
        made = await asked[0]("tools/call", name="workflow_create", arguments={
            "name": "f", "flow": {"start": {"name": "wait", "tool": None, "done": True}},
        })  # fmt: skip
        uri = f"fleet://{project}/flows/{made['result']['structuredContent']['id']}"
        (kept,) = ((await asked[0]("resources/read", uri=uri))["result"],)
        assert (kept["cacheScope"], kept["ttlMs"]) == ("private", 1_000)
        # Missing, of somebody else, and of a toolset without permission: the same words.
        words = []
        for forbidden in (uri, f"fleet://{project}/flows/1764131594123001", f"fleet://{project}/items/{ABSENT}"):
            error = (await asked[1]("resources/read", uri=forbidden))["error"]
            assert (error["code"], error["data"]) == (-32602, {"uri": forbidden})
            words.append(error["message"].replace(forbidden, "X"))
        assert len(set(words)) == 1
        listed = await asked[1]("resources/templates/list")
        assert [one["name"] for one in listed["result"]["resourceTemplates"]] == ["flow"]
        assert listed["result"]["cacheScope"] == "private"
        assert [one["name"] for one in (await asked[1]("resources/list"))["result"]["resources"]] == ["flows"]
    await authenticators.close()


class Asking:
    """Sends plain requests with a token."""

    def __init__(self, front: Front, project: str, token: str) -> None:
        self._front, self._path = front, f"/p/{project}/mcp/items,flows"
        self._token = token

    async def __call__(self, method: str, **params: Any) -> Json:
        head, body = modern(method, params)
        headers = {**dict(head), "authorization": f"Bearer {self._token}"}
        response = await self._front.http.post(self._path, content=body, headers=headers)
        answer: Json = response.json()
        return answer
