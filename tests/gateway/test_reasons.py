"""What callers of the gateway are told when a connection does not work."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from tests.gateway.lab import Json
from tests.gateway.test_chains import Working
from tests.gateway.test_executors import api, capability
from tests.gateway.web import Web
from tests.support.odd_http import Answer, OddHttp

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
