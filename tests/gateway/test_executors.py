"""Executors with real commands, a real HTTP server and a real MCP server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from coordinator.identity.keys import ssrf
from coordinator.settings.sections.connections import Connection
from coordinator.steps.model import Failure, Success
from coordinator.toolsets.gateway.rules.calls import CliCall, RestCall
from tests.gateway.lab import Json, states
from tests.gateway.web import Web
from tests.gateway.workflows import Working, api, capability, sh
from tests.support.certificates import self_signed
from tests.support.wait import process_alive, wait_until
from tests.support.web import silent
from workers.gateway import rest
from workers.gateway.cli import run_command

pytestmark = pytest.mark.anyio

SERVER = str(Path(__file__).parent.parent / "support" / "downstream_server.py")


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as web:
        yield web


# --- cli ------------------------------------------------------------------------------------------


async def test_a_command_gets_arguments_not_a_shell(working: Working) -> None:
    lab = await working(
        capabilities={"args": capability({"kind": "cli", "command": "printf", "args": [
            "%s|", "$.arguments.text", "$.arguments.list", "literal $.arguments.text; echo x"]})}
    )  # fmt: skip
    found = (await lab.call("args", text="a; rm -rf $HOME `id` '\"", list=[1, "b"]))["context"]["lastResult"]
    assert found["stdout"] == 'a; rm -rf $HOME `id` \'"|[1,"b"]|literal $.arguments.text; echo x|'
    assert (found["exitCode"], found["success"]) == (0, True)


async def test_arguments_cannot_become_options(working: Working) -> None:
    stated = {"kind": "cli", "command": "printf", "args": ["%s", "$.arguments.text"]}
    guarded = {"kind": "cli", "command": "printf", "args": ["%s", "--", "$.arguments.text"]}
    lab = await working(capabilities={"open": capability(stated), "closed": capability(guarded)})
    refused = await lab.refused("workflow.start", definitionId="proxy_default",
                                input={"capability": "open", "text": "--upload-pack=evil"})  # fmt: skip
    assert "would be an option" in refused["error"]["message"]
    assert (await lab.call("closed", text="-n"))["context"]["lastResult"]["text"] == "---n"
    missing = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "open", "x": 1})
    assert "args.1: $.arguments.text has no value" in missing["error"]["message"]


async def test_too_deeply_nested_results_are_rejected(working: Working) -> None:
    """Encoders of MCP libraries fail at some depth; nobody could read the instance any more."""
    nested = "head -c {0} /dev/zero | tr '\\0' '['; head -c {0} /dev/zero | tr '\\0' ']'"
    lab = await working(
        capabilities={name: capability({"kind": "cli", "command": "sh", "args": ["-c", nested.format(depth)]})
                      for name, depth in (("deep", 400), ("shallow", 90))}
    )  # fmt: skip
    started = await lab.start("proxy_default", capability="deep")
    refused = await lab.follow_refused(started, "deep")
    assert refused["error"]["code"] == "EXECUTOR_FAILED"
    assert "nested more than 100 deep" in refused["error"]["message"]
    assert (await lab.get(started))["version"] == 1
    found: Any = (await lab.call("shallow", arguments={}))["context"]["lastResult"]["json"]
    for _ in range(89):
        (found,) = found
    assert found == []


async def test_the_environment_is_the_configured_one(
    working: Working, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TOP_SECRET", "no")
    monkeypatch.setenv("SHARED_TOKEN", "t0ken")
    (tmp_path / "here").mkdir()
    lab = await working(
        connections={
            "tool": {"kind": "cli", "command": "sh", "workingDirectory": str(tmp_path / "here"),
                     "env": {"FROM_CONNECTION": "1", "TOKEN": "${SHARED_TOKEN}"}},
        },
        capabilities={
            "env": capability({"kind": "cli", "connection": "tool", "env": {"FROM_CALL": "$.arguments.x"},
                               "args": ["-c", "env; pwd"]}),
            "unset": capability({"kind": "cli", "command": "env", "env": {"X": "${NOT_SET_ANYWHERE}"}}),
        },
    )  # fmt: skip
    lines = (await lab.call("env", x="two"))["context"]["lastResult"]["stdout"].splitlines()
    assert str(tmp_path / "here") in lines
    assert {"FROM_CONNECTION=1", "TOKEN=***", "FROM_CALL=two"} <= set(lines)
    assert not [line for line in lines if line.startswith(("TOP_SECRET", "FLEET", "PYTEST"))]
    assert [line for line in lines if line.startswith("IDEMPOTENCY_KEY=wf_")]
    refused = await lab.refused("workflow.start", definitionId="proxy_default",
                                input={"capability": "unset", "arguments": {}})  # fmt: skip
    assert "NOT_SET_ANYWHERE is not set" in refused["error"]["message"]
    # Variables are expanded in the configuration, not in callers' values.
    lines = (await lab.call("env", x="${SHARED_TOKEN}"))["context"]["lastResult"]["stdout"].splitlines()
    assert "FROM_CALL=${SHARED_TOKEN}" in lines


async def test_errors_of_commands_are_redacted(working: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cret")
    monkeypatch.setenv("SHARED_TOKEN", "t0ken")
    script = 'echo "$0 $1 $SHARED" >&2; exit $2'
    lab = await working(
        connections={"tool": {"kind": "cli", "command": "sh", "env": {"SHARED": "${SHARED_TOKEN}"}}},
        capabilities={"say": capability({
            "kind": "cli", "connection": "tool", "args": ["-c", script, "${API_TOKEN}", "said", "$.arguments.code"],
        })},
    )  # fmt: skip
    assert (await lab.call("say", code="0"))["context"]["lastResult"]["stderr"] == "*** said ***\n"
    refused = await lab.refused("workflow.start", definitionId="proxy_default",
                                input={"capability": "say", "arguments": {"code": "3"}})  # fmt: skip
    assert refused["error"]["message"].endswith("ended with code 3: *** said ***")


async def test_answers_that_succeed_tell_no_secrets(
    working: Working, web: Web, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a program prints, and what a server sends back; where a program is, is no secret."""
    monkeypatch.setenv("API_TOKEN", "s3cret")
    monkeypatch.setenv("PLACE", str(tmp_path))
    script = 'printf \'{"a": ["%s"], "%s": 1, "at": "%s"}\' "$KEY" "$KEY" "$(pwd)"'
    tool = {"kind": "cli", "command": "sh", "env": {"KEY": "${API_TOKEN}"}, "workingDirectory": "${PLACE}"}
    lab = await working(
        connections={"tool": tool, **api(web, headers={"Authorization": "Bearer ${API_TOKEN}"})},
        capabilities={
            "print": capability({"kind": "cli", "connection": "tool", "args": ["-c", script]}),
            "get": capability({"kind": "rest", "connection": "api", "path": "/x"}),
        },
    )
    printed = (await lab.call("print", x=1))["context"]["lastResult"]
    assert printed["json"] == {"a": ["***"], "***": 1, "at": str(tmp_path)}
    assert printed["stdout"] == printed["text"] == f'{{"a": ["***"], "***": 1, "at": "{tmp_path}"}}'
    for data, body in ((b'{"you": ["Bearer s3cret"], "n": 1}', {"you": ["Bearer ***"], "n": 1}), (b"s3cret", "***")):
        web.answers.append((200, {}, data))
        assert (await lab.call("get", x=1))["context"]["lastResult"]["body"] == body


async def test_variables_in_callers_values_are_not_expanded(
    working: Working, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cret")
    stated = {
        "kind": "rest", "connection": "api", "method": "POST", "path": "/${API_TOKEN}/{x}",
        "query": {"k": "${API_TOKEN}", "x": "$.arguments.x"},
        "headers": {"X-Key": "${API_TOKEN}", "X-Said": "$.arguments.x"},
        "body": {"k": "${API_TOKEN}", "x": "$.arguments.x"},
    }  # fmt: skip
    lab = await working(
        connections=api(web),
        capabilities={
            "post": capability(stated),
            "print": capability({"kind": "cli", "command": "printf", "args": ["%s|", "${API_TOKEN}", "$.arguments.x"]}),
        },
    )
    await lab.call("post", x="${API_TOKEN}")
    ((_, path, headers, body),) = web.seen
    assert path == "/v1/s3cret/%24%7BAPI_TOKEN%7D?k=s3cret&x=%24%7BAPI_TOKEN%7D"
    assert (headers["x-key"], headers["x-said"]) == ("s3cret", "${API_TOKEN}")
    assert json.loads(body) == {"k": "s3cret", "x": "${API_TOKEN}"}
    printed = await lab.call("print", x="${API_TOKEN}")
    assert printed["context"]["lastResult"]["stdout"] == "***|${API_TOKEN}|"


async def test_output_is_bounded_and_json_is_parsed(working: Working) -> None:
    lab = await working(
        workflows={"w": states(a={"transitions": {
            "big": {"target": "a", "executor": sh("head -c 3000000 /dev/zero | tr '\\0' x; echo warn >&2"),
                    "output": {"length": "$.output.truncated", "json": "$.output.json", "stderr": "$.output.stderr"}},
            "json": {"target": "a", "executor": sh('echo "{\\"a\\": [1, null]}"'), "output": {"a": "$.output.json.a"}},
            "lenient": {"target": "a", "executor": {**sh("echo out; exit 4"), "treatNonZeroAsFailure": False},
                        "output": {"code": "$.output.exitCode", "ok": "$.output.success"}},
        }})}
    )  # fmt: skip
    at = await lab.follow(await lab.start("w"), "big")
    assert at["context"] == {"length": True, "json": None, "stderr": "warn\n"}
    at = await lab.follow(at, "json")
    assert at["context"]["a"] == [1, None]
    at = await lab.follow(at, "lenient")
    assert (at["context"]["code"], at["context"]["ok"]) == (4, False)


async def test_a_timed_out_command_is_ended_with_its_children(working: Working, tmp_path: Path) -> None:
    script = f"trap '' TERM; sleep 60 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/pid; wait; sleep 60"
    lab = await working(capabilities={"slow": capability(sh(script), reliability={"timeoutMs": 3000})})
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "slow", "x": 1})
    assert refused["error"]["details"]["errorClass"] == "timeout"
    assert "3000 ms" in refused["error"]["message"]
    pids = [int((tmp_path / name).read_text()) for name in ("pid", "child")]
    await wait_until(lambda: not any(map(process_alive, pids)), what="the end of the command and its child")


async def test_a_command_cancelled_twice_is_ended(tmp_path: Path) -> None:
    """As when a worker ends during the grace period after a timeout."""
    script = f"trap 'touch {tmp_path}/told' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.05; done"
    running = asyncio.create_task(run_command(CliCall(command="sh", args=("-c", script)), None, os.environ))
    pid = int(await wait_until(lambda: (file := tmp_path / "pid").exists() and file.read_text().strip()))
    running.cancel()
    await wait_until((tmp_path / "told").exists, what="the first signal")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await wait_until(lambda: not process_alive(pid), what="the end of the command")


async def test_processes_left_by_a_command_are_not_awaited(working: Working, tmp_path: Path) -> None:
    """It has its own session, so it survives; the pipes that it holds do not fail the command."""
    script = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' & echo said; echo warned >&2"
    lab = await working(capabilities={"c": capability(sh(script), reliability={"timeoutMs": 30_000})})
    found = (await lab.call("c", x=1))["context"]["lastResult"]
    assert (found["stdout"], found["stderr"], found["success"]) == ("said\n", "warned\n", True)
    pid = tmp_path / "pid"
    left = int(await wait_until(lambda: pid.exists() and pid.read_text().strip(), what="what was left behind"))
    assert process_alive(left)
    os.kill(left, signal.SIGKILL)


@pytest.mark.parametrize(
    ("executor", "kind", "says"),
    [
        ({"kind": "cli", "command": "/no/such/program"}, "connection_error", "is not there"),
        ({"kind": "cli", "command": SERVER}, "connection_error", "may not be executed"),
        ({"kind": "cli", "command": "sh", "args": ["-c", "echo why; exit 2"]}, "permanent_error", "code 2: why"),
        ({"kind": "cli", "command": "sh", "args": ["-c", "kill -9 $$"]}, "permanent_error", "ended by signal 9"),
        ({"kind": "cli", "command": "ls", "workingDirectory": "/no/such/dir"}, "connection_error", "is not there"),
    ],
)
async def test_failures_of_commands_have_classes(working: Working, executor: Json, kind: str, says: str) -> None:
    lab = await working(capabilities={"c": capability(executor)})
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "c", "x": 1})
    assert refused["error"]["code"] == "EXECUTOR_FAILED"
    assert refused["error"]["details"]["errorClass"] == kind
    assert says in refused["error"]["message"]


# --- rest -----------------------------------------------------------------------------------------


async def test_a_request_is_sent_as_configured(working: Working, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cret")
    lab = await working(
        connections=api(web, headers={
            "Authorization": "Bearer ${API_TOKEN}", "Content-Type": "application/merge-patch+json", "X-Trace": "none",
        }),
        capabilities={
            "put": capability({
                "kind": "rest", "connection": "api", "method": "PUT", "path": "/repos/{owner}/{repo}/files",
                "query": {"page": "$.arguments.page", "tag": ["a", "$.arguments.tag"], "none": "$.arguments.none"},
                "headers": {"x-trace": "$.arguments.owner"},
                "body": {"text": "$.arguments.text", "nested": [{"n": "$.arguments.page"}]},
            }),
        },
    )  # fmt: skip
    given = {"owner": "a/../b?x", "repo": "ünï c", "page": 2, "tag": "t&1", "text": "hi"}
    found = (await lab.call("put", **given))["context"]["lastResult"]
    assert found["status"] == 200
    assert found["body"]["body"] == {"text": "hi", "nested": [{"n": 2}]}
    ((method, path, headers, _),) = web.seen
    assert method == "PUT"
    assert path == "/v1/repos/a%2F..%2Fb%3Fx/%C3%BCn%C3%AF%20c/files?page=2&tag=a&tag=t%261"
    assert headers["authorization"] == "Bearer s3cret"
    assert headers["x-trace"] == "a/../b?x"
    assert headers["content-type"] == "application/merge-patch+json"
    assert headers["idempotency-key"].startswith("wf_")
    # The connection's secret appears only in the request.
    assert "s3cret" not in str([entry.payload for entry in await lab.audit()])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "path.id has no value"),
        ({"id": ".."}, "path.id must not be '..'"),
        ({"id": ""}, "path.id must not be ''"),
        ({"id": "1", "trace": "a\r\nX-Evil: 1"}, "headers.X-Trace must be one line of ASCII"),
        ({"id": "1", "trace": "\u00e9"}, "headers.X-Trace must be one line of ASCII"),
        ({"id": "1", "trace": " leading"}, "without blanks around it"),
        ({"id": "1", "trace": "a\x0bb"}, "headers.X-Trace must be one line of ASCII"),
    ],
)
async def test_unsafe_requests_are_not_sent(working: Working, web: Web, given: Json, says: str) -> None:
    lab = await working(
        connections=api(web),
        capabilities={"get": capability({"kind": "rest", "connection": "api", "path": "/items/{id}",
                                         "headers": {"X-Trace": "$.arguments.trace"}})},
    )  # fmt: skip
    refused = await lab.refused("workflow.start", definitionId="proxy_default",
                                input={"capability": "get", "arguments": given})  # fmt: skip
    assert says in refused["error"]["message"]
    assert web.seen == []


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (404, {}, "permanent_error"),
        (408, {}, "timeout"),
        (504, {}, "timeout"),
        (429, {}, "rate_limited"),
        (500, {}, "transient_error"),
        (503, {}, "transient_error"),
        (302, {"location": "http://169.254.169.254/"}, "permanent_error"),
        (429, {"retry-after": "9" * 5000}, "rate_limited"),
        (429, {"retry-after": "Fri, 31 Dec 9999 23:59:59 -2359"}, "rate_limited"),
    ],
)
async def test_failures_of_requests_have_classes(
    working: Working, web: Web, status: int, headers: dict[str, str], kind: str
) -> None:
    lab = await working(
        connections=api(web), capabilities={"get": capability({"kind": "rest", "connection": "api", "path": "/x"})}
    )
    web.answers.append((status, headers, b'{"message": "because"}'))
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "get", "x": 1})
    assert refused["error"]["details"]["errorClass"] == kind
    assert str(status) in refused["error"]["message"]
    assert "127.0.0.1" not in refused["error"]["message"]
    assert len(web.seen) == 1


@pytest.mark.parametrize("body", [b'{"message": "bad Bearer s3cret for t0ken"}', b"bad Bearer s3cret for t0ken"])
async def test_errors_of_http_servers_are_redacted(
    working: Working, web: Web, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cret")
    monkeypatch.setenv("SHARED_TOKEN", "t0ken")
    executor = {"kind": "rest", "connection": "api", "path": "/x", "query": {"key": "${SHARED_TOKEN}"}}
    lab = await working(
        connections=api(web, headers={"Authorization": "Bearer ${API_TOKEN}"}),
        capabilities={"get": capability(executor)},
    )
    web.answers.append((400, {}, body))
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "get", "x": 1})
    assert refused["error"]["message"].endswith("answered with status 400: bad Bearer *** for ***")


async def test_bodies_other_than_json_are_text(working: Working, web: Web) -> None:
    lab = await working(
        connections=api(web), capabilities={"get": capability({"kind": "rest", "connection": "api", "path": "/x"})}
    )
    for data, body in ((b"plain", "plain"), (b"", None), (b"[1]", [1]), (b'["caf\xe9"]', '["caf\ufffd"]')):
        web.answers.append((200, {}, data))
        assert (await lab.call("get", x=1))["context"]["lastResult"]["body"] == body
    for encoding in ("zlib", "hex", "idna", "undefined", "no-such", "utf-8"):
        # Not every codec of Python decodes text.
        web.answers.append((200, {"content-type": f"text/plain; charset={encoding}"}, b"plain"))
        assert (await lab.call("get", x=1))["context"]["lastResult"]["body"] == "plain"
    web.answers.append((200, {"content-type": "application/json; charset=latin-1"}, b'["caf\xe9"]'))
    assert (await lab.call("get", x=1))["context"]["lastResult"]["body"] == '["caf\xe9"]'
    web.answers.append((200, {}, b"x" * 2_000_000))
    cut = (await lab.call("get", x=1))["context"]["lastResult"]
    assert cut["bytes"] > 1_000_000
    assert cut["beginning"].startswith('{"status":200,"body":"xxx')


async def test_cookies_are_not_kept(working: Working, web: Web) -> None:
    """A session cookie may carry the rights of another connection."""
    reader = api(web, headers={"Authorization": "reader"})["api"]
    lab = await working(
        connections={**api(web, headers={"Authorization": "admin"}), "reader": reader},
        capabilities={
            name: capability({"kind": "rest", "connection": name, "path": "/x"}) for name in ("api", "reader")
        },
    )
    for name in ("api", "reader", "api"):
        web.answers.append((200, {"set-cookie": "session=1; Path=/"}, b"{}"))
        await lab.call(name, x=1)
    assert [(headers["authorization"], headers.get("cookie")) for _, _, headers, _ in web.seen] == [
        ("admin", None), ("reader", None), ("admin", None),
    ]  # fmt: skip


async def test_hosts_at_one_address_share_no_connection(
    web: Web, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A certificate checked for one name does not count for another."""
    certificate = self_signed(tmp_path, "one.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    async def here(host: str, port: int) -> list[IPv4Address]:
        return [IPv4Address("127.0.0.1")]

    monkeypatch.setattr(ssrf, "addresses_of", here)
    monkeypatch.setattr(rest, "SsrfGuard", lambda: ssrf.SsrfGuard(allow_loopback=True))
    web.speak_tls(certificate)
    port, client = web.url.rpartition(":")[2], rest.RestClient()
    outcomes = []
    for name in ("one", "two", "one"):
        connection = Connection(kind="rest", base_url=f"https://{name}.example:{port}", headers={"x-for": name})
        outcomes.append(await client.request(RestCall(path="/x"), connection, {}))
    await client.close()
    assert [type(outcome) for outcome in outcomes] == [Success, Failure, Success]
    assert [headers["x-for"] for _, _, headers, _ in web.seen] == ["one", "one"]


async def test_an_address_that_does_not_answer_is_skipped(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    async def two(host: str, port: int) -> list[IPv4Address]:
        return [IPv4Address("127.0.0.2"), IPv4Address("127.0.0.1")]

    monkeypatch.setattr(ssrf, "addresses_of", two)
    monkeypatch.setattr(rest, "CONNECT_SECONDS", 2.0)
    monkeypatch.setattr(rest, "SsrfGuard", lambda: ssrf.SsrfGuard(allow_loopback=True))
    port, client = int(web.url.rpartition(":")[2]), rest.RestClient()
    with silent("127.0.0.2", port):
        connection = Connection(kind="rest", base_url=f"http://one.example:{port}")
        outcome = await client.request(RestCall(path="/x"), connection, {})
    await client.close()
    assert isinstance(outcome, Success)


async def test_unreadable_certificates_are_read_again_at_the_next_request(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, connection = rest.RestClient(), Connection(kind="rest", base_url=web.url, allow_private=True)
    with monkeypatch.context() as broken:

        def unreadable() -> ssl.SSLContext:
            raise OSError("too many open files")

        broken.setattr("httpx2.create_ssl_context", unreadable)
        failed = await client.request(RestCall(path="/x"), connection, {})
    assert isinstance(failed, Failure)
    assert failed.retryable
    assert isinstance(await client.request(RestCall(path="/x"), connection, {}), Success)
    await client.close()


async def test_answers_are_truncated(working: Working, web: Web) -> None:
    lab = await working(
        connections=api(web),
        workflows={"w": states(a={"transitions": {"go": {
            "target": "a", "executor": {"kind": "rest", "connection": "api", "path": "/x"},
            "output": {"cut": "$.output.truncated"}}}})},
    )  # fmt: skip
    at = await lab.start("w")
    for size, cut in ((1024 * 1024, None), (1024 * 1024 + 1, True)):
        web.answers.append((200, {}, b"x" * size))
        at = await lab.follow(at, "go")
        assert at["context"]["cut"] is cut


async def test_unsendable_requests_and_unreadable_answers_fail_permanently(working: Working, web: Web) -> None:
    odd = api(web, headers={"X-Said": "\u00e9"})["api"]
    get = {name: capability({"kind": "rest", "connection": name, "path": "/x"}) for name in ("api", "odd")}
    lab = await working(connections={**api(web), "odd": odd}, capabilities=get)
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "odd", "x": "1"})
    assert refused["error"]["details"]["errorClass"] == "permanent_error"
    assert "the request cannot be made" in refused["error"]["message"]
    assert web.seen == []
    web.answers.append((200, {"content-encoding": "gzip"}, b"plain"))
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "api", "x": "1"})
    assert refused["error"]["details"]["errorClass"] == "permanent_error"
    assert "not encoded as it says" in refused["error"]["message"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"allowPrivate": False}, "an address that is not public"),
        ({"baseUrl": "http://localhost:1"}, "connection refused"),
        ({"allowHosts": ["api.example.org"]}, "not among allowHosts"),
        ({"baseUrl": "http://user@127.0.0.1:1"}, "without user and password"),
        ({"baseUrl": "http://does-not-exist.invalid", "allowPrivate": False}, "does not resolve"),
    ],
)
async def test_only_allowed_hosts_are_called(working: Working, web: Web, more: Json, says: str) -> None:
    lab = await working(
        connections=api(web, **more),
        capabilities={"get": capability({"kind": "rest", "connection": "api", "path": "/x"})},
    )
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "get", "x": 1})
    assert says in refused["error"]["message"]
    assert web.seen == []


# --- mcp, and the coordinator's own tools ------------------------------------------------------------


async def test_tools_of_an_mcp_server(working: Working) -> None:
    def tool(name: str, **more: Any) -> Json:
        return capability({"kind": "mcp", "connection": "down", "tool": name, **more})

    lab = await working(
        connections={"down": {"kind": "mcp", "command": sys.executable, "args": [SERVER], "env": {"SECRET": "x"}}},
        capabilities={
            "add": tool("add", map={"left": "$.arguments.a", "right": 5}),
            "greet": tool("greet"),
            "shout": tool("shout"),
            "none": tool("no_such_tool"),
            "key": tool("key"),
            "facts": tool("facts"),
        },
    )
    assert (await lab.call("add", a=2))["context"]["lastResult"] == {"result": 7}
    greeted = (await lab.call("greet", name="Ana"))["context"]["lastResult"]
    assert greeted == {"content": [{"type": "text", "text": "Hello, Ana!"}]}
    first = (await lab.call("facts", x=1))["context"]["lastResult"]
    second = (await lab.call("facts", x=1))["context"]["lastResult"]
    # One session for all calls.
    assert (first["pid"], first["calls"], second["calls"]) == (second["pid"], 1, 2)
    keyed = await lab.call("key", x=1)
    assert keyed["context"]["lastResult"]["content"][0]["text"].startswith(keyed["workflowId"] + ".key.cor_")
    for name, says in (("shout", "too loud: hey"), ("none", "no_such_tool")):
        refused = await lab.refused("workflow.start", definitionId="proxy_default",
                                    input={"capability": name, "text": "hey"})  # fmt: skip
        assert refused["error"]["details"]["errorClass"] == "permanent_error"
        assert says in refused["error"]["message"]


async def test_errors_of_mcp_tools_are_redacted(working: Working, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "s3cret")
    lab = await working(
        connections={
            "down": {"kind": "mcp", "command": sys.executable, "args": [SERVER], "env": {"SECRET": "${API_TOKEN}"}}
        },
        capabilities={"shout": capability({"kind": "mcp", "connection": "down", "tool": "shout"})},
    )
    given = {"capability": "shout", "arguments": {"text": "no s3cret"}}
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input=given)
    assert refused["error"]["message"].endswith("too loud: no ***")


async def test_a_dead_server_fails_only_its_own_calls(working: Working) -> None:
    lab = await working(
        connections={"dead": {"kind": "mcp", "url": "http://127.0.0.1:9/mcp"}},
        capabilities={"dead": capability({"kind": "mcp", "connection": "dead", "tool": "x"}),
                      "fine": capability({"kind": "noop"})},
    )  # fmt: skip
    refused = await lab.refused("workflow.start", definitionId="proxy_default", input={"capability": "dead", "x": 1})
    assert refused["error"]["details"]["errorClass"] == "connection_error"
    assert "127.0.0.1" not in refused["error"]["message"]
    assert (await lab.call("fine", x=1))["context"]["lastResult"] == {"x": 1}


async def test_the_coordinators_own_tools_are_called_as_the_caller(working: Working) -> None:
    lab = await working(
        workflows={
            "task": states(
                new={"transitions": {"file": {
                    "target": "filed",
                    "executor": {"kind": "builtin", "tool": "manage_items", "map": {
                        "operation": "create", "items": [{"title": "$.arguments.title"}]}},
                    "output": {"item": "$.output.items[0].id"}}}},
                filed={"transitions": {"look": {
                    "target": "filed",
                    "executor": {"kind": "builtin", "tool": "items.query_items", "map": {
                        "operation": "get", "id": "$.context.item"}},
                    "output": {"title": "$.output.title"}},
                    "wrong": {"target": "filed", "executor": {"kind": "builtin", "tool": "query_items", "map": {
                        "operation": "get", "id": "no such"}}}}},
            )
        }
    )  # fmt: skip
    at = await lab.follow(await lab.start("task"), "file", title="Write tests")
    at = await lab.follow(at, "look")
    assert at["context"]["title"] == "Write tests"
    refused = await lab.follow_refused(at, "wrong")
    assert refused["error"]["details"]["errorClass"] == "permanent_error"
    assert "VALIDATION_ERROR" in refused["error"]["message"]
