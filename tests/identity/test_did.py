"""did:web: which issuers are trusted, where their documents are, and which keys in them count."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.identity.jws import BadToken
from coordinator.identity.keys import did
from coordinator.identity.keys.keyset import BadDocument, KeySet
from tests.identity.signing import Json, Signer

DID = "did:web:agents.example.org:worker"


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("did:web:example.org", "https://example.org/.well-known/did.json"),
        ("did:web:Example.ORG", "https://example.org/.well-known/did.json"),
        ("did:web:example.org:a", "https://example.org/a/did.json"),
        ("did:web:example.org:a:b-c.d_e~f", "https://example.org/a/b-c.d_e~f/did.json"),
        ("did:web:example.org%3A8443", "https://example.org:8443/.well-known/did.json"),
        ("did:web:example.org%3a8443:a", "https://example.org:8443/a/did.json"),
        ("did:web:example.org:with%20blank", "https://example.org/with%20blank/did.json"),
        ("did:web:xn--bcher-kva.example:a", "https://xn--bcher-kva.example/a/did.json"),
    ],
)
def test_where_a_document_is(name: str, url: str) -> None:
    assert did.locate(name) == url


@pytest.mark.parametrize(
    "name",
    [
        "", "did:web:", "did:key:z6Mk", "web:example.org", "DID:WEB:example.org", "https://example.org",
        # no public names
        "did:web:localhost", "did:web:intranet", "did:web:127.0.0.1", "did:web:10.0.0.1", "did:web:8.8.8.8",
        "did:web:2130706433", "did:web:0x7f000001", "did:web:0177.0.0.1", "did:web:127.1", "did:web:a.0x7f",
        "did:web:[::1]", "did:web:%5B%3A%3A1%5D", "did:web:169.254.169.254",
        # more than a host
        "did:web:evil.example%2Fx.example.org", "did:web:user%40example.org", "did:web:example.org%3A",
        "did:web:example.org%3A0", "did:web:example.org%3A65536", "did:web:example.org%3A80%3A81",
        "did:web:example.org%3A8x", "did:web:example.org%3A\u0661", "did:web:example.org%00", "did:web:exa mple.org",
        "did:web:example.org%253A80", "did:web:-example.org", "did:web:example..org", "did:web:example.org.",
        # no plain path
        "did:web:example.org:", "did:web:example.org::a", "did:web:example.org:..", "did:web:example.org:.",
        "did:web:example.org:%2e%2e", "did:web:example.org:a%2Fb", "did:web:example.org:a%5Cb",
        "did:web:example.org:a%3Fb", "did:web:example.org:a%23b", "did:web:example.org:a#b", "did:web:example.org:a/b",
        "did:web:example.org:a%3Ab", "did:web:example.org:a%40b",
        "did:web:example.org:a?b", "did:web:example.org:%0A", "did:web:example.org:%", "did:web:example.org:é",
        "did:web:" + "a" * 64 + ".example", "did:web:example.org:" + "a" * 500,
    ],
)  # fmt: skip
def test_invalid_did_web_identifiers_are_rejected(name: str) -> None:
    with pytest.raises(BadToken) as caught:
        did.locate(name)
    assert caught.value.kind == "policy"


def test_this_machine_counts_only_where_that_is_allowed() -> None:
    assert did.locate("did:web:localhost%3A8443", allow_loopback=True) == "https://localhost:8443/.well-known/did.json"
    for name in ("did:web:127.0.0.1", "did:web:intranet"):
        with pytest.raises(BadToken):
            did.locate(name, allow_loopback=True)


@given(st.text(alphabet="did:web.example%3A2F0/?#@\\[]-_~ \n", max_size=60).map(lambda tail: "did:web:" + tail))
def test_the_url_of_a_document_has_the_host_of_the_did(name: str) -> None:
    try:
        url = did.locate(name)
    except BadToken:
        return
    parts = urlsplit(url)
    host, _, port = unquote(name.split(":")[2]).lower().partition(":")
    assert (parts.scheme, parts.hostname, parts.port) == ("https", host, int(port) if port else None)
    assert (parts.username, parts.query, parts.fragment) == (None, "", "")
    assert parts.path.endswith("/did.json")
    assert ".." not in parts.path.split("/")


@pytest.mark.parametrize(
    ("pattern", "trusted", "strangers"),
    [
        (
            "agents.example.org:*",
            ["agents.example.org:a", "agents.example.org:"],
            ["agents.example.org", "agents.example.org:a:b", "evil.example:agents.example.org:a",
             "xagents.example.org:a", "agents-example.org:a", "agents.example.org%3A8443:a",
             "agents.example.org:a\n", "agents.example.org:a/b"],
        ),
        (
            "*.example.org:agents:*",
            ["x.example.org:agents:a", "x.y.example.org:agents:a", ".example.org:agents:a"],
            ["example.org:agents:a", "evil.example:x.example.org:agents:a", "x.example.org:a",
             "evilexample.org:agents:a", "evil.example%2Fx.example.org:agents:a",
             "evil.example/x.example.org:agents:a"],
        ),
        ("a.example:team-*:x", ["a.example:team-1:x"], ["a.example:team-1:y", "a.example:x", "a.example:team-1:z:x"]),
        ("a.example%3A8443:*", ["a.example%3A8443:x"], ["a.example:x", "a.example%3A1:x", "a.example%3a8443:x"]),
        ("a.example%3A*", ["a.example%3A8443"], ["a.example", "a.example%3A8443%2Fx", "a.example:8443"]),
    ],
)  # fmt: skip
def test_a_pattern_trusts_part_by_part(pattern: str, trusted: list[str], strangers: list[str]) -> None:
    trust = did.Trust((), f"did:web:{pattern}")
    assert [name for name in trusted if f"did:web:{name}" not in trust] == []
    assert [name for name in strangers if f"did:web:{name}" in trust or name in trust] == []


def test_an_allowlist_trusts_exact_issuers() -> None:
    trust = did.Trust((DID, "did:web:b.example%3A8443"), "")
    assert DID in trust
    assert "did:web:b.example%3A8443" in trust
    for stranger in (DID + ":x", DID.upper(), "did:web:b.example", "", "did:web:agents.example.org"):
        assert stranger not in trust
    assert "did:web:c.example:x" in did.Trust((DID,), "did:web:c.example:*")


def method(signer: Signer, name: str | None = None, **more: Any) -> Json:
    jwk = {name: value for name, value in signer.jwk.items() if name != "kid"}
    return {"id": name or f"{DID}#{signer.kid}", "controller": DID, "type": "JsonWebKey", "publicKeyJwk": jwk, **more}


def document(*methods: Json, asserting: list[Any] | None = None, **more: Any) -> Json:
    listed = [one["id"] for one in methods] if asserting is None else asserting
    return {"id": DID, "verificationMethod": list(methods), "assertionMethod": listed, **more}


def names(found: KeySet) -> list[str | None]:
    return [key.kid for key in found.keys]


ONE, TWO = Signer("one"), Signer("two", "ES256")


def test_keys_go_by_the_fragment_of_their_name() -> None:
    found = did.document_keys(document(method(ONE), method(TWO, "#two")), DID, strict=True)
    assert names(found) == ["one", "two"]


def test_the_document_must_be_the_issuer_s() -> None:
    for other in ({**document(method(ONE)), "id": "did:web:evil.example"}, {**document(method(ONE)), "id": None}, {}):
        with pytest.raises(BadToken) as caught:
            did.document_keys(other, DID, strict=True)
        assert caught.value.kind == "policy"


@pytest.mark.parametrize("asserting", [[f"{DID}#one"], ["#one"], [method(ONE)]])
def test_only_keys_that_sign_assertions_count(asserting: list[Any]) -> None:
    found = document(method(ONE), method(TWO), asserting=asserting)
    assert names(did.document_keys(found, DID, strict=True)) == ["one"]
    assert sorted(map(str, names(did.document_keys(found, DID, strict=False)))) == ["one", "two"]


def test_a_key_under_assertion_method_itself_counts() -> None:
    found = {"id": DID, "assertionMethod": [method(ONE)]}
    assert names(did.document_keys(found, DID, strict=True)) == ["one"]


@pytest.mark.parametrize(
    "change",
    [
        {"controller": "did:web:evil.example"}, {"controller": None}, {"controller": [DID]},
        {"id": "did:web:evil.example#one"}, {"id": DID}, {"id": f"{DID}#"}, {"id": 5}, {"id": "one"},
        {"publicKeyJwk": None}, {"publicKeyMultibase": "z6Mk", "publicKeyJwk": {}},
    ],
    ids=str,
)  # fmt: skip
def test_a_key_that_is_not_the_issuer_s_does_not_count(change: Json) -> None:
    found = document({**method(ONE), **change}, method(TWO))
    assert names(did.document_keys(found, DID, strict=False)) == ["two"]


@pytest.mark.parametrize(
    "change",
    [
        {"verificationMethod": None, "assertionMethod": []}, {"verificationMethod": {}}, {"assertionMethod": {}},
        {"assertionMethod": "all"}, {"assertionMethod": []}, {"assertionMethod": ["#three", 5, None]},
        {"verificationMethod": [method(ONE)] * 101}, {"assertionMethod": ["#one"] * 101},
    ],
    ids=lambda change: str(change)[:60],
)  # fmt: skip
def test_a_document_without_usable_keys_gives_none(change: Json) -> None:
    with pytest.raises(BadDocument):
        did.document_keys({**document(method(ONE)), **change}, DID, strict=True)


@pytest.mark.parametrize(
    ("kid", "fragment"),
    [
        ("one", "one"), ("#one", "one"), (f"{DID}#one", "one"), ("did:web:evil.example#one", None), (f"{DID}#", None),
        (DID, DID), ("a#b", None), ("#", None), ("##one", "#one"),
    ],
)  # fmt: skip
def test_how_a_token_names_a_key(kid: str, fragment: str | None) -> None:
    assert did.fragment(kid, DID) == fragment
