"""Session tokens: their exact format, and invalid ones."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from coordinator.store.signing_keys import Key, KeyRing
from coordinator.toolsets.sessions.rules import tokens
from coordinator.toolsets.sessions.rules.signer import Signer
from coordinator.toolsets.sessions.rules.tokens import Payload, Unreadable

SECRET = bytes(range(32))
SIGNER = Signer(KeyRing([Key("k1", SECRET)]))
OTHER = Signer(KeyRing([Key("k2", bytes(32))]))
FIRST = Payload(
    wf="work-package",
    act="",
    skill="",
    cond="",
    v="3.7.0",
    seq=0,
    ts=1_700_000_000,
    sid="00000000-0000-4000-8000-000000000000",
    aid="orchestrator",
)
text = st.text(st.characters(codec="utf-8"), max_size=20)
optional = st.just(UNSET) | text
payloads = st.builds(
    Payload,
    wf=text.filter(bool),
    act=text,
    skill=text,
    cond=text,
    v=text,
    seq=st.integers(0, 2**53),
    ts=st.integers(0, 2**40),
    sid=st.uuids().map(str),
    aid=text,
    bcp=optional,
    psid=optional,
    pwf=optional,
    pact=optional,
    pv=optional,
)


def body(token: str) -> str:
    part = token.split(".")[0]
    return urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()


def signed(payload: bytes) -> str:
    """Any payload with a valid signature."""
    part = urlsafe_b64encode(payload).rstrip(b"=")
    return f"{part.decode()}.{SIGNER.sign(part)}"


def why(token: str, signer: Signer = SIGNER) -> str:
    with pytest.raises(Unreadable) as raised:
        tokens.decode(token, signer)
    return raised.value.reason


def test_a_token_has_the_documented_format() -> None:
    token = tokens.encode(FIRST, SIGNER)
    assert token.endswith(".4e94c2e060c05cd17d338e46d8bc6d3980a99339d1734a49fc5dc769159c5613")
    assert token.startswith("eyJ3ZiI6Indvcmst")
    assert tokens.decode(token, SIGNER) == FIRST


def test_fields_have_their_order_and_unset_ones_are_left_out() -> None:
    assert " ".join(json.loads(body(tokens.encode(FIRST, SIGNER)))) == "wf act skill cond v seq ts sid aid"
    child = msgspec.structs.replace(FIRST, bcp="ask", psid="s", pwf="w", pact="", pv="1.0.0")
    assert " ".join(json.loads(body(tokens.encode(child, SIGNER)))) == (
        "wf act skill cond v seq ts sid aid bcp psid pwf pact pv"
    )
    assert body(tokens.encode(msgspec.structs.replace(FIRST, aid="Zoë/é"), SIGNER)).endswith('"aid":"Zoë/é"}')


@settings(max_examples=50)
@given(payloads)
def test_tokens_round_trip(payload: Payload) -> None:
    token = tokens.encode(payload, SIGNER)
    part, signature = token.split(".")
    assert "=" not in token
    assert signature == hmac.new(SECRET, part.encode(), hashlib.sha256).hexdigest()
    assert tokens.decode(token, SIGNER) == payload == tokens.decode_unsigned(token)
    assert why(token, OTHER) == tokens.UNSIGNED


@settings(max_examples=40)
@given(st.data())
def test_modified_tokens_are_rejected(data: st.DataObject) -> None:
    token = tokens.encode(FIRST, SIGNER)
    at = data.draw(st.integers(0, len(token) - 1))
    change = data.draw(st.sampled_from(["cut", "drop", "double", "other"]))
    other = data.draw(st.characters(codec="utf-8").filter(lambda one: one != token[at]))
    changed = {
        "cut": token[:at],
        "drop": token[:at] + token[at + 1 :],
        "double": token[: at + 1] + token[at:],
        "other": token[:at] + other + token[at + 1 :],
    }[change]
    assert why(changed) in (tokens.MALFORMED, tokens.UNSIGNED)


@settings(max_examples=50)
@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda raw: urlsafe_b64encode(raw).decode() + "." + "0" * 64))
def test_arbitrary_text_is_rejected(given: str) -> None:
    assert why(given)
    with pytest.raises(Unreadable):
        tokens.decode_unsigned(given + "!")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"not json", tokens.UNDECODED),
        (b"\xff\xfe", tokens.UNDECODED),
        (b"[" * 10_000, tokens.INCOMPLETE),
        (b'{"x":' + b"[" * 10_000, tokens.UNDECODED),
        (b"{}", tokens.INCOMPLETE),
        (b"[1]", tokens.INCOMPLETE),
        (msgspec.json.encode(FIRST).replace(b'"seq":0', b'"seq":"0"'), tokens.INCOMPLETE),
        (msgspec.json.encode(FIRST).replace(b'"seq":0', b'"seq":-1'), tokens.INCOMPLETE),
        (msgspec.json.encode(FIRST).replace(b'"wf":"work-package"', b'"wf":""'), tokens.INCOMPLETE),
        (msgspec.json.encode(FIRST).replace(b"00000000-0000-4000", b"00000000:0000-4000"), tokens.INCOMPLETE),
        (msgspec.json.encode(FIRST).replace(b',"aid":"orchestrator"', b""), tokens.INCOMPLETE),
    ],
)
def test_signed_garbage_is_rejected(payload: bytes, reason: str) -> None:
    assert why(signed(payload)) == reason


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        ("", tokens.MALFORMED),
        ("not-valid", tokens.MALFORMED),
        (".", tokens.MALFORMED),
        (".00", tokens.MALFORMED),
        ("a.b.c", tokens.MALFORMED),
        ("e30.", tokens.MALFORMED),
        ("e30.00", tokens.UNSIGNED),
        ("e30." + "é" * 64, tokens.UNSIGNED),
        ("é." + "0" * 64, tokens.UNSIGNED),
        ("e30." + "0" * 64, tokens.UNSIGNED),
        ("e30." + SIGNER.sign(b"e30").upper(), tokens.UNSIGNED),
        ("x" * (tokens.MAX_TOKEN + 1), tokens.OVERSIZED),
    ],
)
def test_malformed_tokens_are_rejected_with_the_reason(token: str, reason: str) -> None:
    assert why(token) == reason
    failure = tokens.invalid_token(reason)
    assert failure.message.startswith(f"Invalid session token: {reason}")
    assert "start_session" in failure.message


def test_a_bad_signature_mentions_handles() -> None:
    assert "yield the checkpoint again" in tokens.invalid_token(tokens.UNSIGNED).message


def test_old_keys_verify_until_they_age_out_and_the_newest_signs() -> None:
    old, new = Key("old", SECRET), Key("new", bytes(reversed(SECRET)))
    before = tokens.encode(FIRST, Signer(KeyRing([old])))
    both = Signer(KeyRing([new, old]))
    assert tokens.decode(before, both) == FIRST
    after = tokens.encode(FIRST, both)
    assert after != before
    alone = Signer(KeyRing([new]))
    assert tokens.decode(after, alone) == FIRST
    assert why(before, alone) == tokens.UNSIGNED


def test_tokens_of_other_kinds_are_not_session_tokens() -> None:
    """Keys of other purposes are derived from the same keys."""
    ring = KeyRing([Key("k1", SECRET)])
    part = tokens.encode(FIRST, SIGNER).split(".")[0]
    elsewhere = ring.sign("navigator", part.encode()).mac.hex()
    assert why(f"{part}.{elsewhere}") == tokens.UNSIGNED
