"""MCP on stdin and stdout: the protocol and nothing else, and `fleet stdio` with real clients."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastmcp
import pytest
import redis
from fastmcp.client.transports import StdioTransport
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from coordinator.cli.exits import Exit
from coordinator.store.embedded.server import find_running
from coordinator.store.link.address import parse
from tests.support.fleets import fleet_command, fork_line, program_line
from tests.support.wait import wait_until
from tests.transport.rig import meta

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
RIG = "tests.transport.stdio_rig"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    # Generous, for a busy machine.
    "FLEET_REDIS_TIMEOUT_MS": "10000",
    "FLEET_REQUEST_DEADLINE_MS": "20000",
}


LONG_MS = 45_000
"""Longer than a test waits."""


def fleet_stdio(data_dir: Path, *more: str) -> list[str]:
    return fork_line("stdio", "--toolset", "items", "--data-dir", str(data_dir), *more)


def started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT, cwd=ROOT)


def exchange(command: Sequence[str], messages: Sequence[Any], answers: int) -> tuple[list[Any], str]:
    """The first ``answers`` lines of a server's stdout, and all of its stderr."""
    lines = "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in messages)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines.encode())
        process.stdin.flush()
        answered = [process.stdout.readline() for _ in range(answers)]
        rest, said = process.communicate(timeout=60)
    assert (rest, process.returncode) == (b"", 0)
    return [json.loads(line) for line in answered], said.decode()


def request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


HELLO = [
    request(
        1,
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
    ),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]


def test_stdout_carries_the_protocol_and_nothing_else() -> None:
    answers, said = exchange(
        program_line(RIG),
        [
            *HELLO,
            request(2, "tools/call", {"name": "nothing"}),
            request(3, "tools/call", {"name": "add", "arguments": {"left": "4"}}),
            request(4, "tools/call", {"name": "add", "arguments": {"left": "many"}}),
            request(5, "tools/call", {"name": "nope"}),
            request(6, "tools/call", {"name": "broken"}),
        ],
        answers=6,
    )
    by_id = {answer["id"]: answer for answer in answers}
    assert set(by_id) == {1, 2, 3, 4, 5, 6}
    assert by_id[1]["result"]["serverInfo"]["name"] == "fleet-coordinator"
    assert by_id[2]["result"]["structuredContent"] == {"ok": True}
    assert by_id[3]["result"]["structuredContent"] == {"sum": 5}
    assert by_id[4]["result"]["structuredContent"]["error"]["code"] == "VALIDATION_ERROR"
    assert by_id[5]["error"]["code"] == -32602
    assert by_id[5]["error"]["message"].startswith("Unknown tool: nope; there are: add, echo, ")
    assert by_id[6]["result"]["structuredContent"]["error"]["message"].endswith("(request 6)")
    for stray in ("stray print", "stray write", "stray child", "stray end"):
        assert stray in said


def test_a_session_begins_with_initialize_and_never_in_the_revision_with_batches() -> None:
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    answers, _ = exchange(
        program_line(RIG),
        [request(1, "tools/list", {}), request(2, "initialize", hello)],
        answers=2,
    )
    early, begun = sorted(answers, key=lambda answer: answer["id"])
    assert early["error"]["message"].startswith("the session has not begun: send initialize first, or name the ")
    assert begun["result"]["protocolVersion"] == "2025-11-25"


def test_the_stateless_revision_on_stdio() -> None:
    answers, _ = exchange(
        program_line(RIG),
        [
            request(1, "server/discover", {"_meta": meta()}),
            request(2, "tools/call", {"name": "echo", "arguments": {"text": "é\u2028"}, "_meta": meta()}),
            request(3, "initialize", {}),
        ],
        answers=3,
    )
    by_id = {answer["id"]: answer for answer in answers}
    assert by_id[1]["result"]["supportedVersions"] == ["2026-07-28"]
    assert by_id[2]["result"]["structuredContent"]["text"] == "é\u2028"
    assert by_id[2]["result"]["resultType"] == "complete"
    assert by_id[3]["error"]["code"] == -32022


def test_malformed_requests_get_errors_and_nothing_else_does() -> None:
    ping = '{"jsonrpc":"2.0","id":%s,"method":"ping"}'
    answers, _ = exchange(
        program_line(RIG),
        [
            "this is no JSON",
            "[" * 100_000,
            "\ufeff" + ping % 1,
            "[" + ping % 1 + "]",
            *(ping % wrong for wrong in ("null", "1.5", "true", "[]", r'"\ud83d"')),
            r'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"\ud83d"}}}',
            '{"jsonrpc":"2.0","id":3,"method":"ping","params":' + '{"x":' * 250 + "1" + "}" * 251,
            '{"jsonrpc":"2.0","id":"4","method":"ping","params":[]}',
            '{"id":5,"method":"ping"}',
            "",
            '{"jsonrpc":"2.0","id":6,"result":{}}',
            '{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}',
            request(8, "server/discover", {"_meta": meta()}),
        ],
        answers=14,
    )
    assert [(answer["id"], answer["error"]["code"]) for answer in answers[:-1]] == [
        *[(None, -32700)] * 3, *[(None, -32600)] * 6, *((number, -32600) for number in (2, 3, "4", 5)),
    ]  # fmt: skip
    assert answers[-1]["id"] == 8


async def work(client: Any, title: str) -> list[str]:
    """Creates an item and returns the titles of all that are ready."""
    await client.call_tool("manage_items", {"operation": "create", "items": [{"title": title}]})
    found = await client.call_tool("get_next_item", {"limit": 20})
    return [one["title"] for one in found.structured_content["recommendations"]]


async def test_local_agents_share_one_store_that_survives_its_owner(tmp_path: Path) -> None:
    """The first starts the embedded store; the other one restarts it after the first has exited."""
    command = fleet_stdio(tmp_path / "data")
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=ENVIRONMENT, cwd=str(ROOT))
    started, leave = asyncio.Event(), asyncio.Event()

    async def first_agent() -> None:
        async with Client(stdio_client(parameters), mode="2026-07-28", read_timeout_seconds=60) as first:
            assert await work(first, "one") == ["one"]
            started.set()
            await leave.wait()

    first = asyncio.create_task(first_agent())
    await wait_until(lambda: started.is_set() or first.done(), what="the first agent's work")
    assert not first.done(), first
    async with Client(stdio_client(parameters), mode="legacy", read_timeout_seconds=60) as second:
        assert sorted(await work(second, "two")) == ["one", "two"]
        leave.set()
        await first

        async def found() -> list[str] | None:
            # The first one's store has stopped; until there is another, calls fail with a retry delay.
            answer = await second.call_tool("get_next_item", {"limit": 20})
            if answer.is_error:
                assert answer.structured_content["error"]["kind"] == "shedding"
                return None
            return sorted(one["title"] for one in answer.structured_content["recommendations"])

        assert await wait_until(found, what="the store's return") == ["one", "two"]
    assert find_running(tmp_path / "data") is None


@pytest.mark.parametrize("number", [pytest.param(signal.SIGSTOP, marks=pytest.mark.chaos), signal.SIGKILL])
async def test_a_failed_store_is_restarted_under_its_agents(tmp_path: Path, number: signal.Signals) -> None:
    """The session that started it supervises it; the others reconnect."""
    command = fleet_stdio(tmp_path / "data", "--watchdog-seconds", "2")
    # A short timeout: calls must notice a hung store before it is restarted.
    environment = {**ENVIRONMENT, "FLEET_REDIS_TIMEOUT_MS": "2000"}
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=str(ROOT))
    async with (
        Client(stdio_client(parameters), mode="2026-07-28", read_timeout_seconds=60) as owner,
        Client(stdio_client(parameters), mode="2026-07-28", read_timeout_seconds=60) as other,
    ):
        assert await work(owner, "one") == ["one"]
        assert sorted(await work(other, "two")) == ["one", "two"]
        failed = store_pid(tmp_path / "data")
        os.kill(failed, number)
        try:
            for client in (other, owner):
                found = await wait_until(partial(titles, client), what="the store's return")
                assert found == ["one", "two"]
            assert store_pid(tmp_path / "data") != failed
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(failed, signal.SIGCONT)
    assert find_running(tmp_path / "data") is None


def store_pid(data_dir: Path) -> int:
    url = find_running(data_dir)
    assert url is not None
    with redis.Redis(**parse(url).client_options()) as client:
        info: Any = client.info("server")
        return int(info["process_id"])


async def titles(client: Any) -> list[str] | None:
    answer = await client.call_tool("get_next_item", {"limit": 20})
    return None if answer.is_error else sorted(one["title"] for one in answer.structured_content["recommendations"])


async def test_fastmcps_client_on_stdio(tmp_path: Path) -> None:
    command = fleet_stdio(tmp_path / "data", "--project", "team-1")
    transport = StdioTransport(command[0], command[1:], env=ENVIRONMENT, cwd=str(ROOT), keep_alive=False)
    async with fastmcp.Client(transport) as client:
        assert "claim_item" in {tool.name for tool in await client.list_tools()}
        assert await work(client, "one") == ["one"]


def test_a_signal_ends_it_cleanly(tmp_path: Path) -> None:
    with started(fleet_stdio(tmp_path / "data")) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request(1, "tools/list", {"_meta": meta()})).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        assert find_running(tmp_path / "data") is not None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == Exit.OK
        assert process.stdout.read() == b""
    assert find_running(tmp_path / "data") is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--toolset", "nope"], "there is no toolset 'nope'; allowed: items"),
        (["--toolset", "sessions", "--toolset", "navigator"], "sessions and navigator cannot be served together"),
        (["--project", "Not A Project"], "project: must be 1 to 63 lower-case letters"),
        (["--project", "alhpa"], "there is no project 'alhpa' (setting projects); did you mean 'alpha'?"),
    ],
)
def test_invalid_arguments_are_reported_in_one_sentence(tmp_path: Path, more: list[str], words: str) -> None:
    given = ("stdio", "--toolset", "items", "--data-dir", str(tmp_path / "data"), *more)
    done = fleet_command(*given, FLEET_PROJECTS="default,alpha")
    assert (done.returncode, done.stdout) == (Exit.USAGE, "")
    assert done.stderr.startswith("fleet: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert not (tmp_path / "data").exists(), "a store was started for it"


@pytest.mark.parametrize("closed", ["<&-", pytest.param(">&-", marks=pytest.mark.chaos)])
def test_a_closed_stream_is_reported(tmp_path: Path, closed: str) -> None:
    command = [sys.executable, "-m", "coordinator", "stdio", "--toolset", "items", "--data-dir", str(tmp_path)]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *command], capture_output=True, text=True, env=ENVIRONMENT, cwd=ROOT,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == Exit.USAGE
    assert done.stderr == "fleet: stdin and stdout have to be open: they carry the protocol\n"


def call(number: int, tool: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    return request(number, "tools/call", {"name": tool, "arguments": arguments, **more})


def claim(number: int, agent: str, *, wait_ms: int, **more: Any) -> dict[str, Any]:
    """A claim of any item that waits."""
    claims: list[Any] = [{"selector": {}}]
    given = {"actor": {"id": agent, "kind": "subagent"}, "claims": claims, "requestId": str(uuid4()), "waitMs": wait_ms}
    return call(number, "claim_item", given, **more)


def piped(command: Sequence[str], messages: Sequence[Any], directory: Path) -> dict[Any, Any]:
    """The answers to the messages in a file, by request; the process exits by itself with code 0."""
    file = directory / "in.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in messages))
    with file.open("rb") as lines:
        done = subprocess.run(command, stdin=lines, capture_output=True, env=ENVIRONMENT, cwd=ROOT, timeout=120)
    assert done.returncode == Exit.OK, done.stderr.decode()
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    by_id = {answer["id"]: answer for answer in answers}
    assert len(by_id) == len(answers)
    return by_id


def test_requests_from_a_file_are_answered(tmp_path: Path) -> None:
    """Although the input ends while all calls are in flight. Of two claims of one item, one would have to wait."""
    command = fleet_stdio(tmp_path / "data")
    created = {"operation": "create", "items": [{"title": "one"}]}
    assert set(piped(command, [*HELLO, call(2, "manage_items", created)], tmp_path)) == {1, 2}

    claims = [claim(number, f"agent-{number}", wait_ms=LONG_MS) for number in (2, 3)]
    reads = [call(number, "query_items", {"operation": "search"}) for number in range(4, 20)]
    answers = piped(command, [*HELLO, *claims, *reads], tmp_path)
    assert set(answers) == set(range(1, 20))
    assert all(answers[number]["result"]["structuredContent"]["total"] == 1 for number in range(4, 20))
    served, ended = sorted(
        (answers[number]["result"]["structuredContent"] for number in (2, 3)), key=lambda one: "error" in one
    )
    assert served["claimResults"][0]["outcome"] == "success"
    assert ended["error"]["code"] == "draining"


def test_calls_in_flight_continue_up_to_the_request_deadline(tmp_path: Path) -> None:
    command = program_line(RIG, "500")
    late, watched, cancelled = (
        call(2, "late", {"gate": "never"}),
        call(3, "watch", {"gate": "never"}),
        call(4, "watch", {"gate": "never"}),
    )
    leave = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}}
    answers = piped(command, [*HELLO, late, watched, cancelled, leave, call(5, "nothing", {})], tmp_path)
    assert set(answers) == {1, 2, 3, 5}
    assert answers[2]["result"]["structuredContent"]["error"]["code"] == "deadline_exceeded"
    assert answers[3]["error"]["code"] == -32000
    assert answers[5]["result"]["structuredContent"] == {"ok": True}


@pytest.mark.parametrize("end", ["its input ends", "a signal comes"])
async def test_no_item_goes_to_a_claim_whose_session_ends(tmp_path: Path, end: str) -> None:
    """The store belongs to another session, and keeps running."""
    command = fleet_stdio(tmp_path / "data")
    parameters = StdioServerParameters(command=command[0], args=command[1:], env=ENVIRONMENT, cwd=str(ROOT))
    async with Client(stdio_client(parameters), mode="2026-07-28", read_timeout_seconds=60) as other:
        assert await titles(other) == []
        url = find_running(tmp_path / "data")
        assert url is not None
        with (
            redis.Redis(**parse(url).client_options()) as store,
            started(command) as process,
        ):
            assert process.stdin is not None
            process.stdin.write(json.dumps(claim(1, "gone", wait_ms=LONG_MS, _meta=meta())).encode() + b"\n")
            process.stdin.flush()
            await wait_until(lambda: next(store.scan_iter("fc:{default}:wt:*", 1000), None), what="the parked claim")
            if end == "a signal comes":
                process.send_signal(signal.SIGTERM)
            else:
                process.stdin.close()
            assert await asyncio.to_thread(process.wait, 60) == Exit.OK
            assert process.stdout is not None
            answer = json.loads(process.stdout.read())
            assert answer["result"]["structuredContent"]["error"]["code"] == "draining"
            assert not list(store.scan_iter("fc:{default}:wt:*", 1000))
        assert await work(other, "one") == ["one"]


def test_a_signal_ends_it_while_answers_are_unread(tmp_path: Path) -> None:
    with started(fleet_stdio(tmp_path / "data")) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = 30
        for number in range(asked):
            process.stdin.write(json.dumps(request(number, "tools/list", {"_meta": meta()})).encode() + b"\n")
        process.stdin.close()
        answers = [process.stdout.readline() for _ in range(2)]
        assert all(json.loads(answer)["result"]["tools"] for answer in answers)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == Exit.OK
        assert len(process.stdout.read().splitlines()) < asked - len(answers), "nothing was left to be read"
    assert find_running(tmp_path / "data") is None


def test_a_client_that_stops_reading_ends_it_silently() -> None:
    with subprocess.Popen(
        program_line(RIG),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        ask = json.dumps(request(1, "tools/list", {"_meta": meta()})) + "\n"
        process.stdin.write(ask.encode())
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.stdout.close()
        process.stdin.write(ask.encode())
        process.stdin.close()
        said = process.stderr.read().decode()
        assert process.wait(60) == 0
        assert "Traceback" not in said


def test_a_local_client_gets_the_hint_about_an_unwritten_project(tmp_path: Path) -> None:
    look = request(1, "tools/call", {"name": "get_next_item", "arguments": {}, "_meta": meta()})
    answers, _ = exchange(fleet_stdio(tmp_path / "data", "--project", "nosuch"), [look], 1)
    assert answers[0]["result"]["structuredContent"]["hint"] == "nobody has written to the project 'nosuch' yet"
