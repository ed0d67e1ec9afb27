"""Unwritten projects, and those that are not on the list: the same on both paths."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
import pytest
import redis

from coordinator.definitions import toon
from coordinator.identity.callers.bearers import Defaults, of_entry, of_outcome
from coordinator.identity.callers.token_file import TokenEntry
from coordinator.identity.verifier import Outcome
from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.caller import Caller
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services
from coordinator.transport import FrontEnd
from coordinator.transport.calls import HINT
from coordinator.transport.http.parts import Parts
from coordinator.transport.projects import Projects
from tests.support import leaks
from tests.support.contracts import toolsets
from tests.transport.guarded import ADD, Front, ask
from tests.transport.rig import call, legacy, make_app, modern, open_to_all, send

pytestmark = pytest.mark.anyio

READS = [
    pytest.param(name, tool.name, toolset.examples[tool.name][0], id=f"{name}-{tool.name}")
    for name, toolset in toolsets().items()
    for tool in toolset.tools
    if tool.read_only
]
ITEM = {"operation": "create", "items": [{"title": "Write"}], "requestId": "5d0f4b0e-93a5-4a36-8b3e-2f8f2a2f9f11"}


class Fronts:
    """Two front-ends over one store, one of them without the fast path."""

    def __init__(self, store: Store) -> None:
        settings = Settings()
        served = load_toolsets(Services(settings, store, trust_self_reported))
        self.all = [
            FrontEnd(
                Parts(
                    settings,
                    store,
                    served,
                    authenticator=open_to_all(settings),
                    fast=fast,
                    hints=Projects(store),
                )
            )
            for fast in (True, False)
        ]

    async def call(self, path: str, tool: str, arguments: Any, era: Any = modern) -> list[dict[str, Any]]:
        """The results of both."""
        request = era("tools/call", call(tool, arguments))
        return [(await send(front, "POST", path, *request)).json["result"] for front in self.all]


@pytest.fixture
async def fronts(store: Store) -> AsyncIterator[Fronts]:
    fronts = Fronts(store)
    for front in fronts.all:
        await send(front, "GET", "/healthz", [("host", "127.0.0.1:8420")])
    yield fronts
    for front in fronts.all:
        await front.stop()


@pytest.fixture
def neighbour(project: str, onlooker: redis.Redis) -> Iterator[str]:
    """A project with items and a name similar to that of the test's project."""
    name = f"{project}x"
    yield name
    leaks.delete_keys(onlooker, name)
    for family in ("ip", "kp"):
        onlooker.zrem(f"fc:{{!fleet}}:{family}", name)


def hint_in(result: dict[str, Any]) -> str | None:
    """The hint of a result, whose text is one document: a member of the object, or else in ``_meta``."""
    (block,), structured = result["content"], result.get("structuredContent")
    beside = result.get("_meta", {}).get(HINT)
    if not isinstance(structured, dict) or "result" in structured:
        rows = structured["result"] if isinstance(structured, dict) else structured
        assert structured is None or msgspec.json.decode(block["text"]) == rows
        assert "hint: " not in block["text"]
        return beside
    assert beside is None
    said = structured.get("hint")
    if block["text"].startswith("{"):
        assert msgspec.json.decode(block["text"]) == structured
    else:  # the sentence of a failure
        assert block["text"] == structured["error"]["message"] + (f"\nhint: {said}" if said else "")
    return said


@pytest.mark.parametrize(("toolset", "tool", "arguments"), READS)
async def test_reads_of_an_unwritten_project_carry_a_hint(
    fronts: Fronts, project: str, toolset: str, tool: str, arguments: Any
) -> None:
    path = f"/p/{project}/mcp/{toolset}"
    for result in [one for era in (modern, legacy) for one in await fronts.call(path, tool, arguments, era)]:
        # The navigator stores nothing in a project.
        expected = "" if toolset == "navigator" else f"nobody has written to the project '{project}' yet"
        # The project of another test may happen to have a similar name.
        assert (hint_in(result) or "").partition("; did you mean ")[0] == expected


async def test_a_hinted_list_in_toon_is_one_document(fronts: Fronts, project: str) -> None:
    for result in await fronts.call(f"/p/{project}/mcp/sessions", "list_workflows", {}):
        assert hint_in(result)
        found = toon.read("".join(block["text"] for block in result["content"]))
        assert {"id", "title", "version", "tags"} == found.data[0].keys()
        assert not found.notes


FLOW = {
    "name": "one",
    "flow": {"start": {"name": "only", "tool": "get_next_item", "args": {}, "done": True}},
    "input": {},
    "actor": {"id": "agent-1", "kind": "orchestrator"},
}
WRITES = {
    "items": ("manage_items", ITEM),
    "flows": ("workflow_create", FLOW),
    "sessions": ("start_session", {"agent_id": "agent-1"}),
}


@pytest.mark.parametrize("toolset", WRITES)
async def test_a_write_by_another_process_ends_the_hints(fronts: Fronts, project: str, toolset: str) -> None:
    path = f"/p/{project}/mcp"
    assert all(map(hint_in, await fronts.call(path, "get_next_item", {})))
    one = fronts.all[0]
    written = await send(one, "POST", f"{path}/{toolset}", *modern("tools/call", call(*WRITES[toolset])))
    assert written.json["result"]["isError"] is False, written.json
    assert not any(map(hint_in, await fronts.call(path, "get_next_item", {})))


async def test_reads_of_a_written_project_need_no_further_call(
    fronts: Fronts, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/p/{project}/mcp"
    asked: list[tuple[Any, ...]] = []
    command = Store.command

    def noted(store: Store, *parts: Any, **more: Any) -> Any:
        asked.append(parts)
        return command(store, *parts, **more)

    monkeypatch.setattr(Store, "command", noted)
    await fronts.call(path, "manage_items", ITEM)
    await fronts.call(path, "get_next_item", {})
    assert [parts[0] for parts in asked].count("EXISTS") == len(fronts.all)
    asked.clear()
    await fronts.call(path, "get_next_item", {})
    assert asked == []


async def test_other_failures_and_writes_carry_no_hint(fronts: Fronts, project: str) -> None:
    path = f"/p/{project}/mcp"
    for tool, arguments in (("get_next_item", {"limit": 21}), ("advance_item", {"transitions": []})):
        assert not any(map(hint_in, await fronts.call(path, tool, arguments)))


async def test_a_similar_name_is_suggested_to_authorized_callers(
    fronts: Fronts, store: Store, project: str, neighbour: str
) -> None:
    await fronts.call(f"/p/{neighbour}/mcp", "manage_items", ITEM)
    plain = f"nobody has written to the project '{project}' yet"
    meant = f"{plain}; did you mean '{neighbour}'?"
    for sees, expected in ((None, meant), ({neighbour}, meant), ({"other", project}, plain), ((), plain)):
        caller = Caller("a", sees=None if sees is None else frozenset(sees))
        assert await Projects(store).hint(project, caller) == expected
    assert await Projects(store).hint(project, None) == meant


async def test_a_project_with_sessions_alone_is_suggested_by_other_processes(
    fronts: Fronts, store: Store, project: str, neighbour: str
) -> None:
    path = f"/p/{neighbour}/mcp/sessions"
    started = await send(fronts.all[0], "POST", path, *modern("tools/call", call(*WRITES["sessions"])))
    assert started.json["result"]["isError"] is False, started.json
    await fronts.call(path, "list_workflows", {})
    expected = f"nobody has written to the project '{project}' yet; did you mean '{neighbour}'?"
    assert await Projects(store).hint(project, None) == expected


async def test_a_project_that_is_gone_is_not_suggested(
    fronts: Fronts, store: Store, project: str, neighbour: str, onlooker: redis.Redis
) -> None:
    await fronts.call(f"/p/{neighbour}/mcp", "manage_items", ITEM)
    leaks.delete_keys(onlooker, neighbour)
    assert neighbour not in (await Projects(store).hint(project, None) or "")


def test_tokens_limit_the_suggestions() -> None:
    entry = TokenEntry(id="a", sha256="0" * 64)
    assert of_entry(entry, frozenset()).caller.sees is None
    assert of_entry(msgspec.structs.replace(entry, projects=("alpha",)), frozenset()).caller.sees == frozenset(
        ("alpha",)
    )
    server, endpoint = "https://fleet.example", "https://fleet.example/p/alpha/mcp"
    for audience, projects, sees in (
        (server, ["*"], None),
        (server, ["alpha"], {"alpha"}),
        ([endpoint, server], ["*"], None),
        (endpoint, ["*"], set()),
    ):
        claims = {"sub": "a", "aud": audience, "projects": projects}
        outcome = Outcome(status="verified", verifier="jwks", subject="a", claims=claims)
        assert of_outcome(outcome, b"", server, Defaults(frozenset()), 1.0).caller.sees == sees


LISTED = {"projects": ("alpha", "beta")}


async def refusals(path: str, tool: dict[str, Any], token: str | None = None, front: Front | None = None) -> str:
    """The refusal of a call, the same on both paths, and again once both have cached the request path."""
    found = set()
    for fast in (True, False):
        app = front.make(fast=fast) if front is not None else make_app(with_settings=LISTED, fast=fast)
        for era in (modern, legacy):
            answer = await ask(app, token, era("tools/call", tool), path)
            assert answer.status == 404
            found.add(answer.json["error"]["message"])
        await app.stop()
    (message,) = found
    return message


async def test_with_a_list_of_projects_there_are_no_others() -> None:
    known = "; there are: alpha, beta"
    assert await refusals("/p/gamma/mcp", ADD) == f"there is no project 'gamma'{known}"
    assert await refusals("/mcp", ADD) == f"there is no project 'default'{known}"
    assert await refusals("/p/alhpa/mcp/rig", ADD) == "there is no project 'alhpa'; did you mean 'alpha'?"
    for fast in (True, False):
        app = make_app(with_settings=LISTED, fast=fast)
        assert (await ask(app, None, modern("tools/call", ADD), "/p/alpha/mcp")).status == 200
        assert (await ask(app, None, modern("tools/call", ADD), "/p/Alpha/mcp")).status == 400
        await app.stop()


async def test_a_refusal_names_the_projects_of_the_callers_token(make_front: Callable[..., Front]) -> None:
    front = make_front()
    front.settings = msgspec.structs.replace(front.settings, projects=("alpha", "alphabet", "beta"))
    assert await refusals("/p/gamma/mcp", ADD, front.all, front) == (
        "there is no project 'gamma'; there are: alpha, alphabet, beta"
    )
    assert await refusals("/p/alphabets/mcp", ADD, front.alpha, front) == (
        "there is no project 'alphabets'; did you mean 'alpha'?"
    )
    app = front.make()
    assert (await ask(app, None, modern("tools/call", ADD), "/p/gamma/mcp")).status == 401
    assert b"alpha" not in (await ask(app, None, modern("tools/call", ADD), "/p/gamma/mcp")).body
    assert (await ask(app, front.alpha, modern("tools/call", ADD), "/p/beta/mcp")).status == 403
    await app.stop()


async def test_a_reloaded_list_applies_to_cached_paths(app: FrontEnd) -> None:
    path, request = "/p/gamma/mcp", modern("tools/call", ADD)
    for _ in range(2):
        assert (await ask(app, None, request, path)).status == 200
    assert app.fast_path.hits
    for listed, status in ((("alpha",), 404), (("alpha", "gamma"), 200), (("alpha",), 404), ((), 200)):
        app.configure(Settings(toolsets=("rig",), projects=listed))
        assert (await ask(app, None, request, path)).status == status


async def test_hints_name_no_project_that_is_not_on_the_list(
    fronts: Fronts, store: Store, project: str, neighbour: str
) -> None:
    await fronts.call(f"/p/{neighbour}/mcp", "manage_items", ITEM)
    plain = f"nobody has written to the project '{project}' yet"
    projects = Projects(store, (project, "other"))
    assert await projects.hint(project, None) == plain
    projects.configure(Settings(projects=(project, neighbour)))
    assert await projects.hint(project, None) == f"{plain}; did you mean '{neighbour}'?"
