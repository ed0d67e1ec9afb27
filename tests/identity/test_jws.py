"""Parsing tokens: malformed and ambiguous ones are rejected before any key is looked up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.identity import jws
from coordinator.identity.jws import BadToken
from tests.identity.signing import Json, Signer, encoded, plain

GOOD = Signer()
HEAD = {"alg": "EdDSA", "kid": "key-1"}
CLAIMS = {"sub": "agent"}


def refusal(text: str, max_kid: int = jws.MAX_KID) -> tuple[str, str]:
    with pytest.raises(BadToken) as caught:
        jws.read(text, max_kid)
    return caught.value.kind, caught.value.reason


def unsigned(head: Json | str, claims: Json | str = "{}") -> str:
    """A token with a made-up signature."""
    return f"{encoded(head)}.{encoded(claims)}.{plain(b'made up')}"


def test_a_token_is_read_as_it_is() -> None:
    text = GOOD.sign(HEAD, CLAIMS)
    token = jws.read(text)
    assert (token.algorithm, token.kid, token.claims) == ("EdDSA", "key-1", CLAIMS)
    assert token.signed == text.rpartition(".")[0].encode()
    assert plain(token.signature) == text.rpartition(".")[2]


@pytest.mark.parametrize("name", ["none", "None", "NONE", "nOnE"])
@pytest.mark.parametrize("signature", ["", plain(b"anything")])
def test_an_unsigned_token_is_refused_in_any_spelling(name: str, signature: str) -> None:
    assert refusal(f"{encoded({'alg': name})}.{encoded(CLAIMS)}.{signature}") == ("crypto", "the token is not signed")


@pytest.mark.parametrize("algorithm", [None, 5, ["EdDSA"], {"alg": "EdDSA"}])
def test_the_algorithm_must_be_a_word(algorithm: object) -> None:
    assert refusal(unsigned({"alg": algorithm}))[0] == "crypto"
    assert refusal(unsigned({}))[0] == "crypto"


def test_an_empty_signature_counts_as_unsigned() -> None:
    assert refusal(f"{encoded(HEAD)}.{encoded(CLAIMS)}.") == ("crypto", "the token is not signed")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "a.b",
        "a.b.c.d",
        "a.b.c.d.e",
        "..",
        "...",
        "e30.e30.e30=",
        "e30 .e30.e30",
        "e30.e30.e3\n",
        "é.é.é",
        "\ud800.a.b",
    ],
)
def test_malformed_tokens_are_rejected(text: str) -> None:
    assert refusal(text)[0] == "crypto"


@pytest.mark.parametrize(
    "part", ["[]", "5", '"x"', "null", "{", "{}{}", "\ufeff{}", "NaN", '{"a": NaN}', '{"a": Infinity}']
)
def test_header_and_payload_must_be_json_objects(part: str) -> None:
    assert refusal(unsigned(part))[0] == "crypto"
    assert refusal(unsigned(HEAD, part))[0] == "crypto"


@pytest.mark.parametrize("data", [b'{"a": "\xff"}', b'{"a": "\xed\xa0\x80"}'])
def test_text_must_be_utf8(data: bytes) -> None:
    assert refusal(f"{encoded(HEAD)}.{encoded(data)}.AAAA")[0] == "crypto"


@pytest.mark.parametrize(
    ("head", "claims"),
    [
        ('{"alg": "EdDSA", "alg": "RS256"}', "{}"),
        ('{"alg": "EdDSA", "kid": "a", "kid": "b"}', "{}"),
        ('{"alg": "EdDSA"}', '{"sub": "agent", "sub": "admin"}'),
        ('{"alg": "EdDSA"}', '{"exp": 1, "exp": 9999999999}'),
        ('{"alg": "EdDSA"}', '{"sub": "agent", "\\u0073ub": "admin"}'),
        ('{"alg": "EdDSA"}', '{"cnf": {"jkt": "a", "jkt": "b"}}'),
    ],
)
def test_duplicate_members_are_rejected(head: str, claims: str) -> None:
    assert refusal(unsigned(head, claims))[0] == "crypto"


@pytest.mark.parametrize("half", [r"\ud800", r"\uDFFF", r"\udc00\ud800", r"a\ud83d"])
def test_a_lone_surrogate_is_rejected(half: str) -> None:
    for head, claims in (
        ('{"alg": "EdDSA"}', '{"sub": "%s"}'),
        ('{"alg": "EdDSA"}', '{"roles": [{"%s": 1}]}'),
        ('{"alg": "EdDSA", "kid": "%s"}', "{}"),
    ):
        whole = unsigned(head.replace("%s", r"\ud83d\ude00"), claims.replace("%s", r"\ud83d\ude00"))
        assert jws.read(whole).algorithm == "EdDSA"
        assert refusal(unsigned(head.replace("%s", half), claims.replace("%s", half)))[0] == "crypto"


def test_base64_has_one_spelling() -> None:
    head, claims, signature = GOOD.sign(HEAD, CLAIMS).split(".")
    # The last character of 64 bytes carries four bits that mean nothing.
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = last[last.index(signature[-1]) + 1]
    assert refusal(f"{head}.{claims}.{signature[:-1]}{other}") == (
        "crypto",
        "the signature of the token is not canonical base64url",
    )
    assert refusal(f"{head}.{claims}.{signature}==")[0] == "crypto"


@pytest.mark.parametrize(
    "extension", [{"crit": ["exp"]}, {"crit": []}, {"crit": ["b64"], "b64": False}, {"b64": False}, {"b64": True}]
)
def test_extensions_are_not_understood(extension: Json) -> None:
    assert refusal(unsigned({**HEAD, **extension}))[0] == "crypto"


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt"])
def test_accepted_token_types(kind: str) -> None:
    assert jws.read(unsigned({**HEAD, "typ": kind})).algorithm == "EdDSA"


@pytest.mark.parametrize(
    "kind",
    ["JWE", "JOSE", "dpop+jwt", "logout+jwt", "secevent+jwt", "application/token-introspection+jwt", "", 5, None],
)
def test_tokens_of_other_kinds_are_refused(kind: object) -> None:
    assert refusal(unsigned({**HEAD, "typ": kind}))[0] == "policy"


@pytest.mark.parametrize("kid", ["", 5, ["a"], {"kid": "a"}, "k" * 129])
def test_the_name_of_a_key_is_a_short_word(kid: object) -> None:
    assert refusal(unsigned({**HEAD, "kid": kid}))[0] == "crypto"
    assert jws.read(unsigned({**HEAD, "kid": "k" * 128})).kid == "k" * 128
    assert jws.read(unsigned({**HEAD, "kid": "k" * 129}), jws.MAX_KID_URL).kid == "k" * 129


def test_huge_tokens_are_refused_at_once() -> None:
    text = GOOD.sign(HEAD, {"sub": "agent", "pad": "x" * 20_000})
    assert refusal(text) == ("crypto", f"the token has more than {jws.MAX_TOKEN} characters")
    assert refusal("a" * 1_000_000)[0] == "crypto"
    assert refusal("." * jws.MAX_TOKEN)[0] == "crypto"


def test_deep_nesting_is_refused() -> None:
    assert refusal(unsigned(HEAD, "[" * 3_000 + "]" * 3_000))[0] == "crypto"
    assert refusal(unsigned(HEAD, '{"a":' * 500 + "1" + "}" * 500))[0] == "crypto"
    assert refusal(unsigned(HEAD, '{"exp":' + "9" * 5_000 + "}"))[0] == "crypto"


def test_hints_about_keys_are_not_even_read() -> None:
    stranger = Signer("theirs", number=1)
    head = {
        **HEAD,
        "jwk": stranger.jwk,
        "jku": "https://evil.example/jwks",
        "x5u": "https://evil.example",
        "x5c": ["x"],
    }
    assert jws.read(stranger.sign(head, CLAIMS))._fields == ("algorithm", "kid", "claims", "signed", "signature")


@given(st.text(max_size=300) | st.from_regex(r"[A-Za-z0-9_-]{0,40}(\.[A-Za-z0-9_-]{0,40}){0,4}", fullmatch=True))
def test_reading_any_token_fails_only_as_declared(text: str) -> None:
    try:
        token = jws.read(text)
    except BadToken:
        pass
    else:
        assert ".".join((*text.split(".")[:2], plain(token.signature))) == text


def _deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)


_scalar = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_json: Any = st.recursive(_scalar, _deeper, max_leaves=8)


@given(st.dictionaries(st.text(), _json, max_size=5), st.dictionaries(st.text(), _json, max_size=5))
def test_claims_arrive_as_they_were_signed(head: Json, claims: Json) -> None:
    text = unsigned({**head, "alg": "EdDSA", "typ": "JWT", "kid": "k"} | {}, claims)
    try:
        token = jws.read(text)
    except BadToken:
        assert "crit" in head or "b64" in head or len(text) > jws.MAX_TOKEN
    else:
        assert token.claims == json.loads(json.dumps(claims))
