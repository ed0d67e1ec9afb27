"""The guard against server-side request forgery: allowed and rejected addresses."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from coordinator.identity.keys.ssrf import Refused, SsrfGuard

pytestmark = pytest.mark.anyio

PUBLIC = ["8.8.8.8", "2606:4700::1111", "93.184.216.34", "64:ff9b::8.8.8.8"]
LOOPBACK = ["127.0.0.1", "127.255.255.254", "::1"]
PRIVATE = [
    "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "192.0.2.1", "198.18.0.1",
    "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
    "2001:db8::1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a00:1", "64:ff9b::169.254.169.254",
    "2002:a00:1::1", "2002:808:808::1", "2002:7f00:1::", "fec0::1", "::a00:1", "::7f00:1", "::ffff:0:10.0.0.1",
    "64:ff9b:1::a00:1", "64:ff9b::192.0.0.8", "5f00::1", "3fff::1", "192.0.0.8", "192.88.99.1",
]  # fmt: skip
HIDDEN_LOOPBACK = ["::ffff:127.0.0.1", "64:ff9b::127.0.0.1"]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert SsrfGuard().allowed(ip_address(address))


@pytest.mark.parametrize("address", PRIVATE + LOOPBACK + HIDDEN_LOOPBACK)
def test_private_addresses_are_rejected(address: str) -> None:
    assert not SsrfGuard().allowed(ip_address(address))


@pytest.mark.parametrize("address", LOOPBACK)
def test_loopback_is_allowed_by_its_setting(address: str) -> None:
    assert SsrfGuard(allow_loopback=True).allowed(ip_address(address))


@pytest.mark.parametrize("address", PRIVATE)
def test_the_loopback_setting_allows_nothing_else(address: str) -> None:
    assert not SsrfGuard(allow_loopback=True).allowed(ip_address(address))


async def test_a_host_is_contacted_at_the_checked_address() -> None:
    urls = await SsrfGuard(allow_loopback=True).resolve("https://localhost:8443/a/did.json")
    assert {one.url for one in urls} <= {"https://127.0.0.1:8443/a/did.json", "https://[::1]:8443/a/did.json"}
    for one in urls:
        assert one.headers == {"host": "localhost:8443"}
        assert one.extensions == {"sni_hostname": "localhost"}
    for scheme, port in (("http", 80), ("https", 443)):
        urls = await SsrfGuard(allow_loopback=True).resolve(f"{scheme}://localhost/x")
        assert {one.url for one in urls} <= {f"{scheme}://127.0.0.1:{port}/x", f"{scheme}://[::1]:{port}/x"}
        assert {one.headers["host"] for one in urls} == {"localhost"}


@pytest.mark.parametrize("url", ["https://localhost/did.json", "https://10.0.0.1/did.json", "https://[::1]:1/did.json"])
async def test_a_host_with_a_private_address_is_refused(url: str) -> None:
    with pytest.raises(Refused, match="not public"):
        await SsrfGuard().resolve(url)


async def test_a_host_without_address_is_refused() -> None:
    with pytest.raises(Refused, match="does not resolve"):
        await SsrfGuard().resolve("https://nobody.invalid/did.json")
