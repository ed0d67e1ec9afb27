"""Calls over capacity are shed at once, without a task, with the same answer on both paths."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from coordinator.overload import Admission
from coordinator.settings.sections.overload import Overload
from coordinator.toolsets.tool import Criticality, Reply, Tool, Toolset
from tests.overload.front import shed_calls
from tests.support.wait import wait_until_sync
from tests.transport.live import Live, serving
from tests.transport.rig import Rig, call, legacy, make_app, modern
from tests.transport.wire import Client, raw, total

ADD = call("add", {"left": 2, "right": 3})
NOTHING = call("nothing", {})
MAKES = pytest.mark.parametrize("make", [modern, legacy])


class Busy:
    """A live front that can be put over capacity."""

    def __init__(self, live: Live, rig: Rig, admission: Admission) -> None:
        self.port = live.port
        self.hits = lambda: live.app.fast_path.hits
        self.rig = rig
        self._admission = admission

    @property
    def at_work(self) -> int:
        return self._admission.in_flight

    def flood(self, lasts: bool = True) -> None:
        """Simulates calls over capacity, for all but critical ones."""
        self._admission.in_flight = 500 if lasts else 0
        for each in (Criticality.SHEDDABLE, Criticality.NORMAL, Criticality.READ):
            surplus = self._admission.surplus[each]
            surplus.begin(time.monotonic() + 3600)
            surplus.lasts = lasts


@contextlib.contextmanager
def busy_with(rig: Rig, **options: int) -> Iterator[Busy]:
    admission = Admission(Overload(), time.monotonic, lambda: 0.5)
    with serving(lambda: make_app(rig, admission=admission), **options) as live:
        yield Busy(live, rig, admission)


@pytest.fixture
def busy() -> Iterator[Busy]:
    with busy_with(Rig()) as busy:
        yield busy


@pytest.mark.parametrize("more", [(), (("x-request-id", "given"),), (("mcp-session-id", "s"),)])
@MAKES
def test_every_call_releases_its_slot(busy: Busy, make: Any, more: tuple[tuple[str, str], ...]) -> None:
    with Client(busy.port) as client:
        for params in (ADD, ADD, ADD, call("broken"), call("fail", {"code": "over_capacity"})):
            client.send(raw(make("tools/call", params), *more))
            assert client.answer()[0] == 200
    assert busy.at_work == 0


@MAKES
def test_a_call_over_capacity_gets_a_retry_delay(busy: Busy, make: Any) -> None:
    with Client(busy.port) as client:
        for number in range(2):
            client.send(raw(make("tools/call", ADD, number)))
            assert total(client.answer()[2]) == 5
        busy.flood()
        ran, hits = len(busy.rig.calls), busy.hits()
        for number in range(5):
            client.send(raw(make("tools/call", ADD, number)))
            status, headers, body = client.answer()
            answer = json.loads(body)
            failure = answer["result"]["structuredContent"]["error"]
            assert (status, answer["id"], answer["result"]["isError"]) == (200, number, True)
            assert (failure["kind"], failure["code"], failure["retryAfterMs"]) == ("shedding", "over_capacity", 250)
            assert json.loads(answer["result"]["content"][0]["text"]) == {"error": failure}
            assert headers["retry-after"] == "1"
            assert headers["x-request-id"]
        assert len(busy.rig.calls) == ran
        assert busy.hits() == hits + 5
        assert shed_calls() == {("read", "over_capacity"): 5}
        busy.flood(lasts=False)
        client.send(raw(make("tools/call", ADD)))
        assert total(client.answer()[2]) == 5


@MAKES
def test_shed_answers_are_the_same_on_known_heads(busy: Busy, make: Any) -> None:
    busy.flood()
    with Client(busy.port) as client:
        answers = []
        for _ in range(3):  # the first has a new head
            client.send(raw(make("tools/call", NOTHING, 7)))
            answers.append(json.loads(client.answer()[2]))
    assert answers[0] == answers[1] == answers[2]
    assert busy.rig.calls == []


def test_an_idle_connection_is_closed_after_a_shed_call(rig: Rig) -> None:
    with busy_with(rig, keep_alive=1) as busy, Client(busy.port) as client:
        for _ in range(2):
            client.send(raw(modern("tools/call", ADD)))
            assert total(client.answer()[2]) == 5
        busy.flood()
        hits = busy.hits()
        client.send(raw(modern("tools/call", ADD)))
        assert "retry-after" in client.answer()[1]
        assert busy.hits() == hits + 1
        assert client.closed()


UNUSUAL = ("mcp-param-of-somebody", "1")


class Wordy(Rig):
    """Two of its tools have their own form of failures."""

    def toolset(self, name: str = "rig") -> Toolset:
        def worded(tool: Tool) -> Tool:
            return replace(tool, refusal=lambda failure: Reply(structured={tool.name: failure.code}, is_error=True))

        made = super().toolset(name)
        return replace(made, tools=tuple(worded(tool) if tool.name in ("add", "echo") else tool for tool in made.tools))


def test_cached_shed_answers_are_used_only_for_matching_calls() -> None:
    asked = [
        make("tools/call", params)
        for params in (NOTHING, ADD, call("echo", {"text": "x"}))
        for make in (modern, legacy)
    ]
    with busy_with(Wordy()) as busy, Client(busy.port) as client:
        for request in asked:  # makes their heads known
            client.send(raw(request))
            assert client.answer()[0] == 200
        busy.flood()
        hits = busy.hits()
        for request in asked:
            answers = []
            for more in ((UNUSUAL,), ()):
                client.send(raw(request, *more))
                answers.append(json.loads(client.answer()[2]))
            assert answers[0] == answers[1]
        assert busy.hits() == hits + len(asked)


@MAKES
@pytest.mark.parametrize("tool", ["nothing", "watch"])
def test_a_call_on_the_slow_path_is_shed_early(busy: Busy, make: Any, tool: str) -> None:
    """An unusual head, or a tool that waits: both go to the SDK's server, where a call costs ten times as much."""
    asked = call(tool, {"gate": "g"} if tool == "watch" else {})
    busy.rig.gates["g"] = asyncio.Event()
    busy.rig.gates["g"].set()
    with Client(busy.port) as client:
        busy.flood()
        for number in range(2):
            client.send(raw(make("tools/call", asked, f"n-{number}"), UNUSUAL))
            status, headers, body = client.answer()
            answer = json.loads(body)
            failure = answer["result"]["structuredContent"]["error"]
            assert (status, answer["id"], answer["result"]["isError"]) == (200, f"n-{number}", True)
            assert headers["content-type"] == "application/json"
            assert (failure["kind"], failure["code"], headers["retry-after"]) == ("shedding", "over_capacity", "1")
        assert busy.rig.calls == []
        assert sum(shed_calls().values()) == 2
        busy.flood(lasts=False)
        client.send(raw(make("tools/call", asked), UNUSUAL, ("connection", "close")))
        assert client.answer()[0] == 200
        wait_until_sync(lambda: busy.rig.calls, what="the call to run")
    assert [called[0] for called in busy.rig.calls] == [tool]


@MAKES
def test_both_paths_shed_with_the_same_message(busy: Busy, make: Any) -> None:
    busy.flood()
    with Client(busy.port) as client:
        answers = []
        for more in ((), (UNUSUAL,)):
            client.send(raw(make("tools/call", NOTHING, 7), *more))
            answers.append(json.loads(client.answer()[2]))
    assert answers[0] == answers[1]


@MAKES
@pytest.mark.parametrize(
    "wrong", [call("add", {"left": "many"}), call("no-such-tool", {}), call("add", [1]), call("add")], ids=str
)
def test_invalid_calls_are_reported_under_load_too(busy: Busy, make: Any, wrong: Any) -> None:
    answers = []
    for lasts in (False, True):
        busy.flood(lasts)
        with Client(busy.port) as client:
            client.send(raw(make("tools/call", wrong), UNUSUAL))
            answers.append(json.loads(client.answer()[2]))
    assert answers[0] == answers[1]
    assert shed_calls() == {}


@MAKES
def test_requests_without_an_answer_are_not_shed_with_one(busy: Busy, make: Any) -> None:
    """A notification, and a client that does not accept the media type of the answer."""
    headers, body = make("tools/call", NOTHING)
    message = json.loads(body)
    del message["id"]
    other = [(name, "text/plain" if name == "accept" else value) for name, value in headers]
    for request in ((headers, json.dumps(message).encode()), (other, body)):
        statuses = []
        for lasts in (False, True):
            busy.flood(lasts)
            with Client(busy.port) as client:
                client.send(raw(request, UNUSUAL))
                statuses.append(client.answer()[0])
        assert statuses[0] == statuses[1] != 200
