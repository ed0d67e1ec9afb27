"""The checks of a request's head and body."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.transport.http.guards import Gate, head_size, nested_deeper, sane_request_id, without_padding


@pytest.mark.parametrize(
    ("hosts", "host", "admitted"),
    [
        ((), b"localhost", True),
        ((), b"LocalHost:1", True),
        ((), b"127.0.0.1:8420", True),
        ((), b"[::1]:8420", True),
        ((), b"10.1.2.3:8420", True),
        ((), b"10.1.2.4", False),
        ((), b"localhost.evil.example", False),
        ((), b"localhost:1@evil.example", False),
        ((), b"", False),
        ((), None, False),
        ((), b"localhost:", False),
        ((), b"\xff", False),
        (("fleet.example",), b"fleet.example:443", True),
        (("fleet.example",), b"localhost", False),
        (("Fleet.Example:*",), b"fleet.example:1", True),
        (("fleet.example:443",), b"fleet.example:443", True),
        (("fleet.example:443",), b"fleet.example:80", False),
        (("fleet.example:443",), b"fleet.example", False),
        (("*",), b"anything:1", True),
        (("*",), b"not a host", False),
    ],
)
def test_hosts(hosts: tuple[str, ...], host: bytes | None, admitted: bool) -> None:
    refusal = Gate(hosts, bound="10.1.2.3").refusal(host, None)
    assert (refusal is None) == admitted
    if refusal is not None:
        assert refusal[0] == 421
        assert "allowed_hosts" in refusal[1]


def test_binding_everywhere_admits_no_further_host() -> None:
    for bound in ("0.0.0.0", "::"):
        gate = Gate(bound=bound)
        assert gate.refusal(b"0.0.0.0:8420", None) is not None
        assert gate.refusal(b"localhost:8420", None) is None
    assert Gate(bound="fd00::1").refusal(b"[fd00::1]:8420", None) is None


@pytest.mark.parametrize(("own", "host"), [("fleet.example", b"fleet.example:443"), ("fd00::1", b"[fd00::1]:443")])
def test_the_public_name_is_always_admitted(own: str, host: bytes) -> None:
    assert Gate(("other.example",), own=(own,)).refusal(host, None) is None


@pytest.mark.parametrize(
    ("origins", "origin", "admitted"),
    [
        ((), b"http://localhost:8420", True),
        ((), b"https://LOCALHOST:8420", True),
        ((), b"http://localhost:1", False),
        ((), b"http://evil.example", False),
        ((), b"http://localhost:8420.evil.example", False),
        ((), b"http://evil.example#localhost:8420", False),
        ((), b"null", False),
        ((), b"", False),
        ((), b"file://localhost:8420", False),
        (("https://Console.example",), b"https://console.example", True),
        (("https://console.example",), b"https://console.example:8443", False),
        (("https://console.example",), b"http://localhost:8420", True),
    ],
)
def test_origins(origins: tuple[str, ...], origin: bytes, admitted: bool) -> None:
    refusal = Gate(origins=origins).refusal(b"localhost:8420", origin)
    assert (refusal is None) == admitted
    if refusal is not None:
        assert refusal[0] == 403
        assert "allowed_origins" in refusal[1]


def test_the_cache_of_admitted_hosts_is_bounded() -> None:
    gate = Gate(("*",))
    for number in range(1000):
        gate.refusal(b"h%d" % number, None)
    assert 0 < len(gate.admitted) <= 256
    assert (b"h999", None) in gate.admitted
    gate.refusal(b"not a host", None)
    assert (b"not a host", None) not in gate.admitted


def test_blanks_around_values_are_stripped() -> None:
    assert without_padding([(b"a", b"  x y\t "), (b"b", b"")]) == [(b"a", b"x y"), (b"b", b"")]


def test_heads_are_measured_as_on_the_wire() -> None:
    assert head_size([(b"host", b"x"), (b"a", b"bc")]) == len(b"host: x\r\na: bc\r\n")


@pytest.mark.parametrize("value", [b"a", b"req-1", b"A.b:c_d-9", b"x" * 64])
def test_sane_request_ids(value: bytes) -> None:
    assert sane_request_id(value) == value.decode()


@pytest.mark.parametrize("value", [None, b"", b"-a", b"a b", b"a\n", b"x" * 65, b"\xff", b"<script>"])
def test_other_request_ids_are_replaced(value: bytes | None) -> None:
    assert sane_request_id(value) is None


def _depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max((_depth(one) for one in value.values()), default=0)
    if isinstance(value, list):
        return 1 + max((_depth(one) for one in value), default=0)
    return 0


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('[]{}"\\ax')),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.sampled_from('[{"\\')), inner, max_size=3),
    max_leaves=30,
)


@given(_JSON, st.integers(1, 6))
def test_nesting_is_measured_without_parsing(value: object, limit: int) -> None:
    assert nested_deeper(json.dumps(value).encode(), limit) == (_depth(value) > limit)


@pytest.mark.parametrize(
    ("body", "deeper"),
    [
        (b"[" * 64 + b"]" * 64, False),
        (b"[" * 65 + b"]" * 65, True),
        (b'{"a":' * 65 + b"1" + b"}" * 65, True),
        (b"[" * 100_000, True),
        (b"[]" * 100_000, False),
        (b'"' + b"[" * 1000 + b'"', False),
        (b'["\\"' + b"[" * 1000 + b'"]', False),
        (b'["\\\\"' + b"," + b"[" * 1000 + b"]", True),
    ],
)
def test_nesting_of_odd_text(body: bytes, deeper: bool) -> None:
    assert nested_deeper(body, 64) == deeper
