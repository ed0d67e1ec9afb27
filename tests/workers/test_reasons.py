"""Why a connection does not work, in words: at the first call and at later ones, over HTTP, TLS and stdio."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.settings.sections.connections import Connection
from tests.support.certificates import self_signed
from tests.support.fleets import environment
from tests.support.odd_http import Answer, OddHttp
from tests.support.ports import free_port
from tests.support.wait import wait_until
from tests.support.web import silent
from workers.downstream import reasons
from workers.downstream.answers import MAX_ANSWER
from workers.downstream.failures import CallRefused, ConnectionFailed
from workers.downstream.server import DownstreamServer

pytestmark = pytest.mark.anyio

SECRET = "s3cret-token"
ENVIRONMENT = {**os.environ, "SEARCH_TOKEN": SECRET, "QUERY_KEY": "k3y-of-query"}
HEADERS = {"Authorization": "Bearer ${SEARCH_TOKEN}", "X-Team": "a"}


@pytest.fixture
def web() -> Iterator[OddHttp]:
    with OddHttp() as server:
        yield server


@pytest.fixture
async def made() -> AsyncIterator[list[DownstreamServer]]:
    servers: list[DownstreamServer] = []
    yield servers
    for server in servers:
        await server.close()


async def reason(made: list[DownstreamServer], connection: Connection) -> str:
    """Why the first call fails."""
    server = DownstreamServer("it", connection, ENVIRONMENT)
    made.append(server)
    with pytest.raises(ConnectionFailed) as failed:
        await server.call("any", {}, "7-9")
    said = str(failed.value)
    assert SECRET not in said
    assert "127.0.0.1:" not in said
    begin, told = said[: len(_BEGIN)], said[len(_BEGIN) :]
    assert begin == _BEGIN
    return told


_BEGIN = "the connection 'it' does not work: "
REFUSED = "the header Authorization (from SEARCH_TOKEN) and the header X-Team"
RPC = {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": f"no such key: Bearer {SECRET}"}}
LONG = {**RPC, "error": {"code": -32001, "message": "x" * 190 + f" {SECRET}"}}
"""The secret would be cut in two."""
HTML = {"content-type": "text/html; charset=utf-8"}
STATUSES = [
    (Answer(401), f"answered with status 401: it refuses {REFUSED}"),
    (
        Answer(401, json.dumps(RPC).encode()),
        f"answered with status 401: it refuses {REFUSED}; it says: no such key: Bearer ***",
    ),
    (
        Answer(401, json.dumps(LONG).encode()),
        f"answered with status 401: it refuses {REFUSED}; it says: {'x' * 190} ***",
    ),
    (Answer(403, b"<h1>no</h1>", HTML), f"answered with status 403: it refuses access with {REFUSED}"),
    (Answer(404), "answered with status 404: there is nothing at this path"),
    (Answer(405), "answered with status 405: it takes no such requests at this path"),
    (Answer(429, b"", {"retry-after": "30"}), "answered with status 429: it limits the rate of calls (wait 30 s)"),
    (Answer(429), "answered with status 429: it limits the rate of calls"),
    (Answer(500, b"oops", HTML), "answered with status 500: it failed"),
    (Answer(502), "answered with status 502: a proxy in front of it gets no answer from it"),
    (Answer(503, b"", {"retry-after": "5"}), "answered with status 503: it is overloaded or down (wait 5 s)"),
    (Answer(418), "answered with status 418: I'm a Teapot"),
    (
        Answer(302, b"", {"location": "https://user:pw@login.example.org/sso?next=x"}),
        "answered with status 302: it redirects to https://login.example.org, which is not followed",
    ),
    (
        Answer(301, b"", {"location": "/mcp/"}),
        "answered with status 301: it redirects to another path of its own, which is not followed",
    ),
    (Answer(302, b"{}"), "answered with status 302: Found"),
    (Answer(200, b"<html></html>", HTML), "answered with text/html instead of MCP: is the path of its URL right?"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "words"), STATUSES, ids=[f"{n}-{one[0].status}" for n, one in enumerate(STATUSES)])
async def test_what_an_http_server_answers_is_told_at_the_first_call_and_at_later_ones(
    made: list[DownstreamServer], web: OddHttp, answer: Answer, words: str
) -> None:
    web.answer = answer
    assert await reason(made, web.connection(headers=HEADERS)) == f"it {words}"
    web.calls_only = True
    server = DownstreamServer("it", web.connection(headers=HEADERS), ENVIRONMENT)
    made.append(server)
    with pytest.raises(ConnectionFailed) as failed:
        await server.call("any", {}, "7-9")
    assert str(failed.value) == f"the connection 'it' {words}"
    limited = answer.status == 429
    assert failed.value.wait == (float(answer.headers.get("retry-after", 0)) if limited else None)
    web.answer = None
    assert (await server.call("any", {}, "7-9")).content, "the session goes on"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"status": "up"}', "it violates the protocol (is the path of its URL right?)"),
        (b"", "it violates the protocol (is the path of its URL right?)"),
        (b'"' + b"x" * MAX_ANSWER + b'"', f"it has more than {MAX_ANSWER} bytes"),
    ],
    ids=["other", "empty", "long"],
)
async def test_a_server_that_answers_with_other_json_is_told(
    made: list[DownstreamServer], web: OddHttp, body: bytes, words: str
) -> None:
    web.answer = Answer(200, body)
    assert await reason(made, web.connection()) == f"its answer cannot be used: {words}"


async def test_a_server_that_limits_connections_is_left_alone_for_as_long_as_it_asks(
    made: list[DownstreamServer], web: OddHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    reply = web.reply

    def counted(request: dict[str, Any]) -> Answer:
        asked.append(request["method"])
        return reply(request)

    monkeypatch.setattr(web, "reply", counted)
    web.answer = Answer(429, b"", {"retry-after": "30"})
    server = DownstreamServer("it", web.connection())
    made.append(server)
    for _ in range(2):
        with pytest.raises(ConnectionFailed, match=r"limits the rate of calls \(wait 30 s\)") as failed:
            await server.call("any", {}, "7-9")
        assert failed.value.wait is not None
        assert 20 < failed.value.wait <= 30
        assert not failed.value.sent
    assert asked == ["server/discover", "initialize"]
    web.answer = Answer(429, b"", {"retry-after": "86400"})
    made.append(longer := DownstreamServer("it", web.connection()))
    with pytest.raises(ConnectionFailed) as failed:
        await longer.call("any", {}, "7-9")
    assert failed.value.wait == 60


async def test_credentials_that_are_missing_or_in_the_url_are_told(made: list[DownstreamServer], web: OddHttp) -> None:
    web.answer = Answer(401)
    assert (await reason(made, web.connection())).endswith(
        "it wants credentials, and the connection has no headers with credentials"
    )
    in_url = web.connection(path="/mcp?key=${QUERY_KEY}")
    assert (await reason(made, in_url)).endswith("it refuses its URL (from QUERY_KEY)")


async def test_an_error_of_the_protocol_is_the_servers_own_word(made: list[DownstreamServer], web: OddHttp) -> None:
    web.answer = Answer(400, json.dumps(RPC).encode())
    given = web.connection(headers=HEADERS)
    assert await reason(made, given) == "it answered with an error: no such key: Bearer ***"
    web.calls_only = True
    server = DownstreamServer("it", given, ENVIRONMENT)
    made.append(server)
    with pytest.raises(CallRefused, match=r"^no such key: Bearer \*\*\*$"):
        await server.call("any", {}, "7-9")


@pytest.mark.parametrize("version", ["2099-01-01", "1.0"])
async def test_another_protocol_revision_is_told(made: list[DownstreamServer], web: OddHttp, version: str) -> None:
    web.version = version
    spoken = "2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"
    told = f"it offers the protocol revision {version}; spoken here: {spoken}"
    assert await reason(made, web.connection()) == told
    web.version = ""
    refusal = {"code": -32022, "message": "no", "data": {"supported": [version], "requested": "2026-07-28"}}
    web.answer = Answer(400, json.dumps({"jsonrpc": "2.0", "id": None, "error": refusal}).encode())
    assert await reason(made, web.connection()) == told


@pytest.mark.parametrize(
    ("path", "usual"), [("/sse", ", which is usually at /mcp instead of /sse"), ("/events?x=1", "")]
)
async def test_a_server_of_the_old_transport_is_told(
    made: list[DownstreamServer], web: OddHttp, path: str, usual: str
) -> None:
    web.old = True
    needed = "it speaks the old transport HTTP+SSE only, and Streamable HTTP is needed"
    assert await reason(made, web.connection(path=path)) == needed + usual


@pytest.mark.chaos
async def test_a_real_server_of_the_old_transport_is_told(made: list[DownstreamServer]) -> None:
    port = free_port()
    run = f"FastMCP('old').run(transport='sse', host='127.0.0.1', port={port}, show_banner=False)"
    quiet: Any = {"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL, "env": environment()}
    code = f"from fastmcp import FastMCP; {run}"
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", code, **quiet)
    try:
        await wait_until(lambda: listens(port), what="the server listens")
        told = await reason(made, Connection(kind="mcp", url=f"http://127.0.0.1:{port}/sse"))
        assert told.startswith("it speaks the old transport HTTP+SSE only")
    finally:
        server.kill()
        await server.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_a_stream_that_says_nothing_is_not_the_old_transport(
    made: list[DownstreamServer], web: OddHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reasons, "PROBE_SECONDS", 0.2)
    web.mute = True
    assert await reason(made, web.connection()) == "it answered with status 405: it takes no such requests at this path"


@pytest.mark.parametrize(
    ("name", "expired", "trusted", "words"),
    [
        ("localhost", False, False, "its certificate is not trusted: self-signed certificate"),
        ("localhost", True, True, "its certificate is not trusted: certificate has expired"),
        (
            "other.example.org",
            False,
            True,
            "its certificate is not trusted: Hostname mismatch, certificate is not valid for 'localhost'",
        ),
    ],
)
async def test_certificates_that_are_refused_are_told(
    made: list[DownstreamServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    expired: bool,
    trusted: bool,
    words: str,
) -> None:
    pem = self_signed(tmp_path, name, expired)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    with OddHttp(pem) as web:
        assert await reason(made, web.connection("localhost")) == f"it cannot be connected to ({words})"


async def test_a_server_that_cannot_be_reached_is_told(
    made: list[DownstreamServer], web: OddHttp, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = Connection(kind="mcp", url="http://does-not-exist.invalid/mcp")
    assert await reason(made, nowhere) == "it cannot be connected to (its name does not resolve)"
    closed = Connection(kind="mcp", url=f"http://127.0.0.1:{free_port()}/mcp")
    assert await reason(made, closed) == "it cannot be connected to (connection refused)"
    plain = msgspec.structs.replace(web.connection(), url=web.connection().url.replace("http:", "https:"))
    assert await reason(made, plain) == "it cannot be connected to (TLS failed: it does not speak TLS)"
    monkeypatch.setattr("workers.downstream.session.CONNECT_SECONDS", 0.2)
    monkeypatch.setattr(reasons, "CONNECT_SECONDS", 0.2)
    port = free_port()
    with silent("127.0.0.1", port):
        mute = Connection(kind="mcp", url=f"http://127.0.0.1:{port}/mcp")
        assert await reason(made, mute) == "it cannot be connected to within 0.2 s"


def program(script: str, **more: Any) -> Connection:
    return Connection(kind="mcp", command="sh", args=("-c", script), **more)


async def test_a_program_that_cannot_be_started_is_told(made: list[DownstreamServer], tmp_path: Path) -> None:
    plain, lost = tmp_path / "plain", tmp_path / "lost"
    plain.write_text("#!/bin/sh\n")
    lost.write_text("#!/no/such/interpreter\n")
    lost.chmod(0o700)
    for command, place, words in (
        ("/no/such/program", "", "the program '/no/such/program' is not there"),
        ("no-such-program", "/", "the program 'no-such-program' is not there"),
        (str(plain), "", f"the program '{plain}' may not be executed"),
        (str(lost), "", f"the program '{lost}' is there, but not the interpreter that its first line names"),
        ("sh", "/no/such/place", "the working directory '/no/such/place' is not there"),
        (sys.executable, str(plain), f"the working directory '{plain}' is not there"),
    ):
        assert await reason(made, Connection(kind="mcp", command=command, working_directory=place)) == words


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "the program ended with code 3"),
        ("echo 1 >&2; echo 2 >&2; exit 1", "the program ended with code 1; it last said: 2"),
        ("printf 'no door for %s' $TOKEN >&2; exit 1", "the program ended with code 1; it last said: no door for ***"),
        ("echo usage: x; exit 2", "the program ended with code 2; it last said: usage: x"),
        ("kill -9 $$", "the program ended by signal 9"),
        ("exec >&-; sleep 60", "it ended without an answer"),
    ],
)  # fmt: skip
async def test_a_program_that_ends_at_once_is_told_with_its_last_words(
    made: list[DownstreamServer], script: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.downstream.process.GRACE_SECONDS", 0.2)
    assert await reason(made, program(script, env={"TOKEN": "${SEARCH_TOKEN}"})) == words


async def test_a_program_that_takes_too_long_to_start_is_told_with_its_last_words(made: list[DownstreamServer]) -> None:
    slow = program("echo still loading >&2; sleep 60", start_seconds=0.5)
    assert await reason(made, slow) == "it did not answer within 0.5 s; it last said: still loading"


async def test_a_call_that_is_lost_says_why(made: list[DownstreamServer], tmp_path: Path) -> None:
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
    answers = (
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}},
        {"jsonrpc": "2.0", "id": 2, "result": about},
    )
    answering = "; ".join(f"read line; printf '{json.dumps(one)}\\n'" for one in answers)
    server = DownstreamServer("it", program(f"{answering}; read line; read line; echo out of memory >&2; exit 137"))
    made.append(server)
    with pytest.raises(ConnectionFailed) as failed:
        await server.call("any", {}, "7-9")
    said = "the connection 'it' was lost during the call: the program ended with code 137; it last said: out of memory"
    assert str(failed.value) == said
