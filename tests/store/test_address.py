"""Store URLs: which are valid, which are rejected, and that passwords stay hidden."""

from __future__ import annotations

import pytest
from redis import Redis

from coordinator.store.errors import AddressError
from coordinator.store.link.address import Address, parse
from coordinator.store.link.clients import address_of, client


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://localhost", Address("localhost", 6379)),
        ("redis://10.0.0.1:7000/3", Address("10.0.0.1", 7000, db=3)),
        ("redis://h/?db=2", Address("h", db=2)),
        ("redis://[::1]:7000", Address("::1", 7000)),
        ("redis://:p%40ss@h", Address("h", password="p@ss")),
        ("redis://me:secret@h:1", Address("h", 1, username="me", password="secret")),
        ("unix:///run/r.sock", Address(path="/run/r.sock")),
        ("unix://:pw@/a%20b/r.sock?db=1", Address(path="/a b/r.sock", db=1, password="pw")),
        ("rediss://h", Address("h", tls=True)),
        (
            "rediss://h?ssl_cert_reqs=none&ssl_ca_certs=/ca.pem",
            Address("h", tls=True, tls_options=(("ssl_ca_certs", "/ca.pem"), ("ssl_cert_reqs", "none"))),
        ),
        (
            "redis+sentinel://me:p%40ss@a,b:7000,[::1]/fleet/2?sentinel_password=p%26s",
            Address(
                "", db=2, username="me", password="p@ss", service="fleet", sentinel_password="p&s",
                sentinels=(("a", 26379), ("b", 7000), ("::1", 26379)),
            ),
        ),
        ("rediss+sentinel://a/fleet", Address("", tls=True, sentinels=(("a", 26379),), service="fleet")),
        (
            "redis+cluster://me:p%40ss@a,b:7000,[::1]",
            Address("", username="me", password="p@ss", nodes=(("a", 6379), ("b", 7000), ("::1", 6379))),
        ),
        (
            "rediss+cluster://a?address_map=10.0.0.1:6379=localhost:7001,b=c&tls_name=store.example",
            Address(
                "", tls=True, nodes=(("a", 6379),),
                address_map=(("10.0.0.1:6379", "localhost:7001"), ("b", "c")),
                tls_name="store.example",
            ),
        ),
    ],
)  # fmt: skip
def test_a_url_is_understood(url: str, address: Address) -> None:
    assert parse(url) == address


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "must begin with redis://"),
        ("localhost:6379", "must begin with redis://"),
        ("http://h", "must begin with redis://"),
        ("redis://", "no host"),
        ("redis://:tops3cret@h:port", "port must be a number from 0 to 65535"),
        ("redis://:tops3cret@h:99999", "port must be a number from 0 to 65535"),
        ("redis://:tops3cret@h/zero", "database must be a number"),
        ("redis://h/-1", "database must be a number"),
        ("redis://:tops3cret#x@h", "%23"),
        ("redis://:tops3cret/x@h", "%2F"),
        ("redis://:tops3cret?x@h", "%3F"),
        ("redis://:tops3cret@h#x", "%23"),
        ("redis://:tops3cret[x@h", "%5B"),
        ("redis://:tops3cret\u2100@h", "cannot be read"),
        ("unix://", "absolute path"),
        ("unix://relative/path", "absolute path"),
        ("redis://:tops3cret@h?decode_responses=1", "unknown option 'decode_responses'"),
        ("redis://h?ssl_cert_reqs=none", "unknown option 'ssl_cert_reqs' here"),
        ("redis://h?db=1&db=2", "'db' is there twice"),
        ("rediss://h?ssl_cert_reqs=maybe", "ssl_cert_reqs must be required or none"),
        ("redis+sentinel://:tops3cret@a,b", "no service given"),
        ("redis+sentinel://:tops3cret@/fleet", "no Sentinel given"),
        ("redis+sentinel://a,,b/fleet", "no Sentinel given"),
        ("redis+sentinel://:tops3cret@a:1,b:port/fleet", "port must be a number from 0 to 65535"),
        ("redis+sentinel://a/fleet/zero", "database must be a number"),
        ("redis://h?sentinel_password=tops3cret", "unknown option 'sentinel_password' here"),
        ("redis+cluster://:tops3cret@", "no node given"),
        ("redis+cluster://:tops3cret@a,,b", "no node given"),
        ("redis+cluster://:tops3cret@a/1", "a cluster has only the database 0"),
        ("redis+cluster://:tops3cret@a?db=1", "a cluster has only the database 0"),
        ("redis+cluster://:tops3cret@a?address_map=b", "address_map must be announced=reachable"),
        ("redis+cluster://:tops3cret@a?address_map=b=:7", "address_map must be announced=reachable"),
        ("redis+cluster://:tops3cret@a?address_map=b=c:99999", "address_map must be announced=reachable"),
        ("redis://:tops3cret@a?address_map=b=c", "unknown option 'address_map' here"),
        ("redis+cluster://:tops3cret@a?tls_name=b", "unknown option 'tls_name' here"),
        ("rediss://:tops3cret@a?tls_name=b", "unknown option 'tls_name' here"),
    ],
)
def test_an_invalid_url_is_reported_without_its_password(url: str, words: str) -> None:
    with pytest.raises(AddressError) as raised:
        parse(url)
    assert words in str(raised.value)
    assert "tops3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@h:7000/1", "redis://:***@h:7000/1"),
        ("rediss://me:secret@h", "rediss://me:***@h:6379/0"),
        ("unix://:secret@/run/r.sock", "unix://:***@/run/r.sock"),
        ("redis://[::1]", "redis://[::1]:6379/0"),
        ("redis+sentinel://:secret@a,[::1]:1/fleet", "redis+sentinel://:***@a:26379,[::1]:1/fleet/0"),
        ("rediss+sentinel://a/fleet/2?sentinel_password=secret", "rediss+sentinel://a:26379/fleet/2"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert str(parse(url)) == shown


def test_no_text_form_holds_the_password() -> None:
    for url in ("redis://me:secret@h", "redis+sentinel://me:secret@h/fleet?sentinel_password=secret"):
        address = parse(url)
        assert "secret" not in f"{address} {address!r}"


def test_the_client_gets_the_same_address() -> None:
    assert parse("unix://:pw@/r.sock?db=1").client_options() == {
        "db": 1,
        "password": "pw",
        "unix_socket_path": "/r.sock",
    }
    options = parse("rediss://h:1/2?ssl_cert_reqs=none").client_options()
    assert options == {
        "db": 2, "host": "h", "port": 1, "ssl": True, "ssl_cert_reqs": "none", "ssl_check_hostname": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://user:p%40s%2Fs@10.0.0.1:6390/3",
        "redis://[::1]:6379/1",
        "unix://:secret@/run/a%20redis.sock?db=2",
        "rediss://store",
        "rediss://store:6390/2?ssl_ca_certs=/etc/a+ca.pem&ssl_check_hostname=false",
        "rediss://store/0?ssl_cert_reqs=none",
        "redis+sentinel://me:p%20w@one,two:7000/fleet/3",
        "redis+sentinel://one,[::1]:7000/a%2Fb/0?sentinel_username=you&sentinel_password=p%26w",
        "rediss+sentinel://one/fleet/0?ssl_ca_certs=/ca.pem&ssl_check_hostname=false",
    ],
)
def test_an_address_can_be_written_as_a_url_and_found_in_a_client(url: str) -> None:
    address = parse(url)
    assert parse(address.url()) == address
    assert address_of(client(address)) == address


def test_the_address_of_a_client_of_a_cluster_is_the_whole_cluster() -> None:
    address = parse("redis+cluster://:pw@a:1,b:2?address_map=x=y")
    assert address_of(client(address, "RQ")) == address


def test_the_address_of_a_foreign_client_is_found() -> None:
    assert address_of(Redis.from_url("rediss://me:pw@h:1/2?ssl_cert_reqs=none")) == Address(
        "h", 1, db=2, username="me", password="pw", tls=True, tls_options=(("ssl_cert_reqs", "none"),)
    )
    assert address_of(Redis()) == Address()


def test_unreadable_certificates_are_reported() -> None:
    with pytest.raises(AddressError, match="certificates"):
        parse("rediss://h?ssl_ca_certs=/no/such/file").ssl_context()


def test_a_node_is_reached_where_the_map_says() -> None:
    cluster = parse("redis+cluster://:pw@a?address_map=10.0.0.1:6379=localhost:7001,b=c")
    found = [cluster.of_node(place) for place in (("10.0.0.1", 6379), ("10.0.0.1", 6380), ("b", 5))]
    assert [(one.host, one.port, one.password) for one in found] == [
        ("localhost", 7001, "pw"), ("10.0.0.1", 6380, "pw"), ("c", 5, "pw"),
    ]  # fmt: skip
    assert all(one.in_cluster and not one.nodes for one in found)
