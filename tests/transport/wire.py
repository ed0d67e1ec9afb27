"""HTTP as bytes on a socket, and how answers of two ways differ."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any, Self

from coordinator.transport.http.app import FrontEnd
from tests.transport import fuzz
from tests.transport.rig import Response, send


async def differences(port: int, slow: FrontEnd, case: fuzz.Case) -> list[str]:
    """Differences between the SDK's answer and those to the request, sent several times on one connection."""
    expected = fuzz.meaning(await send(slow, case.method, case.path, case.headers, case.body))
    with Client(port) as client:
        answers = []
        for _ in range(3):
            client.send(_wire(case))
            answers.append(fuzz.meaning(Response(*client.answer())))
    return [f"{case}\n  wire: {answer}\n  sdk:  {expected}" for answer in answers if answer != expected]


def sendable(case: fuzz.Case) -> bool:
    """Whether the case can be sent over a keep-alive connection and reach the application."""
    names = {name for name, _ in case.headers}
    plain = all(byte >= 32 and byte != 127 for _, value in case.headers for byte in value.replace(b"\t", b""))
    return (
        plain
        and case.method != "HEAD"
        and names.isdisjoint((b"content-length", b"content-encoding"))
        and (b"connection", b"close") not in case.headers
        and sum(map(len, dict(case.headers).values())) < 15_000
    )


def _wire(case: fuzz.Case) -> bytes:
    """The request as it goes over the wire."""
    lines = [b"%b: %b" % header for header in case.headers]
    head = b"\r\n".join([f"{case.method} {case.path} HTTP/1.1".encode(), *lines])
    return head + b"\r\ncontent-length: %d\r\n\r\n" % len(case.body) + case.body


def raw(request: tuple[list[tuple[str, str]], bytes], *more: tuple[str, str], method: str = "POST") -> bytes:
    headers, body = request
    lines = [f"{name}: {value}" for name, value in [*headers, *more]]
    if not any(name == "transfer-encoding" for name, _ in more):
        lines.append(f"content-length: {len(body)}")
    return f"{method} /mcp HTTP/1.1\r\n".encode() + "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Client:
    """One connection, read answer by answer."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._held = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, headers, body."""
        while b"\r\n\r\n" not in self._held:
            self._more()
        head, _, self._held = self._held.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        while len(self._held) < int(headers.get("content-length", 0)):
            self._more()
        length = int(headers.get("content-length", 0))
        body, self._held = self._held[:length], self._held[length:]
        return int(status.split()[1]), headers, body

    def closed(self) -> bool:
        """Waits for the server to close."""
        return self._held == b"" and self._socket.recv(1) == b""

    def reset(self) -> None:
        """Resets the connection."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _more(self) -> None:
        data = self._socket.recv(65_536)
        assert data, f"the server closed after {self._held!r}"
        self._held += data


def total(body: bytes) -> Any:
    return json.loads(body)["result"]["structuredContent"]["sum"]
