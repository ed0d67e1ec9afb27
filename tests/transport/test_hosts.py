"""Replays the requests of current hosts and clients: recorded tool calls and mutations of them take the fast path.

``hosts`` has the recordings; its README says how they were made. Each answer is compared with that of a front without
a fast path.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coordinator.identity.verifiers.noop import trust_self_reported
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.registry import load_toolsets
from coordinator.toolsets.tool import Services
from coordinator.transport import FrontEnd
from coordinator.transport.http.parts import Parts
from tests.support.fleets import once
from tests.transport.fuzz import meaning
from tests.transport.live import serving
from tests.transport.rig import Response, make_app, open_to_all, send
from tests.transport.wire import Client

RECORDINGS = {
    path.stem: json.loads(path.read_bytes())["requests"]
    for path in sorted((Path(__file__).parent / "hosts").glob("*.json"))
}
MUTATIONS = 8
"""Mutations of each recorded call."""
CLIENT = "io.modelcontextprotocol/clientInfo"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"

Headers = list[tuple[str, str]]


def is_call(request: dict[str, Any]) -> bool:
    return request.get("body", {}).get("method") == "tools/call"


CALLS = [(host, request) for host, requests in RECORDINGS.items() for request in requests if is_call(request)]


class Fronts(NamedTuple):
    """Two fronts over one store."""

    fast: FrontEnd
    slow: FrontEnd
    project: str

    async def answers(self, method: str, path: str, headers: Headers, body: bytes) -> list[Response]:
        """The answers of both, which must be equivalent."""
        path = path.replace("/mcp", f"/p/{self.project}/mcp", 1) if path == "/mcp" else path
        both = [await send(front, method, path, headers, body) for front in (self.fast, self.slow)]
        assert meaning(both[0]) == meaning(both[1])
        return both


@pytest.fixture
async def fronts(store: Store, project: str) -> AsyncIterator[Fronts]:
    settings = Settings()
    toolsets = load_toolsets(Services(settings, store, trust_self_reported))
    made = [
        FrontEnd(Parts(settings, store, toolsets, authenticator=open_to_all(settings), fast=fast))
        for fast in (True, False)
    ]
    for front in made:
        # The slow path admits a host name first. Hosts do not start with calls.
        assert (await send(front, "GET", "/healthz", [("host", "127.0.0.1:8420")])).status == 200
    yield Fronts(made[0], made[1], project)
    for front in made:
        await front.stop()


def bytes_of(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) >= 20
    assert {host for host, _ in CALLS} == set(RECORDINGS)


@pytest.mark.anyio
@pytest.mark.parametrize("host", RECORDINGS)
async def test_every_recorded_call_takes_the_fast_path(fronts: Fronts, host: str) -> None:
    for request in RECORDINGS[host]:
        body = bytes_of(request["body"]) if "body" in request else b""
        before = fronts.fast.fast_path.hits
        fast, _ = await fronts.answers(request["method"], request["path"], list(request["headers"].items()), body)
        if is_call(request):
            assert fast.status == 200
            assert fast.json["result"]["isError"] is False
            assert fronts.fast.fast_path.hits == before + 1, fronts.fast.fast_path.misses
        elif request["method"] == "POST":
            assert fast.status in (200, 202)


class Mutator:
    """Mutates a recorded request into others that the host could send."""

    def __init__(self, seed: str) -> None:
        self._pick = random.Random(seed)

    def mutated(self, request: dict[str, Any]) -> tuple[Headers, bytes]:
        """Headers and body of another request."""
        body = json.loads(json.dumps(request["body"]))
        params = body["params"]
        body["id"] = self._pick.choice((self._pick.randrange(10**6), f"call-{self._pick.random()}", "é", 0))
        meta = params.get("_meta", {})
        meta.update(self._extra())
        for described in (CLIENT, CAPABILITIES):
            if described in meta and self._pick.random() < 0.3:
                meta[described].update(self._extra())
        if meta:
            params["_meta"] = meta
        headers = {**request["headers"], "Content-Length": "0"}
        self._change_forms(headers)
        given = [(name, value) for name, value in headers.items() if name.lower() != "content-length"]
        text = json.dumps(self._shuffled(body), ensure_ascii=self._pick.random() < 0.5)
        given.append(("content-length", str(len(text.encode()))))
        self._pick.shuffle(given)
        return given, text.encode()

    def _extra(self) -> dict[str, Any]:
        """Unknown keys."""
        pick = self._pick
        values: tuple[Any, ...] = (
            None, True, pick.random(), 10**20, "", "ü" * 30, [[], {}], {"a": {"b": [1, None]}}, "\U0001f600", -1.5e-7,
        )  # fmt: skip
        return {f"x-{pick.random()}/{n}": pick.choice(values) for n in range(pick.randrange(4))}

    def _change_forms(self, headers: dict[str, str]) -> None:
        json_type, stream = "application/json", "text/event-stream"
        accepts = (
            f"{json_type}, {stream}", f"{stream}, {json_type}", f"{json_type},{stream};q=0.9", json_type, "*/*",
            "Application/JSON, */*;q=0", f"{stream} ; q=1.0 , {json_type} ; q=0.001", None, "application/*, text/*",
        )  # fmt: skip
        types = (json_type, f"{json_type}; charset=utf-8", "APPLICATION/json;Charset=UTF-8")
        for name in list(headers):
            if name.lower() in ("accept", "content-type"):
                del headers[name]
        accept = self._pick.choice(accepts)
        if accept is not None:
            headers["accept"] = accept
        headers["content-type"] = self._pick.choice(types)

    def _shuffled(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        keys = self._pick.sample(list(value), len(value))
        return {key: self._shuffled(value[key]) for key in keys}


@pytest.mark.anyio
async def test_mutated_calls_take_the_fast_path_too(fronts: Fronts) -> None:
    fast = fronts.fast.fast_path
    made = 0
    for host, request in CALLS:
        mutator = Mutator(host)
        for _ in range(MUTATIONS):
            headers, body = mutator.mutated(request)
            answer, _ = await fronts.answers("POST", request["path"], headers, body)
            assert answer.status == 200
            assert answer.json["result"]["isError"] is False
            made += 1
    assert fast.hits >= 0.99 * made, fast.misses


@pytest.mark.anyio
async def test_keys_specific_to_a_call_are_not_cached(fronts: Fronts) -> None:
    fast = fronts.fast.fast_path
    request = next(request for host, request in CALLS if host == "python-mcp-2")
    headers = list(request["headers"].items())
    await fronts.answers("POST", request["path"], headers, bytes_of(request["body"]))
    remembered = set(fast.remembered["metas"])
    assert len(remembered) == 1
    for number in range(300):
        meta = {**request["body"]["params"]["_meta"], "example.com/call": number}
        body = {**request["body"], "params": {**request["body"]["params"], "_meta": meta}}
        await fronts.answers("POST", request["path"], headers, bytes_of(body))
    assert fast.remembered["metas"] == remembered
    assert fast.hits == 301


def test_heads_of_hosts_are_cached() -> None:
    with serving(make_app) as live:
        known: Any = live.protocol.known  # type: ignore[attr-defined]
        assert once(live.port, "/healthz")[0] == 200
        sent = set()
        for _, request in CALLS:
            body = {**request["body"], "params": {**request["body"]["params"], "name": "nothing", "arguments": {}}}
            text = bytes_of(body)
            replaced = {"host": f"127.0.0.1:{live.port}", "mcp-name": "nothing", "content-length": str(len(text))}
            lines = [f"{name}: {replaced.get(name.lower(), value)}" for name, value in request["headers"].items()]
            head = "\r\n".join([f"POST {request['path']} HTTP/1.1", *lines, "", ""]).encode()
            with Client(live.port) as client:
                for _ in range(2):
                    client.send(head + text)
                    status, _, answer = client.answer()
                    assert (status, json.loads(answer)["id"]) == (200, body["id"])
            sent.add(head)
        assert live.app.fast_path.hits == 2 * len(CALLS), live.app.fast_path.misses
        assert set(known) == sent
