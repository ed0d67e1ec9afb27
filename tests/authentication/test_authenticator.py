"""The authenticator alone: which tokens are valid, what they grant, and changes at run time."""

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

from coordinator.identity.callers import authenticator as authenticator_module
from coordinator.identity.callers.authenticator import LONGEST_TOKEN, Authenticator
from coordinator.identity.callers.grants import Denied, Grant, Reason, canonical, enclosing
from coordinator.identity.callers.permissions import least, sufficient, vocabulary
from coordinator.identity.callers.token_file import TokenFileError, digest_of, new_token, read_tokens
from coordinator.identity.clock import FleetClock
from coordinator.identity.verifier import Outcome
from coordinator.settings import Settings
from coordinator.settings.sections.auth import Auth
from coordinator.settings.sections.connections import Connection
from coordinator.settings.sections.identity import ActorAuthentication, VerifierSettings
from coordinator.store import Store
from coordinator.toolsets.caller import Caller, OfEntry
from coordinator.transport.endpoints import Endpoints
from coordinator.transport.fast_path.calls import Plan
from coordinator.transport.http.authorization import Authorization
from tests.authentication.support import KEYS, Authenticators, Tokens, key_of, with_auth
from tests.support.wait import wait_until

pytestmark = pytest.mark.anyio

JWT = "aaa.bbb.ccc"


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authenticator_module, "LOOK_SECONDS", 0.02)


async def denied(authenticator: Authenticator, header: str | bytes | None) -> tuple[Reason, str]:
    """Why a header is rejected."""
    with pytest.raises(Denied) as caught:
        await authenticator.authenticate(header.encode() if isinstance(header, str) else header)
    return caught.value.reason, caught.value.description


async def admitted(authenticator: Authenticator, token: str) -> Grant:
    grant = await authenticator.authenticate(f"Bearer {token}".encode())
    assert grant is not None
    return grant


async def test_a_token_of_the_file_names_its_caller(authenticators: Authenticators, tokens: Tokens) -> None:
    token = tokens.add(
        "agent-1", kind="orchestrator", permissions=("items",), projects=("alpha", "beta"), roles=("lead",)
    )
    authenticator = authenticators.make(tokens=str(tokens.path))
    grant = await admitted(authenticator, token)
    roles, permissions = frozenset({"lead"}), frozenset({"items"})
    assert grant.caller == Caller("agent-1", "orchestrator", roles, permissions, OfEntry(key_of(token)), grant.projects)
    assert grant.projects == frozenset({"alpha", "beta"})
    assert (grant.audiences, grant.until) == (None, inf)
    assert authenticator.known(token.encode()) is grant


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
async def test_defaults_of_an_entry(
    authenticators: Authenticators,
    tokens: Tokens,
    entry: dict[str, Any],
    permissions: set[str],
    projects: set[str] | None,
) -> None:
    token = tokens.add("a", **entry)
    authenticator = authenticators.make(tokens=str(tokens.path), default_permissions=("items", "*.read"))
    grant = await admitted(authenticator, token)
    assert grant.caller.permissions == permissions
    assert grant.projects == projects


@pytest.mark.parametrize("mode", ["optional", "required"])
async def test_rejected_headers(authenticators: Authenticators, tokens: Tokens, mode: Any) -> None:
    token = tokens.add()
    authenticator = authenticators.make(tokens=str(tokens.path), mode=mode)
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
        found, description = await denied(authenticator, header)
        assert found == reason, header
        assert token not in description
    for header in (f"bearer {token}", f"BEARER   {token}  "):
        assert await authenticator.authenticate(header.encode()) is not None
    if mode == "required":
        assert (await denied(authenticator, None))[0] == "missing"
    else:
        assert await authenticator.authenticate(None) is None


async def test_a_token_expires_exactly_on_time(
    authenticators: Authenticators, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tokens.add(seconds=1000.25)
    authenticator = authenticators.make(tokens=str(tokens.path))
    until = (await admitted(authenticator, token)).until
    monkeypatch.setattr(authenticators.clock, "now", lambda: until - 0.001)
    assert authenticator.known(token.encode()) is not None
    monkeypatch.setattr(authenticators.clock, "now", lambda: until)
    assert authenticator.known(token.encode()) is None
    assert await denied(authenticator, f"Bearer {token}") == ("expired", "the token has expired")


@pytest.mark.parametrize("off", [-7_200, 7_200])
async def test_the_store_s_clock_decides(
    authenticators: Authenticators, tokens: Tokens, store: Store, monkeypatch: pytest.MonkeyPatch, off: int
) -> None:
    good, ended, real = tokens.add(seconds=600), tokens.add("agent-2", seconds=-1), time.time
    monkeypatch.setattr("coordinator.identity.clock.time.time", lambda: real() + off)
    authenticators.clock = FleetClock(store.time)
    authenticator = authenticators.make(tokens=str(tokens.path), verifier=KEYS)
    await authenticator.start()
    assert await denied(authenticator, f"Bearer {ended}") == ("expired", "the token has expired")
    authenticators.verifier.knows(JWT, expires=real() - 1)
    await admitted(authenticator, JWT)
    assert authenticator.known(JWT.encode()) is None
    assert (await admitted(authenticator, good)).caller.id == "agent-1"


async def test_a_changed_file_is_in_force_at_once(authenticators: Authenticators, tokens: Tokens) -> None:
    first = tokens.add("a")
    authenticator = authenticators.make(tokens=str(tokens.path))
    await authenticator.start()
    second = tokens.add("b")
    await wait_until(lambda: authenticator.known(second.encode()), what="the new token")
    assert authenticator.known(first.encode()) is not None
    tokens.revoke("a")
    await wait_until(lambda: authenticator.known(first.encode()) is None, what="the end of the old one")
    assert (await denied(authenticator, f"Bearer {first}"))[0] == "unknown"
    assert authenticator.known(second.encode()) is not None
    assert set(authenticators.reads) == {"ok"}


async def test_a_wrong_file_is_reported_and_the_old_one_kept(authenticators: Authenticators, tokens: Tokens) -> None:
    token = tokens.add("a")
    good = tokens.path.read_text()
    authenticator = authenticators.make(tokens=str(tokens.path))
    await authenticator.start()
    with capture_logs() as logged:
        tokens.write("tokens: 7\n")
        await wait_until(lambda: authenticators.reads == {"refused": 1}, what="the reading")
        assert authenticator.known(token.encode()) is not None
        assert authenticator.report()["file"] == {
            "entries": 1,
            "refused": "tokens.yaml:1: tokens: must be a list of entries",
        }
        tokens.path.unlink()
        await wait_until(lambda: authenticators.reads == {"refused": 2}, what="the reading")
        assert (
            authenticator.report()["file"]["refused"]
            == "cannot read the token file tokens.yaml: No such file or directory; `fleet token create` makes it"
        )
        assert authenticator.known(token.encode()) is not None
        tokens.write(good)
        await wait_until(lambda: "refused" not in authenticator.report()["file"], what="the reading")
        tokens.path.chmod(0o666)
        await wait_until(lambda: "refused" in authenticator.report()["file"], what="the check of its mode")
        assert str(tokens.path.parent) not in authenticator.report()["file"]["refused"]
    assert authenticators.reads == {"refused": 3, "ok": 1}
    errors = [line for line in logged if "refused" in line["event"]]
    assert [line["log_level"] for line in errors] == ["error"] * 3
    assert all(str(tokens.path) in line["problem"] for line in errors)


async def test_a_pipe_in_its_place_does_not_end_the_watch(authenticators: Authenticators, tokens: Tokens) -> None:
    token = tokens.add("a")
    authenticator = authenticators.make(tokens=str(tokens.path))
    await authenticator.start()
    pipe = tokens.path.with_name("pipe")
    os.mkfifo(pipe)
    pipe.replace(tokens.path)
    await wait_until(lambda: authenticators.reads == {"refused": 1}, what="the reading")
    tokens.write("tokens: []\n")
    await wait_until(lambda: authenticator.known(token.encode()) is None, what="the revocation")


@pytest.mark.parametrize("secret", [b"two words", b"", b"=", b"tok\xc3\xa9n", b"a" * (LONGEST_TOKEN + 1)])
async def test_malformed_tokens_are_rejected_on_both_paths(
    authenticators: Authenticators, tokens: Tokens, secret: bytes
) -> None:
    token = tokens.add("a")
    if secret:  # the file takes no digest of nothing
        tokens.add_digest("b", secret)
    authenticator = authenticators.make(tokens=str(tokens.path))
    grant = authenticator.known(token.encode())
    assert grant is not None
    assert (authenticator.known(secret) is not None) == bool(secret)
    authorization = Authorization(authenticator, cast(Endpoints, None), 1_000_000)
    plan = Plan("/mcp", "default", {}, None, None, False)
    assert authorization.known_grant(token.encode(), plan) is grant
    assert authorization.known_grant(secret, plan) is None
    assert (await denied(authenticator, b"Bearer " + secret))[0] == "malformed"


async def test_a_file_that_is_wrong_from_the_start_prevents_the_start(
    authenticators: Authenticators, tokens: Tokens
) -> None:
    with pytest.raises(TokenFileError, match="No such file"):
        authenticators.make(tokens=str(tokens.path))
    tokens.write("tokens: 7\n")
    with pytest.raises(TokenFileError, match="must be a list"):
        authenticators.make(tokens=str(tokens.path))


async def test_an_empty_file_counts_as_being_written(authenticators: Authenticators, tokens: Tokens) -> None:
    token = tokens.add("a")
    authenticator = authenticators.make(tokens=str(tokens.path))
    await authenticator.start()
    tokens.write("")
    await wait_until(lambda: authenticators.reads == {"refused": 1}, what="the reading")
    assert "'tokens: []' would revoke all tokens" in authenticator.report()["file"]["refused"]
    assert authenticator.known(token.encode()) is not None
    tokens.write("tokens: []\n")
    await wait_until(lambda: authenticator.known(token.encode()) is None, what="the end of all tokens")


async def test_a_file_that_changes_while_it_is_read_is_read_again(
    authenticators: Authenticators, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tokens.add("a")
    authenticator = authenticators.make(tokens=str(tokens.path))
    made: list[str] = []

    def reading(path: Path) -> Any:
        found = read_tokens(path)
        if len(made) < 2:
            made.append(tokens.add(f"b-{len(made)}"))
        return found

    monkeypatch.setattr(authenticator_module, "read_tokens", reading)
    await authenticator.start()
    tokens.revoke("a")
    await wait_until(lambda: len(made) == 2 and authenticator.known(made[1].encode()), what="the last change")
    assert authenticator.known(first.encode()) is None
    assert authenticators.reads == {"ok": 1}


async def test_a_defect_does_not_end_the_watch(
    authenticators: Authenticators, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticator = authenticators.make(tokens=str(tokens.path)) if tokens.add("a") else None
    assert authenticator is not None
    failed: list[int] = []

    def failing(path: Path) -> Any:
        if not failed:
            failed.append(1)
            raise RuntimeError("a defect")
        return read_tokens(path)

    monkeypatch.setattr(authenticator_module, "read_tokens", failing)
    await authenticator.start()
    with capture_logs() as logged:
        fresh = tokens.add("b")
        await wait_until(lambda: authenticator.known(fresh.encode()), what="the new token")
    assert [line["event"] for line in logged if line["log_level"] == "error"] == ["the token file was not read"]


async def test_settings_that_change(authenticators: Authenticators, tokens: Tokens) -> None:
    token = tokens.add("a")
    settings = Settings(auth=Auth(tokens=str(tokens.path)))
    authenticator = authenticators.make(settings)
    await authenticator.start()
    assert (authenticator.mode, authenticator.resource) == ("optional", "http://127.0.0.1:8420")
    changed = with_auth(
        settings, tokens=str(tokens.path), mode="required", resource="https://f.example/", default_permissions=()
    )
    authenticator.configure(changed)
    assert (authenticator.mode, authenticator.resource) == ("required", "https://f.example")
    assert (await admitted(authenticator, token)).caller.permissions == frozenset()
    # Another file, which does not exist yet: the old tokens stay.
    other = Tokens(tokens.path.with_name("other.yaml"))
    authenticator.configure(with_auth(settings, tokens=str(other.path)))
    await wait_until(lambda: "refused" in authenticator.report()["file"], what="the reading")
    assert authenticator.known(token.encode()) is not None
    fresh = other.add("b")
    await wait_until(lambda: authenticator.known(fresh.encode()), what="the other file")
    assert authenticator.known(token.encode()) is None
    authenticator.configure(with_auth(settings, mode="none"))
    await wait_until(lambda: authenticator.known(fresh.encode()) is None, what="the end of the file")
    assert "file" not in authenticator.report()


async def test_a_sighup_reads_the_file_even_if_it_looks_unchanged(
    authenticators: Authenticators, tokens: Tokens
) -> None:
    tokens.add("a")
    settings = Settings(auth=Auth(tokens=str(tokens.path)))
    authenticator = authenticators.make(settings)
    await authenticator.start()
    authenticator.configure(settings)
    await wait_until(lambda: authenticators.reads == {"ok": 1}, what="the reading")


# --- JWTs


async def test_claims_become_the_caller(authenticators: Authenticators) -> None:
    authenticator = authenticators.make(verifier=KEYS)
    authenticators.verifier.knows(
        JWT, sub="agent-9", roles=["lead", "reviewer"], permissions=["items", "other"], projects=["alpha"], kind="user"
    )
    grant = await admitted(authenticator, JWT)
    roles, permissions = frozenset({"lead", "reviewer"}), frozenset({"items", "other"})
    assert grant.caller == Caller("agent-9", "user", roles, permissions, grant.caller.credential, grant.projects)
    assert grant.projects == frozenset({"alpha"})
    assert grant.audiences is None


@pytest.mark.parametrize(
    ("claims", "permissions"),
    [
        ({}, {"fallback"}),
        ({"scope": "items.read openid"}, {"items.read", "openid"}),
        ({"scope": ""}, set()),
        ({"permissions": []}, set()),
        ({"permissions": [], "scope": "items"}, {"items"}),
        ({"permissions": "items"}, {"items"}),
        ({"permissions": ["items"], "scope": "other"}, {"items", "other"}),
        ({"scope": ["items", "flows.read"]}, {"items", "flows.read"}),
        ({"scp": "items openid"}, {"items", "openid"}),
        ({"scp": ["flows"], "scope": "items", "permissions": "a.tool"}, {"flows", "items", "a.tool"}),
        ({"scope": "openid profile"}, {"openid", "profile", "fallback"}),
        ({"scp": ["User.Read"]}, {"User.Read", "fallback"}),
        ({"scope": "openid workflow.admin"}, {"openid", "workflow.admin"}),
        ({"scp": "files.list"}, {"files.list"}),
    ],
)
async def test_permissions_scope_and_scp(
    authenticators: Authenticators, claims: dict[str, Any], permissions: set[str]
) -> None:
    settings = Settings(auth=Auth(verifier=KEYS, default_permissions=("fallback",)))
    authenticator = authenticators.make(settings)
    files = {"files": Connection(kind="mcp", url="https://files.example.org/mcp")}
    authenticator.configure(msgspec.structs.replace(settings, connections=files))
    authenticators.verifier.knows(JWT, **claims)
    assert (await admitted(authenticator, JWT)).caller.permissions == permissions


@pytest.mark.parametrize(
    ("claims", "permissions"),
    [({}, {"*"}), ({"scope": "openid profile"}, {"openid", "profile"}), ({"scp": ["items"]}, {"items"})],
)
async def test_scopes_of_other_servers_permit_nothing_by_default(
    authenticators: Authenticators, claims: dict[str, Any], permissions: set[str]
) -> None:
    silent = authenticators.make(verifier=KEYS)
    authenticators.verifier.knows(JWT, **claims)
    assert (await admitted(silent, JWT)).caller.permissions == permissions
    stated = authenticators.make(verifier=KEYS, default_permissions=("*",))
    authenticators.verifier.knows(JWT, **claims)
    assert ("*" in (await admitted(stated, JWT)).caller.permissions) == ("scp" not in claims)


@pytest.mark.parametrize(
    "claims",
    [
        {"permissions": 7},
        {"permissions": ["items", 7]},
        {"permissions": {"items": True}},
        {"permissions": ["", "items"]},
        {"scope": 7},
        {"scope": ["items", None]},
        {"scp": {"items": True}},
        {"roles": 7},
        {"projects": [["alpha"]]},
        {"projects": True},
        {"aud": 7},
        {"sub": None},
        {"sub": " "},
        {"sub": "x" * 501},
    ],
)
async def test_unusable_claims_are_rejected(authenticators: Authenticators, claims: dict[str, Any]) -> None:
    authenticator = authenticators.make(verifier=KEYS)
    authenticators.verifier.knows(JWT, **claims)
    assert (await denied(authenticator, f"Bearer {JWT}"))[0] == "rejected"
    assert authenticator.known(JWT.encode()) is None


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
async def test_audiences_of_a_token(authenticators: Authenticators, audience: Any, found: set[str] | None) -> None:
    authenticator = authenticators.make(verifier=KEYS)
    # It is compared here, not by the verifier, because the endpoints count too.
    assert authenticators.verifier.settings.audience == ""
    authenticators.verifier.knows(JWT, aud=audience)
    assert (await admitted(authenticator, JWT)).audiences == found


async def test_an_unknown_kind_is_external(authenticators: Authenticators) -> None:
    authenticator = authenticators.make(verifier=KEYS)
    for kind in ("boss", 7, None):
        authenticators.verifier.knows(f"{JWT}{kind}", kind=kind)
        assert (await admitted(authenticator, f"{JWT}{kind}")).caller.kind == "external"


async def test_a_verified_token_is_cached_until_its_keys_are_stale(
    authenticators: Authenticators, monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticator = authenticators.make(verifier=KEYS)
    now = time.time()
    monkeypatch.setattr(authenticators.clock, "now", lambda: now)
    for token, more, kept in (
        ("a.a.a", {}, KEYS.cache_ttl_seconds),
        ("b.b.b", {"expires": now + 5}, 5),
        ("c.c.c", {"stale": 100}, 30),
        ("d.d.d", {"expires": now + 10_000}, KEYS.cache_ttl_seconds),
    ):
        authenticators.verifier.knows(token, **more)
        grant = await admitted(authenticator, token)
        assert await admitted(authenticator, token) is grant
        assert authenticators.verifier.asked.count(token) == 1
        assert grant.until == now + kept
        assert authenticator.known(token.encode()) is grant
    now += KEYS.cache_ttl_seconds
    authenticators.verifier.outcomes.clear()
    for token in ("a.a.a", "b.b.b", "c.c.c", "d.d.d"):
        assert authenticator.known(token.encode()) is None
        assert (await denied(authenticator, f"Bearer {token}"))[0] == "rejected"


async def test_tokens_that_do_not_verify(authenticators: Authenticators) -> None:
    authenticator = authenticators.make(verifier=KEYS)
    assert await denied(authenticator, f"Bearer {JWT}") == (
        "rejected",
        "the token does not verify: the signature is wrong",
    )
    for status, reason in (("unavailable", "unavailable"), ("unchecked", "rejected"), ("absent", "rejected")):
        authenticators.verifier.outcomes[JWT] = Outcome(status=status, verifier="jwks")  # type: ignore[arg-type]
        assert (await denied(authenticator, f"Bearer {JWT}"))[0] == reason
    # Malformed JWTs are not verified.
    before = len(authenticators.verifier.asked)
    for token in ("abc", "a.b", "a.b.c.d", new_token()):
        assert (await denied(authenticator, f"Bearer {token}"))[0] == "unknown"
    assert len(authenticators.verifier.asked) == before


async def test_the_cache_is_bounded_and_holds_no_token(
    authenticators: Authenticators, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticator_module, "MOST_JWTS", 10)
    authenticator = authenticators.make(verifier=KEYS)
    for number in range(25):
        await admitted(authenticator, authenticators.verifier.knows(f"secret.{number}.x"))
        known = (authenticator.known(f"secret.{one}.x".encode()) for one in range(number + 1))
        assert 1 <= sum(grant is not None for grant in known) <= 10
    assert "secret" not in repr(vars(authenticator)).replace("FakeVerifier", "")


async def test_a_changed_verifier_drops_cached_outcomes(
    authenticators: Authenticators, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authenticator_module, "GRACE_SECONDS", 0.01)
    settings = Settings(actor_authentication=ActorAuthentication(verifier=KEYS))
    authenticator = authenticators.make(settings)
    await authenticator.start()
    old = authenticators.verifier
    old.knows(JWT)
    await admitted(authenticator, JWT)
    # The section of its own comes first.
    other = VerifierSettings(type="jwks", jwks_uri="https://k.example", algorithms=("RS256",))
    authenticator.configure(with_auth(settings, verifier=other))
    assert authenticator.known(JWT.encode()) is None
    await admitted(authenticator, JWT)  # the change takes the next turn of the event loop
    await wait_until(lambda: old.closed == 1 and authenticators.verifier.started == 1, what="the change")
    assert authenticators.verifier.settings.jwks_uri == "https://k.example"
    assert (await denied(authenticator, f"Bearer {JWT}"))[0] == "rejected"
    authenticator.configure(with_auth(settings, mode="none"))
    await wait_until(lambda: authenticators.verifiers[1].closed == 1, what="the end of it")
    assert len(authenticators.verifiers) == 2


async def test_outcomes_of_a_replaced_verifier_are_not_cached(
    authenticators: Authenticators, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(actor_authentication=ActorAuthentication(verifier=KEYS))
    authenticator = authenticators.make(settings)
    old, asked, go_on = authenticators.verifier, asyncio.Event(), asyncio.Event()
    old.knows(JWT)
    says = old.verify

    async def slowly(token: str | None) -> Outcome:
        asked.set()
        await go_on.wait()
        return await says(token)

    monkeypatch.setattr(old, "verify", slowly)
    late = asyncio.create_task(admitted(authenticator, JWT))
    await asked.wait()
    authenticator.configure(with_auth(settings, verifier=msgspec.structs.replace(KEYS, algorithms=("RS256",))))
    await wait_until(lambda: authenticators.verifier is not old, what="the change")
    assert old.closed == 0  # it still serves what began with it
    go_on.set()
    await late
    assert authenticator.known(JWT.encode()) is None


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
async def test_who_issues_tokens(
    authenticators: Authenticators, more: dict[str, Any], servers: tuple[str, ...]
) -> None:
    verifier = msgspec.structs.replace(KEYS, **more)
    assert authenticators.make(verifier=verifier).authorization_servers == servers
    stated = ("https://a.example", "https://b.example")
    assert authenticators.make(verifier=verifier, authorization_servers=stated).authorization_servers == stated


# --- words


def test_permissions_imply_narrower_ones() -> None:
    assert sufficient("items", True) == {"items", "items.read", "items.admin", "*", "*.read"}
    assert sufficient("items", False) == {"items", "items.admin", "*"}
    assert (least("items", True), least("items", False)) == ("items.read", "items")
    assert {"items", "items.read", "items.delegate", "items.admin", "flows.read"} <= {*vocabulary(("items", "flows"))}
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
def test_audiences_are_compared_in_canonical_form(uri: str, found: str) -> None:
    assert canonical(uri) == found
