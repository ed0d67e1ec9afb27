"""What callers may do later, by the credential with which they have begun something."""

from __future__ import annotations

import datetime as dt
from math import inf
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.identity.callers.bearers import Defaults, caller_of, of_entry
from coordinator.identity.callers.credentials import name_of, source_of
from coordinator.identity.callers.permissions import ALL_RIGHTS, OPERATE, common, sufficient, vocabulary
from coordinator.identity.callers.rights import Rights, cut
from coordinator.identity.callers.token_file import TokenEntry
from coordinator.identity.verifier import Outcome
from coordinator.settings import Settings
from coordinator.settings.model import TOOLSETS
from coordinator.settings.sections.auth import Auth
from coordinator.settings.sections.connections import Connection
from coordinator.settings.sections.identity import ActorAuthentication, VerifierSettings
from coordinator.toolsets.caller import BUDGETS, DELEGATES, Caller, Delegation, OfEntry, OfJwt
from coordinator.toolsets.flows.rules.permissions import ADMIN, may_call

NOW = 1_800_000_000.0


def entry(digit: str, id: str = "ana", **more: Any) -> TokenEntry:
    return TokenEntry(id=id, sha256=digit * 64, **{"permissions": ("items",), **more})


def key(digit: str) -> str:
    return digit * 12


def rights(*entries: TokenEntry, settings: Settings | None = None) -> Rights:
    made = Rights(settings or Settings())
    made.take((one, of_entry(one, frozenset({"fallback"}))) for one in entries)
    return made


def caller(digit: str, *permissions: str, id: str = "ana", roles: tuple[str, ...] = ()) -> Caller:
    return Caller(id, "user", frozenset(roles), frozenset(permissions), OfEntry(key(digit)))


def permitted(found: Caller | None) -> set[str] | None:
    return None if found is None else set(found.permissions)


# --- permissions

_NAMES = st.frozensets(
    st.sampled_from([*vocabulary(TOOLSETS), *ALL_RIGHTS, "*", "*.read", "it", "it.read", "it.add", "claim_item"])
)


def opened(permissions: frozenset[str]) -> set[object]:
    """Everything that permissions are asked for."""
    asked: dict[object, bool] = {
        (toolset, read): not sufficient(toolset, read).isdisjoint(permissions)
        for toolset in TOOLSETS
        for read in (False, True)
    }
    asked |= {("it.add", read): may_call(permissions, "it.add", "it", read) for read in (False, True)}
    asked |= {name: name in permissions for name in (OPERATE, ADMIN, "items.admin")}
    asked |= {"budgets": not BUDGETS.isdisjoint(permissions), "delegates": not DELEGATES.isdisjoint(permissions)}
    return {what for what, may in asked.items() if may}


@given(_NAMES, _NAMES)
def test_what_two_sets_of_permissions_have_in_common_opens_what_both_open(
    some: frozenset[str], others: frozenset[str]
) -> None:
    both, wanted = opened(common(some, others)), opened(some) & opened(others)
    # Whether a tool only reads is not known.
    assert both | {("it.add", True)} == wanted | {("it.add", True)}
    assert both <= wanted
    assert opened(common(others, some)) == both


def test_permissions_that_only_one_of_them_has_are_in_no_common_set() -> None:
    assert common(frozenset({"*"}), frozenset({"operate", "workflow.admin", "items.read"})) >= {"items.read", "flows"}
    assert not common(frozenset({"*"}), frozenset({"operate", "workflow.admin"})) & {"operate", "workflow.admin", "*"}
    assert common(frozenset({"items"}), frozenset({"flows"})) == frozenset()


# --- entries of the token file


def test_another_entry_of_the_same_id_adds_nothing() -> None:
    both = rights(entry("a", permissions=("flows", "items.read")), entry("b", permissions=("*",), roles=("lead",)))
    weaker = caller("a", "flows", "items.read")
    assert both.now(weaker, "p", NOW) == weaker
    assert permitted(both.now(caller("b", "*"), "p", NOW)) == {"*"}
    assert rights(entry("b", permissions=("*",))).now(weaker, "p", NOW) is None, "its own was removed"
    assert rights(entry("a", id="bob")).now(weaker, "p", NOW) is None, "it is somebody else's"


def test_rights_are_those_of_then_that_are_left_now() -> None:
    began = caller("a", "flows", "items", roles=("lead", "cook"))
    narrowed = rights(entry("a", permissions=("items.read", "gateway"), roles=("cook", "human"))).now(began, "p", NOW)
    assert narrowed is not None
    assert (set(narrowed.permissions), set(narrowed.roles)) == ({"items.read"}, {"cook"})
    assert permitted(rights(entry("a", permissions=("*", "operate"))).now(began, "p", NOW)) == {"flows", "items"}
    assert rights(entry("a", permissions=())).now(began, "p", NOW) is not None


def test_an_entry_that_has_expired_or_is_for_other_projects_has_no_rights() -> None:
    ends = dt.datetime.fromtimestamp(NOW, dt.UTC)
    brief = rights(entry("a", expires=ends, projects=("p",)))
    assert permitted(brief.now(caller("a", "items"), "p", NOW - 1)) == {"items"}
    assert brief.now(caller("a", "items"), "other", NOW - 1) is None
    assert brief.now(caller("a", "items"), None, NOW - 1) is not None
    assert brief.now(caller("a", "items"), "p", NOW) is None


def test_an_entry_that_replaces_another_one_has_its_place() -> None:
    old, new = entry("a", permissions=("*",)), entry("b", permissions=("items.read",), replaces=(key("a"), key("c")))
    for found in (rights(old, new), rights(new), rights(new, old)):
        assert permitted(found.now(caller("a", "*"), "p", NOW)) == {"items.read"}
        assert permitted(found.now(caller("c", "items"), "p", NOW)) == {"items.read"}
        assert permitted(found.now(caller("b", "items.read"), "p", NOW)) == {"items.read"}
        assert found.same(caller("a"), caller("b"))
        assert found.same(caller("c"), caller("a"))
        assert not found.same(caller("d"), caller("b"))
    assert rights(old).now(caller("b", "*"), "p", NOW) is None, "it replaces nothing the other way round"
    assert rights(new).now(caller("a", "*", id="bob"), "p", NOW) is None


def test_callers_without_a_credential_keep_their_rights() -> None:
    operator = Caller("ops", permissions=ALL_RIGHTS)
    assert rights().now(operator, "p", NOW) is operator


def test_who_has_the_same_credential() -> None:
    found = rights(entry("a"), entry("b"))
    claims = [Delegation("p", "i", fence, 1) for fence in (1, 2)]
    agents = [Caller("ana", claim=one) for one in claims]
    assert found.same(None, None)
    assert found.same(caller("a", "items"), caller("a", "flows"))
    assert found.same(agents[0], msgspec.structs.replace(agents[0], claim=Delegation("p", "i", 1, 1, live=False)))
    for some, other in (
        (caller("a"), caller("b")), (caller("a"), caller("a", id="bob")), (caller("a"), None), (agents[0], agents[1]),
        (caller("a"), Caller("ana")), (agents[0], Caller("ana")),
    ):  # fmt: skip
        assert not found.same(some, other)
        assert not found.same(other, some)


def test_cutting_changes_nothing_that_both_have() -> None:
    mine = caller("a", "items", roles=("x",))
    assert cut(mine, mine) is mine
    assert cut(mine, caller("a", "*", roles=("x", "y"))) is mine
    assert cut(mine, caller("a", "items.read")) == caller("a", "items.read")


# --- JWTs

KEYS = VerifierSettings(type="jwks", jwks_uri="https://a.example/keys", algorithms=("EdDSA",))


def by_jwt(settings: Settings, *, proof: bool = False, source: str = "", **claims: Any) -> Caller:
    claims = {"iss": "https://a.example", "sub": "ana", **claims}
    outcome = Outcome(status="verified", verifier="jwks", subject="ana", claims=claims, source=source, expires=inf)
    return caller_of(outcome, Defaults.of(settings), proof=proof)


def with_keys(**changes: Any) -> Settings:
    return Settings(auth=Auth(verifier=msgspec.structs.replace(KEYS, **changes)))


def test_a_jwt_has_rights_as_long_as_its_issuer_is_trusted() -> None:
    named = with_keys(issuer="https://a.example")
    ana = by_jwt(named, permissions=["items"])
    assert rights(settings=named).now(ana, "p", NOW) is ana
    # Where its keys come from does not matter if the issuer is named.
    assert rights(settings=with_keys(issuer="https://a.example", jwks_uri="https://b/")).now(ana, "p", NOW) is ana
    for other in (with_keys(issuer="https://b.example"), Settings(), Settings(auth=Auth(verifier=VerifierSettings()))):
        assert rights(settings=other).now(ana, "p", NOW) is None
    actors = Settings(actor_authentication=ActorAuthentication(verifier=named.auth.verifier or KEYS))
    assert rights(settings=actors).now(ana, "p", NOW) is ana, "it verifies bearer tokens, too"


def test_where_no_issuer_is_named_the_source_of_its_keys_counts() -> None:
    ana = by_jwt(with_keys(), source=source_of(KEYS, "jwks_uri"), permissions=["items"])
    assert rights(settings=with_keys()).now(ana, "p", NOW) is ana
    assert rights(settings=with_keys(jwks_path="/more")).now(ana, "p", NOW) is ana
    assert rights(settings=with_keys(jwks_uri="https://b.example/keys")).now(ana, "p", NOW) is None
    assert rights(settings=with_keys(jwks_uri="", jwks_path="https://a.example/keys")).now(ana, "p", NOW) is None


def test_an_issuer_with_a_did_has_to_be_on_the_list_or_match_the_pattern() -> None:
    did = "did:web:agents.example.org:one"
    dids = {"jwks_uri": "", "did_allowlist": (did,)}
    ana = by_jwt(with_keys(**dids), iss=did)
    assert rights(settings=with_keys(**dids)).now(ana, "p", NOW) is not None
    for host, trusted in (("agents", True), ("others", False)):
        pattern = with_keys(jwks_uri="", did_pattern=f"did:web:{host}.example.org:*")
        assert (rights(settings=pattern).now(ana, "p", NOW) is not None) == trusted


@pytest.mark.parametrize(
    ("claims", "before", "after", "left"),
    [
        ({}, ("items", "flows"), ("items.read", "gateway"), {"items.read"}),
        ({}, None, ("items",), {"items"}),
        ({}, ("items",), None, {"items"}),
        ({"scope": "openid"}, ("items",), ("items.read",), {"openid", "items.read"}),
        ({"scope": "openid"}, None, ("items",), {"openid"}),
        ({"permissions": ["items"]}, ("flows",), (), {"items"}),
        ({"permissions": []}, ("flows",), ("*",), set()),
    ],
)
def test_what_the_settings_add_to_a_jwt_is_added_anew(
    claims: dict[str, Any], before: tuple[str, ...] | None, after: tuple[str, ...] | None, left: set[str]
) -> None:
    def settings(default: tuple[str, ...] | None) -> Settings:
        keys = msgspec.structs.replace(KEYS, issuer="https://a.example")
        return Settings(auth=Auth(verifier=keys, default_permissions=default))

    ana = by_jwt(settings(before), **claims)
    assert rights(settings=settings(before)).now(ana, "p", NOW) == ana
    now = rights(settings=settings(after)).now(ana, "p", NOW)
    assert now is not None
    assert opened(now.permissions) == opened(frozenset(left))


def test_a_connection_that_is_named_like_a_scope_takes_nothing_away() -> None:
    keys = msgspec.structs.replace(KEYS, issuer="https://a.example")
    settings = Settings(auth=Auth(verifier=keys, default_permissions=("items",)))
    ana = by_jwt(settings, scope="files.read")
    files = {"files": Connection(kind="mcp", url="https://files.example.org/mcp")}
    now = rights(settings=msgspec.structs.replace(settings, connections=files)).now(ana, "p", NOW)
    assert permitted(now) == {"items", "files.read"}


def test_a_proof_has_the_rights_of_proofs() -> None:
    settings = Settings(
        auth=Auth(default_permissions=("items",)),
        actor_authentication=ActorAuthentication(verifier=msgspec.structs.replace(KEYS, issuer="https://a.example")),
    )
    ana = msgspec.structs.replace(by_jwt(settings, proof=True), permissions=frozenset({"*"}))
    assert permitted(rights(settings=settings).now(ana, "p", NOW)) == {"*"}
    of_bearers = msgspec.structs.replace(settings, actor_authentication=ActorAuthentication())
    of_bearers = msgspec.structs.replace(of_bearers, auth=Auth(verifier=settings.actor_authentication.verifier))
    assert rights(settings=of_bearers).now(ana, "p", NOW) is None


def test_jwts_of_one_issuer_for_one_subject_are_the_same_credential() -> None:
    settings = with_keys(issuer="https://a.example")
    found = rights(settings=settings)
    ana = by_jwt(settings, permissions=["items"])
    assert ana.credential == OfJwt(name_of("https://a.example", "ana"), "https://a.example", "")
    assert found.same(ana, by_jwt(settings, permissions=["flows"], exp=1))
    assert not found.same(ana, by_jwt(settings, iss="https://b.example"))
    assert not found.same(ana, caller("a"))
