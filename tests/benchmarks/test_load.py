"""The load of benchmarks: wrong answers fail it, from the product or a rival."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator

import pytest

from benchmarks.load import CLAIMED, CONNECTIONS, Server, measure
from benchmarks.support import Failed, ToolCalls

ITEMS = ["item"] * CONNECTIONS
RIGHT = b'{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"claimResults":[{%b}]},"isError":false}}' % CLAIMED
WRONG = {
    "a status": (500, b"out of order"),
    "an error of the protocol": (200, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"out of order"}}'),
    "an error of the tool": (200, b'{"id":1,"result":{"content":[{"text":"out of order"}],"isError":true}}'),
    "an element": (200, RIGHT.replace(b"success", b"out of order")),
}


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Iterator[int]:
    """A server that gives this answer to all calls; yields its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.wfile.write(b"HTTP/1.1 %d Any\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body))

        def log_message(self, *_: object) -> None: ...

    class Quiet(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A connection ends in the middle of a call."""

    with Quiet(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


def test_right_answers_are_measured() -> None:
    with answering(200, RIGHT) as port:
        run = measure(Server("rival", port, []), ITEMS, 0.1)
    assert run.requests >= CONNECTIONS
    assert run.per_second > 0


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_answer_fails_with_its_text(what: str) -> None:
    with answering(*WRONG[what]) as port, pytest.raises(Failed, match=r"(?s)^rival: .*out of order"):
        measure(Server("rival", port, []), ITEMS, 0.1)


@pytest.mark.parametrize("what", [what for what in WRONG if what != "a status"])
def test_a_wrong_answer_fails_single_calls(what: str) -> None:
    with (
        answering(*WRONG[what]) as port,
        contextlib.closing(ToolCalls(port)) as tools,
        pytest.raises(Failed, match=r"claim_item .*out of order"),
    ):
        tools.call("items", "claim_item")


def test_no_server_fails() -> None:
    with answering(200, RIGHT) as port:
        """It has ended now."""
    with pytest.raises(Failed):
        measure(Server("rival", port, []), ITEMS, 0.1)
