"""Tasks: calls whose results are asked for later, of any process that shares the store."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.errors import ToolFailure
from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.store import Store, keys
from coordinator.toolsets import deferral
from coordinator.toolsets.gateway import operations
from coordinator.toolsets.items.live import waiting
from coordinator.toolsets.items.metrics.claims import AGENTS_WAITING
from coordinator.transport.metrics import TASK_EVENTS as COUNTED
from tests.gateway.lab import Worker, section, settings_of, states
from tests.support.counts import counted
from tests.support.wait import wait_until
from tests.transport.rig import legacy, send
from tests.transport.rounds import FORM, TASKS, Client, Json, Site, accepting, refusing

pytestmark = pytest.mark.anyio

BOTH = {**FORM, **TASKS}
MEMBERS = {"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "statusMessage"}


class Slow:
    """A workflow with commands that run until the test lets them."""

    def __init__(self, folder: Path) -> None:
        self._gate = folder / "gate"
        self.runs = folder / "runs"

    def command(self, then: str = "echo 1") -> Json:
        waits = f"echo x >> {self.runs}; while ! [ -e {self._gate} ]; do sleep 0.02; done; {then}"
        return {"kind": "cli", "command": "sh", "args": ["-c", waits], "treatNonZeroAsFailure": True}

    def open(self) -> None:
        self._gate.touch()

    def workflows(self) -> Json:
        counts = {"output": {"n": "$.output.json"}}
        asking = {"target": "asked", "executor": self.command(), "branches": []}
        return {
            "slow": states(
                ready={
                    "transitions": {
                        "go": {"target": "done", "executor": self.command(), **counts},
                        "fail": {"target": "done", "executor": self.command("exit 3")},
                        "quick": {"target": "done", "executor": {"kind": "noop"}},
                    }
                },
                done={"terminal": True},
            ),
            "entered": states(
                ready={"onEnter": {"executor": self.command()}, "transitions": {"go": {"target": "done"}}},
                done={"terminal": True},
            ),
            "approved": states(
                ready={"transitions": {"go": asking}},
                asked={
                    "onEnter": {"executor": {"kind": "human", "queue": "ops"}},
                    "transitions": {"approve": {"target": "done", "actor": "human"}},
                },
                done={"terminal": True},
            ),
        }


@pytest.fixture
def slow(tmp_path: Path) -> Slow:
    return Slow(tmp_path)


@pytest.fixture
def settings(slow: Slow, project: str, tmp_path: Path) -> Settings:
    auth = Auth(tokens=str(tmp_path / "tokens.yaml"))
    return settings_of(section(workflows=slow.workflows()), project, request_deadline_ms=60_000, auth=auth)


@pytest.fixture
async def site(tmp_path: Path, store: Store, project: str, settings: Settings) -> AsyncIterator[Site]:
    site = Site(tmp_path, store, project, settings)
    yield site
    await site.close()


@pytest.fixture(autouse=True)
async def working(store: Store, settings: Settings, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    monkeypatch.setattr(operations, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(deferral, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr("workers.tools.rights.LOOK_SECONDS", 0.0)
    worker = await Worker(store, settings).start()
    yield
    slow.open()
    await worker.stop()


async def ready(client: Client, app: Any, transition: str = "go", definition: str = "slow") -> Json:
    """The arguments of a submit to a new instance."""
    result = await client(app, "workflow.start", {"definitionId": definition, "input": {}})
    started = result["structuredContent"]
    return {
        "workflowId": started["workflowId"],
        "expectedVersion": started["version"],
        "transition": transition,
        "arguments": {},
    }


async def test_a_submit_that_takes_long_becomes_a_task_that_every_process_knows(site: Site, slow: Slow) -> None:
    bot = site.client("bot", "gateway", can=TASKS)
    here, there = site.process(), site.process()
    before = counted(COUNTED, "workflow.submit", "created")
    submit = await ready(bot, here)
    created = await bot(here, "workflow.submit", submit)
    assert created["resultType"] == "task"
    assert created.keys() - MEMBERS == {"resultType", "_meta"}
    assert (created["status"], created["pollIntervalMs"]) == ("working", 1000)
    assert created["ttlMs"] == Settings().steps.retention_days * 86_400_000
    found = await bot.task(there, "get", created["taskId"])
    assert found["status"] == "working"
    assert found["statusMessage"] == "the transition 'go' is being carried out"
    assert found["createdAt"] == created["createdAt"]
    slow.open()
    done = await bot.done(there, created["taskId"])
    assert done["status"] == "completed"
    assert done["result"]["isError"] is False
    assert done["result"]["structuredContent"]["context"] == {"n": 1}
    assert done["result"]["structuredContent"]["terminal"]
    assert counted(COUNTED, "workflow.submit", "created") == before + 1
    # Another process after all of them were restarted, and what the call itself says without tasks.
    later = await bot.task(site.process(), "get", created["taskId"])
    assert later["result"] == done["result"]
    same = await bot.able({})(here, "workflow.get", {"workflowId": submit["workflowId"]})
    assert same["structuredContent"] == done["result"]["structuredContent"]


async def test_a_failure_of_the_call_is_its_result(site: Site, slow: Slow) -> None:
    bot = site.client("bot", "gateway", can=TASKS)
    app = site.process()
    created = await bot(app, "workflow.submit", await ready(bot, app, "fail"))
    slow.open()
    done = await bot.done(app, created["taskId"])
    assert (done["status"], done["result"]["isError"]) == ("completed", True)
    assert done["result"]["structuredContent"]["error"]["code"] == "EXECUTOR_FAILED"


async def test_a_repeated_call_becomes_a_task_of_the_same_operation(site: Site, slow: Slow) -> None:
    bot = site.client("bot", "gateway", can=TASKS)
    here, there = site.process(), site.process()
    submit = {**await ready(bot, here), "requestId": "once"}
    tasks = [(await bot(app, "workflow.submit", submit))["taskId"] for app in (here, there)]
    slow.open()
    done = [await bot.done(here, one) for one in tasks]
    assert done[0]["result"] == done[1]["result"]
    assert slow.runs.read_text() == "x\n"


async def test_quick_calls_and_clients_without_tasks_get_results(site: Site) -> None:
    bot = site.client("bot", "gateway", can=TASKS)
    app = site.process()
    result = await bot(app, "workflow.submit", await ready(bot, app, "quick"))
    assert (result["resultType"], result["structuredContent"]["terminal"]) == ("complete", True)


async def test_cancelling_a_task_stops_its_transition(site: Site, slow: Slow) -> None:
    bot = site.client("bot", "gateway", can=TASKS)
    here, there = site.process(), site.process()
    submit = await ready(bot, here)
    created = await bot(here, "workflow.submit", submit)
    assert await bot.task(there, "cancel", created["taskId"]) == {}
    assert (await bot.task(here, "get", created["taskId"]))["status"] == "cancelled"
    assert await bot.task(there, "cancel", created["taskId"]) == {}
    # The instance is where it was, and can go on; that is no longer the task's.
    found = (await bot(here, "workflow.get", {"workflowId": submit["workflowId"]}))["structuredContent"]
    assert (found["state"], found["version"], found["lastFailure"]["transition"]) == ("ready", 1, "go")
    again = await bot(here, "workflow.submit", submit)
    assert await bot.task(here, "cancel", created["taskId"]) == {}
    slow.open()
    assert (await bot.done(here, again["taskId"]))["status"] == "completed"
    assert (await bot.task(here, "get", created["taskId"]))["status"] == "cancelled"


async def test_cancelling_the_task_of_a_start_leaves_the_instance_alone(site: Site, slow: Slow) -> None:
    bot = site.client("bot", "gateway", can=TASKS)
    app = site.process()
    created = await bot(app, "workflow.start", {"definitionId": "entered", "input": {}})
    assert await bot.task(app, "cancel", created["taskId"]) == {}
    assert (await bot.task(app, "get", created["taskId"]))["status"] == "working"
    slow.open()
    done = await bot.done(app, created["taskId"])
    assert done["result"]["structuredContent"]["state"] == "ready"


async def test_a_gate_at_the_end_is_asked_in_the_task(site: Site, slow: Slow) -> None:
    ana = site.client("ana", "gateway", "human", can=BOTH)
    app, other = site.process(), site.process()
    created = [await ana(app, "workflow.submit", await ready(ana, app, definition="approved")) for _ in range(3)]
    slow.open()
    ids = [one["taskId"] for one in created]
    tasks = [await ana.done(app, one) for one in ids]
    assert [one["status"] for one in tasks] == ["input_required"] * 3
    (request,) = tasks[0]["inputRequests"].values()
    assert request["params"]["requestedSchema"]["required"] == ["decision"]
    # Without forms, the gate is in the result.
    plain = await ana.able(TASKS).task(app, "get", ids[0])
    assert plain["status"] == "completed"
    assert plain["result"]["structuredContent"]["pendingHuman"][0]["queue"] == "ops"

    given = accepting(tasks[0], decision="approve")
    assert await ana.task(other, "update", ids[0], inputResponses={"unknown": {"action": "accept"}}) == {}
    both = (ana.task(process, "update", ids[0], **given) for process in (app, other))
    assert await asyncio.gather(*both) == [{}, {}]
    done = await ana.task(app, "get", ids[0])
    assert (done["status"], done["result"]["structuredContent"].get("terminal")) == ("completed", True)
    assert await ana.task(other, "update", ids[0], **given) == {}

    assert await ana.task(other, "update", ids[1], **refusing(tasks[1])) == {}
    done = await ana.task(app, "get", ids[1])
    assert done["status"] == "completed"
    assert done["result"]["structuredContent"]["pendingHuman"]

    (key,) = tasks[2]["inputRequests"]
    wrong = {key: {"action": "accept", "content": {"decision": "no such"}}}
    params = {"taskId": ids[2], "inputResponses": wrong}
    status, body = await ana.request(app, "tasks/update", params, mcp_name=ids[2])
    assert (status, body["error"]["code"]) == (400, -32602)


async def test_a_task_is_its_callers(site: Site, slow: Slow, project: str) -> None:
    bot, other = site.client("bot", "gateway", can=TASKS), site.client("other", "gateway", can=TASKS)
    app = site.process()
    created = await bot(app, "workflow.submit", await ready(bot, app))
    made = created["taskId"]
    elsewhere = bot._replace(path=bot.path.replace(project, "elsewhere"))
    toolset = bot._replace(path=bot.path.replace("gateway", "gateway,sessions"))
    for method in ("get", "update", "cancel"):
        params: Json = {"taskId": made, **({"inputResponses": {}} if method == "update" else {})}

        async def refusal(
            client: Client, method: str = method, params: Json = params, **headers: Any
        ) -> tuple[int, int]:
            name = {"mcp_name": params["taskId"], **headers}
            status, body = await client.request(app, f"tasks/{method}", params, **name)
            return status, body["error"]["code"]

        assert await refusal(other) == (400, -32602)
        assert await refusal(elsewhere) == (400, -32602)
        for wrong in (made[:-1], made + "A", "v1.", "", "x" * 300):
            changed = {**params, "taskId": wrong}
            assert await refusal(bot, params=changed) == (400, -32602), wrong
        assert await refusal(bot, mcp_name="another") == (400, -32020)
        assert await refusal(bot, mcp_name=None) == (400, -32020)
        undeclared: list[Json] = [{}, FORM, {"extensions": {}}]
        for can in undeclared:
            assert await refusal(bot.able(can)) == (400, -32021)
    assert (await toolset.task(app, "get", made))["status"] == "working"


async def test_a_task_is_that_of_its_credential(site: Site) -> None:
    """Another token of the same id does not have it; one that replaces the credential does."""
    bot, namesake = site.client("bot", "gateway", can=TASKS), site.client("bot", "gateway", can=TASKS)
    app = site.process()
    made = (await bot(app, "workflow.submit", await ready(bot, app)))["taskId"]
    newer = bot._replace(token=site.tokens.replace(bot.token))

    async def found() -> list[bool]:
        app = site.process()
        asked = [await one.request(app, "tasks/get", {"taskId": made}, mcp_name=made) for one in (bot, newer, namesake)]
        return [status == 200 for status, _ in asked]

    assert await found() == [True, True, False]
    site.tokens.revoke(bot.token)
    assert await found() == [False, True, False]


async def test_a_task_has_no_more_rights_than_its_caller_had_and_has(site: Site) -> None:
    """Whether a gate is asked about in it depends on the roles of both moments."""
    plain, lead = site.client("ana", "flows", can=BOTH), site.client("ana", "flows", "lead", can=BOTH)
    other, app = site.client("lo", "flows", "other"), site.process()
    flow = {
        "start": {"name": "look", "tool": None, "next": "ship", "approver_role": "other"},
        "ship": {"name": "ship", "tool": None, "done": True, "approver_role": "lead"},
    }
    made = (await plain(app, "workflow_create", {"name": "release", "flow": flow}))["structuredContent"]
    wait = {"id": made["id"], "waitFor": "attention", "waitMs": 50_000}
    begun = [(one, (await one(app, "workflow_get", wait))["taskId"]) for one in (plain, lead)]
    (gate,) = (await other(app, "workflow_get", {"id": made["id"]}))["structuredContent"]["steps"]
    await other(app, "workflow_step_ready", {"step_id": gate["id"]})

    async def shown() -> list[str]:
        app = site.process()
        return [(await client.task(app, "get", task))["status"] for client, task in begun]

    await lead.done(app, begun[1][1])
    assert await shown() == ["working", "input_required"]
    text = site.tokens.path.read_text()
    site.tokens.write(
        text.replace("kind: user\n    permissions: ['*']", "kind: user\n    roles: [lead]\n    permissions: ['*']")
    )
    assert site.tokens.path.read_text() != text
    fresh = await plain(site.process(), "workflow_get", wait)
    assert fresh["resultType"] == "input_required"
    assert await shown() == ["working", "input_required"]
    site.tokens.write(text.replace("[lead]", "[cook]"))
    assert await shown() == ["working", "working"]


async def test_tasks_are_announced_where_they_work(site: Site) -> None:
    bot = site.client("bot", "gateway", can=TASKS)
    app = site.process()
    _, body = await bot.request(app, "server/discover", {})
    assert "io.modelcontextprotocol/tasks" in body["result"]["capabilities"]["extensions"]
    _, body = await bot._replace(path=bot.path.replace("gateway", "navigator")).request(app, "server/discover", {})
    assert not body["result"]["capabilities"].get("extensions")
    # Older revisions have other tasks, and get none of these.
    hello = {"protocolVersion": "2025-11-25", "capabilities": TASKS, "clientInfo": {"name": "c", "version": "1"}}
    for method, params in (("initialize", hello), ("tasks/get", {"taskId": "x"})):
        head, sent = legacy(method, params)
        answer = (await send(app, "POST", bot.path, [*head, ("authorization", f"Bearer {bot.token}")], sent)).json
        assert "extensions" not in answer.get("result", {}).get("capabilities", {})
        assert method == "initialize" or answer["error"]["code"] == -32601


async def tree(client: Client, app: Any) -> tuple[str, list[str]]:
    """A root and two items below it."""
    made = await client(app, "manage_items", {"operation": "create", "items": [{"title": "root"}]})
    root = made["structuredContent"]["items"][0]["id"]
    below = {"operation": "create", "parentId": root, "items": [{"title": "a"}, {"title": "b"}]}
    made = await client(app, "manage_items", below)
    return root, [item["id"] for item in made["structuredContent"]["items"]]


async def complete(client: Client, app: Any, *items: str) -> None:
    moves = [{"itemId": item, "trigger": "complete"} for item in items]
    await client(app, "advance_item", {"transitions": moves})


async def test_a_wait_for_a_tree_becomes_a_task(site: Site) -> None:
    bot = site.client("bot", "items", can=TASKS)
    here, there = site.process(), site.process()
    root, items = await tree(bot, here)
    wait = {"itemId": root, "waitFor": "tree_terminal", "waitMs": 50_000}
    created = await bot(here, "get_context", wait)
    assert (created["resultType"], created["status"]) == ("task", "working")
    assert created["statusMessage"] == "waits for tree_terminal"
    await complete(bot, here, items[0])
    assert (await bot.task(there, "get", created["taskId"]))["status"] == "working"
    assert await bot.task(there, "cancel", created["taskId"]) == {}
    await complete(bot, there, items[1])
    done = await bot.task(there, "get", created["taskId"])
    assert done["status"] == "completed"
    waited = done["result"]["structuredContent"]["waited"]
    assert waited["met"]
    assert waited["counts"]["terminal"] == 2
    again = await bot(here, "get_context", wait)
    assert again["resultType"] == "complete"
    assert again["structuredContent"].keys() == done["result"]["structuredContent"].keys()


async def test_a_wait_for_a_change_begins_with_its_call(site: Site) -> None:
    bot = site.client("bot", "items", can=TASKS)
    app = site.process()
    _, items = await tree(bot, app)
    created = await bot(app, "get_context", {"itemId": items[0], "waitFor": "changed", "waitMs": 50_000})
    assert (await bot.task(app, "get", created["taskId"]))["status"] == "working"
    await complete(bot, app, items[0])
    done = await bot.task(site.process(), "get", created["taskId"])
    assert (done["status"], done["result"]["structuredContent"]["item"]["role"]) == ("completed", "terminal")


async def test_a_wait_ends_unmet_in_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = site.client("bot", "items", can=TASKS)
    app = site.process()
    root, _ = await tree(bot, app)
    short = await bot(app, "get_context", {"itemId": root, "waitFor": "tree_terminal", "waitMs": 60})
    longest = await bot(app, "get_context", {"itemId": root, "waitFor": "tree_terminal", "waitMs": 50_000})
    done = await bot.done(app, short["taskId"])
    assert (done["status"], done["result"]["structuredContent"]["waited"]["met"]) == ("completed", False)
    assert done["result"]["structuredContent"]["waited"]["ms"] >= 60
    assert (await bot.task(app, "get", longest["taskId"]))["status"] == "working"
    monkeypatch.setattr(deferral, "DAY_MS", 0)
    assert (await bot.task(app, "get", longest["taskId"]))["status"] == "completed"


async def test_the_task_of_a_deleted_item_has_its_refusal(site: Site) -> None:
    bot = site.client("bot", "items", can=TASKS)
    app = site.process()
    _, items = await tree(bot, app)
    created = await bot(app, "get_context", {"itemId": items[0], "waitFor": "terminal", "waitMs": 50_000})
    await bot(app, "manage_items", {"operation": "delete", "ids": [items[0]]})
    done = await bot.task(app, "get", created["taskId"])
    assert (done["status"], done["result"]["isError"]) == ("completed", True)
    assert done["result"]["structuredContent"]["error"]["code"] == "RESOURCE_NOT_FOUND"


async def test_only_clients_with_tasks_may_ask_to_be_told_of_them(site: Site) -> None:
    bot = site.client("bot", "items", can={})
    app = site.process()
    params = {"notifications": {"taskIds": ["x"]}}
    status, body = await bot.request(app, "subscriptions/listen", params)
    assert (status, body["error"]["code"]) == (400, -32021)
    assert body["error"]["data"]["requiredCapabilities"] == TASKS


async def test_a_wait_for_a_workflow_is_asked_about_its_gate(site: Site) -> None:
    ana, lead = site.client("ana", "flows", can=BOTH), site.client("lo", "flows", "lead")
    app, other = site.process(), site.process()
    flow = {
        "start": {"name": "look", "tool": None, "next": "ship", "approver_role": "lead"},
        "ship": {"name": "ship", "tool": None, "done": True},
    }
    made = (await ana(app, "workflow_create", {"name": "release", "flow": flow}))["structuredContent"]
    flow_id = made["id"]
    created = await ana(app, "workflow_get", {"id": flow_id, "waitFor": "attention", "waitMs": 50_000})
    assert created["statusMessage"] == "waits for attention"
    (gate,) = (await lead(app, "workflow_get", {"id": flow_id}))["structuredContent"]["steps"]
    await lead(app, "workflow_step_ready", {"step_id": gate["id"]})
    asked = await ana.done(other, created["taskId"])
    assert asked["status"] == "input_required"
    assert await ana.task(app, "update", created["taskId"], **accepting(asked, release=True)) == {}
    done = await ana.done(other, created["taskId"])
    assert done["status"] == "completed"
    assert done["result"]["structuredContent"]["waited"]["met"]
    assert done["result"]["structuredContent"]["steps"][1]["via"] == "client"


def claim(**more: Any) -> Json:
    """A claim of any item that waits."""
    selector = {"selector": {"tags": "wanted"}}
    return {"requestId": str(uuid.uuid4()), "claims": [selector], "waitMs": 60_000, **more}


async def offer(client: Client, app: Any, title: str = "x") -> str:
    """An item that such claims find."""
    made = await client(app, "manage_items", {"operation": "create", "items": [{"title": title, "tags": "wanted"}]})
    item: str = made["structuredContent"]["items"][0]["id"]
    return item


async def held(client: Client, app: Any, item: str) -> bool:
    found = await client(app, "get_context", {"itemId": item})
    return "claimDetail" in found["structuredContent"]


async def test_claims_wait_in_order_as_tasks_of_no_process(site: Site) -> None:
    boss, one, two = (site.client(name, "items", can=TASKS) for name in ("boss", "one", "two"))
    here, there = site.process(), site.process()
    first = await one(here, "claim_item", claim())
    second = await two(there, "claim_item", claim())
    assert (first["status"], first["statusMessage"]) == ("working", "waits for an item")
    item = await offer(boss, here)
    assert await held(boss, here, item)
    assert (await two.task(here, "get", second["taskId"]))["status"] == "working"
    done = await one.task(site.process(), "get", first["taskId"])
    assert done["status"] == "completed"
    (won,) = done["result"]["structuredContent"]["claimResults"]
    assert (won["outcome"], won["itemId"], won["claimedBy"]) == ("success", item, "one")
    assert (await one.task(there, "get", first["taskId"]))["result"] == done["result"]
    other = await offer(boss, there)
    done = await two.task(here, "get", second["taskId"])
    assert done["result"]["structuredContent"]["claimResults"][0]["itemId"] == other
    # The client of a task that has ended may come back much later: no item is taken for it then.
    assert await one.task(here, "cancel", first["taskId"]) == {}
    assert await held(boss, here, item)


async def test_an_item_that_comes_at_once_is_the_answer_of_the_call(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deferral, "GRACE_SECONDS", 30.0)
    boss, one = (site.client(name, "items", can=TASKS) for name in ("boss", "one"))
    app = site.process()
    asking = asyncio.create_task(one(app, "claim_item", claim()))
    await wait_until(lambda: counted(AGENTS_WAITING) == 1, what="the parked claim")
    item = await offer(boss, app)
    (won,) = (await asking)["structuredContent"]["claimResults"]
    assert won["itemId"] == item


@pytest.mark.parametrize("end", ["silent", "cancelled"])
async def test_a_claim_that_nobody_asks_about_gets_nothing(
    site: Site, store: Store, project: str, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(deferral, "POLL_MS", 1 if end == "silent" else 60_000)
    monkeypatch.setattr(waiting, "ALIVE_MS", 500)
    boss, one = (site.client(name, "items", can=TASKS) for name in ("boss", "one"))
    app = site.process()
    created = await one(app, "claim_item", claim())
    if end == "cancelled":
        assert await one.task(app, "cancel", created["taskId"]) == {}
    else:

        async def forgotten() -> bool:
            return not await store.command("KEYS", keys.alive.key(project, "*"))

        await wait_until(forgotten, what="the end of the task's life")
    item = await offer(boss, app)
    assert not await held(boss, app, item)
    done = await one.task(app, "get", created["taskId"])
    (lost,) = done["result"]["structuredContent"]["claimResults"]
    assert (done["status"], lost["outcome"]) == ("completed", "no_match")
    assert not await held(boss, app, item)


async def test_a_task_that_cannot_be_read_now_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    bot = site.client("bot", "items", can=TASKS)
    app = site.process()
    root, items = await tree(bot, app)
    created = await bot(app, "get_context", {"itemId": root, "waitFor": "tree_terminal", "waitMs": 50_000})
    await complete(bot, app, *items)

    async def down(*_: Any, **__: Any) -> Any:
        raise ToolFailure("store_unavailable", "the store does not answer", retry_after_ms=1)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "run", down)
        patched.setattr(Store, "command", down)
        found = await bot.task(app, "get", created["taskId"])
        assert (found["status"], found["pollIntervalMs"]) == ("working", 5000)
        params = {"taskId": created["taskId"]}
        _, body = await bot.request(app, "tasks/cancel", params, mcp_name=created["taskId"])
        assert "result" in body, "nothing is to be stopped"
    assert (await bot.task(app, "get", created["taskId"]))["status"] == "completed"
