"""Requests with a cached head are answered without parsing it again."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from coordinator.transport.http.protocol import AHEAD_BYTES
from coordinator.transport.metrics import REQUEST_DURATION, REQUESTS
from tests.support.counts import all_counted
from tests.support.wait import wait_until_sync
from tests.transport import fuzz
from tests.transport.guarded import Front, bearer
from tests.transport.live import Live, open_gate, serving
from tests.transport.rig import Rig, call, legacy, make_app, modern
from tests.transport.wire import Client, differences, raw, sendable, total

ADD = call("add", {"left": 2, "right": 3})


class Watched:
    """A live front that records which path requests took."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self.app = live.app
        self.planned = 0
        plan = live.app.fast_path.plan

        def planning(scope: Any) -> Any:
            self.planned += 1
            return plan(scope)

        live.app.fast_path.plan = planning  # type: ignore[method-assign]
        self.short = 0
        self.connection: Any = None
        """The last connection that answered from the cache."""
        protocol: Any = live.protocol
        start = protocol.start_call

        def starting(connection: Any, parsed: Any, plan: Any, *caller: Any) -> None:
            self.short += 1
            self.connection = connection
            start(connection, parsed, plan, *caller)

        protocol.start_call = starting
        self.received = 0
        """Bytes received."""
        receive = protocol.data_received

        def receiving(connection: Any, data: bytes) -> None:
            receive(connection, data)
            self.received += len(data)

        protocol.data_received = receiving

    def took_more_than(self, count: int) -> bool:
        return self.short + self.planned > count

    def send(self, client: Client, data: bytes) -> None:
        """Sends data that the server receives as one piece, and waits until it has."""
        upto = self.received + len(data)
        client.send(data)
        wait_until_sync(lambda: self.received >= upto, what="that all is received")

    def parsed(self) -> int:
        """How many requests were parsed since the last call."""
        planned, self.planned = self.planned, 0
        return planned


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def watched(rig: Rig) -> Iterator[Watched]:
    with serving(lambda: make_app(rig)) as live:
        yield Watched(live)


def warm(watched: Watched, *requests: Any) -> None:
    """Puts heads into the cache."""
    with Client(watched.live.port) as client:
        for request in (*requests, *requests):
            client.send(raw(request))
            assert client.answer()[0] == 200
    watched.parsed()


@pytest.mark.parametrize("make", [modern, legacy])
def test_a_known_head_is_not_parsed_again(watched: Watched, rig: Rig, make: Any) -> None:
    request = make("tools/call", ADD)
    warm(watched, request)
    with Client(watched.live.port) as client:
        for number in range(10):
            client.send(raw(make("tools/call", ADD, number)))
            status, headers, body = client.answer()
            assert (status, json.loads(body)["id"], total(body)) == (200, number, 5)
            assert headers["content-type"] == "application/json"
            assert headers["x-request-id"] == rig.calls[-1][2]
            assert "date" in headers
    assert watched.parsed() == 0
    assert watched.app.fast_path.hits >= 10
    assert watched.app.in_flight == 0


def test_both_paths_send_the_same_headers(watched: Watched) -> None:
    for params in (ADD, call("fail", {"code": "over_capacity", "retryAfterMs": 1500})):
        warm(watched, modern("tools/call", params))
        before = watched.short
        with Client(watched.live.port) as client:
            client.send(raw(modern("tools/call", params)))
            short = client.answer()
            client.send(raw(modern("tools/call", params), ("x-request-id", "given")))
            long = client.answer()
        assert watched.short == before + 1
        for one in (short, long):
            assert one[1].pop("x-request-id")
            one[1].pop("date")
        assert short == long


@pytest.mark.parametrize(
    "more",
    [
        [("x-request-id", "abc")],
        [("expect", "100-continue")],
        [("connection", "close")],
        [("authorization", "Bearer token")],
        [("traceparent", "00-1-2-01")],
    ],
)
def test_unusual_requests_go_through_uvicorn(watched: Watched, more: list[tuple[str, str]]) -> None:
    for _ in range(4):
        with Client(watched.live.port) as client:
            client.send(raw(modern("tools/call", ADD), *more))
            status, _, body = client.answer()
            if status == 100:
                status, _, body = client.answer()
            assert (status, total(body)) == (200, 5)
    assert watched.short == 0
    assert watched.parsed() >= 4


def test_a_known_head_with_another_body_is_decoded_again(watched: Watched) -> None:
    headers, body = modern("tools/call", ADD)
    warm(watched, (headers, body))
    other = body.replace(b'"add"', b'"Add"')
    wrong = body.replace(b'"left":2', b'"left":x')
    with Client(watched.live.port) as client:
        for one, status in ((other, 400), (wrong, 400), (body, 200)):
            client.send(raw((headers, one)))
            assert client.answer()[0] == status
        # Half a body, then the rest.
        data = raw((headers, body))
        client.send(data[:-10])
        client.send(data[-10:])
        assert total(client.answer()[2]) == 5
        # More than one request at once.
        client.send(data * 3)
        assert [total(client.answer()[2]) for _ in range(3)] == [5, 5, 5]


@pytest.mark.parametrize("known", [False, True], ids=["anonymous", "callers"])
def test_a_body_is_read_to_its_last_byte(tmp_path: Path, known: bool) -> None:
    """Even if the part received so far is a whole message without trailing blanks."""
    front = Front(tmp_path, Rig(), mode="optional")
    headers, body = modern("tools/call", ADD)
    request = raw((headers, body + b"  "), *(bearer(front.all) if known else []))
    with serving(front.make) as live:
        watched = Watched(live)
        with Client(live.port) as client:
            for _ in range(3):
                client.send(request)
                assert client.answer()[0] == 200
            assert watched.short == 1
            watched.send(client, request[:-2])
            client.send(request[-2:])
            assert total(client.answer()[2]) == 5
            client.send(request)
            assert total(client.answer()[2]) == 5
        assert watched.short == 2


@pytest.mark.parametrize("begin", ["POST /mcp HTTP/1.1\r\nx-note: ", ""], ids=["head", "body"])
def test_a_known_request_inside_another_is_not_a_request(watched: Watched, begin: str) -> None:
    inner = raw(modern("tools/call", ADD))
    first = begin.encode() or raw((modern("tools/call", ADD)[0], inner))[: -len(inner)]
    with Client(watched.live.port) as client:
        for _ in range(3):
            client.send(inner)
            assert total(client.answer()[2]) == 5
        assert watched.short == 1
        watched.send(client, first)
        client.send(inner)
        assert client.answer()[0] == (200 if begin else 400)
        assert watched.short == 1
        client.send(inner)
        assert total(client.answer()[2]) == 5
    assert watched.short == 2


def test_data_after_an_early_answer_is_still_part_of_the_body(watched: Watched) -> None:
    inner = raw(modern("tools/call", ADD))
    whole = raw((modern("tools/call", ADD)[0], inner)).replace(b"/mcp", b"/none", 1)
    with Client(watched.live.port) as client:
        for _ in range(3):
            client.send(inner)
            assert total(client.answer()[2]) == 5
        client.send(whole[: -len(inner)])
        assert client.answer()[0] == 404
        watched.send(client, inner)
        assert watched.short == 1
        client.send(raw(modern("tools/call", ADD, 2)))
        assert json.loads(client.answer()[2])["id"] == 2


def test_the_second_half_of_a_head_is_not_a_head(watched: Watched) -> None:
    request = raw(modern("tools/call", ADD))
    at = request.index(b"\r\n") + 2
    with Client(watched.live.port) as client:
        client.send(request)
        assert total(client.answer()[2]) == 5
        for _ in range(2):
            watched.send(client, request[:at])
            client.send(request[at:])
            assert total(client.answer()[2]) == 5
        client.send(request[at:])
        assert client.answer()[0] == 400
    assert watched.short == 0


def test_a_known_request_waits_for_the_answer_to_an_unknown_one(watched: Watched, rig: Rig) -> None:
    warm(watched, modern("tools/call", ADD, 2))
    with Client(watched.live.port) as client:
        client.send(raw(modern("tools/call", call("late", {"gate": "g"}), 1), ("x-request-id", "a")))
        wait_until_sync(lambda: rig.waiting == {"g"})
        client.send(raw(modern("tools/call", ADD, 2)))
        open_gate(rig)
        assert [json.loads(client.answer()[2])["id"] for _ in range(2)] == [1, 2]


def test_pipelined_requests_on_known_heads_are_answered_in_order(watched: Watched, rig: Rig) -> None:
    late = modern("tools/call", call("late", {"gate": "g"}), 1)
    with Client(watched.live.port) as client:
        for number in (1, 2, 3):
            client.send(raw(late))
            wait_until_sync(lambda: rig.waiting == {"g"})
            if number == 3:
                # Arrives while the answer to a known head is in flight.
                for following in range(5):
                    client.send(raw(modern("tools/call", ADD, 10 + following)))
                client.send(raw(modern("tools/list", {}, 20)))
            open_gate(rig)
            assert json.loads(client.answer()[2])["id"] == 1
        for following in range(5):
            assert json.loads(client.answer()[2])["id"] == 10 + following
        assert json.loads(client.answer()[2])["id"] == 20
        # A single buffered request leaves the connection usable.
        warm(watched, modern("tools/call", ADD, 30))
        client.send(raw(late))
        wait_until_sync(lambda: rig.waiting == {"g"})
        client.send(raw(modern("tools/call", ADD, 30)))
        open_gate(rig)
        for number in (1, 30):
            assert json.loads(client.answer()[2])["id"] == number
        client.send(raw(modern("tools/call", ADD, 31)))
        assert json.loads(client.answer()[2])["id"] == 31
    assert watched.app.in_flight == 0


def test_reading_pauses_while_a_client_pipelines(watched: Watched, rig: Rig) -> None:
    late = raw(modern("tools/call", call("late", {"gate": "g"})))
    long = raw(modern("tools/call", call("echo", {"text": "x" * AHEAD_BYTES})))
    with Client(watched.live.port) as client:
        for _ in range(3):
            client.send(late)
            wait_until_sync(lambda: rig.waiting == {"g"})
            if watched.short:
                client.send(raw(modern("tools/call", ADD)))
                client.send(long)
                wait_until_sync(lambda: watched.connection.flow.read_paused, what="the pause")
            open_gate(rig)
            assert client.answer()[0] == 200
        assert total(client.answer()[2]) == 5
        assert client.answer()[0] == 200
        assert not watched.connection.flow.read_paused


def test_a_disconnect_is_harmless(watched: Watched, rig: Rig) -> None:
    late = modern("tools/call", call("late", {"gate": "g"}))
    for _ in range(3):
        with Client(watched.live.port) as client:
            client.send(raw(late))
            wait_until_sync(lambda: rig.waiting == {"g"})
        open_gate(rig)
        wait_until_sync(lambda: watched.app.in_flight == 0)
    with Client(watched.live.port) as client:
        client.send(raw(modern("tools/call", ADD)))
        assert total(client.answer()[2]) == 5


@pytest.mark.parametrize("known", [False, True], ids=["anonymous", "callers"])
def test_unread_answers_do_not_accumulate(tmp_path: Path, known: bool) -> None:
    front = Front(tmp_path, Rig(), mode="optional")
    more = bearer(front.all) if known else []
    request = raw(modern("tools/call", call("echo", {"text": "x" * 10_000})), *more)
    with serving(front.make) as live:
        watched = Watched(live)
        with Client(live.port) as client:
            for _ in range(3):
                client.send(request)
                assert client.answer()[0] == 200
            watched.parsed()
            # Answers come from the cache until the kernel's buffer is full.
            for sent in range(1, 3_000):
                client.send(request)
                wait_until_sync(partial(watched.took_more_than, sent))
                if watched.planned:
                    break
            assert [client.answer()[0] for _ in range(sent)] == [200] * sent
            client.send(request)
            assert client.answer()[0] == 200
        assert watched.short == sent + 1


def test_blank_lines_before_a_request_are_not_a_head(watched: Watched) -> None:
    request = raw(modern("tools/call", ADD))
    _, _, body = request.partition(b"\r\n\r\n")
    with Client(watched.live.port) as client:
        for _ in range(2):
            client.send(b"\r\n\r\n" + request)
            assert total(client.answer()[2]) == 5
        client.send(b"\r\n\r\n" + body)
        assert client.answer()[0] == 400
    assert watched.short == 0


def test_a_closed_connection_leaves_no_timer(watched: Watched) -> None:
    with Client(watched.live.port) as client:
        for _ in range(3):
            client.send(raw(modern("tools/call", ADD)))
            assert total(client.answer()[2]) == 5
        timer = watched.connection.idle_timer
        assert not timer.cancelled()
    wait_until_sync(timer.cancelled)


def test_a_known_request_cancels_the_idle_timers(watched: Watched) -> None:
    """That of a new connection, and the one after an answer through uvicorn."""
    request = modern("tools/call", ADD)
    warm(watched, request)
    before = watched.short
    with Client(watched.live.port) as client:
        client.send(raw(request))
        assert total(client.answer()[2]) == 5
        connection = watched.connection
        assert connection.arriving is None
        client.send(raw(request, ("x-request-id", "given")))
        assert total(client.answer()[2]) == 5
        wait_until_sync(lambda: connection.timeout_keep_alive_task is not None)
        client.send(raw(request))
        assert total(client.answer()[2]) == 5
        assert connection.timeout_keep_alive_task is None
    assert watched.short == before + 2


def test_a_defect_closes_the_connection_and_is_logged(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError

    with serving(lambda: make_app(rig), keep_alive=300) as live:
        watched = Watched(live)
        request = modern("tools/call", ADD)
        warm(watched, request)
        monkeypatch.setattr(live.app, "call", fail)
        with capture_logs() as logged, Client(live.port) as client:
            client.send(raw(request))
            assert client.closed()
        assert [(line["event"], line["log_level"]) for line in logged] == [("a request failed", "error")]
        assert live.app.in_flight == 0


def test_draining_closes_after_the_answer(watched: Watched) -> None:
    request = modern("tools/call", ADD)
    warm(watched, request)
    with Client(watched.live.port) as client:
        client.send(raw(request))
        assert "connection" not in client.answer()[1]
        watched.app.begin_drain()
        client.send(raw(request))
        status, headers, body = client.answer()
        assert (status, headers["connection"], total(body)) == (200, "close", 5)
        assert client.closed()
    assert watched.parsed() == 0


def test_shutdown_waits_for_answers(rig: Rig) -> None:
    late = modern("tools/call", call("late", {"gate": "g"}))
    with serving(lambda: make_app(rig)) as live:
        watched = Watched(live)
        warm(watched, modern("tools/call", ADD))
        with Client(live.port) as client:
            for number in (1, 2, 3):
                client.send(raw(late))
                wait_until_sync(lambda: rig.waiting == {"g"})
                if number == 3:
                    live.stop()
                    wait_until_sync(lambda: refused(live.port))
                open_gate(rig)
                status, headers, _ = client.answer()
                assert (status, headers.get("connection")) == (200, "close" if number == 3 else None)
            assert client.closed()


def test_shutdown_waits_for_calls_of_disconnected_clients(rig: Rig) -> None:
    late = modern("tools/call", call("late", {"gate": "g"}))
    with serving(lambda: make_app(rig)) as live:
        watched = Watched(live)
        with Client(live.port) as client:
            for number in (1, 2, 3):
                client.send(raw(late))
                wait_until_sync(lambda: rig.waiting == {"g"})
                if number < 3:
                    open_gate(rig)
                    assert client.answer()[0] == 200
        assert watched.short == 1
        state = live.server.server_state
        wait_until_sync(lambda: not state.connections)
        assert state.tasks, "the server would end without it"
        live.server.config.timeout_graceful_shutdown = 60
        live.stop()
        wait_until_sync(lambda: refused(live.port))
        open_gate(rig)
    assert all_counted(REQUESTS) == {("late", "ok"): 3}
    assert all_counted(REQUEST_DURATION) == {("late", "sdk"): 1, ("late", "fast"): 2}


def refused(port: int) -> bool:
    """Whether the port refuses connections."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except ConnectionRefusedError:
        return True
    return False


def test_idle_connections_are_closed(rig: Rig) -> None:
    with serving(lambda: make_app(rig), keep_alive=3) as live:
        watched = Watched(live)
        request = modern("tools/call", ADD)
        warm(watched, request)
        with Client(live.port) as client:
            client.send(raw(request))
            assert total(client.answer()[2]) == 5
            assert watched.parsed() == 0
            assert client.closed()


def test_the_date_header_is_current(watched: Watched) -> None:
    request, state = modern("tools/call", ADD), watched.live.server.server_state
    warm(watched, request)
    with Client(watched.live.port) as client:
        client.send(raw(request))
        first = client.answer()[1]["date"]
        wait_until_sync(lambda: dict(state.default_headers)[b"date"].decode() != first, what="the next second")
        client.send(raw(request))
        assert client.answer()[1]["date"] != first
    assert watched.parsed() == 0


def test_the_caches_are_bounded(watched: Watched) -> None:
    protocol: Any = watched.live.protocol
    with Client(watched.live.port) as client:
        protocol.known.update((b"%d" % number, None) for number in range(8_150))
        for number in range(50):
            client.send(raw(modern("tools/call", call("nothing")), ("user-agent", f"agent-{number}")))
            assert client.answer()[0] == 200
    assert 0 < len(protocol.known) < 50
    with Client(watched.live.port) as client:
        for _ in range(3):
            client.send(raw(modern("tools/call", call("nothing")), ("user-agent", "a" * 1_000)))
            assert client.answer()[0] == 200
    assert max(map(len, protocol.known)) <= 1_024


@pytest.mark.anyio
async def test_the_wire_answers_like_the_sdk(watched: Watched) -> None:
    """The differential fuzz over sockets: every request several times on one connection."""
    generator, slow = fuzz.Generator(4711), make_app(fast=False)
    found = list[str]()
    with capture_logs():
        for _ in range(120):
            case = generator.case()
            if not sendable(case):
                continue
            found += await differences(watched.live.port, slow, case)
        await slow.stop()
    assert found == []
    assert watched.short > 20
