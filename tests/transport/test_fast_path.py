"""What the fast path takes, declines and caches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.transport import FrontEnd
from tests.transport import fuzz
from tests.transport.everything import everything_app
from tests.transport.rig import Response, Rig, call, legacy, make_app, meta, modern, send

pytestmark = pytest.mark.anyio

ADD = call("add", {"left": 2, "right": 3})


async def taken(app: FrontEnd, headers: Any, body: Any, path: str = "/mcp") -> bool:
    """Whether the fast path answers, after a first request of the client."""
    assert (await send(app, "POST", path, headers, body)).status == 200
    before = app.fast_path.counts["hit"]
    assert (await send(app, "POST", path, headers, body)).status == 200
    return app.fast_path.counts["hit"] > before


@pytest.mark.parametrize(
    "more",
    [
        [],
        [("connection", "keep-alive")],
        [("user-agent", "x"), ("accept-encoding", "gzip"), ("accept-language", "*"), ("sec-fetch-mode", "cors")],
        [("origin", "http://127.0.0.1:8420")],
        [("x-request-id", "abc")],
        [("traceparent", "00-1-2-01")],
        [("mcp-session-id", "s")],
        [("authorization", "Bearer token")],
    ],
)
async def test_requests_of_common_clients_take_the_fast_path(app: FrontEnd, more: list[tuple[str, str]]) -> None:
    for headers, body in (modern("tools/call", ADD), legacy("tools/call", ADD)):
        assert await taken(app, [*headers, *more], body)


@pytest.mark.parametrize(
    "params",
    [
        {**ADD, "_meta": meta(progressToken=1)},
        {**ADD, "_meta": meta(progressToken="p")},
        {**ADD, "_meta": meta(**{"io.modelcontextprotocol/logLevel": "info"})},
        {**ADD, "_meta": meta(traceparent="00-1-2-01", tracestate="a=b", baggage="c=d")},
        {**ADD, "_meta": {**meta(), "com.example/turn": {"id": 1, "tags": ["a"]}, "é": "é"}},
        call("nothing"),
        call("nothing", {}),
        call("echo", {"text": "x", "parts": [{"name": str(n)} for n in range(20)]}),
        call("tree", {"name": "a", "children": [{"name": "b", "data": {"x": [1, 2]}}] * 40}),
        call("fail", {"code": "conflict"}),
        call("broken"),
    ],
)
async def test_every_valid_call_takes_the_fast_path(app: FrontEnd, params: dict[str, Any], logged: list[Any]) -> None:
    assert await taken(app, *modern("tools/call", params))
    older = {name: value for name, value in params.items() if name != "_meta"}
    assert await taken(app, *legacy("tools/call", {**older, "_meta": {"progressToken": 4}}))


@pytest.mark.parametrize(
    "headers_and_body",
    [
        modern("tools/list"),
        modern("server/discover"),
        legacy("tools/list", {}),
        legacy("ping"),
        modern("tools/call", call("add", {"left": "2"})),
        modern("tools/call", call("echo", {"text": "x", "parts": '[{"name": "a"}]'})),
        modern("tools/call", call("add", {})),
        modern("tools/call", call("add")),
        legacy("tools/call", call("add")),
        modern("tools/call", {**ADD, "inputResponses": {}}),
        legacy("tools/call", {**ADD, "task": {"ttl": 1}}),
        legacy("tools/call", ADD, mcp_protocol_version="2024-11-05"),
        modern("tools/call", ADD, mcp_name="=?base64?YWRk?="),
        modern("tools/call", ADD, mcp_name="add "),
    ],
)
async def test_unusual_requests_are_left_to_the_sdk(app: FrontEnd, headers_and_body: Any) -> None:
    assert not await taken(app, *headers_and_body)


async def test_arguments_mirrored_in_headers_are_left_to_the_sdk() -> None:
    app = everything_app()
    headers, body = modern("tools/call", call("test_custom_header", {"region": "eu"}), mcp_param_region="eu")
    assert not await taken(app, headers, body)
    for wrong in ("us", None):
        headers, body = modern("tools/call", call("test_custom_header", {"region": "eu"}), mcp_param_region=wrong)
        for _ in range(2):
            response = await send(app, "POST", "/mcp", headers, body)
            assert (response.status, response.json["error"]["code"]) == (400, -32020)
    await app.stop()


@pytest.mark.parametrize("make", [modern, legacy])
async def test_calls_that_wait_are_left_to_the_sdk(app: FrontEnd, rig: Rig, make: Any) -> None:
    for gate in ("g", "open"):
        rig.gates[gate] = asyncio.Event()
        rig.gates[gate].set()
    assert not await taken(app, *make("tools/call", call("watch", {"gate": "g"})))
    assert await taken(app, *make("tools/call", call("watch", {"gate": "open"})))


async def test_it_can_be_switched_off(rig: Rig) -> None:
    app = make_app(rig, fast=False)
    assert not await taken(app, *modern("tools/call", ADD))
    await app.stop()


async def test_its_caches_are_bounded(app: FrontEnd) -> None:
    fast = app.fast_path
    for number in range(600):
        headers, body = modern(
            "tools/call",
            {**ADD, "_meta": {**meta(), "io.modelcontextprotocol/clientInfo": {"name": f"c{number}", "version": "1"}}},
            accept=f"application/json, text/event-stream;v={number}",
            host=f"localhost:{number + 1}",
        )
        for _ in range(2):
            response = await send(app, "POST", f"/p/p{number}/mcp", [*headers, (f"x-{number}", "1")], body)
            assert response.status == 200
    assert fast.counts["hit"] == 600
    for few in map(len, fast.remembered.values()):
        assert 0 < few <= 256


@pytest.mark.parametrize("name", ["authorization", "cookie", "proxy-authorization", "x-request-id", "traceparent"])
async def test_heads_with_secret_or_varying_headers_are_not_cached(app: FrontEnd, name: str) -> None:
    headers, body = legacy("tools/call", ADD)
    assert await taken(app, [*headers, (name, "Bearer secret")], body)
    assert bool(app.fast_path.remembered["plans"]) == (name == "authorization")
    assert "secret" not in repr(app.fast_path.remembered)


async def test_long_client_descriptions_are_not_cached(app: FrontEnd) -> None:
    fast = app.fast_path
    long = {"name": "c", "version": "1", "title": "t" * 100_000}
    headers, body = modern("tools/call", {**ADD, "_meta": {**meta(), "io.modelcontextprotocol/clientInfo": long}})
    assert not await taken(app, headers, body)
    assert await taken(app, *modern("tools/call", ADD))
    assert fast.remembered["clients"]
    assert sum(map(len, (*fast.remembered["clients"], *fast.remembered["metas"]))) < 10_000


async def test_deep_client_descriptions_are_refused_as_on_the_slow_path(app: FrontEnd) -> None:
    assert await taken(app, *modern("tools/call", ADD))
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"x": deep}
    capabilities = {"io.modelcontextprotocol/clientCapabilities": {"experimental": deep}}
    response = await send(app, "POST", "/mcp", *modern("tools/call", {**ADD, "_meta": {**meta(), **capabilities}}))
    assert response.status == 400
    assert "nested deeper" in response.body.decode()


@pytest.mark.parametrize("cases", [1_000, pytest.param(3_000, marks=pytest.mark.chaos)])
async def test_both_paths_answer_alike(cases: int) -> None:
    report = await fuzz.run(cases, seed=20_260_728)
    assert report.differences == []
    assert report.hits >= 0.4 * report.cases, report
    # The run has covered every kind of answer and every reason to decline.
    assert {200, 202, 400, 403, 404, 405, 406, 413, 421, 431} <= set(report.statuses)
    assert {"envelope", "client", "meta", "header", "host", "repeated header", "version"} <= set(report.reasons)


def test_the_fuzz_detects_differences() -> None:
    one = Response(200, {"content-type": "application/json", "x-request-id": "a"}, b'{"a": 1, "b": [2]}')
    same = Response(200, {"content-type": "application/json; x=y", "x-request-id": "b"}, b'{"b":[2],"a":1}')
    assert fuzz.meaning(one) == fuzz.meaning(same)
    for other in (
        Response(400, one.headers, one.body),
        Response(200, {**one.headers, "content-type": "text/plain"}, one.body),
        Response(200, one.headers, b'{"a": 1, "b": [3]}'),
        Response(200, {**one.headers, "retry-after": "1"}, one.body),
        Response(200, {"content-type": "application/json"}, one.body),
    ):
        assert fuzz.meaning(one) != fuzz.meaning(other)
