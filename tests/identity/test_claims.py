"""The claims of a token: times to the second, issuer, audience, subject."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.identity.jws import BadToken
from coordinator.identity.verifiers import claims
from tests.identity.signing import Json

NOW = 1_800_000_000.0


def verdict(found: Json, issuer: str = "", audience: str = "", now: float = NOW) -> str:
    """Empty if the claims are good, else the reason."""
    try:
        claims.check({"exp": now, **found}, now, issuer, audience, longest=3_600)
    except BadToken as bad:
        return f"{bad.kind}: {bad.reason}"
    return ""


@pytest.mark.parametrize(
    ("name", "offset", "good"),
    [
        ("exp", -59, True), ("exp", -60, True), ("exp", -61, False), ("exp", -60.001, False), ("exp", 0, True),
        ("nbf", 59, True), ("nbf", 60, True), ("nbf", 61, False), ("nbf", 60.001, False), ("nbf", 0, True),
        ("iat", 59, True), ("iat", 60, True), ("iat", 61, False), ("iat", 60.001, False), ("iat", -1e6, True),
        ("exp", 3_600, True), ("exp", 3_660, True), ("exp", 3_661, False), ("exp", 1e12, False),
    ],
)  # fmt: skip
def test_clocks_may_differ_by_a_minute(name: str, offset: float, good: bool) -> None:
    assert (verdict({name: NOW + offset}) == "") is good


@given(st.sampled_from(["exp", "nbf", "iat"]), st.floats(-1e6, 3_600))
def test_a_minute_is_the_limit_on_both_sides(name: str, offset: float) -> None:
    good = offset >= -60 if name == "exp" else offset <= 60
    if abs(abs(offset) - 60) > 1e-3:
        assert (verdict({name: NOW + offset}) == "") is good


def test_only_the_end_must_be_there() -> None:
    assert claims.check({"exp": NOW, "jti": 7}, NOW, "", "", 60)[1:] == (-math.inf, NOW + 60)
    assert claims.check({"exp": NOW, "nbf": 5, "iat": 7}, NOW, "", "", 60)[1:] == (-53, NOW + 60)
    with pytest.raises(BadToken, match=r"has no expiry \('exp'\)"):
        claims.check({"nbf": NOW}, NOW, "", "", 60)


@pytest.mark.parametrize("name", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("value", [None, "1800000000", True, False, [], {}, 1e999, -1e999, 10**400, "NaN"])
def test_times_are_numbers(name: str, value: object) -> None:
    assert verdict({name: value}) == f"claims: {name!r} of the token is not a time in seconds"


@pytest.mark.parametrize(
    "issuer", ["https://a.example", "https://a.example/", "HTTPS://A.EXAMPLE", "", None, ["https://a"]]
)
def test_the_issuer_is_compared_exactly(issuer: object) -> None:
    found = {"iss": issuer}
    assert (verdict(found, issuer="https://a.example") == "") is (issuer == "https://a.example")
    assert verdict(found) == ""


def test_a_missing_issuer_is_rejected() -> None:
    assert verdict({}, issuer="https://a.example").startswith("claims: 'iss'")


@pytest.mark.parametrize(
    ("audience", "good"),
    [
        ("fleet", True), (["fleet"], True), (["other", "fleet"], True),
        ("fleet ", False), ("FLEET", False), (["other"], False), ([], False), (None, False),
        (["fleet", 5], False), ({"fleet": 1}, False), ("fleet other", False), (5, False),
    ],
)  # fmt: skip
def test_the_audience_must_contain_ours(audience: object, good: bool) -> None:
    assert (verdict({"aud": audience}, audience="fleet") == "") is good
    assert verdict({"aud": audience}) == ""


def test_a_missing_audience_is_not_ours() -> None:
    assert verdict({}, audience="fleet").startswith("claims: 'aud'")


@pytest.mark.parametrize("subject", ["", " ", 5, ["agent"], {"id": "agent"}, True, "x" * 501])
def test_a_subject_must_be_a_valid_id(subject: object) -> None:
    assert verdict({"sub": subject}).startswith("claims: 'sub'")


def test_a_subject_may_be_missing() -> None:
    assert claims.check({"exp": NOW}, NOW, "", "", 60).subject == ""
    assert claims.check({"exp": NOW, "sub": "x" * 500}, NOW, "", "", 60).subject == "x" * 500


def _deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3)


_scalar: Any = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
_anything: Any = st.recursive(_scalar, _deeper, max_leaves=5)


@given(st.dictionaries(st.sampled_from(["exp", "nbf", "iss", "aud", "sub", "x"]), _anything))
def test_any_claims_fail_only_as_declared(found: Json) -> None:
    assert verdict(found, "https://a.example", "fleet").startswith(("claims: ", ""))
    if verdict(found, "https://a.example", "fleet") == "":
        assert found["iss"] == "https://a.example"
        assert found["aud"] == "fleet" or "fleet" in found["aud"]
