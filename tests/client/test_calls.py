"""Calls: what is repeated and how, what an answer means, and who acts."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest

from coordinator.client import Denied, Fleet, FleetError, Invalid, NotFound, Observer, Refused, Unavailable, calls
from coordinator.client.errors import error_of
from coordinator.errors import CATALOGUE
from tests.client.scripted import Scripted, Step, answer, part, raw, refusal, silence
from tests.support.fleets import RunningFleet

pytestmark = pytest.mark.anyio
CREATE = {"operation": "create", "items": [{"title": "write"}]}


class Noted(Observer):
    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.tools: list[str] = []

    def answered(self, tool: str, seconds: float) -> None:
        self.tools.append(tool)

    def retried(self, failure: Any) -> None:
        self.reasons.append(failure.reason)


def test_every_code_of_the_catalogue_is_an_exception() -> None:
    for code, row in CATALOGUE.items():
        error = error_of(code, "because")
        assert (error.code, error.kind, error.advice) == (code, row.kind, row.advice)
        assert isinstance(error, Unavailable) == (row.kind != "permanent"), code
    assert isinstance(error_of("stale_version", "of the gateway"), Refused)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (part(), "connection"),
        (part("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{"), "connection"),
        (part("what is this\r\n\r\n"), "connection"),
        (raw("", "503 Service Unavailable", retry_after="0"), "busy"),
        (raw("<html>", "502 Bad Gateway"), "busy"),
        (raw("", "500 Internal Server Error"), "server error"),
        (raw('{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"oh"}}'), "server error"),
        (refusal("over_capacity", "shedding", 5), "over_capacity"),
        (refusal("conflict", "transient"), "conflict"),
    ],
)
async def test_what_may_succeed_later_is_repeated_with_its_request_id(
    scripted: Scripted, step: Step, reason: str
) -> None:
    scripted.steps = [step, step, answer({"created": 1})]
    noted = Noted()
    async with Fleet(scripted.url, agent="me", observer=noted) as opened:
        assert await opened.call("manage_items", CREATE) == {"created": 1}
    assert noted.reasons == [reason, reason]
    assert noted.tools == ["manage_items"]
    first, *others = scripted.calls
    assert first["arguments"]["actor"] == {"id": "me", "kind": "subagent"}
    assert first["arguments"]["requestId"]
    assert others == [first, first]


async def test_a_call_without_an_answer_is_repeated_on_another_connection(scripted: Scripted) -> None:
    scripted.steps = [silence, answer({"n": 1})]
    async with Fleet(scripted.url) as opened:
        assert await opened.call("query_items", seconds=0.1) == {"n": 1}
    assert scripted.connections == 2


async def test_the_time_that_a_refusal_names_is_waited_for(scripted: Scripted) -> None:
    scripted.steps = [refusal("draining", "shedding", 300), answer({})]
    began = time.monotonic()
    async with Fleet(scripted.url) as opened:
        await opened.call("query_items")
    assert time.monotonic() - began >= 0.3


async def test_retries_are_a_tenth_of_the_calls(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "RETRIES_PER_SECOND", 1e-9)
    noted = Noted()
    async with Fleet(scripted.url, observer=noted, patience=5.0) as opened:
        scripted.steps = [answer({})]
        for _ in range(100):
            await opened.call("query_items")
        scripted.steps = [refusal("queue_timeout", "shedding", 1)]
        failed = await asyncio.gather(*(opened.call("query_items") for _ in range(30)), return_exceptions=True)
    assert all(isinstance(one, Unavailable) for one in failed)
    # 10 in reserve, which the 100 calls before could not add to, and a tenth of the 30.
    assert len(scripted.calls) - 100 - 30 <= 13


@pytest.mark.parametrize(
    ("step", "kind", "said"),
    [
        (refusal("RESOURCE_NOT_FOUND", "permanent"), NotFound, "it is RESOURCE_NOT_FOUND"),
        (refusal("permission_denied", "permanent"), Denied, "it is"),
        (raw("", "401 Unauthorized"), Denied, "401"),
        (raw('{"error":{"code":-32600,"message":"not for it"}}', "403 Forbidden"), Denied, "not for it"),
        (raw('{"error":{"code":-32602,"message":"Unknown tool: x"}}'), Invalid, "Unknown tool"),
        (answer(None, failed=True), Invalid, "said"),
        (raw("<html>hello"), FleetError, "the URL of a fleet"),
        (raw("", "308 Permanent Redirect", location="https://x/mcp"), Invalid, "the fleet is at https://x/mcp"),
        (raw('{"jsonrpc":"2.0"}'), FleetError, "neither"),
    ],
)  # fmt: skip
async def test_what_is_refused_for_good_is_not_repeated(
    scripted: Scripted, step: Step, kind: type[FleetError], said: str
) -> None:
    scripted.steps = [step]
    async with Fleet(scripted.url) as opened:
        with pytest.raises(kind, match=said):
            await opened.call("query_items")
    assert len(scripted.calls) == 1


async def test_a_connection_is_kept_and_a_cancelled_call_ends_its_own(scripted: Scripted) -> None:
    scripted.steps = [answer({"n": 1}), silence, answer({"n": 2})]
    async with Fleet(scripted.url) as opened:
        await opened.call("query_items")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await opened.call("query_items")
        assert scripted.connections == 1
        assert await opened.call("query_items") == {"n": 2}
    assert scripted.connections == 2


@pytest.mark.parametrize("pieces", [1, 2, 7])
async def test_an_answer_that_nobody_has_asked_for_ends_its_connection(scripted: Scripted, pieces: int) -> None:
    async def twice(writer: asyncio.StreamWriter) -> None:
        body = '{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"n":1},"content":[]}}'
        text = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nX-Some: thing\r\n\r\n{body}".encode() * 2
        size = -(-len(text) // pieces)
        for at in range(0, len(text), size):
            writer.write(text[at : at + size])
            await writer.drain()

    scripted.steps = [twice, answer({"n": 2}), answer({"n": 3})]
    async with Fleet(scripted.url) as opened:
        assert await opened.call("query_items") == {"n": 1}
        assert await opened.call("query_items") == {"n": 2}
        assert await opened.call("query_items") == {"n": 3}
    assert scripted.connections == 2


async def test_nobody_there_is_an_error_that_says_where() -> None:
    async with Fleet("http://127.0.0.1:1", patience=0.2) as opened:
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1"):
            await opened.call("query_items")


def test_a_fleet_is_found_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"URL": "https://example.org/fleet/mcp/", "PROJECT": "p", "AGENT": "a", "TOKEN": "t"}.items():
        monkeypatch.setenv(f"FLEET_{name}", value)
    found = Fleet(slots=2)
    assert (found.url, found.project, found.agent, found.token) == ("https://example.org/fleet", "p", "a", "t")
    monkeypatch.delenv("FLEET_AGENT")
    assert Fleet().agent.startswith("/")
    assert Fleet(token="").agent != Fleet(token="").agent


@pytest.mark.parametrize(
    ("url", "found", "project"),
    [
        ("localhost:1", "http://localhost:1", "default"),
        ("http://[::1]:8/mcp/items,flows", "http://[::1]:8", "default"),
        ("https://x/fleet/p/ours/mcp/", "https://x/fleet", "ours"),
        ("https://x/mcpish/", "https://x/mcpish", "default"),
    ],
)
def test_the_url_may_be_that_of_an_endpoint(
    url: str, found: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLEET_PROJECT", raising=False)
    opened = Fleet(url)
    assert (opened.url, opened.project) == (found, project)


@pytest.mark.parametrize(
    ("given", "said"),
    [({"url": "ftp://x"}, "such as http"), ({"slots": 0}, "slots"), ({"token": "a\r\nb"}, "token")],
)
def test_wrong_arguments_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Fleet(**given)


async def test_calls_of_all_toolsets_reach_a_real_fleet(running: RunningFleet, fleet: Fleet) -> None:
    made = (await fleet.call("manage_items", CREATE))["items"][0]["id"]
    claim = {"claims": [{"selector": {}}], "waitMs": 1000}
    assert (await fleet.call("claim_item", claim))["claimResults"][0]["itemId"] == made
    (moved,) = (await fleet.call("advance_item", {"transitions": [{"itemId": made, "trigger": "start"}]}))["results"]
    assert moved["actor"]["id"] == fleet.agent
    # A wait answers with a stream.
    assert (await fleet.call("claim_item", {**claim, "waitMs": 50}))["claimResults"][0]["outcome"] == "no_match"
    assert "hint" not in await fleet.call("workflow_list")
    assert await fleet.call("gateway.home")
    assert (await fleet.call("work_next"))["outcome"] == "item", "the one that this agent holds"
    assert await fleet.call("list_workflows", toolset="navigator")
    with pytest.raises(Invalid, match="sessions, navigator"):
        await fleet.call("list_workflows")
    with pytest.raises(NotFound, match="no item"):
        await fleet.call("get_context", {"itemId": "abcdef12"})
    with pytest.raises(Invalid, match="Unknown tool"):
        await fleet.call("claim")


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (math.nan, "releases[0].result is nan"),
        ({"best": None, "loss": math.inf}, "releases[0].result.loss is inf"),
        ({"losses": [1.0, (0.5, -math.inf)]}, "releases[0].result.losses[1][1] is -inf"),
    ],
)
async def test_numbers_that_json_does_not_have_are_refused(fleet: Fleet, result: Any, why: str) -> None:
    await fleet.call("manage_items", CREATE)
    async for job in fleet.jobs(wait=False):
        async with job:
            with pytest.raises(Invalid) as refused:
                await job.done(result)
            assert f"{why}, a number that JSON does not have" in refused.value.message
            assert job.outcome is None
            await job.done({"loss": None})
        noted = await fleet.call("query_notes", {"operation": "list", "itemId": job.id})
        assert (job.outcome, [note["body"] for note in noted["notes"]]) == ("done", ['{"loss":null}'])
