"""The registry of step tools, without workers: lookup, calls, results and failures."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from coordinator.identity.callers.token_file import digest_of
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.service import ServiceGroup
from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.settings.sections.connections import Connection
from coordinator.settings.sections.flows import Flows
from coordinator.settings.sections.gateway.model import Gateway
from coordinator.settings.sections.identity import ActorAuthentication
from coordinator.steps.model import Failure, Outcome, StepRun, Success
from coordinator.steps.names import DEMO_TOOLS, StepNames, installed
from coordinator.steps.run_kind import CallFailed
from coordinator.store import Store
from coordinator.toolsets.caller import Caller, OfEntry
from coordinator.toolsets.flows.contract.create import Created, WorkflowCreate
from coordinator.toolsets.flows.rules.spec import unpack
from coordinator.toolsets.flows.run_kind import ToolCall
from coordinator.toolsets.flows.store.flows import FlowStore
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Call, Services
from tests.authentication.support import Authenticators, Tokens
from tests.flows.client import ONE_GATE
from tests.support.downstream import HttpServer, stdio
from tests.support.ports import free_port
from tests.support.wait import wait_until
from workers.children.isolated_child import TOO_DEEP
from workers.run_kinds import make_run_kinds, step_tools
from workers.tools.registry import StepTools
from workers.tools.results import value_of

pytestmark = pytest.mark.anyio

CALLABLES = """
import asyncio

def add(left, right=1):
    "Adds two numbers."
    return left + right

async def wait(ms):
    "Waits."
    await asyncio.sleep(ms / 1000)
    return {"waited": ms}

async def key(idempotency_key):
    return idempotency_key

async def break_down():
    raise ValueError("paper jam")

async def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value

number = 5
"""


class Isolated:
    """A fake of child processes that records its calls."""

    async def call(self, target: str, arguments: Mapping[str, Any], idempotency_key: str) -> Any:
        if arguments.get("left") == "x":
            raise CallFailed("TypeError: no", "TypeError")
        if arguments.get("left") == "y":
            raise CallFailed("args: no such argument: y; allowed: left, right", "VALIDATION_ERROR")
        return [target, dict(arguments), idempotency_key]


class Registry:
    """The registry, and one step that calls it."""

    def __init__(self, tools: StepTools, project: str) -> None:
        self.tools = tools
        self.project = project

    def step(self, number: str = "11", attempt: int = 1) -> StepRun:
        return StepRun(self.project, "flows", "10", number, attempt, "start", "", "", "", "", 0, 0, 0, 0, "")

    async def __call__(
        self, tool: str, args: dict[str, Any] | None = None, caller: Caller | None = None, **more: Any
    ) -> Outcome:
        return await self.tools.execute(self.step(**more), ToolCall(tool, args or {}, caller=caller))

    async def value(self, tool: str, args: dict[str, Any] | None = None, **more: Any) -> Any:
        outcome = await self(tool, args, **more)
        assert isinstance(outcome, Success), outcome
        return outcome.value

    async def failure(self, tool: str, args: dict[str, Any] | None = None, **more: Any) -> Failure:
        outcome = await self(tool, args, **more)
        assert isinstance(outcome, Failure), outcome
        return outcome


@pytest.fixture
def callables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"callables_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(CALLABLES)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.fixture
async def registry(
    store: Store, project: str, callables: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Registry]:
    monkeypatch.setenv("SECRET_OF_IT", "s3cret")
    names = {
        "add": "add", "wait": "wait", "key": "key", "break": "break_down", "deep": "deep", "five": "number",
        "gone": "nothing",
    }  # fmt: skip
    tools = {name: f"{callables}:{function}" for name, function in names.items()}
    settings = Settings(
        flows=Flows(demo_tools=True, tools={**tools, "missing": "no_such_module:f"}),
        connections={
            "it": stdio(env={"SECRET": "${SECRET_OF_IT}"}),
            "dead": Connection(kind="mcp", url=f"http://127.0.0.1:{free_port()}/mcp"),
            "git": Connection(kind="cli", command="git"),
        },
    )
    made = step_tools(settings, store, Isolated())
    await made.start()
    yield Registry(made, project)
    await made.stop()


async def test_the_coordinator_s_own_tools(registry: Registry) -> None:
    created = await registry.value("manage_items", {"operation": "create", "items": [{"title": "from a step"}]})
    assert created["created"] == 1
    found = await registry.value("items.query_items", {"operation": "search", "limit": "5", "offset": None})
    assert [item["title"] for item in found["items"]] == ["from a step"]
    failure = await registry.failure("query_items", {"operation": "nothing"})
    assert failure.type == "VALIDATION_ERROR"
    assert not failure.retryable
    failure = await registry.failure("manage_items", {"operation": "create", "itmes": []})
    assert failure.message.startswith("itmes: no such field; allowed here: operation, items,")
    failure = await registry.failure("query_items", {"operation": "get", "id": str(uuid.uuid4())})
    assert failure.type == "RESOURCE_NOT_FOUND"
    failure = await registry.failure("workflow.get", {"workflowId": "wf_000000000000"})
    assert failure.type == "WORKFLOW_NOT_FOUND"
    assert failure.message == "There is no workflow 'wf_000000000000' in this project."
    assert isinstance(await registry.value("workflow_list"), list)


async def test_a_retried_attempt_has_no_second_effect(registry: Registry) -> None:
    actor = {"id": "agent", "kind": "subagent"}
    args = {"operation": "create", "items": [{"title": "once"}], "actor": actor}
    first = await registry.value("manage_items", args)
    assert await registry.value("manage_items", args, attempt=2) == first
    assert await registry.value("manage_items", args, number="12") != first
    found = await registry.value("query_items", {"operation": "search"})
    assert len(found["items"]) == 2


async def test_an_identified_creator_acts_as_itself(registry: Registry) -> None:
    caller = Caller("ana", "user", permissions=frozenset({"items"}))
    item = (await registry.value("manage_items", {"operation": "create", "items": [{"title": "x"}]}))["items"][0]["id"]
    claimed = await registry.value("claim_item", {"claims": [{"itemId": item}]}, caller=caller)
    assert claimed["claimResults"][0]["claimedBy"] == "ana"
    other = {"claims": [{"itemId": item}], "actor": {"id": "bob", "kind": "user"}}
    failure = await registry.failure("claim_item", other, caller=caller, number="12")
    assert failure.type == "actor_mismatch"


async def test_tools_of_servers(registry: Registry) -> None:
    assert await registry.value("it.add", {"left": 1, "right": 2}) == 3
    assert await registry.value("it.greet", {"name": "World"}) == "Hello, World!"
    expected = "10-11" if registry.project == "default" else f"{registry.project}-10-11"
    assert await registry.value("it.key") == expected
    failure = await registry.failure("it.shout", {"text": "ha"})
    assert "too loud: ha" in failure.message
    assert (failure.type, failure.retryable) == ("tool_error", True)
    assert (await registry.failure("it.shout", {"text": "no s3cret"})).message.endswith("too loud: no ***")
    failure = await registry.failure("dead.anything")
    assert failure.type == "connection_error"
    assert failure.retryable
    assert "Unknown tool" in (await registry.failure("it.nothing")).message
    for name in ("git.status", "nowhere.x", "it."):
        assert (await registry.failure(name)).type == "unknown_tool"
    assert "unknown tool 'nowhere.x'; there are: " in (await registry.failure("nowhere.x")).message
    assert "did you mean 'get_greeting'" in (await registry.failure("get_greetings")).message


async def test_python_callables(registry: Registry, callables: str) -> None:
    key = registry.step().idempotency_key
    assert await registry.value("add", {"left": 1}) == [f"{callables}:add", {"left": 1}, key]
    assert await registry.value("wait", {"ms": 1}) == {"waited": 1}
    assert await registry.value("key") == key
    failure = await registry.failure("wait", {"seconds": 1})
    assert (failure.type, failure.retryable) == ("VALIDATION_ERROR", False)
    assert failure.message == "args: no such argument: seconds; allowed: ms"
    failure = await registry.failure("add", {"left": "y"})
    assert (failure.message, failure.retryable) == ("args: no such argument: y; allowed: left, right", False)
    failure = await registry.failure("break")
    assert (failure.message, failure.type, failure.retryable) == ("paper jam", "ValueError", True)
    assert (await registry.failure("add", {"left": "x"})).type == "TypeError"
    failure = await registry.failure("deep", {"levels": 100_000})
    assert (failure.message, failure.type) == (TOO_DEEP, "invalid_result")
    for name, reason in (("five", "it is not callable"), ("gone", "nothing"), ("missing", "no_such_module")):
        failure = await registry.failure(name)
        assert reason in failure.message
        assert not failure.retryable


async def test_callables_that_exit_fail_only_their_steps(
    store: Store, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"ends_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(
        "import sys\n"
        "async def end(): sys.exit(3)\n"
        "async def interrupt(): raise KeyboardInterrupt\n"
        "class Own(BaseException): pass\n"
        "async def own(): raise Own('enough')\n"
    )
    (tmp_path / f"{name}_at_once.py").write_text("import sys\nsys.exit('no licence')\n")
    (tmp_path / f"{name}_interrupted.py").write_text("raise KeyboardInterrupt\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    tools = {tool: f"{name}:{tool}" for tool in ("end", "interrupt", "own")}
    broken = {"at_once": f"{name}_at_once:f", "interrupted": f"{name}_interrupted:f"}
    made = step_tools(Settings(flows=Flows(tools=tools | broken)), store, Isolated())
    await made.start()
    registry = Registry(made, project)
    assert await registry.failure("end") == Failure("3", "SystemExit")
    assert await registry.failure("interrupt") == Failure("KeyboardInterrupt", "KeyboardInterrupt")
    assert await registry.failure("own") == Failure("enough", "Own")
    for tool, reason in (("at_once", "SystemExit: no licence"), ("interrupted", "KeyboardInterrupt")):
        failure = await registry.failure(tool)
        assert reason in failure.message
        assert not failure.retryable
    await made.stop()


async def test_a_coroutine_is_cancelled(registry: Registry) -> None:
    waiting = asyncio.create_task(registry("wait", {"ms": 60_000}))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_demo_tools(registry: Registry) -> None:
    assert await registry.value("get_greeting", {"name": "World"}) == "Hello, World!"
    assert [await registry.value("get_counter", number=number) for number in ("11", "12", "13")] == [1, 2, 3]
    assert await registry.value("get_counter", number="12", attempt=2) == 2, "its first answer may have been lost"
    assert await registry.value("get_counter", number="14") == 4
    assert await registry.value("is_admin") is False
    admin = Caller("root", "user", permissions=frozenset({"workflow.admin"}))
    assert await registry.value("is_admin", caller=admin) is True
    assert await registry.value("echo", {"value": [1, None]}) == [1, None]
    assert await registry.value("echo", {"a": 1, "value": 2}) == {"a": 1, "value": 2}
    assert await registry.value("sleep", {"ms": 0}) is None
    assert (await registry.failure("fail", {"message": "no paper"})).message == "no paper"
    assert (await registry.failure("fail", {"until_attempt": 2})).retryable
    assert await registry.value("fail", {"until_attempt": 2}, attempt=2) == "ok"
    failure = await registry.failure("get_greeting", {"nmae": "x"})
    assert (failure.type, failure.retryable) == ("VALIDATION_ERROR", False)
    assert failure.message == "nmae: no such field; allowed here: name"


async def test_knowledge_is_kept(registry: Registry) -> None:
    texts = {"21": ("Workflow Design", "Steps and joins"), "22": ("Deployment Runbook", "Steps for deploying")}
    for number, (title, content) in texts.items():
        for attempt in (1, 2):
            args = {"title": title, "content": content}
            added = await registry.value("knowledge_add", args, number=number, attempt=attempt)
            assert added["title"] == title
    listed = await registry.value("knowledge_list")
    assert [(one["title"], one["scope"]) for one in listed] == [
        ("Workflow Design", "general"), ("Deployment Runbook", "general"),
    ]  # fmt: skip
    assert await registry.value("knowledge_list", {"scope": "other"}) == []
    assert await registry.value("knowledge_search", {"query": "workflow steps"}) == [
        {"title": "Workflow Design", "score": 0.5}, {"title": "Deployment Runbook", "score": 0.17},
    ]  # fmt: skip
    assert await registry.value("knowledge_search", {"query": "nothing"}) == []
    assert await registry.value("knowledge_search_text", {"query": "FOR deploy"}) == [
        {"title": "Deployment Runbook", "content": "Steps for deploying"}
    ]


async def test_all_sources_are_listed_while_one_is_dead(registry: Registry) -> None:
    listings = {one.source: one for one in await registry.tools.list()}
    assert list(listings) == ["coordinator", "python", "demo", "it", "dead"]
    names = {source: [tool.name for tool in one.tools] for source, one in listings.items()}
    assert {"claim_item", "workflow_create"} <= set(names["coordinator"])
    assert names["python"][:3] == ["add", "wait", "key"]
    assert names["demo"] == list(DEMO_TOOLS)
    assert names["it"][:2] == ["it.add", "it.greet"]
    assert names["dead"] == []
    assert "it cannot be connected to (connection refused)" in listings["dead"].problem
    assert [source for source, one in listings.items() if one.problem] == ["dead"]
    assert all(tool.description for tool in listings["it"].tools)
    assert all(registry.tools.find(tool.name) for one in listings.values() for tool in one.tools)


async def test_names_are_checked_as_they_are_resolved(registry: Registry) -> None:
    settings = Settings(flows=Flows(demo_tools=True, tools={"add": "a:b"}), connections={"it": stdio()})
    names = StepNames(settings)
    names.declare({"items": ["claim_item"], "sessions": ["get_skill"], "navigator": ["get_skill"]})
    for name in ("claim_item", "items.claim_item", "sessions.get_skill", *DEMO_TOOLS, "add", "it.add"):
        assert names.problem(name) == ""
        assert registry.tools.find(name) is not None
    assert "say sessions.get_skill or navigator.get_skill" in names.problem("get_skill")
    assert registry.tools.find("get_skill") is None


def test_names_follow_reloaded_connections() -> None:
    guarded = Gateway(version="1.0.0", connections={"guarded": stdio()})
    names = StepNames(Settings(connections={"it": stdio()}, gateway=guarded))
    names.declare({"items": ["claim_item"]})
    assert names.problem("it.add") == ""
    assert names.problem("guarded.add") == (
        "unknown tool 'guarded.add': 'guarded' is a connection of the gateway, whose guards protect it; steps can call "
        "tools of connections at the top of the settings"
    )
    names.configure(Settings(connections={"guarded": stdio(), "api": Connection(kind="cli", command="ls")}))
    assert names.problem("guarded.add") == ""
    assert names.problem("it.add").startswith("unknown tool 'it.add'")
    assert "is of kind cli" in names.problem("api.add")
    assert names.problem("claim_item") == ""


def test_installed_packages_provide_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    info = tmp_path / "extra-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fleet.step_tools]\nsummarize = extra.texts:summarize\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert str(tmp_path) in sys.path
    installed.cache_clear()
    try:
        assert StepNames(Settings()).problem("summarize") == ""
        assert installed()["summarize"] == "extra.texts:summarize"
    finally:
        monkeypatch.undo()
        installed.cache_clear()


@pytest.mark.parametrize(
    ("permissions", "allowed"),
    [
        (("*",), {"query_items", "claim_item", "it.add", "echo"}),
        (("items",), {"query_items", "claim_item"}),
        (("items.read",), {"query_items"}),
        (("*.read",), {"query_items"}),
        (("claim_item", "echo"), {"claim_item", "echo"}),
        (("it",), {"it.add"}),
        (("it.add",), {"it.add"}),
        (("workflow",), set()),
        ((), set()),
    ],
)
async def test_which_permissions_suffice(registry: Registry, permissions: tuple[str, ...], allowed: set[str]) -> None:
    caller = Caller("ana", permissions=frozenset(permissions))
    found = {
        tool
        for tool in ("query_items", "claim_item", "it.add", "echo")
        if isinstance(await registry.tools.permits(registry.project, caller, tool), Caller)
    }
    assert found == allowed


async def test_rights_are_checked_again(store: Store, project: str, tmp_path: Path, monkeypatch: Any) -> None:
    ahead, store_time = 0, Store.time

    async def time(self: Store) -> int:
        return await store_time(self) + ahead

    monkeypatch.setattr(Store, "time", time)
    monkeypatch.setattr("workers.tools.rights.LOOK_SECONDS", 0.0)
    file = tmp_path / "tokens.yaml"
    digest = "0" * 64

    def write(*entries: str) -> None:
        file.with_suffix(".new").write_text("tokens: [" + ", ".join(entries) + "]")
        file.with_suffix(".new").chmod(0o600)
        file.with_suffix(".new").rename(file)

    write(f'{{id: ana, sha256: "{digest}", permissions: [echo], roles: [human, lead]}}')
    settings = Settings(flows=Flows(demo_tools=True), auth=Auth(tokens=str(file)))
    tools = step_tools(settings, store, Isolated())
    mine = OfEntry(digest[:12])
    ana = Caller("ana", roles=frozenset({"lead"}), permissions=frozenset({"echo", "items"}), credential=mine)
    now = Caller("ana", roles=frozenset({"lead"}), permissions=frozenset({"echo"}), credential=mine)
    assert await tools.permits(project, ana, "echo") == now
    write(f'{{id: ana, sha256: "{digest}", permissions: [items]}}')
    lacking = await tools.permits(project, ana, "echo")
    assert lacking == "permission denied: ana may not call echo now"
    write(f'{{id: ana, sha256: "{digest}", permissions: [echo], projects: [elsewhere]}}')
    assert await tools.permits(project, ana, "echo") == lacking
    now = msgspec.structs.replace(now, roles=frozenset())
    there = msgspec.structs.replace(now, sees=frozenset({"elsewhere"}))
    assert await tools.permits("elsewhere", ana, "echo") == there
    file.write_text("tokens: nonsense")
    assert await tools.permits("elsewhere", ana, "echo") == there
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    write(f'{{id: ana, sha256: "{digest}", permissions: [echo], expires: "{in_an_hour.isoformat()}"}}')
    assert await tools.permits(project, ana, "echo") == now

    ahead = 3_600_000  # by the store's clock, not this machine's
    assert await tools.permits(project, ana, "echo") == lacking
    write()
    assert await tools.permits("elsewhere", ana, "echo") == lacking
    bob = Caller("bob", permissions=frozenset({"echo"}))
    assert await tools.permits(project, bob, "echo") is bob
    await tools.stop()


async def test_a_second_token_of_an_id_adds_nothing_to_what_the_first_has_begun(
    store: Store, project: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("workers.tools.rights.LOOK_SECONDS", 0.0)
    tokens = Tokens(tmp_path / "tokens.yaml")
    weaker = tokens.add("ana", permissions=("workflow", "items.read"))
    stronger = tokens.add("ana", permissions=("*",))
    settings = Settings(auth=Auth(tokens=str(tokens.path)))
    tools, authenticators = step_tools(settings, store, Isolated()), Authenticators()
    authenticator = authenticators.make(settings)
    flows = load_toolsets(Services(settings, store, trust_self_reported))["flows"]
    create = next(tool for tool in flows.tools if tool.name == "workflow_create")

    async def created(token: str) -> Caller:
        """The creator as a workflow has it that was created with a token."""
        grant = await authenticator.authenticate(f"Bearer {token}".encode())
        assert grant is not None
        new = await create.handler(Call(project, caller=grant.caller), WorkflowCreate(name="n", flow=ONE_GATE))
        record = await FlowStore(store, settings).get(project, cast(Created, new).id)
        assert record is not None
        for secret in (token, digest_of(token.encode()).hex()):
            assert secret.encode() not in record.spec
        creator = unpack(record.spec).creator
        assert creator is not None
        return creator

    async def may(began: Caller, tool: str = "query_items") -> bool:
        return isinstance(await tools.permits(project, began, tool), Caller)

    by_weaker, by_stronger = await created(weaker), await created(stronger)
    assert (await may(by_weaker), await may(by_weaker, "claim_item")) == (True, False)
    assert await may(by_stronger, "claim_item")
    tokens.revoke(stronger)
    assert (await may(by_weaker), await may(by_stronger)) == (True, False)
    newer = tokens.replace(weaker)
    tokens.revoke(weaker)
    assert (await may(by_weaker), await may(by_weaker, "claim_item")) == (True, False)
    tokens.replace(newer)
    tokens.revoke(newer)
    assert await may(by_weaker)
    tokens.revoke("ana")
    tokens.add("ana", permissions=("*",))
    assert not await may(by_weaker)
    await tools.stop()
    await authenticators.close()


async def test_workers_reload_the_token_file(store: Store, project: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens.yaml"
    entries = ", ".join(f'{{id: {name}, sha256: "{digit * 64}"}}' for name, digit in (("ana", "0"), ("bob", "1")))
    file.write_text(f"tokens: [{entries}]")
    file.chmod(0o600)
    kinds = make_run_kinds(Settings(), store, Isolated())
    tools = cast(StepTools, kinds["flows"].executor)
    registry, ana = Registry(tools, project), Caller("ana", permissions=frozenset({"*"}), credential=OfEntry("0" * 12))
    claim = {"releases": [{"itemId": str(uuid.uuid4())}], "actor": {"id": "agent", "kind": "subagent"}}
    services = ServiceGroup(*(kind.executor for kind in kinds.values()))
    await services.start()
    try:
        assert (await registry.value("claim_item", claim))["summary"]["releasesFailed"] == 1
        # Without a file there are no callers.
        assert isinstance(await registry.tools.permits(project, ana, "query_items"), str)
        strict = ActorAuthentication(degraded_mode_policy="reject", enabled=True)
        tools.configure(Settings(actor_authentication=strict, auth=Auth(tokens=str(file))))
        assert (await registry.failure("claim_item", claim, number="12")).type == "rejected_by_policy"
        unsigned = {"transitions": [{"itemId": str(uuid.uuid4()), "trigger": "start"}]}
        assert (await registry.failure("advance_item", unsigned)).type == "VALIDATION_ERROR"
        assert isinstance(await registry.tools.permits(project, ana, "query_items"), Caller)
        tools.configure(Settings(auth=Auth(tokens=str(file), default_permissions=("flows",))))
        assert (await registry.value("claim_item", claim, number="13"))["summary"]["releasesFailed"] == 1
        assert isinstance(await registry.tools.permits(project, ana, "query_items"), str)
        tools.configure(Settings())
        assert isinstance(await registry.tools.permits(project, ana, "workflow_list"), str)
    finally:
        await services.stop()


async def test_a_server_over_http_is_called(store: Store, project: str, tmp_path: Path) -> None:
    http = HttpServer(tmp_path)
    http.start()
    try:
        made = step_tools(Settings(connections={"web": http.connection}), store, Isolated())
        registry = Registry(made, project)
        assert await registry.value("web.add", {"left": 1, "right": 2}) == 3
        path = str(tmp_path / "file")
        waiting = asyncio.create_task(registry("web.wait_for", {"path": path}))
        await wait_until(Path(path + ".begun").exists)
        waiting.cancel()
        await wait_until(Path(path + ".cancelled").exists)
        await made.stop()
    finally:
        http.kill()


@pytest.mark.parametrize(
    ("structured", "texts", "value"),
    [
        ({"result": [1]}, ["[1]"], [1]),
        ({"result": 1, "more": 2}, [], {"result": 1, "more": 2}),
        ({"a": 1}, ["x"], {"a": 1}),
        ({}, [], {}),
        (None, ["true"], True),
        (None, ['{"a": 1}'], {"a": 1}),
        (None, ["Hello, World!"], "Hello, World!"),
        (None, [""], ""),
        (None, [], None),
        (None, ["a", "b"], [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
    ],
)
def test_the_result_of_a_tool(structured: Any, texts: list[str], value: Any) -> None:
    assert value_of(structured, texts) == value
