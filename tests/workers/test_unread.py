"""Answers that cannot be read, and requests of servers: each harms one call at most."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.settings.sections.connections import Connection
from tests.support.downstream import raw
from tests.support.raw_server import ASKED
from workers.downstream import stdio
from workers.downstream.failures import AnswerUnusable, CallRefused, ConnectionFailed
from workers.downstream.server import DownstreamServer
from workers.downstream.unread import ENDS, Requests, Unread, looked_at

pytestmark = pytest.mark.anyio

LIMIT = 100_000
TOO_LONG = f"the call was carried out, but its answer cannot be used: it has more than {LIMIT} bytes"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DownstreamServer]:
    monkeypatch.setattr(stdio, "MAX_ANSWER", LIMIT)
    server = DownstreamServer("it", raw("plain"))
    yield server
    await server.close()


async def text(server: DownstreamServer, tool: str) -> str:
    result = await server.call(tool, {}, "7-9")
    return "".join(block.text for block in result.content if block.type == "text")


@pytest.mark.parametrize("tool", ["id-first", "id-last"])
async def test_a_long_answer_fails_its_call_alone(server: DownstreamServer, tool: str) -> None:
    async with asyncio.timeout(30):
        assert await text(server, "plain") == "fine"
        session = server.session
        others = [asyncio.create_task(text(server, "later")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(AnswerUnusable, match=TOO_LONG):
            await text(server, tool)
        assert await asyncio.gather(*others) == ["fine", "fine"]
        assert server.session is session


async def test_a_long_answer_that_does_not_say_whose_it_is(server: DownstreamServer) -> None:
    async with asyncio.timeout(30):
        with pytest.raises(AnswerUnusable, match=TOO_LONG):
            await text(server, "id-between")
        first = server.session
        # With others under way it is known when they have their answers.
        others = [asyncio.create_task(text(server, "later")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(AnswerUnusable, match=TOO_LONG):
            await text(server, "id-between")
        assert await asyncio.gather(*others) == ["fine", "fine"]
        assert server.session is first


async def test_other_long_messages_fail_no_call(server: DownstreamServer) -> None:
    async with asyncio.timeout(30):
        assert await text(server, "notice") == ""
        with pytest.raises(CallRefused, match="refused, with an error that cannot be read: it has more than") as told:
            await text(server, "error")
        assert not isinstance(told.value, AnswerUnusable)


async def test_a_line_without_an_end_ends_the_session(
    server: DownstreamServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "MOST_SKIPPED", 10)
    async with asyncio.timeout(30):
        with pytest.raises(ConnectionFailed, match="during the call: the server wrote more than 1000000 bytes with"):
            await text(server, "endless")
        assert await text(server, "plain") == "fine"


scalars = st.integers() | st.booleans() | st.none() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
larger = st.dictionaries(st.text(), st.recursive(scalars, lambda one: st.lists(one) | st.dictionaries(st.text(), one)))


@given(
    given_id=st.integers(0, 10**12) | st.text(min_size=1),
    payload=st.tuples(st.sampled_from(["result", "error", "params"]), larger),
    order=st.permutations(["jsonrpc", "id", "method"]),
    first=st.integers(0, 3),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
def test_the_id_is_found_at_either_end(
    given_id: int | str,
    payload: tuple[str, Any],
    order: list[str],
    first: int,
    indent: int | None,
    ascii_only: bool,
) -> None:
    asks = payload[0] == "params"
    members: dict[str, Any] = {"jsonrpc": "2.0", "id": given_id, **({"method": "x"} if asks else {})}
    ordered = [(key, members[key]) for key in order if key in members]
    message = dict([*ordered[:first], payload, *ordered[first:]])
    line = json.dumps(message, indent=indent, ensure_ascii=ascii_only).encode(errors="replace").replace(b"\n", b" ")
    found = looked_at(line[:ENDS], line[-ENDS:])
    assert found == (Unread(None, False, False) if asks else Unread(given_id, True, payload[0] == "error"))


@given(st.text())
def test_what_is_no_message_is_no_answer(said: str) -> None:
    line = f"[debug] {said}".encode(errors="replace")
    assert not looked_at(line, line).is_answer


UNKNOWN = Unread(None, True, False)


def failed(errors: list[Any]) -> list[int | str]:
    return sorted(error.id for error in errors)


def test_answers_of_unknown_requests_fail_those_that_are_left() -> None:
    requests = Requests()
    for number in (1, 2, 3):
        requests.asked(number)
    assert failed(requests.unread(UNKNOWN, "long")) == []
    requests.asked(4)
    assert failed(requests.answered(2)) == []
    assert failed(requests.answered(3)) == [1], "the later request is not meant"
    assert failed(requests.answered(4)) == []
    requests.asked(5)
    requests.asked(6)
    assert failed(requests.unread(UNKNOWN, "long")) == []
    assert failed(requests.unread(UNKNOWN, "long")) == [5, 6]
    assert failed(requests.unread(UNKNOWN, "long")) == [], "nobody waits"
    requests.asked(7)
    assert failed(requests.unread(Unread(8, True, False), "long")) == []
    assert failed(requests.unread(Unread(7, True, False), "long")) == [7]


# --- requests of servers --------------------------------------------------------------------------


@pytest.mark.parametrize("method", ASKED)
async def test_a_request_of_a_server_is_refused(server: DownstreamServer, method: str) -> None:
    asked = f"{method} (Which branch?)" if method == "elicitation/create" else method
    with pytest.raises(CallRefused) as told:
        await text(server, method)
    assert str(told.value) == f"failed: the server asked for {asked}, which nobody can answer here"
    assert await text(server, "plain") == "fine"


async def test_a_call_that_is_answered_by_a_question_is_not_repeated(tmp_path: Path) -> None:
    program, calls = str(Path(__file__).with_name("asking_server.py")), tmp_path / "calls"
    server = DownstreamServer("it", Connection(kind="mcp", command=sys.executable, args=(program, str(calls))))
    try:
        for tool, asked in {
            "ask": "elicitation/create (Which branch?) and roots/list",
            "again": "the same call again",
        }.items():
            calls.write_text("")
            with pytest.raises(CallRefused) as told:
                await text(server, tool)
            assert str(told.value) == f"the server asked for {asked}, which nobody can answer here"
            assert calls.read_text() == "called\n"
    finally:
        await server.close()
