"""What a cookie of the console is good for."""

from __future__ import annotations

import pytest

from coordinator.console.signin.cookies import Cookie
from coordinator.settings import Settings
from coordinator.settings.sections.console import Console


@pytest.mark.parametrize(
    ("public", "hosts", "differ"),
    [
        ("", ("a.example", "a.example:8421", "b.example", "127.0.0.1:8420", "127.0.0.1:8421"), 5),
        # A proxy may name the address of a process in place of the host: it is the same console.
        ("https://a.example/console", ("A.example", "10.0.0.1:8420", "10.0.0.2:8420"), 1),
        ("https://a.example/console", ("a.example", "127.0.0.1:8420", "localhost:8421"), 3),
    ],
)
def test_a_cookie_is_of_one_fleet_and_one_listener(public: str, hosts: tuple[str, ...], differ: int) -> None:
    cookie = Cookie("session", Settings(console=Console(public_url=public)))
    heads = [{b"host": host.encode()} for host in hosts]
    assert len({cookie.audience(head, "fleet") for head in heads}) == differ
    for head in heads:
        assert cookie.audience(head, "fleet") != cookie.audience(head, "other")
        name, _, rest = cookie.set(head, "fleet", "x", 60)[1].decode().partition("=")
        given = {**head, b"cookie": f"{name}={rest.partition(';')[0]}".encode()}
        assert cookie.read(given, "fleet") == "x"
        assert cookie.read(given, "other") == ""
