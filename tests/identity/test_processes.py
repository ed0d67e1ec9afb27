"""Real front-end processes that share keys: while the key server dies and recovers, and settings change."""

from __future__ import annotations

import contextlib
import functools
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.store import keys
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from tests.identity.servers import KeyServer
from tests.identity.signing import AUDIENCE, ISSUER, Json, Signer, jwks
from tests.items.client import fresh_id
from tests.support import leaks
from tests.support.fleets import (
    MCP_HEADERS,
    Http,
    RunningCommand,
    call_body,
    environment,
    fleet_command,
    fork_line,
    once,
    scrape,
)
from tests.support.wait import wait_until_sync

OLD, NEW = Signer("old"), Signer("new", number=1)


class Front:
    """One ``fleet serve`` with one front-end."""

    def __init__(self, directory: Path, redis_url: str, config: Path) -> None:
        self.command = RunningCommand(
            directory, "serve", "--config", str(config), "--port", "0", "--frontends", "1",
            "--data-dir", str(directory / "data"), FLEET_REDIS_URL=redis_url,
        )  # fmt: skip

    @functools.cached_property
    def port(self) -> int:
        return int(self.command.wait_ready().rsplit(":", 1)[1])

    def wait(self, **identity: str) -> None:
        """Waits until /readyz has this identity state."""
        wait_until_sync(lambda: identity.items() <= self.identity.items(), what=f"{identity}")

    def call(self, tool: str, **arguments: Any) -> Json:
        """The structured content of the answer, failures included."""
        with Http(self.port) as client:
            client.connection.request("POST", "/mcp/items", call_body(tool, arguments), MCP_HEADERS)
            answer = msgspec.json.decode(client.connection.getresponse().read())
        found: Json = answer["result"]["structuredContent"]
        return found

    def claim(self, item: str, agent: str, proof: str) -> str:
        """``success``, or the code of the refusal."""
        actor = {"id": agent, "kind": "subagent", "proof": proof}
        found = self.call("claim_item", claims=[{"itemId": item}], actor=actor, requestId=fresh_id())
        print(found, self.command.stderr[-3_000:])  # shown if the test fails
        return str(found["error"]["code"] if "error" in found else found["claimResults"][0]["outcome"])

    def verification(self, item: str, proof: str) -> Json:
        """The verification that a note by this actor records."""
        actor = {"id": "agent", "kind": "subagent", "proof": proof}
        note = {"itemId": item, "key": "k", "role": "queue", "body": "b", "actor": actor}
        found: Json = self.call("manage_notes", operation="upsert", notes=[note])["notes"][0]["verification"]
        return found

    @property
    def identity(self) -> Json:
        """The identity section of /readyz."""
        status, body = once(self.port, "/readyz")
        assert status == 200
        found: Json = json.loads(body)["identity"]
        return found


@pytest.fixture
def config(key_server: KeyServer, tmp_path: Path) -> Path:
    return write(tmp_path / "fleet.yaml", key_server)


def write(file: Path, server: KeyServer, policy: str = "reject", **verifier: Any) -> Path:
    settings = {
        "type": "jwks",
        "jwks_uri": server.url(),
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "algorithms": ["EdDSA"],
        "cache_ttl_seconds": 1,
        **verifier,
    }
    # Only actors matter here, not callers.
    section = {"degraded_mode_policy": policy, "verifier": settings}
    file.write_text(json.dumps({"actor_authentication": section, "auth": {"mode": "none"}}))
    return file


@pytest.fixture
def store_url(redis_url: str) -> Iterator[str]:
    """The session's server, without keys of the fleet and the default project."""
    with contextlib.closing(redis_client(parse(redis_url))) as client:
        leaks.delete_keys(client, keys.FLEET)
        yield redis_url
        complaints = [*leaks.leaked_keys(client, keys.FLEET), *leaks.leaked_keys(client, "default")]
        leaks.delete_keys(client, keys.FLEET)
        leaks.delete_keys(client, "default")
    assert not complaints, complaints


@pytest.fixture
def start(tmp_path: Path, store_url: str, config: Path) -> Iterator[Any]:
    """Starts a front-end; it ends with the test."""
    fronts: list[Front] = []

    def start() -> Front:
        fronts.append(Front(tmp_path / f"front-{len(fronts)}", store_url, config))
        return fronts[-1]

    yield start
    for front in fronts:
        front.command.clean_up()


def fresh(front: Front, item: str, proof: str) -> bool:
    """Whether a proof is verified, and with keys that are not old."""
    return front.verification(item, proof) == {"status": "verified", "verifier": "jwks", "reason": None}


def test_processes_keep_verifying_while_the_key_server_is_down(key_server: KeyServer, start: Any) -> None:
    key_server.serve(jwks(OLD))
    first, second = start(), start()
    items = [
        item["id"]
        for item in first.call("manage_items", operation="create", items=[{"title": f"{n}"} for n in range(6)])["items"]
    ]
    good, stranger = OLD.token("agent"), Signer("old", number=3).token("agent")
    for front in (first, second):
        assert front.claim(items[0], "agent", good) == "success"
        assert front.claim(items[0], "agent", stranger) == "rejected_by_policy"
        assert front.claim(items[0], "somebody-else", good) == "rejected_by_policy"
        assert front.claim(items[0], "agent", "") == "rejected_by_policy"
        # The keys are renewed each second, with delays on a busy machine.
        wait_until_sync(
            functools.partial(fresh, front, items[0], good), what="a proof that is verified with fresh keys"
        )
        front.wait(policy="reject", state="ok")

    key_server.kill()
    for front in (first, second):
        front.wait(state="stale")
        wait_until_sync(lambda front=front: not front.identity["sources"][0]["fresh"])  # type: ignore[misc]
    third = start()  # has the keys although it never reached the key server
    for front in (first, second, third):
        assert front.claim(items[1], "agent", OLD.token("agent")) == "success"
        assert front.claim(items[1], "agent", stranger) == "rejected_by_policy"
        assert front.claim(items[1], "agent", NEW.token("agent")) == "rejected_by_policy"
        found = front.verification(items[1], good)
        assert (found["status"], found["metadata"]["verifiedFromCache"]) == ("verified", "true")
        assert int(found["metadata"]["cacheAgeSeconds"]) >= 1
        found = front.verification(items[1], NEW.token("agent"))
        assert (found["status"], found["metadata"]) == ("unavailable", {"failureKind": "network"})

    key_server.serve(jwks(NEW))
    key_server.start()
    for front in (first, second, third):
        front.wait(state="ok")
        assert front.claim(items[2], "agent", NEW.token("agent")) == "success"
        assert front.claim(items[2], "agent", OLD.token("agent")) == "rejected_by_policy"
        assert good not in front.command.stderr
        if front is not third:
            front.command.wait_logged("keys cannot be renewed")


def test_a_changed_policy_is_in_force_logged_and_counted(
    key_server: KeyServer, start: Any, config: Path, store_url: str
) -> None:
    key_server.serve(jwks(OLD))
    first, second = start(), start()
    (made,) = first.call("manage_items", operation="create", items=[{"title": "x"}])["items"]
    assert first.claim(made["id"], "agent", "") == second.claim(made["id"], "agent", "") == "rejected_by_policy"

    write(config, key_server, policy="accept-self-reported")
    for front in (first, second):
        front.command.process.send_signal(signal.SIGHUP)
        front.wait(policy="accept-self-reported")
        front.command.wait_logged("degraded-mode policy changed", policy="accept-self-reported", policy_before="reject")
        assert front.claim(made["id"], "agent", "") == "success"
        metrics = scrape(front.port)
        assert metrics["coordinator_identity_policy{policy=accept-self-reported}"] == 1
        assert metrics["coordinator_identity_policy{policy=reject}"] == 0
        assert metrics["coordinator_identity_trust_total{policy=reject,whose=nobody}"] >= 1
        assert metrics["coordinator_identity_verifications_total{result=absent}"] >= 2
        states = ("off", "ok", "stale", "unavailable")
        assert sorted(metrics[f"coordinator_identity_state{{state={state}}}"] for state in states) == [0, 0, 0, 1]
    with contextlib.closing(redis_client(parse(store_url))) as client:
        emitted: Any = client.xrange(keys.fleet_events.key(keys.FLEET))
    assert [(fields[b"k"], fields[b"i"]) for _, fields in emitted].count(
        (b"identity.policy_changed", b"accept-self-reported")
    ) == 1

    # Another issuer's keys, and the verifier with them; then a section that is wrong, which changes nothing.
    key_server.serve(jwks(NEW), "/other")
    write(config, key_server, policy="reject", jwks_uri=key_server.url("/other"))
    first.command.process.send_signal(signal.SIGHUP)
    first.wait(policy="reject")
    wait_until_sync(lambda: first.claim(made["id"], "agent", NEW.token("agent")) == "success", what="the other keys")
    assert first.claim(made["id"], "agent", OLD.token("agent")) == "rejected_by_policy"
    write(config, key_server, policy="trust-everybody")
    first.command.process.send_signal(signal.SIGHUP)
    first.command.wait_logged("settings not reloaded, the old ones stay in force")
    assert first.identity["policy"] == "reject"
    assert first.claim(made["id"], "agent", "") == "rejected_by_policy"


@pytest.mark.parametrize(
    ("text", "policy", "said"),
    [
        ("actor_authentication: {verifier: {type: jwks}}", "reject", "keys must come from somewhere"),
        ("", "rejekt", "environment DEGRADED_MODE_POLICY: "),
    ],
)  # fmt: skip
def test_a_wrong_section_stops_the_start(tmp_path: Path, text: str, policy: str, said: str) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(text)
    done = fleet_command("serve", "--config", str(file), "--data-dir", str(tmp_path), DEGRADED_MODE_POLICY=policy)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_stdio_applies_the_same_policy(tmp_path: Path, store_url: str) -> None:
    command = fork_line("stdio", "--toolset", "items", "--data-dir", str(tmp_path))
    env = environment(FLEET_REDIS_URL=store_url, DEGRADED_MODE_POLICY="reject")
    actor = {"id": "agent", "kind": "subagent"}
    call = call_body("claim_item", {"claims": [{"itemId": fresh_id()}], "actor": actor, "requestId": fresh_id()})
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    opening = [
        {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    lines = b"\n".join([*map(msgspec.json.encode, opening), call, b""])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines)
        process.stdin.flush()
        answers = [msgspec.json.decode(process.stdout.readline()) for _ in range(2)]
        process.communicate(timeout=60)
    assert answers[1]["result"]["structuredContent"]["error"]["code"] == "rejected_by_policy", answers
