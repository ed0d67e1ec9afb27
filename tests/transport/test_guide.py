"""Prompts and completion over HTTP, with real toolsets, in every revision."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.store import Store
from coordinator.toolsets.registry import described_toolsets
from coordinator.toolsets.tool import COMPLETIONS_MOST
from coordinator.transport.endpoints import Endpoint, Endpoints, Target
from tests.authentication.support import Authenticators, Tokens
from tests.feed.rig import Front, serving
from tests.items.client import Client as Items
from tests.support.fleets import ROOT, environment, fork_line
from tests.transport.guarded import RESOURCE, ask
from tests.transport.rig import modern

pytestmark = pytest.mark.anyio

MODES: list[Any] = ["legacy", "auto"]
ALL = "items,flows,navigator,gateway"


@pytest.fixture
async def front(store: Store) -> AsyncIterator[Front]:
    async with serving(store) as front:
        yield front


def url(front: Front, project: str, toolsets: str) -> str:
    return f"http://127.0.0.1:{front.port}/p/{project}/mcp/{toolsets}"


async def completed(client: Client, name: str, typed: str, prompt: str = "work") -> list[str]:
    answer = await client.complete(PromptReference(name=prompt), {"name": name, "value": typed})
    return answer.completion.values


def text_of(result: Any) -> str:
    (message,) = result.messages
    assert message.role == "user"
    return str(message.content.text)


@pytest.mark.parametrize("mode", MODES)
async def test_clients_list_and_get_prompts(front: Front, store: Store, project: str, mode: Any) -> None:
    item = await Items(store, project).add("one")
    async with Client(url(front, project, ALL), mode=mode) as client:
        assert client.server_capabilities.prompts is not None
        assert client.server_capabilities.completions is not None
        listed = (await client.list_prompts()).prompts
        assert [one.name for one in listed] == ["work", "orchestrate", "review", "procedure"]
        assert [one.name for one in listed[1].arguments or ()] == ["item", "flow"]
        assert all(one.title and one.description for one in listed)
        work = text_of(await client.get_prompt("work", {"item": item[:9].upper()}))
        assert f'"claims": [{{"itemId": "{item}", "ttlSeconds": 900}}]' in work
        assert "waitMs" not in work.split("```")[1]
        assert '"selector": {}' in text_of(await client.get_prompt("work", {"item": " "}))
        assert "nav_start" in text_of(await client.get_prompt("procedure", {"procedure": "change"}))


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_asked_for_wrongly_is_refused_with_what_there_is(front: Front, project: str, mode: Any) -> None:
    wrong: list[tuple[str, dict[str, str], str]] = [
        ("wrok", {}, "Unknown prompt: wrok; did you mean 'work'"),
        ("work", {"items": "1"}, "work takes no argument 'items'; it takes: item"),
        ("work", {"item": "12"}, "item: must be an item's UUID, or at least its first 4 digits"),
        ("work", {"item": "0123"}, "item: there is no item '0123'"),
        ("work", {"item": "01234567; drop all"}, "item: must be"),
        ("review", {"flow": "17641315941x3"}, "flow: must be the id of a workflow"),
        ("review", {"flow": "1764131594123"}, "flow: there is no '1764131594123', or none that you may use"),
        ("procedure", {}, "procedure: is required"),
        ("procedure", {"procedure": "chang"}, "procedure: there is no 'chang'; did you mean 'change'"),
    ]  # fmt: skip
    async with Client(url(front, project, ALL), mode=mode) as client:
        for name, arguments, message in wrong:
            with pytest.raises(MCPError, match=message.replace("(", r"\(")):
                await client.get_prompt(name, arguments)
        for template in ("fleet://{project}/things/{id}", "fleet://default/items/{id}", "x"):
            with pytest.raises(MCPError, match="Unknown template"):
                await client.complete(ResourceTemplateReference(uri=template), {"name": "id", "value": ""})
        ref = ResourceTemplateReference(uri="fleet://{project}/items/{id}")
        with pytest.raises(MCPError, match="Unknown variable: item; there are: project, id"):
            await client.complete(ref, {"name": "item", "value": ""})
        with pytest.raises(MCPError, match="takes no argument 'flow'"):
            await completed(client, "flow", "")
        with pytest.raises(MCPError, match="Invalid cursor"):
            await client.list_prompts(cursor="more")


async def test_an_endpoint_offers_what_is_for_its_toolsets(front: Front, project: str) -> None:
    expected = {
        "items": ["work", "orchestrate", "review"],
        "worker": ["work"],
        "flows": ["orchestrate", "review"],
        "gateway": ["review"],
        "sessions": ["procedure"],
        "navigator": ["procedure"],
    }
    for toolset, names in expected.items():
        async with Client(url(front, project, toolset)) as client:
            assert [one.name for one in (await client.list_prompts()).prompts] == names
            for name in names:
                arguments = {"procedure": "change"} if name == "procedure" else {}
                text = text_of(await client.get_prompt(name, arguments))
                assert ("advance_item" in text) == (toolset == "items")


@pytest.mark.parametrize("mode", MODES)
async def test_ids_of_items_are_completed(front: Front, store: Store, project: str, mode: Any) -> None:
    items = Items(store, project)
    ids = sorted(await items.add_many(40))
    async with Client(url(front, project, "items"), mode=mode) as client:
        assert sorted(await completed(client, "item", "")) == ids
        for digits in (1, 2, 3, 4, 8, 12, 36):
            typed = ids[7][:digits]
            found = await completed(client, "item", typed.upper())
            assert sorted(found) == [one for one in ids if one.startswith(typed)]
        assert await completed(client, "item", "not hex") == []
        assert await completed(client, "item", "0" * 40) == []
        ref = ResourceTemplateReference(uri="fleet://{project}/items/{id}/tree")
        answer = await client.complete(ref, {"name": "id", "value": ids[0][:20]}, {"project": project})
        assert (answer.completion.values, answer.completion.total) == ([ids[0]], 1)
        answer = await client.complete(ref, {"name": "id", "value": ids[0]}, {"project": "another"})
        assert answer.completion.values == []


async def test_a_completion_of_many_says_that_there_are_more(front: Front, store: Store, project: str) -> None:
    await Items(store, project).add_many(COMPLETIONS_MOST + 1)
    async with Client(url(front, project, "items")) as client:
        answer = await client.complete(PromptReference(name="work"), {"name": "item", "value": ""})
        assert len(answer.completion.values) == COMPLETIONS_MOST
        assert (answer.completion.has_more, answer.completion.total) == (True, None)


async def create_flows(client: Client, count: int) -> list[str]:
    flow = {"start": {"name": "approve", "tool": None, "done": True}}
    made = [await client.call_tool("workflow_create", {"name": "one", "flow": flow}) for _ in range(count)]
    return [str(one.structured_content["id"]) for one in made]


@pytest.mark.parametrize("mode", MODES)
async def test_ids_of_workflows_are_completed_newest_first(front: Front, project: str, mode: Any) -> None:
    async with Client(url(front, project, "flows"), mode=mode) as client:
        ids = await create_flows(client, 3)
        await client.call_tool("workflow_cancel", {"id": int(ids[1])})
        newest = sorted(ids, reverse=True)
        for typed in ("", ids[0][:1], ids[0][:6]):
            assert await completed(client, "flow", typed, "review") == newest
        assert await completed(client, "flow", ids[1], "review") == [ids[1]]
        for typed in ("9", "x", ids[0] + "0"):
            assert await completed(client, "flow", typed, "review") == []
        ref = ResourceTemplateReference(uri="fleet://{project}/flows/{id}")
        answer = await client.complete(ref, {"name": "id", "value": ids[2]})
        assert answer.completion.values == [ids[2]]
        assert f'{{"id": {ids[0]}, ' in text_of(await client.get_prompt("review", {"flow": ids[0]}))


async def test_names_of_procedures_and_projects_are_completed(front: Front, store: Store, project: str) -> None:
    await Items(store, project).add("one")
    async with Client(url(front, project, "navigator")) as client:
        listed = (await client.call_tool("list_workflows", {})).structured_content
        assert listed is not None
        found = await completed(client, "procedure", "", "procedure")
        assert found
        assert "change" in found
        assert await completed(client, "procedure", "chan", "procedure") == ["change"]
        assert await completed(client, "procedure", "Chan", "procedure") == []
        await client.call_tool("health_check", {})
    async with Client(url(front, project, "items")) as client:
        ref = ResourceTemplateReference(uri="fleet://{project}/items/{id}")
        answer = await client.complete(ref, {"name": "project", "value": project[:-1]})
        assert project in answer.completion.values
        answer = await client.complete(ref, {"name": "project", "value": project + "x"})
        assert answer.completion.values == []


async def test_a_completion_is_one_read(
    front: Front, store: Store, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = store.link()
    sent: list[bytes] = []
    submit = link.submit

    def counting(command: bytes) -> Any:
        sent.append(command)
        return submit(command)

    ref = ResourceTemplateReference(uri="fleet://{project}/items/{id}")
    async with Client(url(front, project, ALL)) as client:
        for name, prompt in (("item", "work"), ("flow", "review"), ("procedure", "procedure"), ("project", "")):

            async def ask(name: str = name, prompt: str = prompt) -> None:
                where = PromptReference(name=prompt) if prompt else ref
                await client.complete(where, {"name": name, "value": "1"})

            await ask()  # loads the function
            sent.clear()
            with monkeypatch.context() as patched:
                patched.setattr(link, "submit", counting)
                await ask()
            assert len(sent) == (name != "procedure"), name


@pytest.fixture
async def guarded(store: Store, tmp_path: Path) -> AsyncIterator[tuple[Front, Tokens]]:
    tokens = Tokens(tmp_path / "tokens.yaml")
    tokens.add("nobody", permissions=("*",))
    auth = Auth(tokens=str(tokens.path), mode="required", resource=RESOURCE)
    settings = Settings(auth=auth, request_deadline_ms=60_000)
    authenticators = Authenticators()
    authenticator = authenticators.make(settings)
    await authenticator.start()
    async with serving(store, settings, authenticator) as front:
        front.authenticator = authenticator  # type: ignore[attr-defined]
        yield front, tokens
    await authenticators.close()


async def test_callers_get_what_is_for_them(guarded: tuple[Front, Tokens], store: Store, project: str) -> None:
    front, tokens = guarded
    item = await Items(store, project).add("one")
    made = {
        "admin": tokens.add("admin", permissions=("*", "workflow.admin")),
        "reader": tokens.add("reader", permissions=("items.read",)),
        "flows": tokens.add("flows", permissions=("flows",), projects=(project, "beta")),
    }
    await front.authenticator.read(tokens.path)  # type: ignore[attr-defined]

    async def call(who: str, method: str, **params: Any) -> Any:
        path = f"/p/{project}/mcp/items,flows"
        answer = (await ask(front.app, made[who], modern(method, params), path)).json
        return answer.get("result") or answer["error"]

    async def values(who: str, name: str, ref: dict[str, str]) -> list[str]:
        answer = await call(who, "completion/complete", ref=ref, argument={"name": name, "value": ""})
        found: list[str] = answer["completion"]["values"]
        return found

    flow = {"start": {"name": "approve", "tool": None, "done": True}}
    flows = {}
    for who in ("admin", "flows"):
        given = {"name": "one", "flow": flow}
        answer = await call(who, "tools/call", name="workflow_create", arguments=given)
        flows[who] = str(answer["structuredContent"]["id"])

    # Prompts: for those who may do what they say.
    listed = await call("admin", "prompts/list")
    assert [one["name"] for one in listed["prompts"]] == ["work", "orchestrate", "review"]
    assert listed["cacheScope"] == "private"
    assert (await call("reader", "prompts/list"))["prompts"] == []
    assert "Unknown prompt: work" in (await call("reader", "prompts/get", name="work"))["message"]
    (named,) = [one for one in (await call("flows", "prompts/list"))["prompts"] if one["name"] == "review"]
    assert [one["name"] for one in named["arguments"]] == ["flow"]
    text = (await call("admin", "prompts/get", name="work"))["messages"][0]["content"]["text"]
    assert "leave `actor` out" in text
    assert '"actor"' not in text

    # Ids: of what they may read.
    by_item = {"type": "ref/resource", "uri": "fleet://{project}/items/{id}"}
    by_flow = {"type": "ref/resource", "uri": "fleet://{project}/flows/{id}"}
    assert await values("admin", "id", by_item) == await values("reader", "id", by_item) == [item]
    refused = await call("flows", "completion/complete", ref=by_item, argument={"name": "id", "value": ""})
    assert refused["message"].endswith("; there are: fleet://{project}/flows/{id}")
    assert await values("flows", "id", by_flow) == [flows["flows"]]
    assert await values("admin", "id", by_flow) == sorted(flows.values(), reverse=True)
    assert await values("flows", "project", by_flow) == [project, "beta"]


def endpoints() -> list[Endpoint]:
    toolsets = described_toolsets()
    served = Endpoints(toolsets, ("items",))
    found = []
    for size in range(1, len(toolsets) + 1):
        for names in itertools.combinations(toolsets, size):
            target = served.resolve("/mcp/" + ",".join(names))
            if isinstance(target, Target):
                found.append(target.endpoint)
    return found


def test_instructions_are_below_what_hosts_cut_off() -> None:
    sizes = {one.name: len(one.instructions.encode()) for one in endpoints()}
    assert {name: size for name, size in sizes.items() if size >= 2000} == {}


async def test_a_process_on_stdio_serves_them_too(redis_url: str, project: str) -> None:
    command, *arguments = fork_line("stdio", "--toolset", "items", "--project", project)
    env = environment(FLEET_REDIS_URL=redis_url)
    process = StdioServerParameters(command=command, args=arguments, env=env, cwd=str(ROOT))
    async with Client(stdio_client(process), read_timeout_seconds=60) as client:
        created = await client.call_tool("manage_items", {"operation": "create", "items": [{"title": "one"}]})
        assert created.structured_content is not None
        item = created.structured_content["items"][0]["id"]
        assert [one.name for one in (await client.list_prompts()).prompts] == ["work", "orchestrate", "review"]
        assert await completed(client, "item", item[:5]) == [item]
        assert item in text_of(await client.get_prompt("work", {"item": item[:8]}))
