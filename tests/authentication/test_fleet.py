"""A real fleet that authenticates its callers: two front-ends, changing tokens, JWTs, admin port, ownership."""

from __future__ import annotations

import http.client
import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from coordinator.cli.exits import Exit
from tests.authentication.support import Tokens
from tests.identity.signing import AUDIENCE, ISSUER, Signer, jwks
from tests.support.fleets import MCP_HEADERS, NewFleet, fleet_command, samples
from tests.support.ports import free_port
from tests.support.wait import wait_until_sync

CONFIG = """\
frontends: 2
workers: 0
admin_port: {admin}
toolsets: [items]
auth:
  mode: required
  tokens: tokens.yaml
  default_permissions: [items]
  verifier:
    type: jwks
    jwks_path: keys.json
    issuer: {issuer}
    audience: {audience}
    algorithms: [EdDSA]
actor_authentication:
  degraded_mode_policy: reject
"""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def result(self) -> Any:
        """The structured content of a successful call."""
        assert self.status == 200, self
        assert not self.body["result"].get("isError"), self.body
        return self.body["result"]["structuredContent"]

    @property
    def code(self) -> str:
        """The code of a rejected call."""
        assert (self.status, self.body["result"]["isError"]) == (200, True)
        code: str = self.body["result"]["structuredContent"]["error"]["code"]
        return code


class Guarded:
    """A fleet, its token file, and the key that JWTs are signed with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokens = Tokens(folder / "tokens.yaml")
        self.signer = Signer()
        (folder / "keys.json").write_text(json.dumps(jwks(self.signer)))
        self.admin = free_port()
        self.config = folder / "fleet.yaml"
        self.config.write_text(CONFIG.format(admin=self.admin, issuer=ISSUER, audience=AUDIENCE))
        self.agent = self.tokens.add("agent-1", permissions=("items",))
        self.said: list[str] = [self.agent]
        """Every token that was ever sent."""
        self.fleet = NewFleet(folder / "data", "--config", str(self.config), "--port", "0")
        self.fleet.wait_ready()
        self.port = self.fleet.port

    def ask(self, token: str | None, body: Any, path: str = "/mcp", method: str = "POST") -> Answer:
        """One request on a connection of its own, so that any process may get it."""
        if token is not None:
            self.said.append(token)
        more = {} if token is None else {"authorization": f"Bearer {token}"}
        return request(self.port, method, path, json.dumps(body).encode(), {**MCP_HEADERS, **more})

    def call(self, token: str | None, tool: str, path: str = "/mcp", **arguments: Any) -> Answer:
        params = {"name": tool, "arguments": arguments}
        return self.ask(token, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, path)

    def both(self, token: str | None) -> set[int]:
        """The statuses of so many requests that each process got one: the kernel spreads them."""
        found: set[int] = set()
        processes: set[str] = set()
        for _ in range(1000):
            answer = self.call(token, "get_next_item")
            found.add(answer.status)
            processes.add(answer.headers["x-request-id"].partition("-")[0])
            if len(processes) == 2:
                return found
        raise AssertionError(f"only {processes} answered")

    def jwt(self, subject: str = "agent-9", **claims: Any) -> str:
        return self.signer.token(subject, **claims)

    def metrics(self) -> dict[str, float]:
        return samples(request(self.admin, "GET", "/metrics").body)

    def ready(self) -> Any:
        return request(self.admin, "GET", "/readyz").body


def request(port: int, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body or None, headers or {})
        response = connection.getresponse()
        data = response.read()
        found = {name.lower(): value for name, value in response.getheaders()}
        is_json = found.get("content-type", "").startswith("application/json")
        return Answer(response.status, found, json.loads(data) if is_json and data else data)
    finally:
        connection.close()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    guarded = Guarded(tmp_path_factory.mktemp("guarded"))
    try:
        yield guarded
        assert guarded.fleet.end() == 0
        # In any case: no token in the output and files of the fleet.
        written = [guarded.fleet.stderr, guarded.fleet.stdout]
        written += [path.read_text(errors="replace") for path in (guarded.folder / "data").rglob("*") if path.is_file()]
        for token in set(guarded.said):
            assert not any(token in text for text in written)
    finally:
        guarded.fleet.clean_up()


def claim(guarded: Guarded, token: str, item: str, **more: Any) -> Answer:
    return guarded.call(token, "claim_item", requestId=str(uuid.uuid4()), claims=[{"itemId": item}], **more)


def new_item(guarded: Guarded) -> str:
    made = guarded.call(guarded.agent, "manage_items", operation="create", items=[{"title": "x"}])
    found: str = made.result["items"][0]["id"]
    return found


def test_calls_without_a_token_are_rejected(guarded: Guarded) -> None:
    assert guarded.both(None) == {401}
    assert guarded.both("token-of-nobody") == {401}
    assert guarded.both(guarded.agent) == {200}


def test_tokens_are_added_and_revoked_at_run_time(guarded: Guarded) -> None:
    token = guarded.tokens.add("passing", permissions=("items.read",))
    wait_until_sync(lambda: guarded.both(token) == {200}, what="the new token")
    assert guarded.call(token, "manage_items", operation="create", items=[{"title": "x"}]).status == 403
    guarded.tokens.revoke("passing")
    wait_until_sync(lambda: guarded.both(token) == {401}, what="the end of it")
    assert guarded.both(guarded.agent) == {200}


def known_or_over(guarded: Guarded, token: str) -> str:
    """``known`` to both, or ``over`` before that; empty as long as it is neither."""
    if guarded.both(token) == {200}:
        return "known"
    return "over" if "expired" in guarded.call(token, "get_next_item").headers.get("www-authenticate", "") else ""


def test_a_token_expires(guarded: Guarded) -> None:
    token = ""
    for seconds in (6, 24, 96):  # it may be over before a busy machine has read the file
        token = guarded.tokens.add(f"brief-{seconds}", seconds=seconds)
        if wait_until_sync(lambda token=token: known_or_over(guarded, token), what="both to know the token") == "known":  # type: ignore[misc]
            break
    wait_until_sync(lambda: guarded.both(token) == {401}, timeout=120, what="its end")
    answer = guarded.call(token, "get_next_item")
    assert 'error_description="the token has expired"' in answer.headers["www-authenticate"]


def test_a_wrong_file_changes_nothing_and_is_logged(guarded: Guarded) -> None:
    good = guarded.tokens.path.read_text()
    guarded.tokens.write("tokens: [oops\n")
    wait_until_sync(lambda: "refused" in guarded.ready()["auth"]["file"], what="the reading")
    assert guarded.both(guarded.agent) == {200}
    wait_until_sync(
        lambda: guarded.metrics()["coordinator_token_file_reads_total{outcome=refused}"] >= 2, what="both processes"
    )
    guarded.fleet.wait_logged("token file refused, the previous tokens stay in force")
    guarded.tokens.write(good)
    wait_until_sync(lambda: "refused" not in guarded.ready()["auth"]["file"], what="the reading")


def test_a_sighup_reloads_the_file_and_the_rules(guarded: Guarded) -> None:
    text = guarded.config.read_text()
    token = guarded.tokens.add("plain")
    wait_until_sync(lambda: guarded.both(token) == {200}, what="the new token")
    guarded.config.write_text(text.replace("default_permissions: [items]", "default_permissions: [flows]"))
    guarded.fleet.process.send_signal(signal.SIGHUP)
    wait_until_sync(lambda: guarded.both(token) == {403}, what="the new rule")
    assert guarded.both(guarded.agent) == {200}
    guarded.config.write_text(text)
    guarded.fleet.process.send_signal(signal.SIGHUP)
    wait_until_sync(lambda: guarded.both(token) == {200}, what="the old rule")


def test_a_reload_cannot_end_authentication(guarded: Guarded) -> None:
    text = guarded.config.read_text()
    before = len(guarded.fleet.logs)
    guarded.config.write_text(text.replace("type: jwks", "type: noop"))
    guarded.fleet.process.send_signal(signal.SIGHUP)

    def is_rejected() -> bool:
        return any("settings not reloaded" in line["event"] for line in guarded.fleet.logs[before:])

    wait_until_sync(is_rejected, what="the refusal")
    assert guarded.both(None) == {401}
    assert guarded.both(guarded.jwt()) == {200}
    guarded.config.write_text(text)
    guarded.fleet.process.send_signal(signal.SIGHUP)
    wait_until_sync(lambda: "refused" not in guarded.ready()["config"], what="the reload")


def test_jwts_are_accepted(guarded: Guarded) -> None:
    assert guarded.both(guarded.jwt()) == {200}
    assert guarded.both(guarded.jwt(aud=f"http://127.0.0.1:{guarded.port}/mcp")) == {200}
    assert guarded.both(guarded.jwt(aud="somebody-else")) == {401}
    assert guarded.both(guarded.jwt(exp=int(time.time()) - 61)) == {401}
    assert guarded.both(guarded.jwt(scope="items.read openid")) == {200}
    # The operator has set what such a token permits.
    assert guarded.both(guarded.jwt(scope="openid profile")) == {200}
    assert guarded.both(guarded.jwt(scope="flows openid")) == {403}
    assert guarded.both(guarded.jwt(exp=int(time.time()) + 700_000)) == {401}
    assert guarded.both(guarded.jwt(iat=int(time.time()) + 300)) == {401}
    assert guarded.both(guarded.jwt(projects=["alpha"])) == {403}
    assert guarded.call(guarded.jwt(projects=["alpha"]), "get_next_item", "/p/alpha/mcp").status == 200
    assert guarded.both(Signer("key-2", number=2).token("agent-9")) == {401}
    answer = guarded.call(None, "get_next_item", "/mcp/items")
    place = f'resource_metadata="http://127.0.0.1:{guarded.port}/.well-known/oauth-protected-resource/mcp/items"'
    assert place in answer.headers["www-authenticate"]
    found = guarded.ask(None, {}, "/.well-known/oauth-protected-resource/mcp/items", "GET").body
    assert (found["resource"], found["authorization_servers"]) == (
        f"http://127.0.0.1:{guarded.port}/mcp/items",
        [ISSUER],
    )


def test_a_caller_has_the_identity_of_its_token(guarded: Guarded) -> None:
    """Under the policy reject: the bearer token replaces a proof."""
    item = new_item(guarded)
    mine = claim(guarded, guarded.agent, item).result["claimResults"][0]
    assert (mine["outcome"], mine["claimedBy"]) == ("success", "agent-1")
    # Another caller conflicts with the claim, and cannot pose as its holder.
    other = guarded.jwt("agent-2")
    assert claim(guarded, other, item).result["claimResults"][0]["outcome"] == "already_claimed"
    for token in (other, guarded.agent):
        stranger = {"id": "agent-1" if token == other else "agent-2", "kind": "user"}
        assert claim(guarded, token, item, actor=stranger).code == "actor_mismatch"
    steal = guarded.call(other, "advance_item", transitions=[{"itemId": item, "trigger": "start"}])
    assert steal.result["results"][0]["applied"] is False
    assert steal.result["results"][0]["errorCode"] == "not_claim_holder"
    signed = {"itemId": item, "trigger": "start", "actor": {"id": "agent-1", "kind": "user"}}
    assert guarded.call(other, "advance_item", transitions=[signed]).code == "actor_mismatch"
    done = guarded.call(guarded.agent, "advance_item", transitions=[{"itemId": item, "trigger": "start"}]).result
    assert done["results"][0]["applied"] is True
    assert done["results"][0]["actor"] == {"id": "agent-1", "kind": "subagent"}
    assert done["results"][0]["verification"] == {"status": "verified", "verifier": "bearer", "reason": None}
    release = guarded.call(other, "claim_item", requestId=str(uuid.uuid4()), releases=[{"itemId": item}]).result
    assert release["releaseResults"][0]["outcome"] == "not_claimed_by_you"


def test_slots_of_one_token_are_several_actors(guarded: Guarded) -> None:
    first, second = new_item(guarded), new_item(guarded)
    one, two = ({"id": f"agent-1/{suffix}", "kind": "subagent"} for suffix in ("1", "2"))
    held = claim(guarded, guarded.agent, first, actor=one).result["claimResults"][0]
    assert (held["outcome"], held["claimedBy"]) == ("success", "agent-1/1")
    # Neither the token's own id nor another slot holds it, and each has a claim of its own.
    for more in ({}, {"actor": two}):
        assert claim(guarded, guarded.agent, first, **more).result["claimResults"][0]["outcome"] == "already_claimed"
    assert claim(guarded, guarded.agent, second, actor=two).result["claimResults"][0]["outcome"] == "success"
    begun = {"itemId": first, "trigger": "start"}
    refused = guarded.call(guarded.agent, "advance_item", transitions=[{**begun, "actor": two}]).result["results"][0]
    assert refused["errorCode"] == "not_claim_holder"
    done = guarded.call(guarded.agent, "advance_item", transitions=[{**begun, "actor": one}]).result["results"][0]
    assert (done["applied"], done["actor"]["id"]) == (True, "agent-1/1")
    assert done["verification"] == {"status": "verified", "verifier": "bearer", "reason": None}
    # A request id is the slot's own.
    request_id, third = str(uuid.uuid4()), new_item(guarded)
    outcomes = []
    for who in (one, two):
        wanted: dict[str, Any] = {"requestId": request_id, "claims": [{"itemId": third}], "actor": who}
        outcomes.append(guarded.call(guarded.agent, "claim_item", **wanted).result["claimResults"][0]["outcome"])
    assert outcomes == ["success", "already_claimed"]
    # Another caller cannot act as one, and a suffix is checked.
    assert claim(guarded, guarded.jwt("agent-2"), third, actor=one).code == "actor_mismatch"
    for bad in ("agent-1/", "agent-1/a/b", "agent-1/a b"):
        assert claim(guarded, guarded.agent, third, actor={"id": bad, "kind": "user"}).code == "VALIDATION_ERROR"
    # Nor where the name belongs to another token; a JWT's subject has slots, too.
    guarded.tokens.add("agent-1/owned", permissions=("items",))
    owned = {"id": "agent-1/owned", "kind": "user"}
    wait_until_sync(
        lambda: claim(guarded, guarded.agent, third, actor=owned).body["result"].get("isError") is True,
        what="the new entry is known",
    )
    jwt = claim(guarded, guarded.jwt("agent-7"), new_item(guarded), actor={"id": "agent-7/a", "kind": "user"})
    assert jwt.result["claimResults"][0]["claimedBy"] == "agent-7/a"


def test_a_caller_need_not_name_an_actor(guarded: Guarded) -> None:
    listed = guarded.ask(guarded.agent, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).body["result"]["tools"]
    (tool,) = [tool for tool in listed if tool["name"] == "claim_item"]
    assert tool["inputSchema"]["required"] == ["requestId"]


def test_request_ids_are_per_caller(guarded: Guarded) -> None:
    item, request_id = new_item(guarded), str(uuid.uuid4())
    more: Any
    wanted: Any = {"requestId": request_id, "claims": [{"itemId": item}]}
    first = guarded.call(guarded.agent, "claim_item", **wanted).result
    # From any process, with or without the caller's own actor.
    for more in ({}, {"actor": {"id": "agent-1", "kind": "subagent"}}):
        for _ in range(3):
            assert guarded.call(guarded.agent, "claim_item", **wanted, **more).result == first
    # Another caller's same id is another request.
    other = guarded.call(guarded.jwt("agent-2"), "claim_item", **wanted).result
    assert other["claimResults"][0]["outcome"] == "already_claimed"


def test_notes_record_the_caller(guarded: Guarded) -> None:
    item = new_item(guarded)
    note = {"itemId": item, "key": "k", "role": "queue", "body": "b"}
    written = guarded.call(guarded.agent, "manage_notes", operation="upsert", notes=[note]).result
    assert written["notes"][0]["actor"]["id"] == "agent-1"
    assert written["notes"][0]["verification"]["status"] == "verified"
    forged = {**note, "actor": {"id": "agent-2", "kind": "user"}}
    assert (
        guarded.call(guarded.agent, "manage_notes", operation="upsert", notes=[note, forged]).code == "actor_mismatch"
    )


def test_operators_have_a_port_of_their_own(guarded: Guarded) -> None:
    for path in ("/metrics", "/readyz"):
        assert request(guarded.port, "GET", path).status == 404
        assert request(guarded.admin, "GET", path).status == 200
        assert request(guarded.admin, "POST", path).status == 405
    assert request(guarded.port, "GET", "/healthz").status == 200
    assert request(guarded.admin, "POST", "/mcp").status == 404
    assert guarded.fleet.state.admin_url == f"http://127.0.0.1:{guarded.admin}"
    # Each process answers there, and reports its own readiness.
    seen: set[str] = set()

    def both() -> bool:
        answer = guarded.ready()
        assert answer["ready"] is True
        assert answer["auth"]["mode"] == "required"
        seen.add(answer["process"])
        return seen == {"fe-0", "fe-1"}

    wait_until_sync(both, what="both processes")
    # The numbers are those of all of them.
    token = guarded.tokens.add("counted")
    counted = {f"coordinator_slot_requests_total{{slot=fe-{n}}}" for n in (0, 1)}
    wait_until_sync(lambda: guarded.both(token) == {200} and counted <= guarded.metrics().keys(), what="both counts")


def test_accepted_hosts_of_the_admin_port(guarded: Guarded) -> None:
    for host, status in (
        ("10.1.2.3:9000", 200),
        ("[2001:db8::1]:9000", 200),
        ("localhost", 200),
        ("evil.example", 421),
        ("10.1.2.3.evil.example", 421),
    ):
        assert request(guarded.admin, "GET", "/readyz", headers={"host": host}).status == status
    away = {"host": "10.1.2.3", "origin": "http://evil.example"}
    assert request(guarded.admin, "GET", "/metrics", headers=away).status in (403, 421)
    assert request(guarded.port, "POST", "/mcp", b"{}", {"host": "10.1.2.3"}).status == 421


def test_a_killed_front_end_is_restarted_on_both_ports(guarded: Guarded) -> None:
    token = guarded.tokens.add("early")
    wait_until_sync(lambda: guarded.both(token) == {200}, what="the new token")
    pid = guarded.fleet.pid("fe-0")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until_sync(lambda: guarded.fleet.pid("fe-0") not in (None, pid), what="the new process")
    seen: set[str] = set()

    def back() -> bool:
        try:
            seen.add(guarded.ready()["process"])
        except OSError:
            return False
        return seen == {"fe-0", "fe-1"}

    seen.clear()
    wait_until_sync(back, what="both processes")
    assert guarded.both(token) == {200}
    assert guarded.both(guarded.jwt()) == {200}
    assert guarded.both(None) == {401}


def test_rejections_are_counted(guarded: Guarded) -> None:
    def count(reason: str) -> float:
        return guarded.metrics()[f"coordinator_auth_refused_total{{reason={reason}}}"]

    before = {reason: count(reason) for reason in ("missing", "unknown", "rejected", "permission", "project")}
    assert count("audience") >= 0
    refused = (None, "token-of-nobody", self_signed(), guarded.jwt(scope="sessions"), guarded.jwt(projects=["alpha"]))
    for token in refused:
        for _ in range(12):
            guarded.call(token, "get_next_item")
    assert {reason: count(reason) - value for reason, value in before.items()} == dict.fromkeys(before, 12)


def self_signed() -> str:
    return Signer("key-1", number=7).token("agent-9")


def test_the_demo_reports_why_it_cannot_run(guarded: Guarded) -> None:
    done = fleet_command("demo", "--data-dir", str(guarded.fleet.data_dir), "--agents", "2")
    assert done.returncode == Exit.USAGE
    assert "lets in nobody without a bearer token" in done.stderr
    assert "defect" not in done.stderr


def test_no_token_is_seen_in_the_list_of_processes(guarded: Guarded) -> None:
    shown = b"".join(
        Path(f"/proc/{pid}/cmdline").read_bytes() for pid in [*guarded.fleet.pids, guarded.fleet.process.pid]
    )
    assert not any(token.encode() in shown for token in guarded.said)
