"""Key sets: which keys count, and for which signatures only."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.identity.keys import keyset
from coordinator.identity.keys.keyset import BadDocument, KeySet
from coordinator.identity.keys.sources import Loaded
from tests.identity.signing import ALGORITHMS, Json, Signer, jwks, make_private, plain

GOOD = Signer()


def only(jwk: Json) -> KeySet:
    return keyset.key_set({"keys": [jwk]})


def refusal(document: Any) -> str:
    with pytest.raises(BadDocument) as caught:
        keyset.key_set(document)
    return str(caught.value)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_key_verifies_what_its_type_and_curve_say(algorithm: str) -> None:
    found = only(Signer("k", algorithm).jwk)
    suits = {other for other in ALGORITHMS if found.named("k", other)}
    assert suits == ({"RS256", "RS384", "RS512"} if algorithm.startswith("RS") else {algorithm})
    assert found.keys[0].slow is (algorithm in ("ES384", "ES512"))


def test_alg_narrows_a_key_to_one_algorithm() -> None:
    found = only({**Signer("k", "RS256").jwk, "alg": "RS384"})
    assert [a for a in ALGORITHMS if found.named("k", a)] == ["RS384"]
    # RFC 9864 names the algorithm by its curve.
    assert only({**GOOD.jwk, "alg": "Ed25519"}).named("key-1", "EdDSA")


@pytest.mark.parametrize(
    "change",
    [
        {"alg": "HS256"}, {"alg": "ES256"}, {"alg": "RSA-OAEP"}, {"alg": 5}, {"use": "enc"}, {"use": None},
        {"key_ops": ["encrypt"]}, {"key_ops": []}, {"key_ops": "verify"}, {"kid": 5},
        {"kty": "oct", "k": "c2VjcmV0"}, {"kty": None}, {"kty": "EC"}, {"crv": "X25519"}, {"crv": "Ed448"},
        {"x": ""}, {"x": "AAAA"}, {"x": 5}, {"x": "not base64url!"}, {"x": None},
    ],
    ids=str,
)  # fmt: skip
def test_an_unusable_key_does_not_count(change: Json) -> None:
    useless = {**GOOD.jwk, **change}
    assert "without a usable key" in refusal({"keys": [useless]})
    found = keyset.key_set({"keys": [useless, Signer("other", "ES256").jwk]})
    assert [key.kid for key in found.keys] == ["other"]
    assert len(found.skipped) == 1


def test_sets_are_the_same_if_they_verify_the_same() -> None:
    jwk = Signer("k", "RS256").jwk
    assert only(jwk).same_as(only({**jwk, "use": "sig"}))
    for change in ({"kid": "other"}, {"alg": "RS384"}, Signer("k", "RS256", number=1).jwk):
        assert not only(jwk).same_as(only({**jwk, **change}))


def test_a_point_off_its_curve_is_rejected() -> None:
    jwk = Signer("k", "ES256").jwk
    assert "without a usable key" in refusal({"keys": [{**jwk, "y": jwk["x"]}]})


@pytest.mark.parametrize("bits", [1024, 1536])
def test_short_rsa_keys_do_not_count(bits: int) -> None:
    numbers = make_private("RS256", bits).public_key().public_numbers()
    assert "without a usable key" in refusal({"keys": [rsa_jwk(numbers.n, numbers.e)]})


def test_slow_rsa_keys_do_not_count() -> None:
    numbers = Signer("k", "RS256").private.public_key().public_numbers()
    assert "without a usable key" in refusal({"keys": [rsa_jwk((1 << 16_384) - 1, 65537)]})
    assert "without a usable key" in refusal({"keys": [rsa_jwk(numbers.n, (1 << 1_000) + 1)]})


def rsa_jwk(n: int, e: int) -> Json:
    def text(value: int) -> str:
        return plain(value.to_bytes((value.bit_length() + 7) // 8, "big"))

    return {"kty": "RSA", "n": text(n), "e": text(e), "kid": "k"}


def test_a_document_cannot_generate_keys() -> None:
    # jwcrypto would execute "generate".
    assert "without a usable key" in refusal({"keys": [{"generate": "RSA", "size": 16_384, "kty": "RSA"}]})


def test_private_parts_are_not_kept() -> None:
    signer = Signer("k", "RS256")
    found = only(signer.private_jwk)
    assert found.named("k", "RS256")
    document = json.loads(Loaded(found).document())
    assert set(document["keys"][0]) == {"kty", "kid", "n", "e"}
    assert not hasattr(found.keys[0].key, "private_numbers")


@pytest.mark.parametrize("document", [{}, {"keys": {}}, {"keys": None}, {"keys": []}, {"keys": [5, None, "x", []]}])
def test_documents_without_keys_are_rejected(document: Json) -> None:
    refusal(document)


def test_a_set_has_at_most_a_thousand_keys() -> None:
    document = {"keys": [{**GOOD.jwk, "kid": f"k{n}"} for n in range(1_000)]}
    assert len(keyset.key_set(document)) == 1_000
    document["keys"].append(GOOD.jwk)
    assert refusal(document) == "gave a key set of more than 1000 keys"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"5", b"\xff\xfe", b"[" * 10_000, b'{"keys": NaN}'])
def test_a_document_is_a_json_object(data: bytes) -> None:
    with pytest.raises(BadDocument):
        keyset.decode(data)


def test_keys_of_one_name_are_told_apart_by_algorithm() -> None:
    found = keyset.key_set(jwks(Signer("k", "ES256"), Signer("k", "EdDSA"), Signer("k", "EdDSA", 1)))
    assert len(found.named("k", "ES256")) == 1
    assert len(found.named("k", "EdDSA")) == 2
    assert found.named("K", "EdDSA") == []
    assert found.knows("k")


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "kty": st.sampled_from(["RSA", "EC", "OKP", "oct"]) | st.text(max_size=5),
                "crv": st.sampled_from(["P-256", "P-384", "Ed25519", "X25519", "secp256k1"]),
                "kid": st.text(max_size=5) | st.integers(),
                "alg": st.sampled_from(["EdDSA", "ES256", "HS256"]),
                "use": st.sampled_from(["sig", "enc"]),
                "key_ops": st.lists(st.sampled_from(["verify", "sign", "encrypt"]), max_size=2),
                "n": st.binary(max_size=300).map(lambda raw: base64.urlsafe_b64encode(raw).decode()),
                "e": st.sampled_from(["AQAB", "Aw", "", "AA"]),
                "x": st.binary(min_size=30, max_size=34).map(plain),
                "y": st.binary(min_size=30, max_size=34).map(plain),
                "k": st.text(max_size=5),
            },
        ),
        max_size=4,
    )
)
def test_reading_any_document_fails_only_as_declared(listed: list[Json]) -> None:
    try:
        found = keyset.key_set({"keys": listed})
    except BadDocument:
        return
    # What other processes read is the same set.
    again = keyset.key_set(json.loads(Loaded(found).document()))
    assert [(k.kid, k.algorithms, k.thumbprint) for k in again.keys] == [
        (k.kid, k.algorithms, k.thumbprint) for k in found.keys
    ]
