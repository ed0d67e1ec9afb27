"""What a worker remembers of the use of its connections."""

from __future__ import annotations

import time
from typing import Any

import pytest

from coordinator.settings import Settings
from coordinator.settings.sections.connections import Connection
from coordinator.store.fleet.connection_states import ConnectionStatus
from tests.support.downstream import RawHttp
from tests.support.odd_http import Answer, OddHttp
from workers.connections.outcomes import Outcomes
from workers.connections.pool import Connections
from workers.downstream.failures import CallRefused, ConnectionFailed
from workers.metrics import CONNECTION_USES

GIT = Connection(kind="cli", command="git", env={"TOKEN": "${GIT_TOKEN}", "B": "x${HERE}", "A": "${AWAY} ${HERE}"})


def test_the_last_outcome_is_kept_with_its_times() -> None:
    outcomes = Outcomes({"HERE": "1"})
    assert outcomes.statuses() == []
    outcomes.configure({"git": GIT})
    (one,) = outcomes.statuses()
    assert one == ConnectionStatus("git", "cli", unset=["AWAY", "GIT_TOKEN"])
    note = outcomes.noting("git")
    before = round(time.time() * 1000)
    note("it is away")
    assert (one.state, one.reason) == ("failing", "it is away")
    assert before <= one.since == one.at
    since, one.at = one.since, 0
    note("x" * 10_000)
    assert (one.state, len(one.reason), one.since, one.at >= before) == ("failing", 300, since, True)
    note("")
    assert (one.state, one.reason, one.since) == ("ok", "", one.at)
    outcomes.noting("nothing")("it is unknown")
    assert outcomes.statuses() == [one]


def test_a_connection_that_changed_has_not_been_tried() -> None:
    outcomes = Outcomes({})
    other = Connection(kind="rest", base_url="https://a.example")
    outcomes.configure({"git": GIT, "api": other})
    old, api = outcomes.noting("git"), outcomes.noting("api")
    old("it is away")
    api("")
    changed = Connection(kind="cli", command="hg")
    outcomes.configure({"git": changed, "api": other})
    assert [(one.name, one.state) for one in outcomes.statuses()] == [("git", "not tried"), ("api", "ok")]
    old("a call of before has ended")
    assert outcomes.statuses()[0].state == "not tried"
    outcomes.configure({"api": other})
    old("gone")
    assert [one.name for one in outcomes.statuses()] == ["api"]


@pytest.mark.anyio
async def test_calls_and_lists_of_mcp_servers_are_noted() -> None:
    with OddHttp() as web:
        connections = Connections(Settings(redis_url="redis://nowhere", connections={"it": web.connection()}))

        def state() -> tuple[str, str]:
            (one,) = connections.outcomes.statuses()
            return one.state, one.reason

        server = connections.server("it")
        assert server is not None
        assert state() == ("not tried", "")
        await server.call("any", {}, "7-9")
        assert state() == ("ok", "")
        web.answer, web.calls_only = Answer(503), True
        with pytest.raises(ConnectionFailed):
            await server.call("any", {}, "7-9")
        assert state() == ("failing", "answered with status 503: it is overloaded or down")
        await server.tools()
        assert state() == ("ok", "")
        web.answer = None
        with pytest.raises(CallRefused, match="the disk is full"):  # the server's own word: the connection works
            await server.call("full", {}, "7-9")
        assert state() == ("ok", "")
        await connections.close()
        web.answer, web.calls_only = Answer(401), False
        connections = Connections(Settings(redis_url="redis://nowhere", connections={"it": web.connection()}))
        server = connections.server("it")
        assert server is not None
        with pytest.raises(ConnectionFailed):
            await server.tools()
        assert state()[0] == "failing"
        assert state()[1].startswith("it answered with status 401: it wants credentials")
        await connections.close()


@pytest.mark.anyio
async def test_a_session_that_is_opened_again_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawHttp() as web:
        connections = Connections(Settings(redis_url="redis://nowhere", connections={"it": web.connection}))
        server = connections.server("it")
        assert server is not None
        await server.call("any", {}, "7-9")
        (one,) = connections.outcomes.statuses()
        since, seen = one.since, list[Any]()
        web.called = lambda request: seen.append(one.state)  # type: ignore[method-assign]
        web.sessions.clear()
        await server.call("any", {}, "7-9")
        assert (one.state, one.since, seen) == ("ok", since, ["ok"])
        web.forgetful = True
        web.sessions.clear()
        with pytest.raises(ConnectionFailed):
            await server.call("any", {}, "7-9")
        assert (one.state, one.reason) == ("failing", "does not know its session any more")
        await connections.close()


def test_uses_are_counted_from_0_on() -> None:
    outcomes = Outcomes({})
    outcomes.configure({"git": GIT})
    outcomes.noting("git")("away")
    found = {labels: cell.value for labels, cell in CONNECTION_USES.cells.items()}
    assert found == {("git", "ok"): 0, ("git", "failed"): 1}
