"""Sessions with downstream MCP servers: real processes, over stdio and Streamable HTTP, that die and restart."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
from mcp_types.jsonrpc import JSONRPCResponse

from coordinator.settings import Settings
from coordinator.settings.sections.connections import Connection
from tests.support.downstream import PROGRAM, HttpServer, RawHttp, raw, stdio
from tests.support.ports import free_port
from tests.support.raw_server import FLAWED, USABLE
from tests.support.wait import process_alive, wait_until
from workers.connections.pool import Connections
from workers.downstream import answers, checked
from workers.downstream import server as downstream
from workers.downstream import session as downstream_session
from workers.downstream.failures import AnswerUnusable, CallRefused, ConnectionFailed
from workers.downstream.listing import Listing
from workers.downstream.server import DownstreamServer
from workers.downstream.session import Session

pytestmark = pytest.mark.anyio

Json = dict[str, Any]


@pytest.fixture
def http(tmp_path: Path) -> Iterator[HttpServer]:
    server = HttpServer(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def made(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[DownstreamServer]]:
    monkeypatch.setattr(downstream, "FIRST_PAUSE_SECONDS", 0.01)
    servers: list[DownstreamServer] = []
    yield servers
    for server in servers:
        await server.close()


@pytest.fixture(params=["stdio", "http"])
def connection(request: pytest.FixtureRequest) -> Connection:
    if request.param == "stdio":
        return stdio()
    found: Connection = request.getfixturevalue("http").connection
    return found


async def call(server: DownstreamServer, tool: str, **arguments: Any) -> Any:
    result = await server.call(tool, arguments, "7-9")
    text = result.content[0].text if result.content else ""  # type: ignore[union-attr]
    return (text,) if result.is_error else result.structured_content or text


async def test_calls_share_a_session(connection: Connection, made: list[DownstreamServer], tmp_path: Path) -> None:
    server = DownstreamServer("it", connection)
    made.append(server)
    together = [call(server, "add", left=1, right=number) for number in range(5)]
    assert await asyncio.gather(*together) == [{"result": number + 1} for number in range(5)]
    first, second = await call(server, "facts"), await call(server, "facts")
    assert first["pid"] == second["pid"]
    assert await call(server, "key") == "7-9"
    assert "too loud: ha" in (await call(server, "shout", text="ha"))[0]
    assert "Unknown tool" in (await call(server, "no_such_tool"))[0]
    path = str(tmp_path / "file")
    waiting = asyncio.create_task(call(server, "wait_for", path=path))
    await wait_until(Path(path + ".begun").exists)
    assert await call(server, "greet", name="World") == "Hello, World!"
    waiting.cancel()
    await wait_until(Path(path + ".cancelled").exists, what="the server receives the cancellation")


async def test_a_changed_list_is_reported(connection: Connection, made: list[DownstreamServer]) -> None:
    changes: list[int] = []
    server = DownstreamServer("it", connection, on_change=lambda: changes.append(1))
    made.append(server)
    before = [tool.name for tool in await server.tools()]
    assert before[:2] == ["add", "greet"]
    assert (await server.tools())[0].description == "Adds two numbers."
    # Changes are reported only once the subscription has reached the server.
    count = len(changes)

    async def heard() -> bool:
        await call(server, "grow", name=f"new{len(await server.tools())}")
        return len(changes) > count

    await wait_until(heard, what="the change is heard of")
    assert len(await server.tools()) > len(before)


async def test_changes_are_followed_after_a_restart_of_the_server(
    http: HttpServer, made: list[DownstreamServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downstream_session, "LISTEN_AGAIN_SECONDS", 0.01)
    changes: list[int] = []
    server = DownstreamServer("it", http.connection, on_change=lambda: changes.append(1))
    made.append(server)

    async def heard() -> bool:
        await call(server, "grow", name=f"new{len(await server.tools())}")
        count = len(changes)
        await call(server, "grow", name=f"new{len(await server.tools())}")
        return len(changes) > count

    await wait_until(heard, what="the change is heard of")
    before = len(changes)
    http.kill()
    http.start()
    await wait_until(lambda: len(changes) > before, what="it is known that there may be other tools")
    await wait_until(heard, what="the change is heard of after the restart")


async def test_listing_tools_does_not_report_a_change(made: list[DownstreamServer]) -> None:
    changes: list[int] = []
    server = DownstreamServer("it", raw("mortal"), on_change=lambda: changes.append(1))
    made.append(server)
    # Listing again because of it would start one process after the other.
    with pytest.raises(ConnectionFailed, match="was lost during the call"):
        await server.tools()
    assert changes == []
    server = DownstreamServer("it", raw("plain"), on_change=lambda: changes.append(1))
    made.append(server)
    assert await call(server, "any") == "fine"
    assert changes == [1]


async def test_a_dead_server_is_restarted(made: list[DownstreamServer]) -> None:
    server = DownstreamServer("it", stdio(env={"SECRET": "${TOKEN}"}, working_directory="/"), {"TOKEN": "hush"})
    made.append(server)
    first = await call(server, "facts")
    assert first["secret"] == "***", "the server has it, and answers do not tell it"
    assert first["cwd"] == "/"
    with pytest.raises(ConnectionFailed, match="the connection 'it' was lost during the call") as caught:
        await call(server, "die")
    assert caught.value.sent
    second = await call(server, "facts")
    assert second["pid"] != first["pid"]
    os.kill(second["pid"], signal.SIGKILL)
    # It died between calls, so no call fails.
    await wait_until(lambda: not process_alive(second["pid"]))
    await wait_until(lambda: server.session is None or server.session.ended)
    third = await call(server, "facts")
    assert third["pid"] != second["pid"]
    await server.close()
    assert not process_alive(third["pid"])


async def test_a_server_that_comes_back_is_reconnected(
    http: HttpServer, made: list[DownstreamServer], tmp_path: Path
) -> None:
    server = DownstreamServer("it", http.connection)
    made.append(server)
    path = str(tmp_path / "file")
    waiting = asyncio.create_task(call(server, "wait_for", path=path))
    await wait_until(Path(path + ".begun").exists)
    http.kill()
    with pytest.raises(ConnectionFailed, match="was lost during the call"):
        await waiting
    with pytest.raises(ConnectionFailed, match="connection refused") as caught:
        await call(server, "facts")
    assert not caught.value.sent
    assert str(http.port) not in str(caught.value)
    http.start()

    async def answered() -> bool:
        try:
            return bool(await call(server, "facts"))
        except ConnectionFailed:
            return False

    await wait_until(answered, what="it answers again")
    http.kill()
    http.start()
    assert (await call(server, "facts"))["calls"] == 1


@pytest.mark.parametrize(
    ("connection", "reason"),
    [
        (Connection(kind="mcp", command="/no/such/program"), "the program '/no/such/program' is not there"),
        (Connection(kind="mcp", command="false"), "the program ended with code 1"),
        (Connection(kind="mcp", command="sleep", args=("60",), start_seconds=0.2), "it did not answer within 0.2 s"),
        (Connection(kind="mcp", command="x", env={"A": "${NO_SUCH}"}), "environment variable NO_SUCH is not set"),
        (Connection(kind="mcp", command="echo", args=("hello",)), "the program ended with code 0; it last said: hello"),
    ],
    ids=str,
)
async def test_an_unreachable_server_is_reported_with_the_reason(
    connection: Connection, reason: str, made: list[DownstreamServer]
) -> None:
    server = DownstreamServer("it", connection)
    made.append(server)
    with pytest.raises(ConnectionFailed, match=reason):
        await call(server, "add")


async def test_errors_of_a_server_contain_no_secret(made: list[DownstreamServer]) -> None:
    given = Connection(
        kind="mcp", command="sh", args=("-c", 'echo "no door for $KEY" >&2; exit 1'), env={"KEY": "${API_TOKEN}"}
    )
    server = DownstreamServer("it", given, {**os.environ, "API_TOKEN": "s3cret"})
    made.append(server)
    with structlog.testing.capture_logs() as logs, pytest.raises(ConnectionFailed):
        await call(server, "add")
    assert [line["lines"] for line in logs if line["event"] == "a connection's server said"] == [["no door for ***"]]


async def test_the_death_of_a_server_is_logged_with_its_last_output(
    made: list[DownstreamServer], tmp_path: Path
) -> None:
    script = f"'{sys.executable}' '{PROGRAM}'; echo 'out of memory' >&2"
    server = DownstreamServer("it", Connection(kind="mcp", command="sh", args=("-c", script)))
    made.append(server)
    with structlog.testing.capture_logs() as logs:
        pid, path = (await call(server, "facts"))["pid"], tmp_path / "file"
        asked = asyncio.create_task(call(server, "wait_for", path=str(path)))
        await wait_until(Path(f"{path}.begun").exists)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ConnectionFailed, match="was lost during the call"):
            await asked
        await server.close()
    reported = [
        (line["event"], line.get("reason", line.get("lines"))) for line in logs if line["log_level"] == "warning"
    ]
    assert reported[0] == ("connection lost", "the server ended, or closed the connection")
    assert [(event, said[-1]) for event, said in reported[1:]] == [("a connection's server said", "out of memory")]


async def test_a_dead_server_is_not_contacted_on_every_call(
    made: list[DownstreamServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downstream, "FIRST_PAUSE_SECONDS", 60.0)
    tried = 0
    original = Session.open

    async def counted(session: Any) -> None:
        nonlocal tried
        tried += 1
        await original(session)

    monkeypatch.setattr(Session, "open", counted)
    server = DownstreamServer("it", Connection(kind="mcp", url=f"http://127.0.0.1:{free_port()}/mcp"))
    made.append(server)
    for _ in range(3):
        with pytest.raises(ConnectionFailed, match="connection refused"):
            await call(server, "add")
    assert tried == 1


async def test_answers_that_violate_the_protocol_are_errors(made: list[DownstreamServer]) -> None:
    server = DownstreamServer("it", raw("plain"))
    made.append(server)
    with pytest.raises(AnswerUnusable, match="carried out, but its answer cannot be used: it violates the protocol"):
        await call(server, "odd")
    with pytest.raises(CallRefused, match="the disk is full"):
        await call(server, "full")
    given = msgspec.structs.replace(raw("plain"), env={"SECRET": "${SECRET}"})
    made.append(careful := DownstreamServer("it", given, {"SECRET": "disk"}))
    with pytest.raises(CallRefused, match=r"the \*\*\* is full"):
        await call(careful, "full")
    result = await server.call("plain", {}, "7-9")
    assert result.content[0].text == "fine"  # type: ignore[union-attr]
    server = DownstreamServer("it", raw("odd"))
    made.append(server)
    with pytest.raises(CallRefused, match="tools of the connection 'it' cannot be listed: it violates the protocol"):
        await server.tools()


async def test_a_malformed_tool_affects_no_other_tool(made: list[DownstreamServer]) -> None:
    server = DownstreamServer("it", raw("flawed"))
    made.append(server)
    for _ in range(2):
        listed = await server.tools()
        assert [tool.name for tool in listed if not tool.problem] == ["good", "inside", "last"]
        problems = {tool.name: tool.problem for tool in listed if tool.problem}
        assert [*problems] == [*FLAWED, "1", "None", "nothing"]
        assert problems["no-schema"] == "inputSchema: Field required"
        assert problems["banana"].startswith("inputSchema.type: ")
        assert problems["array-output"].startswith("outputSchema.type: ")
    assert await call(server, "good") == "fine"
    with pytest.raises(AnswerUnusable, match="used: Tool last has an output schema but did not return structured"):
        await call(server, "last")


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_schemas_are_mended_that_a_revision_refuses(version: str) -> None:
    sent = [{"name": name, "inputSchema": {"type": "object", "properties": one}} for name, one in USABLE.items()]
    message = JSONRPCResponse(jsonrpc="2.0", id=1, result={"tools": [*sent, {"name": "none", "inputSchema": {}}]})
    listing = Listing()
    listing.version = version
    listing.clean(message)
    assert [*listing.dropped] == ["none"]
    kept = {tool["name"]: tool["inputSchema"]["properties"] for tool in message.result["tools"]}
    assert kept.keys() == USABLE.keys()
    assert kept["booleans"] in ({"x": {}, "y": {"not": {}}}, USABLE["booleans"])
    assert kept["letters"] == USABLE["letters"]


async def test_results_are_checked_by_the_patterns_of_json_schema(made: list[DownstreamServer]) -> None:
    server = DownstreamServer("it", raw("schemas"))
    made.append(server)
    for _ in range(2):
        assert await call(server, "answers", x="Ωé") == {"x": "Ωé"}
        with pytest.raises(CallRefused, match=r"structuredContent\.x: 'a1' does not match") as caught:
            await call(server, "answers", x="a1")
        assert caught.value.carried_out
        # Nobody can tell whether these match: the call was carried out, so its result is what counts.
        for tool in ("nowhere", "banana"):
            assert await call(server, tool, x="a") == {"x": "a"}
    long = "a" * 5_000 + "b"
    began = time.thread_time()
    assert await call(server, "slow", x=long) == {"x": long}
    assert time.thread_time() - began < 20


async def test_what_a_server_mends_is_left_out_no_more() -> None:
    listing = Listing()

    def listed(cursor: str | None, *tools: Json) -> list[str]:
        result = {"tools": list(tools), "nextCursor": cursor}
        listing.clean(message := JSONRPCResponse(jsonrpc="2.0", id=1, result=result))
        return [tool["name"] for tool in message.result["tools"]]

    good, bad = {"inputSchema": {"type": "object"}}, {"inputSchema": 1}
    assert listed("more", {"name": "a", **bad}, {"name": "b", **good}) == ["b"]
    assert listed(None, {"name": "c", **bad}) == []
    assert [*listing.dropped] == ["a", "c"]
    assert listed(None, {"name": "a", **good}) == ["a"]
    assert listing.dropped == {}


async def test_a_tool_that_is_only_a_task_is_refused_clearly(made: list[DownstreamServer]) -> None:
    server = DownstreamServer("it", raw("schemas"))
    made.append(server)
    assert (await call(server, "letters", x="é")) == '{"x": "\\u00e9"}'
    with pytest.raises(CallRefused, match="'as-task' cannot be called: it can only be called as a task"):
        await call(server, "as-task")
    plain = DownstreamServer("it", raw("plain"))
    made.append(plain)
    with pytest.raises(CallRefused, match=r"^no such method$"):
        await call(plain, "as-task")


async def test_answers_over_http_are_bounded(made: list[DownstreamServer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_ANSWER", 100_000)
    with RawHttp() as http:
        server = DownstreamServer("it", http.connection)
        made.append(server)
        for tool, problem in (("big", "it has more than 100000 bytes"), ("packed", "it is compressed")):
            with pytest.raises(AnswerUnusable, match=problem):
                await call(server, tool)
            assert await call(server, "small") == "fine"
        monkeypatch.setattr(downstream_session, "MAX_ANSWER", 100_000)
        server = DownstreamServer("it", http.connection)
        made.append(server)
        with pytest.raises(AnswerUnusable, match="Server-sent event exceeded the 100000 byte limit"):
            await call(server, "streamed")
        await server.close()


@pytest.mark.parametrize("kind", ["odd", "rude", "mortal", "mute"])
async def test_a_call_succeeds_although_the_tools_cannot_be_listed(
    made: list[DownstreamServer], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "mute":  # a mortal one may take longer to end
        monkeypatch.setattr(checked, "LIST_SECONDS", 0.1)
    server = DownstreamServer("it", raw(kind))
    made.append(server)
    async with asyncio.timeout(30):
        assert await call(server, "plain") == "fine"
        assert await call(server, "plain") == "fine"


async def test_streamed_answers_may_be_as_large_as_others(made: list[DownstreamServer]) -> None:
    with RawHttp() as http:
        server = DownstreamServer("it", http.connection)
        made.append(server)
        assert len(await call(server, "streamed")) == 2_000_000
        await server.close()


async def test_a_server_that_prints_much_blocks_nobody(made: list[DownstreamServer]) -> None:
    server = DownstreamServer("it", raw("plain"))
    made.append(server)
    assert await call(server, "plain") == "fine"
    asked, turns = asyncio.create_task(call(server, "blank")), 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 25_000
    assert await asked == ""


async def test_unreadable_answers_over_stdio_block_nobody(made: list[DownstreamServer]) -> None:
    server = DownstreamServer("it", raw("plain"))
    made.append(server)
    async with asyncio.timeout(60):
        for tool in ("string", "half", "neither", "unfinished", "unnamed"):
            with pytest.raises(AnswerUnusable, match="it violates the protocol"):
                await call(server, tool)
        # Stray output is not an answer, and an invalid byte in a text breaks none.
        assert await call(server, "chatty") == ""
        assert await call(server, "latin") == "caf\N{REPLACEMENT CHARACTER}"
        assert server.session is not None
        assert not server.session.ended


@pytest.mark.parametrize(
    "farewell", [b"gone", b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}}']
)
async def test_a_session_forgotten_by_the_server_is_reopened(made: list[DownstreamServer], farewell: bytes) -> None:
    with RawHttp() as web:
        web.farewell = farewell
        server = DownstreamServer("it", web.connection)
        made.append(server)
        assert await call(server, "any") == "fine"
        web.sessions.clear()
        assert [*await asyncio.gather(call(server, "any"), call(server, "any"))] == ["fine", "fine"]
        web.sessions.clear()
        assert await server.tools() == ()
        web.forgetful = True
        web.sessions.clear()
        for asked in (partial(call, server, "any"), server.tools):
            with pytest.raises(ConnectionFailed, match="does not know its session any more") as reported:
                await asked()
            assert not reported.value.sent
        web.forgetful = False
        assert await call(server, "any") == "fine"
        await server.close()


async def test_an_endpoint_that_is_not_an_mcp_server(made: list[DownstreamServer], http: HttpServer) -> None:
    server = DownstreamServer("it", Connection(kind="mcp", url=http.url.replace("/mcp", "/other")))
    made.append(server)
    with pytest.raises((ConnectionFailed, CallRefused)):
        await call(server, "add")


async def test_a_connection_that_changed_ends_when_its_calls_have(tmp_path: Path) -> None:
    def stated(secret: str) -> Settings:
        return Settings(redis_url="redis://nowhere", connections={"it": stdio(env={"SECRET": secret})})

    async def used(*args: Any, **arguments: Any) -> Any:
        server = connections.server("it")
        assert server is not None
        return await call(server, *args, **arguments)

    connections = Connections(stated("old"))
    before = await used("facts")
    path = tmp_path / "file"
    waiting = asyncio.create_task(used("wait_for", path=str(path)))
    await wait_until(Path(f"{path}.begun").exists)
    connections.configure(stated("new"))
    assert (await used("facts"))["secret"] == "new"
    path.touch()
    assert await waiting == "there"
    await wait_until(lambda: not process_alive(before["pid"]), what="the server that changed has ended")
    await connections.close()


async def test_calls_that_wait_for_a_changed_connection_fail(tmp_path: Path) -> None:
    def stated(command: str) -> Settings:
        return Settings(redis_url="redis://nowhere", connections={"it": Connection(kind="mcp", command=command)})

    silent = tmp_path / "silent"
    silent.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid; exec sleep 300")
    silent.chmod(0o755)
    connections = Connections(stated(str(silent)))
    server = connections.server("it")
    assert server is not None
    waiting = asyncio.create_task(call(server, "any"))
    pid = int(await wait_until(lambda: (file := tmp_path / "pid").exists() and file.read_text().strip()))
    connections.configure(stated("other"))
    with pytest.raises(ConnectionFailed, match="the connection 'it' is closed") as reported:
        await waiting
    assert not reported.value.sent
    await connections.close()
    await wait_until(lambda: _collected(pid))


def _collected(pid: int) -> bool:
    """Whether asyncio has reaped its child. If not when its loop ends, a later test fails."""
    return not Path(f"/proc/{pid}").exists() and not any("waitpid" in one.name for one in threading.enumerate())


@pytest.mark.parametrize("closed", ["while it starts", "while it is given up"])
async def test_a_server_that_never_answers_is_terminated(tmp_path: Path, closed: str) -> None:
    script = f"echo $$ > {tmp_path}/pid; exec sleep 300"
    seconds = 60.0 if closed == "while it starts" else 3.0  # for a busy machine to start a shell
    server = DownstreamServer("it", Connection(kind="mcp", command="sh", args=("-c", script), start_seconds=seconds))
    asked = asyncio.create_task(server.tools())
    pid = int(await wait_until(lambda: (file := tmp_path / "pid").exists() and file.read_text().strip()))
    if closed == "while it is given up":
        await wait_until(lambda: any(one.ended for one in server.sessions))
    assert process_alive(pid)
    await server.close()
    await asyncio.gather(asked, return_exceptions=True)
    # If it was just starting, asyncio kills it without waiting.
    await wait_until(lambda: not process_alive(pid), what="its end")
    await wait_until(lambda: _collected(pid))
    await asyncio.sleep(0)
