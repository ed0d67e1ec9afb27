"""``subscriptions/listen``: what is acknowledged, what is told, and when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis
from mcp.client import Client as SdkClient
from mcp.client.subscriptions import ResourceUpdated

from coordinator.definitions import shared_definitions, shipped
from coordinator.errors import ToolFailure
from coordinator.feed import metrics, reader
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.settings.sections.feed import Feed
from coordinator.settings.sections.workflows import Workflows
from coordinator.store import Store, keys
from coordinator.toolsets import deferral
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services
from coordinator.transport import streams
from coordinator.transport.http import app
from coordinator.transport.mcp import listening, subscription
from tests.authentication.support import KEYS
from tests.feed.guarded import Guarded, bearer, token
from tests.feed.rig import Front, serving
from tests.feed.subscriptions import ALL, KNOWS_TASKS, refused, subscribed
from tests.flows.client import Flows
from tests.gateway.lab import section, states
from tests.items.client import Client, fresh_id
from tests.support.counts import counted
from tests.support.wait import wait_until
from tests.transport.nodejs import INSTALL_SECONDS, Node
from tests.transport.rig import call, legacy, modern

pytestmark = pytest.mark.anyio
Json = dict[str, Any]
DISTRUSTING = msgspec.structs.replace(KEYS, issuer="https://another.example")
REVIEW = states(open={"transitions": {"close": {"target": "done"}}}, done={})
GATEWAY = section(workflows={"review": REVIEW})


def listening_of(front: Front) -> listening.Listening:
    assert front.app.listening is not None
    return front.app.listening


class Uris:
    """The URIs of a project."""

    def __init__(self, project: str) -> None:
        self._project = project

    def __call__(self, *paths: str) -> list[str]:
        return [f"fleet://{self._project}/{path}" for path in paths]


@pytest.fixture
def uris(project: str) -> Uris:
    return Uris(project)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rights are checked before each notification, and often without one."""
    monkeypatch.setattr(subscription, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(streams, "RECHECK_SECONDS", 0.1)
    monkeypatch.setattr(streams, "TICK_SECONDS", 0.05)


async def test_what_can_be_read_is_acknowledged(front: Front, tools: Client, uris: Uris) -> None:
    item = await tools.add()
    good = uris(f"items/{item}", f"items/{item}/tree", "items")
    bad = [*uris(f"items/{fresh_id()}", "items/x", "flows/7"), f"fleet://elsewhere/items/{item}", "file:///etc/passwd"]
    asked: Any = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    async with subscribed(front, tools.project, [*bad, *good, *good], "items", **asked) as stream:
        assert stream.acknowledged == {"resourceSubscriptions": good}  # the lists of items never change
    async with subscribed(front, tools.project, bad) as nothing:
        assert nothing.acknowledged == {}


async def test_a_change_at_one_front_end_is_told_at_another(store: Store, other: Front, project: str) -> None:
    settings = Settings(request_deadline_ms=60_000, gateway=GATEWAY)
    async with serving(store, settings) as gateway:
        await _told_everywhere(gateway, other, project, Uris(project))


async def _told_everywhere(front: Front, other: Front, project: str, uris: Uris) -> None:
    base = f"http://127.0.0.1:{front.port}/p/{project}/mcp"
    async with SdkClient(f"{base}/items,flows") as here, SdkClient(f"{base}/gateway") as gateway:

        async def call(tool: str, client: Any = here, **arguments: Any) -> Any:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result
            return result.structured_content

        tree = {"root": {"title": "Root"}, "children": [{"ref": "a", "title": "Child"}]}
        made = await call("create_work_tree", **tree, requestId=fresh_id())
        root, child = made["root"]["id"], made["children"][0]["id"]
        flow = (await call("workflow_create", name="f", flow={"start": {"name": "w", "tool": None, "done": True}}))[
            "id"
        ]
        instance = (await call("workflow.start", gateway, definitionId="review", input={}))["workflowId"]
        all_uris = uris(
            f"items/{child}", f"items/{root}/tree", f"items/{child}/tree", "items", f"flows/{flow}", "flows",
            f"operations/{instance}",
        )  # fmt: skip
        one, tree_of_root, tree_of_child, items, workflow, workflows, operation = all_uris
        async with subscribed(other, project, all_uris) as stream:
            assert stream.acknowledged["resourceSubscriptions"] == all_uris
            await call("manage_items", operation="update", items=[{"id": child, "summary": "New"}])
            await stream.tells(one, tree_of_root, tree_of_child, items)
            await call("manage_items", operation="create", items=[{"title": "New", "parentId": root}])
            await stream.tells(tree_of_root, tree_of_child, items)
            await call("workflow_cancel", id=flow)
            await stream.tells(workflow, workflows)
            await call(
                "workflow.submit", gateway, workflowId=instance, expectedVersion=1, transition="close", arguments={}
            )
            await stream.tells(operation)
            await call("manage_items", operation="delete", ids=[root], recursive=True)
            await stream.tells(one, tree_of_root, tree_of_child, items)


async def test_a_session_that_moves_is_told(front: Front, other: Front, project: str, uris: Uris) -> None:
    async with SdkClient(f"http://127.0.0.1:{front.port}/p/{project}/mcp/sessions") as connected:
        client: Any = connected
        listed = (await client.call_tool("list_workflows", {})).content[0].text
        workflow = str(listed).split("id: ")[1].split()[0].strip('"')
        begun = await client.call_tool("start_session", {"workflow_id": workflow, "agent_id": "a"})
        token = begun.structured_content["session_token"]
        session = (await front.poll(project, after="oldest"))["events"][-1]["data"]["id"]
        text = (await client.call_tool("get_workflow", {"session_token": token})).content[0].text
        first = text.split("initialActivity: ")[1].split()[0]
        uri = uris(f"sessions/{session}")
        async with subscribed(other, project, uri, "sessions") as stream:
            assert stream.acknowledged["resourceSubscriptions"] == uri
            await client.call_tool("next_activity", {"session_token": token, "activity_id": first})
            await stream.tells(*uri)


async def test_a_burst_is_told_a_few_times_and_after_its_end(front: Front, tools: Client, uris: Uris) -> None:
    item, other = await tools.add(), await tools.add()
    uri, last = uris(f"items/{item}", f"items/{other}")
    async with subscribed(front, tools.project, [uri, last]) as stream:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for n in range(100):
            await tools.update(item, summary=f"{n}")
        took = loop.time() - began
        ended = await tools.get(item)
        async with SdkClient(f"http://127.0.0.1:{front.port}/p/{tools.project}/mcp/items") as client:
            found = 0
            text = ""
            while ended["summary"] not in text:
                assert await stream.told() == uri
                found += 1
                text = (await client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]
        assert found <= 2 + took / subscription.SPACING_SECONDS
        await tools.update(other, summary="x")
        assert len(await stream.quiet_until(last)) <= 1


async def test_the_first_change_after_a_pause_is_told_at_once(
    front: Front, tools: Client, uris: Uris, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "SPACING_SECONDS", 3600.0)
    one, two = await tools.add(), await tools.add()
    uri, last = uris(f"items/{one}", f"items/{two}")
    async with subscribed(front, tools.project, [uri, last]) as stream:
        await tools.update(one, summary="x")
        assert await stream.told() == uri
        await tools.update(one, summary="y")
        await tools.update(two, summary="z")
        assert await stream.told() == last


async def test_a_tree_that_moves_below_another_root_is_still_followed(
    front: Front, tools: Client, uris: Uris, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "SPACING_SECONDS", 0.0)
    top, mid, leaf = await tools.chain(2)
    elsewhere = await tools.add()
    uri, marker = uris(f"items/{leaf}/tree", f"items/{top}")
    async with subscribed(front, tools.project, [uri, marker]) as stream:
        await tools.update(mid, parentId=elsewhere)
        await stream.tells(uri, marker)
        await tools.update(top, summary="no longer above it")
        while uri in await stream.quiet_until(marker):
            await tools.update(top, summary="what was told before was still of the move")
        await tools.update(elsewhere, summary="x")
        await stream.tells(uri)


async def test_the_end_of_an_item_is_told_though_it_was_changed_just_before(
    front: Front, tools: Client, uris: Uris, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription, "SPACING_SECONDS", 0.5)
    top, child = await tools.chain(1)
    uri, marker = uris(f"items/{child}/tree", f"items/{top}")
    async with subscribed(front, tools.project, [uri, marker]) as stream:
        await tools.update(child, summary="x")
        assert await stream.told() == uri
        await tools.update(child, summary="y")
        await tools.delete(child)
        assert await stream.told() == uri
        await tools.update(top, summary="z")
        await stream.tells(marker)


async def test_every_uri_is_told_when_events_were_trimmed_before_they_were_read(
    front: Front, tools: Client, uris: Uris, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "COUNT", 5)
    many = uris(*(f"items/{item}" for item in await tools.add_many(3)))
    async with subscribed(front, tools.project, many) as stream:
        await tools.update(many[0].rpartition("/")[2], summary="the reader has begun")
        assert await stream.told() == many[0]
        async with tools.store.client.pipeline(transaction=True) as pipe:
            key = keys.events.key(tools.project)
            for _ in range(20):
                pipe.xadd(key, {"k": "update", "i": "f" * 32})
            pipe.xtrim(key, maxlen=10, approximate=False)
            await pipe.execute()
        await stream.tells(*many)


async def test_every_uri_is_told_when_the_reader_had_to_connect_again(
    front: Front, tools: Client, uris: Uris, onlooker: redis.Redis
) -> None:
    many = uris(*(f"items/{item}" for item in await tools.add_many(3)))
    async with subscribed(front, tools.project, many) as stream:
        await tools.update(many[0].rpartition("/")[2], summary="the reader has begun")
        assert await stream.told() == many[0]
        connects = tools.store.link().connects
        onlooker.client_kill_filter(_type="normal", skipme=True)
        await wait_until(lambda: tools.store.link().connects > connects)
        await stream.tells(*many)
        await tools.update(many[1].rpartition("/")[2], summary="new")
        while await stream.told() != many[1]:
            pass


@pytest.mark.parametrize("most", [0, 1])
async def test_a_process_has_room_for_so_many(front: Front, tools: Client, most: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(listening_of(front), "limits", Feed(subscriptions_most=most))
    async with subscribed(front, tools.project) if most else contextlib.nullcontext():
        error, headers = await refused(front, tools.project)
        assert error["message"].startswith(f"over_capacity: {most} subscriptions are open here")
        assert (error["code"], error["data"], headers["retry-after"]) == (-32603, {"retryAfterMs": 5_000}, "5")
    await wait_until(lambda: not listening_of(front).open)


async def test_bad_requests_are_refused(front: Front, project: str, uris: Uris) -> None:
    many = uris(*(f"flows/{n + 1}" for n in range(257)))
    error, _ = await refused(front, project, many)
    assert (error["code"], "must be at most 256, not 257" in error["message"]) == (-32602, True)
    for wrong in ("x", [1], ["x"] * 2 + [None]):
        error, _ = await refused(front, project, taskIds=wrong)
        assert (error["code"], "must be a list of ids of tasks" in error["message"]) == (-32602, True)
    error, _ = await refused(front, project, taskIds=[str(n) for n in range(257)])
    assert (error["code"], "taskIds: must be at most 256" in error["message"]) == (-32602, True)
    async with SdkClient(f"http://127.0.0.1:{front.port}/p/{project}/mcp", mode="legacy") as client:
        assert client.server_capabilities.resources is not None
        assert not client.server_capabilities.resources.subscribe
    head, body = legacy("subscriptions/listen", {"notifications": {}})
    response = await front.http.post(f"/p/{project}/mcp", content=body, headers=dict(head))
    assert "-32601" in response.text
    async with SdkClient(f"http://127.0.0.1:{front.port}/p/{project}/mcp", mode="auto") as client:
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe
        assert not client.server_capabilities.resources.list_changed


async def test_a_drain_ends_streams_with_a_result(
    front: Front, tools: Client, uris: Uris, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "DRAIN_SECONDS", 0.1)
    item = await tools.add()
    uri = uris(f"items/{item}")
    before = counted(metrics.CUT, "drain")
    async with subscribed(front, tools.project, uri) as stream:
        await front.app.take_no_new_work("process:here/fe-0")
        (end,) = await stream.rest()
        assert end["result"]["resultType"] == "complete"
        assert end["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "s1"
        error, headers = await refused(front, tools.project, uri)
        assert (error["message"].split(":")[0], headers["retry-after"]) == ("draining", "2")
    assert counted(metrics.CUT, "drain") == before + 1
    await front.app.take_no_new_work("")
    async with subscribed(front, tools.project, uri) as stream:
        await tools.update(item, summary="x")
        await stream.tells(*uri)


async def test_the_sdks_client_listens_and_forgets_what_it_kept(front: Front, tools: Client, uris: Uris) -> None:
    item = await tools.add("before")
    (uri,) = uris(f"items/{item}")
    url = f"http://127.0.0.1:{front.port}/p/{tools.project}/mcp/items"
    async with SdkClient(url) as client, client.listen(resource_subscriptions=[uri], tools_list_changed=True) as stream:
        assert stream.honored.resource_subscriptions == [uri]
        assert not stream.honored.tools_list_changed
        assert "before" in (await client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]
        await tools.update(item, title="after")
        async for event in stream:
            assert event == ResourceUpdated(uri)
            break
        assert "after" in (await client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]


@pytest.mark.timeout(INSTALL_SECONDS + 60)
async def test_the_official_client_in_typescript_listens(front: Front, tools: Client, uris: Uris, node: Node) -> None:
    item = await tools.add()
    (uri,) = uris(f"items/{item}")
    url = f"http://127.0.0.1:{front.port}/p/{tools.project}/mcp/items"
    done = await asyncio.to_thread(node.run, node.own("listen.mjs"), [url, item, uri])
    assert done.returncode == 0, done.stderr
    shown = msgspec.json.decode(done.stdout)
    assert shown["templates"] == ["fleet://{project}/items/{id}", "fleet://{project}/items/{id}/tree"]
    assert (shown["honored"], shown["updated"]) == ({"resourceSubscriptions": [uri]}, uri)
    assert shown["summary"] == "changed"
    await wait_until(lambda: not listening_of(front).open)


async def test_tasks_that_end_are_told_with_their_results(
    front: Front, other: Front, tools: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferral, "GRACE_SECONDS", 0.0)

    async def begin(tool: str, wait_for: str, **arguments: Any) -> str:
        arguments |= {"waitFor": wait_for, "waitMs": 50_000}
        head, body = modern("tools/call", {**call(tool, arguments), "_meta": KNOWS_TASKS})
        response = await front.http.post(f"/p/{tools.project}/mcp/{ALL}", content=body, headers=dict(head))
        return str(response.json()["result"]["taskId"])

    root, first, last = await tools.add(), await tools.add(), await tools.add()
    child = await tools.add(parentId=root)
    flow = await Flows(tools.store, tools.project).create()
    tree, one = (
        await begin("get_context", "tree_terminal", itemId=root),
        await begin("get_context", "terminal", itemId=first),
    )
    workflow = await begin("workflow_get", "ended", id=flow)
    asked = [tree, "nothing", one, one, workflow]
    async with subscribed(other, tools.project, taskIds=asked) as stream:
        assert stream.acknowledged == {"taskIds": [tree, one, workflow]}
        await tools.update(first, summary="no end")
        await tools.move(first, "start", "complete")
        message = await stream.next()
        task = message["params"]
        assert (message["method"], task["taskId"], task["status"]) == ("notifications/tasks", one, "completed")
        assert task["result"]["structuredContent"]["item"]["role"] == "terminal"
        await tools.move(child, "start", "complete")
        assert (await stream.next())["params"]["taskId"] == tree
        await Flows(tools.store, tools.project)("workflow_cancel", id=flow)
        assert (await stream.next())["params"]["taskId"] == workflow
    async with subscribed(other, tools.project, [f"fleet://{tools.project}/items/{last}"], taskIds=[one]) as late:
        assert (await late.next())["params"]["status"] == "completed"
        await tools.update(last, summary="x")
        assert (await late.told()).endswith(last)


@pytest.mark.usefixtures("at_once")
async def test_nothing_is_told_after_a_token_was_revoked(guarded: Guarded, tools: Client, uris: Uris) -> None:
    mine, others = await token(guarded, "mine", "*"), await token(guarded, "others", "*")
    item = await tools.add()
    uri = uris(f"items/{item}")
    async with (
        subscribed(guarded, tools.project, uri, headers=bearer(mine)) as ends,
        subscribed(guarded, tools.project, uri, headers=bearer(others)) as stays,
    ):
        await tools.update(item, summary="1")
        await asyncio.gather(ends.tells(*uri), stays.tells(*uri))
        guarded.tokens.revoke("mine")
        await guarded.authenticator.read(guarded.tokens.path)
        await tools.update(item, summary="2")
        await stays.tells(*uri)
        (end,) = await ends.rest()
        assert "rights" in end["error"]["message"]


@pytest.mark.usefixtures("at_once")
async def test_a_subscription_is_that_of_its_credential(guarded: Guarded, tools: Client, uris: Uris) -> None:
    """Another token of the same id does not keep it; one that replaces the credential does."""
    mine = await token(guarded, "mine", "items.read")
    await token(guarded, "mine", "*")
    item = await tools.add()
    uri = uris(f"items/{item}")
    async with subscribed(guarded, tools.project, uri, headers=bearer(mine)) as stream:
        newer = guarded.tokens.replace(mine)
        guarded.tokens.revoke(mine)
        await guarded.authenticator.read(guarded.tokens.path)
        await tools.update(item, summary="1")
        await stream.tells(*uri)
        guarded.tokens.revoke(newer)
        await guarded.authenticator.read(guarded.tokens.path)
        (end,) = await stream.rest()
        assert "rights" in end["error"]["message"]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("change", [{"default_permissions": ("flows",)}, {"verifier": DISTRUSTING}, {"verifier": None}])
async def test_a_subscription_outlives_a_jwt_but_not_what_made_it_good(
    guarded: Guarded, tools: Client, uris: Uris, change: Json
) -> None:
    jwt = guarded.knows(sub="mine")
    item = await tools.add()
    uri = uris(f"items/{item}")
    async with subscribed(guarded, tools.project, uri, headers=bearer(jwt)) as stream:
        guarded.in_a_minute()
        assert (await guarded.get(tools.project, bearer(jwt))).status_code == 401
        await tools.update(item, summary="1")
        await stream.tells(*uri)
        guarded.configure(**change)
        (end,) = await stream.rest()
        assert "rights" in end["error"]["message"]


@pytest.mark.usefixtures("at_once")
async def test_a_withdrawn_permission_ends_what_it_opened(guarded: Guarded, tools: Client, uris: Uris) -> None:
    mine = await token(guarded, "mine", "items", "workflow")
    item = await tools.add()
    flow = await Flows(tools.store, tools.project).as_("mine", "workflow").create()
    items, flows = uris(f"items/{item}", f"flows/{flow}")
    async with subscribed(guarded, tools.project, [items, flows], headers=bearer(mine)) as stream:
        assert stream.acknowledged["resourceSubscriptions"] == [items, flows]
        text = guarded.tokens.path.read_text()
        guarded.tokens.write(text.replace("[items, workflow]", "[workflow]"))
        await guarded.authenticator.read(guarded.tokens.path)
        await stream.tells(flows)  # what is left is told once
        await tools.update(item, summary="x")
        await Flows(tools.store, tools.project)("workflow_cancel", id=flow)
        assert await stream.told() == flows


@pytest.mark.usefixtures("at_once")
async def test_rights_that_cannot_be_checked_are_tried_again_after_a_pause(
    guarded: Guarded, tools: Client, uris: Uris, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = await token(guarded, "mine", "items", "workflow")
    item = await tools.add()
    uri = uris(f"items/{item}")
    position, tries, loop = guarded.reader.position, list[float](), asyncio.get_running_loop()

    async def fails(*given: Any) -> Any:
        tries.append(loop.time())
        if len(tries) < 3:
            raise ToolFailure("store_unavailable", "no store")
        return await position(*given)

    async with subscribed(guarded, tools.project, uri, headers=bearer(mine)) as stream:
        monkeypatch.setattr(guarded.reader, "position", fails)
        monkeypatch.setattr(streams, "AWAY_SECONDS", 0.3)
        guarded.tokens.write(guarded.tokens.path.read_text().replace("[items, workflow]", "[items]"))
        await guarded.authenticator.read(guarded.tokens.path)
        await stream.tells(*uri)
        assert tries[2] - tries[0] >= 0.6


async def test_workflows_of_others_are_not_acknowledged(guarded: Guarded, tools: Client, uris: Uris) -> None:
    flow = await Flows(tools.store, tools.project).as_("somebody", "workflow").create()
    for name, permissions, seen in (("other", ("workflow",), False), ("admin", ("workflow.admin",), True)):
        made = await token(guarded, name, *permissions)
        wanted = uris(f"flows/{flow}", f"items/{await tools.add()}")
        async with subscribed(guarded, tools.project, wanted, headers=bearer(made)) as stream:
            assert stream.acknowledged.get("resourceSubscriptions", []) == (wanted[:1] if seen else [])


async def test_a_caller_has_a_limit_of_subscriptions(guarded: Guarded, project: str) -> None:
    mine, others = bearer(await token(guarded, "mine", "*")), bearer(await token(guarded, "others", "*"))
    async with subscribed(guarded, project, headers=mine), subscribed(guarded, project, headers=mine):
        error, _ = await refused(guarded, project, headers=mine)
        assert "this caller has 2 subscriptions open" in error["message"]
        async with subscribed(guarded, project, headers=others):
            pass


async def test_a_client_that_takes_nothing_is_cut_off(
    front: Front, tools: Client, uris: Uris, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "STUCK_SECONDS", 0.2)
    monkeypatch.setattr(subscription, "SPACING_SECONDS", 0.0)
    before = counted(metrics.CUT, "slow")
    many = uris(*(f"items/{item}" for item in await tools.add_many(50)))
    # The id is in each notification, so these fill the buffers of the connection soon.
    async with subscribed(front, tools.project, many, request_id="s" * 50_000):
        (one,) = listening_of(front).open
        while counted(metrics.CUT, "slow") == before:
            one.tell_all()
            await asyncio.sleep(0)
        await wait_until(lambda: not listening_of(front).open)


async def test_lists_are_told_when_definitions_or_the_catalogue_change(
    store: Store, project: str, tmp_path: Path
) -> None:
    procedures = tmp_path / "procedures"
    procedures.mkdir()
    workflows = Workflows(sessions=(str(procedures),), navigator=(str(procedures),))
    settings = Settings(request_deadline_ms=60_000, gateway=GATEWAY, workflows=workflows)
    toolsets = load_toolsets(Services(settings, store, trust_self_reported))
    definitions = shared_definitions(workflows.sessions)
    definitions.refresh()
    lists: Any = {"toolsListChanged": True, "resourcesListChanged": True}
    all_lists = ("tools/list_changed", "resources/list_changed")
    async with (
        serving(store, settings, toolsets=toolsets) as front,
        subscribed(front, project, toolsets="sessions", **lists) as sessions,
        subscribed(front, project, toolsets="navigator", **lists) as navigator,
        subscribed(front, project, toolsets="items,gateway", resourcesListChanged=True) as gateway,
        subscribed(front, project, [f"fleet://{project}/gateway"]) as catalogue,
    ):
        assert sessions.acknowledged == lists
        assert navigator.acknowledged == {"toolsListChanged": True}  # it has no resources
        assert gateway.acknowledged == {"resourcesListChanged": True}
        shutil.copytree(shipped() / "change", procedures / "change")
        definitions.refresh()
        await sessions.tells(*all_lists)
        await navigator.tells("tools/list_changed")
        changed = section(workflows={"review": REVIEW, "more": REVIEW})
        toolsets["gateway"].service.configure(msgspec.structs.replace(settings, gateway=changed))
        await gateway.tells("resources/list_changed")
        assert await catalogue.told() == f"fleet://{project}/gateway"
        async with SdkClient(f"http://127.0.0.1:{front.port}/p/{project}/mcp/gateway") as client:
            capabilities = client.server_capabilities
            assert capabilities.tools is not None
            assert capabilities.tools.list_changed
    for toolset in toolsets.values():
        await toolset.service.stop()
