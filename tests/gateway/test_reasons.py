"""What callers of the gateway are told when a connection does not work, and what its worker notes."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from coordinator.store import Store
from tests.gateway.conftest import MakeLab
from tests.gateway.lab import Json, Worker
from tests.gateway.web import Web
from tests.gateway.workflows import Working, api, capability
from tests.support.odd_http import Answer, OddHttp
from tests.support.ports import free_port

pytestmark = pytest.mark.anyio


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as web:
        yield web


async def test_refused_credentials_and_redirects_are_told(
    working: Working, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cret")
    lab = await working(
        connections=api(web, headers={"Authorization": "Bearer ${API_TOKEN}"}),
        capabilities={"get": capability({"kind": "rest", "connection": "api", "path": "/x"})},
    )
    headers = {"location": "https://elsewhere.example.org/y?z=1"}
    for status, body, told in (
        (401, b'{"message": "bad s3cret"}', "it refuses the header Authorization (from API_TOKEN); it says: bad ***"),
        (403, b"", "it refuses access with the header Authorization (from API_TOKEN)"),
        (302, b"", "it redirects to https://elsewhere.example.org, which is not followed"),
        (503, b"", "it is overloaded or down"),
    ):
        web.answers.append((status, headers, body))
        refused = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "get", "x": 1})
        assert refused["error"]["message"].endswith(f"the server answered with status {status}: {told}")


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (Answer(429, b"", {"retry-after": "7"}), "rate_limited", "it limits the rate of calls (wait 7 s)"),
        (Answer(401), "connection_error", "it wants credentials, and the connection has no headers with credentials"),
        (Answer(500), "connection_error", "it failed"),
    ],
)
async def test_an_mcp_server_that_refuses_a_call_is_told(
    working: Working, answer: Answer, kind: str, told: str
) -> None:
    with OddHttp() as server:
        given: Json = msgspec.to_builtins(server.connection())
        lab = await working(
            connections={"down": given},
            capabilities={"any": capability({"kind": "mcp", "connection": "down", "tool": "any"})},
        )
        assert (await lab.call("any", x=1))["context"]["lastResult"]
        server.answer, server.calls_only = answer, True
        refused = (
            await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "any", "x": 1})
        )["error"]
        assert refused["details"]["errorClass"] == kind
        assert refused["message"].endswith(f"the connection 'down' answered with status {answer.status}: {told}")


async def test_outcomes_of_requests_and_commands_are_noted(
    store: Store, make_lab: MakeLab, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cret")
    monkeypatch.delenv("GIT_TOKEN", raising=False)
    stated = {
        **api(web, headers={"Authorization": "Bearer ${API_TOKEN}"}),
        "elsewhere": {"kind": "rest", "baseUrl": f"http://127.0.0.1:{free_port()}", "allowPrivate": True},
        "sh": {"kind": "cli", "command": "sh"},
        "gone": {"kind": "cli", "command": "/no/such/program"},
        "git": {"kind": "cli", "command": "git", "env": {"TOKEN": "${GIT_TOKEN}"}},
        "strict": {"kind": "rest", "baseUrl": web.url, "allowHosts": ["api.example.org"]},
        "unused": {"kind": "cli", "command": "ls"},
    }
    lab = make_lab(
        connections=stated,
        capabilities={
            **{f"{name}.get": capability({"kind": "rest", "connection": name, "path": "/x"})
               for name in ("api", "elsewhere", "strict")},
            **{f"{name}.run": capability({"kind": "cli", "connection": name, "args": ["-c", "exit 1"]})
               for name in ("sh", "gone", "git")},
        },
    )  # fmt: skip
    worker = await Worker(store, lab.settings).start()
    try:

        def noted() -> dict[str, tuple[str, str]]:
            return {one.name: (one.state, one.reason) for one in worker.kinds["gateway"].executor.connections()}

        async def refused(name: str, status: int = 0) -> tuple[str, str]:
            if status:
                web.answers.append((status, {}, b""))
            await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": name, "x": 1})
            return noted()[name.partition(".")[0]]

        assert set(noted().values()) == {("not tried", "")}
        refuses = "the header Authorization (from API_TOKEN)"
        assert await refused("api.get", 401) == (
            "failing",
            f"the server answered with status 401: it refuses {refuses}",
        )
        assert await refused("api.get", 404) == ("ok", ""), "the server works, and has no such thing"
        assert (await refused("api.get", 503))[0] == "failing"
        await lab.call("api.get", x=1)
        assert noted()["api"] == ("ok", "")
        told = "the server cannot be connected to (connection refused)"
        assert await refused("elsewhere.get") == ("failing", told)
        assert await refused("strict.get") == ("failing", "the host of baseUrl is not among allowHosts")
        assert await refused("sh.run") == ("ok", ""), "the program works, and failed at what it was told to do"
        assert await refused("gone.run") == ("failing", "the program '/no/such/program' is not there")
        assert await refused("git.run") == ("failing", "the environment variable GIT_TOKEN is not set")
        assert noted()["unused"] == ("not tried", "")
        unset = {one.name: one.unset for one in worker.kinds["gateway"].executor.connections() if one.unset}
        assert unset == {"git": ["GIT_TOKEN"]}
    finally:
        await worker.stop()
