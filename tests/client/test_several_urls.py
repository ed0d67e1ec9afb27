"""A client of several front-ends, each with a URL of its own: it goes on when one does not answer."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinator.cli import run as fleet_main
from coordinator.client import Fleet, Observer, SyncFleet, Unavailable, slots
from coordinator.client.http import urls_of
from tests.client.backlog import seen
from tests.client.scripted import Scripted, Step, answer, part, raw, refusal, silence
from tests.support.fleets import RunningCommand
from tests.support.ports import free_port
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio
NOBODY = "http://127.0.0.1:1"
CREATE = {"operation": "create", "items": [{"title": "One"}]}
START = {"agent_id": "a"}


class Noted(Observer):
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def retried(self, failure: Any) -> None:
        self.reasons.append(failure.reason)


@pytest.fixture
async def other() -> AsyncIterator[Scripted]:
    async with Scripted() as server:
        server.steps = [answer({"n": 2})]
        yield server


@pytest.fixture
def two(tmp_path: Path, redis_url: str) -> Iterator[list[RunningCommand]]:
    """Two front-ends on a store, which nobody restarts; ``stdout`` names the URL of each."""
    started = [
        RunningCommand(
            *(tmp_path / f"output-{number}", "serve", "--port", str(free_port()), "--frontends", "1"),
            *("--data-dir", str(tmp_path / f"data-{number}")),
            FLEET_REDIS_URL=redis_url,
        )
        for number in range(2)
    ]
    for one in started:
        one.wait_ready()
    yield started
    for one in started:
        one.clean_up()


def url_of(command: RunningCommand) -> str:
    return command.stdout.split("ready at ")[1].split()[0]


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("http://a:1, https://b/x ,http://a:1,", ["http://a:1", "https://b/x"]),
        ("http://a/mcp/items,flows", ["http://a/mcp/items,flows"]),
        ("http://a/mcp/items,flows,http://b", ["http://a/mcp/items,flows", "http://b"]),
        ("a:1,b:2", ["a:1", "b:2"]),
        ("http://a/,b", ["http://a/", "b"]),
        ("", []),
        (" , ,", []),
    ],
)
def test_urls_are_told_apart(text: str, urls: list[str]) -> None:
    assert urls_of(text) == urls


def test_the_urls_of_one_fleet_name_one_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEET_PROJECT", raising=False)
    monkeypatch.setenv("FLEET_URL", "http://a/p/ours/mcp/items,flows,http://b/p/ours/mcp")
    found = Fleet()
    assert (found.url, found.project, found.at) == ("http://a,http://b", "ours", "http://a")
    with pytest.raises(ValueError, match="several projects"):
        Fleet("http://a/p/ours/mcp,http://b")
    with pytest.raises(ValueError, match="several projects"):
        Fleet("http://a/p/ours,http://a")
    for wrong in ("http://a,ftp://b", ",", "a,b:c", "http://a:99999", "http://[::1"):
        with pytest.raises(ValueError, match=r"such as http://127\.0\.0\.1:8420"):
            Fleet(wrong)
    with pytest.raises(ValueError, match="each URL must begin with http"):
        Fleet("https://a,b")
    assert Fleet("a:1,b:2").url == "http://a:1,http://b:2"


@pytest.mark.parametrize("answers", [False, True], ids=["nobody listens", "one does"])
async def test_a_claim_that_reached_nobody_is_not_called_held(
    scripted: Scripted, answers: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slots, "RELEASE_SECONDS", 0.05)
    scripted.steps = [silence]
    reached = Noted()
    async with Fleet(scripted.url if answers else NOBODY, agent="me", observer=reached) as opened:
        coming = asyncio.ensure_future(anext(opened.jobs()))
        await wait_until(lambda: bool(scripted.calls if answers else reached.reasons), what="the claim to be made")
        coming.cancel()
    held = [one for one in caplog.messages if "may be held" in one]
    assert held == ["a claim of me may be held until its time is over: the fleet does not answer"] * answers


async def test_where_nobody_listens_is_left_at_once_and_for_good(other: Scripted) -> None:
    noted = Noted()
    async with Fleet(f"{NOBODY},{other.url}", observer=noted) as opened:
        assert await opened.call("query_items") == {"n": 2}
        assert (noted.reasons, opened.at) == ([], other.url)
        assert await opened.call("query_items") == {"n": 2}
    async with Fleet(f"{NOBODY},http://127.0.0.1:2", patience=0.2) as opened:
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1: .*127\.0\.0\.1:2: "):
            await opened.call("query_items")


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (part("HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{"), "connection"),
        (raw("<html>", "502 Bad Gateway"), "busy"),
        (raw("", "503 Service Unavailable"), "busy"),
        (silence, "timeout"),
    ],
)
async def test_an_unchanged_call_is_repeated_at_the_next(
    scripted: Scripted, other: Scripted, step: Step, reason: str
) -> None:
    scripted.steps = [step]
    noted = Noted()
    async with Fleet(f"{scripted.url},{other.url}", observer=noted) as opened:
        assert await opened.call("manage_items", CREATE, seconds=0.2) == {"n": 2}
    assert noted.reasons == [reason]
    assert other.calls == scripted.calls
    assert other.calls[0]["arguments"]["requestId"]


@pytest.mark.parametrize("tool", ["start_session", "tool_of_another"])
@pytest.mark.parametrize(
    "step",
    [
        part("HTTP/1.1 200 OK\r\n"),
        silence,
        raw("", "504 Gateway Timeout"),
        raw("", "500 Oh"),
        refusal("x", "transient"),
        refusal("store_unavailable", "shedding", 5),
    ],
)
async def test_what_may_have_been_done_and_has_no_request_id_is_not_repeated(
    scripted: Scripted, other: Scripted, tool: str, step: Step
) -> None:
    scripted.steps = [step]
    async with Fleet(f"{scripted.url},{other.url}") as opened:
        with pytest.raises(Unavailable, match="it may have been carried out"):
            await opened.call(tool, START, seconds=0.2)
        assert (len(scripted.calls), other.calls) == (1, [])


@pytest.mark.parametrize(
    "step", [raw("", "503 Draining"), raw("", "429 Busy"), refusal("over_capacity", "shedding", 5)]
)
async def test_what_was_not_done_is_repeated_in_any_case(scripted: Scripted, other: Scripted, step: Step) -> None:
    scripted.steps = [step, answer({"n": 1})]
    async with Fleet(f"{NOBODY},{scripted.url},{other.url}") as opened:
        assert (await opened.call("start_session", START))["n"] in (1, 2)


async def test_work_goes_on_when_a_front_end_is_killed(two: list[RunningCommand], project: str) -> None:
    """Jobs are claimed, renewed and finished, each once, whichever front-end ends and whatever is under way."""
    done: list[str] = []
    first, second = map(url_of, two)

    async def worker(number: int, tree: str) -> None:
        urls = f"{first},{second}" if number % 2 else f"{second},{first}"
        async with Fleet(urls, project=project, agent=f"worker-{number}") as own:
            async for job in own.jobs(ttl=3, until=own.tree(tree)):
                async with job:
                    await job.note("by", str(number))
                    if len(done) >= 4 and two[0].process.poll() is None:
                        two[0].process.kill()
                        two[0].process.wait(10)
                    await job.done(job.title)
                    done.append(job.title)

    async with Fleet(f"{first},{second}", project=project) as fleet:
        tree = await fleet.plan({"title": "all", "children": [f"item {number}" for number in range(16)]})
        async with asyncio.timeout(90):
            await asyncio.gather(*(worker(number, tree.id) for number in range(4)))
        assert two[0].process.poll() == -signal.SIGKILL
        assert sorted(done) == sorted(f"item {number}" for number in range(16))
        for item in tree.ids.values():
            found = await seen(fleet, item)
            assert sum(one["toRole"] == "terminal" for one in found["transitions"]) == 1
        assert fleet.at == second


def test_the_command_line_takes_several(
    two: list[RunningCommand], project: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    two[0].process.kill()
    two[0].process.wait(10)
    first, second = map(url_of, two)
    monkeypatch.setenv("FLEET_PROJECT", project)
    assert fleet_main(["--url", first, "items", "--url", second, "add", "One"]) == 0
    monkeypatch.setenv("FLEET_URL", f"{first}/,{second}/")
    assert fleet_main(["items", "list"]) == 0
    assert fleet_main(["events"]) == 0
    assert capsys.readouterr().out.count("One") == 2
    with SyncFleet(project=project) as opened:
        assert opened.call("query_items", {"operation": "search"})["total"] == 1
    monkeypatch.setenv("FLEET_URL", f"{second},ftp://x")
    assert fleet_main(["items", "list"]) == 2
    assert capsys.readouterr().err == "fleet: FLEET_URL must be an http or https URL such as http://127.0.0.1:8420\n"
