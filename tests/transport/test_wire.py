"""Tests over sockets: partial data, pipelining, upgrades, slow and endless clients."""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import struct
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server import _streamable_http_modern

from coordinator.transport.http.protocol import AHEAD_BYTES, BoundedHttpProtocol
from tests.support.wait import wait_until_sync
from tests.transport.live import Live, open_gate, serving
from tests.transport.rig import Rig, call, legacy, make_app, modern
from tests.transport.wire import Client, raw, total

ADD = call("add", {"left": 2, "right": 3})
H2C = [("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), ("http2-settings", "AAEAAEAAAAIAAAABAAMAAABk")]
LARGEST_READING = 262_144
"""Bytes that uvloop reads at a time."""


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with serving(make_app) as live:
        yield live


def test_pipelined_requests_are_answered_in_order(live: Live) -> None:
    requests = []
    for number in range(20):
        make = (modern, legacy)[number % 2]
        # Every third takes the slow path.
        left: Any = str(number) if number % 3 == 0 else number
        requests.append(raw(make("tools/call", call("add", {"left": left, "right": 0}), number)))
    with Client(live.port) as client:
        client.send(b"".join(requests))
        for number in range(20):
            status, _, body = client.answer()
            assert (status, json.loads(body)["id"], total(body)) == (200, number, number)


def test_pipelined_data_is_not_read_before_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    request = raw(([("host", "localhost"), ("x", "a" * 150)], b""), method="GET")
    waiting: list[int] = []
    with serving(make_app) as live:
        complete: Any = live.protocol.on_headers_complete  # type: ignore[attr-defined]

        def noting(protocol: Any) -> None:
            complete(protocol)
            waiting.append(len(protocol.pipeline))

        # A parser binds its callbacks when it is created.
        monkeypatch.setattr(live.protocol, "on_headers_complete", noting)
        with Client(live.port) as client:
            sending = threading.Thread(target=client.send, args=(request * 5_000,))
            sending.start()
            assert [client.answer()[0] for _ in range(5_000)] == [405] * 5_000
            sending.join()
    # The data of one read is added to the buffer at once.
    assert max(waiting) <= (AHEAD_BYTES + LARGEST_READING) // len(request) + 1


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_a_disconnect_is_noticed_behind_pipelined_data(monkeypatch: pytest.MonkeyPatch, pieces: int) -> None:
    # A keep-alive message that cannot be delivered would reveal it too.
    monkeypatch.setattr(_streamable_http_modern, "_SSE_PING_INTERVAL", 3600.0)  # private: the SDK has no setting for it
    rig = Rig()
    waiting = raw(modern("tools/call", call("watch", {"gate": "g"})))
    following = raw(modern("tools/call", ADD))
    with serving(lambda: make_app(rig)) as live:
        with Client(live.port) as client:
            client.send(waiting + following if pieces == 1 else waiting)
            wait_until_sync(lambda: rig.waiting == {"g"})
            for _ in range(pieces - 1):
                client.send(following)
        wait_until_sync(lambda: not rig.waiting, what="the end of the call")
        assert [name for name, *_ in rig.calls] == ["watch"]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_requests_may_arrive_in_pieces(live: Live, size: int) -> None:
    with Client(live.port) as client:
        for request in (modern("tools/call", ADD), legacy("tools/call", ADD), modern("tools/list")):
            data = raw(request)
            for start in range(0, len(data), size):
                client.send(data[start : start + size])
            assert client.answer()[0] == 200


def test_a_chunked_body_is_read(live: Live) -> None:
    headers, body = modern("tools/call", ADD)
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:50], body[50:])) + b"0\r\n\r\n"
    with Client(live.port) as client:
        client.send(raw((headers, b""), ("transfer-encoding", "chunked")) + chunks)
        assert total(client.answer()[2]) == 5


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("transfer-encoding", "gzip, chunked", 501),
        ("content-encoding", "gzip", 415),
        ("content-encoding", "identity, br", 415),
        ("transfer-encoding", "Chunked", 200),
        ("content-encoding", "Identity", 200),
    ],
)
def test_encoded_bodies_are_rejected(live: Live, name: str, value: str, status: int) -> None:
    headers, body = modern("tools/call", ADD)
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    with Client(live.port) as client:
        client.send(raw((headers, body)))
        client.answer()
        codings = {"transfer-encoding": "chunked", name: value}
        client.send(raw((headers, b""), *codings.items()) + chunks)
        answer = client.answer()
        assert answer[0] == status
        if status != 200:
            assert value in answer[2].decode()
            assert client.closed()


def test_trailers_are_not_headers(live: Live) -> None:
    """Trailers may have passed proxies that check only heads."""
    headers, body = modern("tools/call", ADD)
    trailers = b"host: evil.example\r\norigin: https://evil.example\r\nmcp-name: other\r\n"
    chunks = b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailers)
    with Client(live.port) as client:
        client.send(raw((headers, b""), ("transfer-encoding", "chunked")) + chunks)
        assert total(client.answer()[2]) == 5
        without_host = [header for header in headers if header[0] != "host"]
        client.send(raw((without_host, b""), ("transfer-encoding", "chunked")) + chunks)
        assert client.answer()[0] == 421


@pytest.mark.parametrize(
    ("begin", "answered"),
    [(b"0\r\nx: ", False), (b"0\r\nx: ", True), (b"0\r\n", True), (b"1;", False), (b"1;", True)],
    ids=["trailer", "trailer later", "trailers later", "extension", "extension later"],
)
def test_chunk_extensions_and_trailers_are_bounded(live: Live, begin: bytes, answered: bool) -> None:
    more = (b"x: y\r\n" if begin == b"0\r\n" else b"abcdef") * 1_000
    host = "evil.example" if answered else "localhost"
    with Client(live.port) as client:
        client.send(raw(([("host", host)], b""), ("transfer-encoding", "chunked")) + begin)
        if answered:
            assert client.answer()[0] == 421
        with pytest.raises(ConnectionError):
            client.send(more * 2_000)


def test_expect_100_continue_is_answered(live: Live) -> None:
    headers, body = modern("tools/call", ADD)
    data = raw((headers, body), ("expect", "100-continue"))
    with Client(live.port) as client:
        client.send(data[: -len(body)])
        assert client.answer()[0] == 100
        client.send(body)
        assert total(client.answer()[2]) == 5


@pytest.mark.parametrize("make", [modern, legacy])
def test_an_upgrade_is_declined_and_the_request_answered(live: Live, make: Any) -> None:
    """Java's HTTP client offers HTTP/2 like this and keeps the connection."""
    request = make("tools/call", ADD)
    with Client(live.port) as client:
        client.send(raw(request, *H2C) + raw(request))
        for _ in range(2):
            status, headers, body = client.answer()
            assert (status, total(body)) == (200, 5)
            assert "upgrade" not in headers
        data = raw(request, *H2C)
        for start in range(0, len(data), 40):
            client.send(data[start : start + 40])
        assert total(client.answer()[2]) == 5
        client.send(raw(request, ("connection", "close, Upgrade"), ("upgrade", "h2c")))
        assert total(client.answer()[2]) == 5
        assert client.closed()


def test_many_pipelined_upgrades_are_declined(caplog: pytest.LogCaptureFixture) -> None:
    asked = raw(([("host", "localhost")], b""), *H2C, method="GET")
    with serving(make_app) as live, Client(live.port) as client:
        client.send(asked * 500)
        assert [client.answer()[0] for _ in range(500)] == [405] * 500
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_websocket_upgrade_is_declined(live: Live) -> None:
    asked = [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-version", "13")]
    with Client(live.port) as client:
        client.send(raw(([("host", "localhost")], b""), *asked, method="GET"))
        assert client.answer()[0] == 405
        client.send(raw(modern("tools/call", ADD)))
        assert total(client.answer()[2]) == 5


@pytest.mark.parametrize("more", [(), H2C])
def test_connect_is_refused(live: Live, more: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The parser treats each CONNECT as an upgrade, whatever its headers: parsing it again is useless."""
    request = raw(modern("tools/call", ADD))
    with Client(live.port) as client:
        client.send(raw(([("host", "localhost")], b""), *more, method="CONNECT") + request)
        assert client.answer()[0] == 501
        assert client.closed()
    with Client(live.port) as client:
        client.send(request)
        assert total(client.answer()[2]) == 5
    assert not caplog.records


def test_blanks_around_header_values_are_stripped(live: Live) -> None:
    headers, body = modern("tools/call", ADD)
    padded = [(name, f"  {value}\t ") for name, value in headers]
    with Client(live.port) as client:
        client.send(raw((padded, body)))
        assert total(client.answer()[2]) == 5


def test_http_1_0_is_answered_and_closed(live: Live) -> None:
    with Client(live.port) as client:
        client.send(raw(modern("tools/call", ADD)).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert total(client.answer()[2]) == 5
        assert client.closed()


def test_malformed_http_is_refused_and_closed(live: Live) -> None:
    for data in (
        b"HELLO\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        raw(modern("ping"), ("transfer-encoding", "chunked"), ("content-length", "3")),
    ):
        with Client(live.port) as client:
            client.send(data)
            status, headers, _ = client.answer()
            assert (status, headers["connection"]) == (400, "close")
            assert client.closed()


def test_an_endless_head_is_cut_off(live: Live) -> None:
    with Client(live.port) as client:
        client.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 20_000)
        assert client.answer()[0] == 431
        assert client.closed()
    # The limit is per head, not per connection.
    with Client(live.port) as client:
        for _ in range(10):
            client.send(raw(modern("tools/call", ADD), ("x-padding", "a" * 5_000)))
            assert total(client.answer()[2]) == 5


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize(
    ("behind", "status"), [(b"HELLO\r\n\r\n", 400), (b"CONNECT localhost:80 HTTP/1.1\r\nhost: x\r\n\r\n", 501)]
)
def test_a_refusal_does_not_overtake_answers(pieces: int, behind: bytes, status: int) -> None:
    rig = Rig()
    calls = [raw(modern("tools/call", call("late", {"gate": gate}))) for gate in "ab"]
    with serving(lambda: make_app(rig)) as live, Client(live.port) as client:
        client.send(calls[0] + (calls[1] + behind if pieces == 1 else b""))
        for gate in "ab":
            wait_until_sync(lambda gate=gate: rig.waiting == {gate})  # type: ignore[misc]
            if gate == "a" and pieces == 2:
                client.send(calls[1] + behind)
            open_gate(rig, gate)
            assert client.answer()[0] == 200
        assert client.answer()[0] == status
        assert client.closed()


def test_the_arrival_timeout_excludes_the_time_of_earlier_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, late = Rig(), list[int]()
    with serving(lambda: make_app(rig), arrival_seconds=0.1) as live:
        expire: Any = live.protocol.expire  # type: ignore[attr-defined]

        def noting(protocol: Any) -> None:
            expire(protocol)
            late.append(1)

        monkeypatch.setattr(live.protocol, "expire", noting)
        following = raw(modern("tools/call", call("echo", {"text": "x" * 500_000})))
        with Client(live.port) as client:
            client.send(raw(modern("tools/call", call("late", {"gate": "g"}))))
            wait_until_sync(lambda: rig.waiting == {"g"})
            sending = threading.Thread(target=client.send, args=(following,))
            sending.start()
            wait_until_sync(lambda: len(late) > 1, what="the second limit")
            open_gate(rig)
            assert [client.answer()[0] for _ in range(2)] == [200, 200]
            sending.join()


def test_slow_requests_are_cut_off_and_idle_connections_kept() -> None:
    with serving(make_app, arrival_seconds=1.0) as live, Client(live.port) as idle:
        idle.send(raw(modern("tools/call", ADD)))
        assert total(idle.answer()[2]) == 5
        data = raw(modern("tools/call", ADD))
        for part in (data[:20], data[:-20], b""):
            with Client(live.port) as slow:
                slow.send(part)
                status, headers, _ = slow.answer()
                assert (status, headers["connection"]) == (408, "close")
                assert slow.closed()
        assert live.app.in_flight == 0
        idle.send(raw(modern("tools/call", ADD)))
        assert total(idle.answer()[2]) == 5


def test_idle_clients_cannot_lock_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    data = raw(modern("tools/call", ADD))
    with serving(make_app) as live, contextlib.ExitStack() as open_ones:
        kind: Any = live.protocol
        monkeypatch.setattr(kind, "most_unfinished", 50)
        idle = open_ones.enter_context(Client(live.port))
        idle.send(data)
        assert total(idle.answer()[2]) == 5
        silent = []
        for part in (b"", data[:20], data[:-20]) * 60:
            silent.append(open_ones.enter_context(Client(live.port)))
            silent[-1].send(part)
        # The oldest ones were closed long before their timeout, and a request is served.
        for one in silent[:100]:
            assert one.answer()[0] == 408
            assert one.closed()
        with Client(live.port) as client:
            client.send(data)
            assert total(client.answer()[2]) == 5
        assert len(kind.unfinished) <= 50
        # Neither a connection with a waiting call nor the youngest of the slow ones is closed.
        idle.send(data)
        assert total(idle.answer()[2]) == 5
        silent[-1].send(data[-20:])
        assert total(silent[-1].answer()[2]) == 5


def test_a_waiting_call_does_not_count_as_idle(monkeypatch: pytest.MonkeyPatch, rig: Rig) -> None:
    with serving(lambda: make_app(rig)) as live, Client(live.port) as waiting, contextlib.ExitStack() as open_ones:
        kind: Any = live.protocol
        monkeypatch.setattr(kind, "most_unfinished", 3)
        # It has pipelined the beginning of another request.
        waiting.send(raw(modern("tools/call", call("watch", {"gate": "g"}))) + b"POST /mcp")
        wait_until_sync(lambda: "g" in rig.waiting, what="the call waits")
        silent = [open_ones.enter_context(Client(live.port)) for _ in range(8)]
        for one in silent[:4]:
            assert one.answer()[0] == 408
        open_gate(rig)
        assert waiting.answer()[0] == 200


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://{own}/mcp", 200),
        ("HTTP://{own}/mcp?x=1", 200),
        ("https://LOCALHOST/mcp", 200),
        ("http://{own}", 405),
        ("http://evil.example/mcp", 421),
        ("http://evil.example:80/mcp", 421),
        ("http://{own}@evil.example/mcp", 421),
        ("http://evil.example@{own}/mcp", 421),
        ("http:///mcp", 421),
        ("ftp://{own}/mcp", 400),
        ("{own}/mcp", 400),
    ],
)
def test_an_absolute_target_counts_as_the_host(live: Live, target: str, status: int) -> None:
    own = f"127.0.0.1:{live.port}"
    head, rest = raw(modern("tools/call", ADD)).split(b"\r\n", 1)
    request = head.replace(b"/mcp", target.format(own=own).encode()) + b"\r\n" + rest
    # The second one could take the fast path; the Host header must not matter either.
    for data in (request, request, request.replace(b"host: 127.0.0.1:8420", b"host: evil.example")):
        with Client(live.port) as client:
            client.send(data)
            assert client.answer()[0] == status
    twice = request.replace(b"\r\nhost:", b"\r\nhost: localhost\r\nhost:")
    with Client(live.port) as client:
        client.send(twice)
        assert client.answer()[0] in (400, status if status == 421 else 400)


@pytest.mark.parametrize("make", [modern, legacy])
def test_a_waiting_call_that_accepts_only_json(rig: Rig, make: Any) -> None:
    request = raw(make("tools/call", call("watch", {"gate": "g"}), accept="application/json"))
    with serving(lambda: make_app(rig)) as live:
        with Client(live.port) as client:
            client.send(request)
            wait_until_sync(lambda: "g" in rig.waiting, what="the call waits")
            open_gate(rig)
            status, headers, body = client.answer()
            assert (status, headers["content-type"]) == (200, "application/json")
            assert json.loads(body)["result"]["structuredContent"] == {"ok": True}
        with Client(live.port) as client:
            client.send(request)
            wait_until_sync(lambda: "g" in rig.waiting, what="the call waits")
        wait_until_sync(lambda: not rig.waiting and not live.app.in_flight, what="the end of a call without a client")


def test_disconnects_are_harmless(live: Live) -> None:
    data = raw(modern("tools/call", ADD))
    for part in (data[:-20], data, raw(legacy("tools/call", ADD))[:-5]):
        with Client(live.port) as client:
            client.send(part)
    with Client(live.port) as client:
        client.send(data)
        assert total(client.answer()[2]) == 5


def test_a_disconnect_between_pipelined_answers_is_harmless(
    live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    protocol: Any = live.protocol
    paused, lost = threading.Event(), threading.Event()
    pause, lose = protocol.pause_writing, protocol.connection_lost

    def pausing(connection: Any) -> None:
        pause(connection)
        paused.set()

    def losing(connection: Any, exc: Exception | None) -> None:
        lose(connection, exc)
        if paused.is_set():
            lost.set()

    monkeypatch.setattr(protocol, "pause_writing", pausing)
    monkeypatch.setattr(protocol, "connection_lost", losing)
    large = raw(modern("tools/call", call("echo", {"text": "x" * 3_000_000})))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(("127.0.0.1", live.port))
        # The second is being answered, the third has arrived, when the client disconnects.
        client.sendall(large + raw(modern("tools/list")) + raw(modern("tools/list")))
        assert paused.wait(60)
        wait_until_sync(lambda: live.app.in_flight == 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert lost.wait(60)
    wait_until_sync(lambda: not live.server.server_state.tasks)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_client_counts_as_connected_when_file_descriptors_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking its connection needs a file descriptor. Otherwise it would get an item that was released."""
    ours, theirs = socket.socketpair()
    protocol = object.__new__(BoundedHttpProtocol)
    protocol.transport = SimpleNamespace(is_closing=lambda: False, get_extra_info=lambda name: ours)  # type: ignore[assignment]

    def none_left(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with ours, theirs:
        assert not protocol.is_gone()
        with monkeypatch.context() as patching:
            patching.setattr("os.dup", none_left)
            assert not protocol.is_gone()
        theirs.close()
        assert protocol.is_gone()


def test_draining_tells_clients_to_connect_elsewhere() -> None:
    with serving(make_app) as live, Client(live.port) as client, Client(live.port) as probe:
        for request in (modern("tools/call", ADD), modern("tools/call", ADD)):
            client.send(raw(request))
            assert "connection" not in client.answer()[1]
        live.app.begin_drain()
        probe.send(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert probe.answer()[0] == 503
        client.send(raw(modern("tools/call", ADD)))
        status, headers, body = client.answer()
        assert (status, headers["connection"], total(body)) == (200, "close", 5)
        assert client.closed()


def test_a_connection_that_is_reset_leaves_no_timer(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    protocol: Any = live.protocol
    lost: list[Any] = []
    whole = protocol.connection_lost

    def losing(connection: Any, exc: Exception | None) -> None:
        whole(connection, exc)
        lost.append((exc, connection.timeout_keep_alive_task))

    monkeypatch.setattr(protocol, "connection_lost", losing)
    with Client(live.port) as client:
        client.send(raw(modern("ping")))
        client.answer()
        client.reset()
    # Connections of earlier tests may close here too.
    wait_until_sync(lambda: any(isinstance(why, ConnectionResetError) for why, _ in lost))
    assert [timer for _, timer in lost if timer is not None] == []


@pytest.mark.parametrize(
    ("times", "more", "sent"),
    [(2, [], True), (4, [], True), (5, [], False), (2, [("expect", "100-continue")], False)],
)
def test_a_client_that_sends_too_much_reads_why(times: int, more: list[tuple[str, str]], sent: bool) -> None:
    """It may read nothing before it has sent everything. A connection closed before that is reset."""
    limit = 100_000
    with serving(lambda: make_app(with_settings={"max_body_bytes": limit})) as live, Client(live.port) as client:
        headers, _ = modern("tools/call", ADD)
        request = raw((headers, b"x" * (times * limit)), *more)
        client.send(request if sent else request[: -times * limit])
        status, head, answer = client.answer()
        assert (status, head["connection"]) == (413, "close")
        assert b"larger than 100000 bytes" in answer
