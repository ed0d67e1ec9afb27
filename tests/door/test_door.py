"""The door by itself: which tokens open it, what they grant, and what changes while it stands."""

from __future__ import annotations

import asyncio
import os
import time
from math import inf
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from structlog.testing import capture_logs

from coordinator.identity import door as door_module
from coordinator.identity.clock import FleetClock
from coordinator.identity.door import LONGEST_TOKEN, Door
from coordinator.identity.grants import Denied, Grant, Reason, canonical, enclosing
from coordinator.identity.permissions import least, sufficient, vocabulary
from coordinator.identity.token_file import TokenFileError, digest_of, new_token, read_tokens
from coordinator.identity.verifier import Outcome
from coordinator.settings import Settings
from coordinator.settings.auth import Auth
from coordinator.settings.identity import ActorAuthentication, VerifierSettings
from coordinator.store import Store
from coordinator.toolsets.caller import Caller
from coordinator.transport.authorization import Authorization
from coordinator.transport.fastpath import Plan
from coordinator.transport.surfaces import Surfaces
from tests.door.support import KEYS, Doors, Tokens, with_auth
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

JWT = "aaa.bbb.ccc"


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "LOOK_SECONDS", 0.02)


async def denied(door: Door, header: str | bytes | None) -> tuple[Reason, str]:
    """Why a header does not open the door."""
    with pytest.raises(Denied) as caught:
        await door.admit(header.encode() if isinstance(header, str) else header)
    return caught.value.reason, caught.value.description


async def admitted(door: Door, token: str) -> Grant:
    grant = await door.admit(f"Bearer {token}".encode())
    assert grant is not None
    return grant


async def test_a_token_of_the_file_names_its_caller(doors: Doors, tokens: Tokens) -> None:
    token = tokens.add(
        "agent-1", kind="orchestrator", permissions=("items",), projects=("alpha", "beta"), roles=("lead",)
    )
    door = doors.open(tokens=str(tokens.path))
    grant = await admitted(door, token)
    assert grant.caller == Caller("agent-1", "orchestrator", frozenset({"lead"}), frozenset({"items"}), listed=True)
    assert grant.projects == frozenset({"alpha", "beta"})
    assert (grant.audiences, grant.until) == (None, inf)
    assert door.known(token.encode()) is grant


@pytest.mark.parametrize(
    ("entry", "permissions", "projects"),
    [
        ({}, {"items", "*.read"}, None),
        ({"permissions": ()}, set(), None),
        ({"permissions": ("*",), "projects": ("*",)}, {"*"}, None),
        ({"projects": ()}, {"items", "*.read"}, set()),
        ({"projects": ("alpha", "*")}, {"items", "*.read"}, None),
    ],
)
async def test_what_an_entry_leaves_out(
    doors: Doors, tokens: Tokens, entry: dict[str, Any], permissions: set[str], projects: set[str] | None
) -> None:
    token = tokens.add("a", **entry)
    door = doors.open(tokens=str(tokens.path), default_permissions=("items", "*.read"))
    grant = await admitted(door, token)
    assert grant.caller.permissions == permissions
    assert grant.projects == projects


@pytest.mark.parametrize("mode", ["optional", "required"])
async def test_what_does_not_open_the_door(doors: Doors, tokens: Tokens, mode: Any) -> None:
    token = tokens.add()
    door = doors.open(tokens=str(tokens.path), mode=mode)
    cases: list[tuple[str | bytes, Reason]] = [
        (f"Bearer {token}x", "unknown"),
        (f"Bearer {token[:-1]}", "unknown"),
        (f"Bearer {token.upper()}", "unknown"),
        ("Bearer", "malformed"),
        ("Bearer ", "malformed"),
        ("Bearertoken", "malformed"),
        (f"Bearer {token} {token}", "malformed"),
        (f'Bearer "{token}"', "malformed"),
        (f"Bearer {token},", "malformed"),
        (f"Bearer {token}\x00".encode(), "malformed"),
        (f"Bearer é{token}".encode(), "malformed"),
        ("Bearer " + "x" * (LONGEST_TOKEN + 1), "malformed"),
        ("Bearer " + "x" * LONGEST_TOKEN, "unknown"),
        (f"Basic {token}", "missing"),
        (token, "missing"),
        ("", "missing"),
        (f"Bearer {digest_of(token.encode()).hex()}", "unknown"),
        (f"Bearer {JWT}", "unknown"),
    ]
    for header, reason in cases:
        found, description = await denied(door, header)
        assert found == reason, header
        assert token not in description
    for header in (f"bearer {token}", f"BEARER   {token}  "):
        assert await door.admit(header.encode()) is not None
    if mode == "required":
        assert (await denied(door, None))[0] == "missing"
    else:
        assert await door.admit(None) is None


async def test_a_token_ends_at_its_very_moment(doors: Doors, tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tokens.add(seconds=1000.25)
    door = doors.open(tokens=str(tokens.path))
    until = (await admitted(door, token)).until
    monkeypatch.setattr(doors.clock, "now", lambda: until - 0.001)
    assert door.known(token.encode()) is not None
    monkeypatch.setattr(doors.clock, "now", lambda: until)
    assert door.known(token.encode()) is None
    assert await denied(door, f"Bearer {token}") == ("expired", "the token has expired")


@pytest.mark.parametrize("off", [-7_200, 7_200])
async def test_the_store_s_clock_decides(
    doors: Doors, tokens: Tokens, store: Store, monkeypatch: pytest.MonkeyPatch, off: int
) -> None:
    good, ended, real = tokens.add(seconds=600), tokens.add("agent-2", seconds=-1), time.time
    monkeypatch.setattr("coordinator.identity.clock.time.time", lambda: real() + off)
    doors.clock = FleetClock(store.time)
    door = doors.open(tokens=str(tokens.path), verifier=KEYS)
    await door.start()
    assert await denied(door, f"Bearer {ended}") == ("expired", "the token has expired")
    doors.verifier.knows(JWT, expires=real() - 1)
    await admitted(door, JWT)
    assert door.known(JWT.encode()) is None
    assert (await admitted(door, good)).caller.id == "agent-1"


async def test_a_changed_file_is_in_force_at_once(doors: Doors, tokens: Tokens) -> None:
    first = tokens.add("a")
    door = doors.open(tokens=str(tokens.path))
    await door.start()
    second = tokens.add("b")
    await wait_until(lambda: door.known(second.encode()), what="the new token")
    assert door.known(first.encode()) is not None
    tokens.revoke("a")
    await wait_until(lambda: door.known(first.encode()) is None, what="the end of the old one")
    assert (await denied(door, f"Bearer {first}"))[0] == "unknown"
    assert door.known(second.encode()) is not None
    assert set(doors.reads) == {"ok"}


async def test_a_wrong_file_keeps_the_old_and_is_told(doors: Doors, tokens: Tokens) -> None:
    token = tokens.add("a")
    good = tokens.path.read_text()
    door = doors.open(tokens=str(tokens.path))
    await door.start()
    with capture_logs() as logged:
        tokens.write("tokens: 7\n")
        await wait_until(lambda: doors.reads == ["refused"], what="the reading")
        assert door.known(token.encode()) is not None
        assert door.report()["file"] == {"entries": 1, "refused": "tokens.yaml:1: tokens: must be a list of entries"}
        tokens.path.unlink()
        await wait_until(lambda: len(doors.reads) == 2, what="the reading")
        assert door.report()["file"]["refused"] == "cannot read the token file tokens.yaml: No such file or directory"
        assert door.known(token.encode()) is not None
        tokens.write(good)
        await wait_until(lambda: "refused" not in door.report()["file"], what="the reading")
        tokens.path.chmod(0o666)
        await wait_until(lambda: "refused" in door.report()["file"], what="the look at its mode")
        assert str(tokens.path.parent) not in door.report()["file"]["refused"]
    assert doors.reads == ["refused", "refused", "ok", "refused"]
    told = [line for line in logged if "refused" in line["event"]]
    assert [line["log_level"] for line in told] == ["error"] * 3
    assert all(str(tokens.path) in line["problem"] for line in told)


async def test_a_pipe_in_its_place_does_not_end_the_watch(doors: Doors, tokens: Tokens) -> None:
    token = tokens.add("a")
    door = doors.open(tokens=str(tokens.path))
    await door.start()
    pipe = tokens.path.with_name("pipe")
    os.mkfifo(pipe)
    pipe.replace(tokens.path)
    await wait_until(lambda: doors.reads == ["refused"], what="the reading")
    tokens.write("tokens: []\n")
    await wait_until(lambda: door.known(token.encode()) is None, what="the revocation")


@pytest.mark.parametrize("secret", [b"two words", b"", b"=", b"tok\xc3\xa9n", b"a" * (LONGEST_TOKEN + 1)])
async def test_what_is_no_token_opens_neither_way(doors: Doors, tokens: Tokens, secret: bytes) -> None:
    token = tokens.add("a")
    door = doors.open(tokens=str(tokens.path))
    grant = door.known(token.encode())
    assert grant is not None
    door._grants[digest_of(secret)] = msgspec.structs.replace(grant, digest=digest_of(secret))
    authorization = Authorization(door, cast(Surfaces, None), lambda reason: None, 1_000_000)
    plan = Plan("/mcp", "default", {}, None, None, False)
    assert authorization.known_grant(token.encode(), plan) is grant
    assert authorization.known_grant(secret, plan) is False
    assert (await denied(door, b"Bearer " + secret))[0] == "malformed"


async def test_a_file_that_is_wrong_from_the_start_stops_it(doors: Doors, tokens: Tokens) -> None:
    with pytest.raises(TokenFileError, match="No such file"):
        doors.open(tokens=str(tokens.path))
    tokens.write("tokens: 7\n")
    with pytest.raises(TokenFileError, match="must be a list"):
        doors.open(tokens=str(tokens.path))


async def test_an_empty_file_is_taken_for_one_that_is_being_written(doors: Doors, tokens: Tokens) -> None:
    token = tokens.add("a")
    door = doors.open(tokens=str(tokens.path))
    await door.start()
    tokens.write("")
    await wait_until(lambda: doors.reads == ["refused"], what="the reading")
    assert "'tokens: []' would revoke all tokens" in door.report()["file"]["refused"]
    assert door.known(token.encode()) is not None
    tokens.write("tokens: []\n")
    await wait_until(lambda: door.known(token.encode()) is None, what="the end of all tokens")


async def test_a_file_that_changes_while_it_is_read_is_read_again(
    doors: Doors, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tokens.add("a")
    door = doors.open(tokens=str(tokens.path))
    made: list[str] = []

    def reading(path: Path) -> Any:
        found = read_tokens(path)
        if len(made) < 2:
            made.append(tokens.add(f"b-{len(made)}"))
        return found

    monkeypatch.setattr(door_module, "read_tokens", reading)
    await door.start()
    tokens.revoke("a")
    await wait_until(lambda: len(made) == 2 and door.known(made[1].encode()), what="the last change")
    assert door.known(first.encode()) is None
    assert doors.reads == ["ok"]


async def test_a_defect_does_not_end_the_watch(doors: Doors, tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    door = doors.open(tokens=str(tokens.path)) if tokens.add("a") else None
    assert door is not None
    failed: list[int] = []

    def failing(path: Path) -> Any:
        if not failed:
            failed.append(1)
            raise RuntimeError("a defect")
        return read_tokens(path)

    monkeypatch.setattr(door_module, "read_tokens", failing)
    await door.start()
    with capture_logs() as logged:
        fresh = tokens.add("b")
        await wait_until(lambda: door.known(fresh.encode()), what="the new token")
    assert [line["event"] for line in logged if line["log_level"] == "error"] == ["the token file was not read"]


async def test_settings_that_change(doors: Doors, tokens: Tokens) -> None:
    token = tokens.add("a")
    settings = Settings(auth=Auth(tokens=str(tokens.path)))
    door = doors.open(settings)
    await door.start()
    assert (door.mode, door.resource) == ("optional", "http://127.0.0.1:8420")
    changed = with_auth(
        settings, tokens=str(tokens.path), mode="required", resource="https://f.example/", default_permissions=()
    )
    door.configure(changed)
    assert (door.mode, door.resource) == ("required", "https://f.example")
    assert (await admitted(door, token)).caller.permissions == frozenset()
    # Another file, which is not there yet: the old one stays.
    other = Tokens(tokens.path.with_name("other.yaml"))
    door.configure(with_auth(settings, tokens=str(other.path)))
    await wait_until(lambda: "refused" in door.report()["file"], what="the reading")
    assert door.known(token.encode()) is not None
    fresh = other.add("b")
    await wait_until(lambda: door.known(fresh.encode()), what="the other file")
    assert door.known(token.encode()) is None
    door.configure(with_auth(settings, mode="none"))
    await wait_until(lambda: door.known(fresh.encode()) is None, what="the end of the file")
    assert "file" not in door.report()


async def test_a_sighup_reads_the_file_even_if_it_looks_unchanged(doors: Doors, tokens: Tokens) -> None:
    tokens.add("a")
    settings = Settings(auth=Auth(tokens=str(tokens.path)))
    door = doors.open(settings)
    await door.start()
    door.configure(settings)
    await wait_until(lambda: doors.reads == ["ok"], what="the reading")


# --- JWTs


async def test_claims_become_the_caller(doors: Doors) -> None:
    door = doors.open(verifier=KEYS)
    doors.verifier.knows(
        JWT, sub="agent-9", roles=["lead", "reviewer"], permissions=["items", "other"], projects=["alpha"], kind="user"
    )
    grant = await admitted(door, JWT)
    assert grant.caller == Caller("agent-9", "user", frozenset({"lead", "reviewer"}), frozenset({"items", "other"}))
    assert grant.projects == frozenset({"alpha"})
    assert grant.audiences is None


@pytest.mark.parametrize(
    ("claims", "permissions"),
    [
        ({}, {"fallback"}),
        ({"scope": "items.read openid"}, {"items.read", "openid"}),
        ({"scope": ""}, set()),
        ({"permissions": []}, set()),
        ({"permissions": [], "scope": "items"}, set()),
        ({"permissions": "items"}, {"items"}),
        ({"permissions": ["items"], "scope": "other"}, {"items"}),
    ],
)
async def test_permissions_or_scope(doors: Doors, claims: dict[str, Any], permissions: set[str]) -> None:
    door = doors.open(verifier=KEYS, default_permissions=("fallback",))
    doors.verifier.knows(JWT, **claims)
    assert (await admitted(door, JWT)).caller.permissions == permissions


@pytest.mark.parametrize(
    "claims",
    [
        {"permissions": 7},
        {"permissions": ["items", 7]},
        {"permissions": {"items": True}},
        {"permissions": ["", "items"]},
        {"scope": ["items"]},
        {"roles": 7},
        {"projects": [["alpha"]]},
        {"projects": True},
        {"aud": 7},
        {"sub": None},
        {"sub": " "},
        {"sub": "x" * 501},
    ],
)
async def test_claims_that_say_nothing_clear_are_refused(doors: Doors, claims: dict[str, Any]) -> None:
    door = doors.open(verifier=KEYS)
    doors.verifier.knows(JWT, **claims)
    assert (await denied(door, f"Bearer {JWT}"))[0] == "rejected"
    assert door.known(JWT.encode()) is None


@pytest.mark.parametrize(
    ("audience", "found"),
    [
        ("fleet", None),
        (["x", "fleet"], None),
        ("https://H.example:443/mcp/", {"https://h.example/mcp"}),
        (["x", "http://h.example:80"], {"x", "http://h.example"}),
        (None, set()),
        ([], set()),
    ],
)
async def test_whom_a_token_is_for(doors: Doors, audience: Any, found: set[str] | None) -> None:
    door = doors.open(verifier=KEYS)
    # It is compared here, not by the verifier, because the endpoints count too.
    assert doors.verifier.settings.audience == ""
    doors.verifier.knows(JWT, aud=audience)
    assert (await admitted(door, JWT)).audiences == found


async def test_an_unknown_kind_is_external(doors: Doors) -> None:
    door = doors.open(verifier=KEYS)
    for kind in ("boss", 7, None):
        doors.verifier.knows(f"{JWT}{kind}", kind=kind)
        assert (await admitted(door, f"{JWT}{kind}")).caller.kind == "external"


async def test_a_verified_token_is_kept_until_its_keys_are_old(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    door = doors.open(verifier=KEYS)
    now = time.time()
    monkeypatch.setattr(doors.clock, "now", lambda: now)
    for token, more, kept in (
        ("a.a.a", {}, KEYS.cache_ttl_seconds),
        ("b.b.b", {"expires": now + 5}, 5),
        ("c.c.c", {"stale": 100}, 30),
        ("d.d.d", {"expires": now + 10_000}, KEYS.cache_ttl_seconds),
    ):
        doors.verifier.knows(token, **more)
        grant = await admitted(door, token)
        assert await admitted(door, token) is grant
        assert doors.verifier.asked.count(token) == 1
        assert grant.until == now + kept
        assert door.known(token.encode()) is grant
    now += KEYS.cache_ttl_seconds
    doors.verifier.outcomes.clear()
    for token in ("a.a.a", "b.b.b", "c.c.c", "d.d.d"):
        assert door.known(token.encode()) is None
        assert (await denied(door, f"Bearer {token}"))[0] == "rejected"


async def test_what_does_not_verify(doors: Doors) -> None:
    door = doors.open(verifier=KEYS)
    assert await denied(door, f"Bearer {JWT}") == ("rejected", "the token does not verify: the signature is wrong")
    for status, reason in (("unavailable", "unavailable"), ("unchecked", "rejected"), ("absent", "rejected")):
        doors.verifier.outcomes[JWT] = Outcome(status=status, verifier="jwks")  # type: ignore[arg-type]
        assert (await denied(door, f"Bearer {JWT}"))[0] == reason
    # What is no JWT is not worth a look.
    before = len(doors.verifier.asked)
    for token in ("abc", "a.b", "a.b.c.d", new_token()):
        assert (await denied(door, f"Bearer {token}"))[0] == "unknown"
    assert len(doors.verifier.asked) == before


async def test_what_is_kept_is_bounded_and_no_token(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "_MOST_JWTS", 10)
    door = doors.open(verifier=KEYS)
    for number in range(25):
        await admitted(door, doors.verifier.knows(f"secret.{number}.x"))
        assert len(door._jwts) <= 10
    assert "secret" not in repr(vars(door)).replace("FakeVerifier", "")


async def test_a_changed_verifier_forgets_what_the_old_one_said(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door_module, "_GRACE_SECONDS", 0.01)
    settings = Settings(actor_authentication=ActorAuthentication(verifier=KEYS))
    door = doors.open(settings)
    await door.start()
    old = doors.verifier
    old.knows(JWT)
    await admitted(door, JWT)
    # The section of its own comes first.
    other = VerifierSettings(type="jwks", jwks_uri="https://k.example", algorithms=("RS256",))
    door.configure(with_auth(settings, verifier=other))
    assert door.known(JWT.encode()) is None
    await admitted(door, JWT)  # the change takes the next turn of the event loop
    await wait_until(lambda: old.closed == 1 and doors.verifier.started == 1, what="the change")
    assert doors.verifier.settings.jwks_uri == "https://k.example"
    assert (await denied(door, f"Bearer {JWT}"))[0] == "rejected"
    door.configure(with_auth(settings, mode="none"))
    await wait_until(lambda: doors.verifiers[1].closed == 1, what="the end of it")
    assert len(doors.verifiers) == 2


async def test_what_a_verifier_says_when_it_was_replaced_is_not_kept(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(actor_authentication=ActorAuthentication(verifier=KEYS))
    door = doors.open(settings)
    old, asked, go_on = doors.verifier, asyncio.Event(), asyncio.Event()
    old.knows(JWT)
    says = old.verify

    async def slowly(token: str | None) -> Outcome:
        asked.set()
        await go_on.wait()
        return await says(token)

    monkeypatch.setattr(old, "verify", slowly)
    late = asyncio.create_task(admitted(door, JWT))
    await asked.wait()
    door.configure(with_auth(settings, verifier=msgspec.structs.replace(KEYS, algorithms=("RS256",))))
    await wait_until(lambda: doors.verifier is not old, what="the change")
    assert old.closed == 0  # it still serves what began with it
    go_on.set()
    await late
    assert door.known(JWT.encode()) is None


@pytest.mark.parametrize(
    ("more", "servers"),
    [
        ({"issuer": "https://i.example"}, ("https://i.example",)),
        ({"issuer": "just-a-name"}, ()),
        ({"issuer": "", "jwks_path": "", "oidc_discovery": "https://o.example/a/.well-known/openid-configuration"},
         ("https://o.example/a",)),
        ({"issuer": "", "jwks_path": "", "oidc_discovery": "https://o.example/elsewhere"}, ()),
    ],
)  # fmt: skip
async def test_who_issues_tokens(doors: Doors, more: dict[str, Any], servers: tuple[str, ...]) -> None:
    verifier = msgspec.structs.replace(KEYS, **more)
    assert doors.open(verifier=verifier).authorization_servers == servers
    stated = ("https://a.example", "https://b.example")
    assert doors.open(verifier=verifier, authorization_servers=stated).authorization_servers == stated


# --- words


def test_permissions_imply_narrower_ones() -> None:
    assert sufficient("items", True) == {"items", "items.read", "*", "*.read"}
    assert sufficient("items", False) == {"items", "*"}
    assert (least("items", True), least("items", False)) == ("items.read", "items")
    assert vocabulary(("items", "sessions")) == ("items", "items.read", "sessions", "sessions.read")
    assert {"workflow", "workflow.admin"} <= sufficient("flows", False)
    assert (least("flows", True), least("flows", False)) == ("workflow.read", "workflow")


def test_an_endpoint_is_part_of_what_encloses_it() -> None:
    assert enclosing("https://h", "/p/alpha/mcp/items") == {
        "https://h", "https://h/p", "https://h/p/alpha", "https://h/p/alpha/mcp", "https://h/p/alpha/mcp/items",
    }  # fmt: skip
    assert enclosing("https://h/base", "/mcp/") == {"https://h/base", "https://h/base/mcp"}


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("HTTPS://Fleet.Example:443/Mcp/", "https://fleet.example/Mcp"),
        ("http://h:80", "http://h"),
        ("http://h:8420/", "http://h:8420"),
        ("https://h/?a=B", "https://h?a=B"),
        ("Fleet", "Fleet"),
        ("urn:X:Y", "urn:X:Y"),
        ("http://[broken", "http://[broken"),
        ("https:/h", "https:/h"),
    ],
)
def test_audiences_are_compared_in_one_spelling(uri: str, found: str) -> None:
    assert canonical(uri) == found
