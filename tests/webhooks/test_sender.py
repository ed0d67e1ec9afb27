"""Where messages may go: addresses that are not public, names that lead to them, redirects."""

from __future__ import annotations

import asyncio
import socket
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from coordinator.identity.keys import ssrf
from coordinator.webhooks.sender import Certificates, Sender, SendOutcome
from tests.support.certificates import self_signed
from tests.webhooks.receiver import Receiver, signed

pytestmark = pytest.mark.anyio


async def send(url: str, *, allow_private: bool = False) -> SendOutcome:
    sender = Sender(url, allow_private, Certificates())
    try:
        return await sender.send(b"{}", signed())
    finally:
        await sender.aclose()


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",  # as the system resolves it
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "192.0.2.1",
        "224.0.0.1",
        "255.255.255.255",
        "2130706433",
        "0x7f000001",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "localhost",
    ],
)
async def test_nothing_is_sent_to_an_address_that_is_not_public(receiver: Receiver, host: str) -> None:
    outcome = await send(f"http://{host}:{receiver.port}/")
    assert outcome.kind == "refused"
    assert "public" in outcome.error or "resolve" in outcome.error
    assert not receiver.connections


def resolving(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Answers questions for addresses in turn, the last answer again and again; returns the names asked for."""
    asked: list[str] = []

    async def addresses_of(host: str, port: int) -> list[Any]:
        asked.append(host)
        return [ip_address(one) for one in answers[min(len(asked), len(answers)) - 1]]

    monkeypatch.setattr(ssrf, "addresses_of", addresses_of)
    return asked


@pytest.mark.parametrize("addresses", [["10.1.2.3"], ["::ffff:192.168.0.1"], ["93.184.216.34", "127.0.0.1"]])
async def test_a_name_must_lead_to_public_addresses_only(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    resolving(monkeypatch, addresses)
    outcome = await send(f"http://hooks.example.org:{receiver.port}/")
    assert (outcome.kind, outcome.error) == ("refused", "the receiver has an address that is not public")
    assert not receiver.connections


async def test_the_connection_goes_to_the_address_that_was_checked_and_each_attempt_checks(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = resolving(monkeypatch, ["127.0.0.1"], ["10.0.0.1"])
    monkeypatch.setattr(ssrf.SsrfGuard, "allowed", lambda self, address: str(address) == "127.0.0.1")
    hosts: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> int:
        hosts.append(str(request.headers["host"]))
        return 200

    receiver.answer = answer
    sender = Sender(f"http://hooks.example.org:{receiver.port}/", False, Certificates())
    assert (await sender.send(b"{}", signed())).kind == "delivered"
    # The name leads elsewhere by now, and the connection that is kept does not help.
    assert (await sender.send(b"{}", signed())).kind == "refused"
    await sender.aclose()
    assert asked == ["hooks.example.org"] * 2
    assert hosts == [f"hooks.example.org:{receiver.port}"]


async def test_a_certificate_must_be_that_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = self_signed(tmp_path, "hooks.example.org")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    resolving(monkeypatch, ["127.0.0.1"])
    with Receiver(certificate=file) as receiver:
        fine = await send(f"https://hooks.example.org:{receiver.port}/", allow_private=True)
        wrong = await send(f"https://other.example.org:{receiver.port}/", allow_private=True)
    assert fine.kind == "delivered"
    assert wrong.kind == "unreachable"
    assert "certificate" in wrong.error
    assert len(receiver.got) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed(receiver: Receiver, status: int) -> None:
    with Receiver() as target:

        def answer(request: BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            request.send_header("location", target.url)
            request.send_header("content-length", "0")
            request.end_headers()

        receiver.answer = answer
        outcome = await send(receiver.url, allow_private=True)
    assert (outcome.kind, outcome.status) == ("redirect", status)
    assert not target.connections


async def test_nobody_answering_and_garbage_are_told_apart_and_say_nothing_of_the_url(receiver: Receiver) -> None:
    def garbage(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"SMTP ready\r\n")
        request.close_connection = True

    receiver.answer = garbage
    broken = await send(receiver.url, allow_private=True)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        absent = await send(f"http://127.0.0.1:{unused.getsockname()[1]}/hush", allow_private=True)
    assert (broken.kind, absent.kind) == ("unreachable", "unreachable")
    assert "connection refused" in absent.error
    assert "hush" not in broken.error + absent.error
    assert "127.0.0.1" not in absent.error


async def test_no_proxy_of_the_environment_and_no_cookies_are_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    cookies: list[str | None] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        cookies.append(request.headers["cookie"])
        request.send_response(200)
        request.send_header("set-cookie", "a=b; Path=/")
        request.send_header("content-length", "0")
        request.end_headers()

    receiver.answer = answer
    sender = Sender(receiver.url, True, Certificates())
    for _ in range(2):
        assert (await sender.send(b"{}", signed())).kind == "delivered"
    await sender.aclose()
    assert cookies == [None, None]


async def test_a_huge_head_is_not_read(receiver: Receiver) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        try:
            request.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for n in range(200_000):
                request.wfile.write(b"x-%d: %s\r\n" % (n, b"y" * 1000))
        except OSError:
            pass
        request.close_connection = True

    receiver.answer = answer
    async with asyncio.timeout(30):
        outcome = await send(receiver.url, allow_private=True)
    assert outcome.kind == "unreachable"
