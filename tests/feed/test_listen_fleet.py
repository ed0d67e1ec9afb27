"""``subscriptions/listen`` over the processes of a fleet: kills, reloads, and a client on stdin and stdout."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleets import Http, RunningFleet, environment, started
from tests.support.wait import wait_until_sync
from tests.transport.rig import modern

CONFIG = """
gateway:
  version: "1.0.0"
  workflows:
    review:
      initialState: open
      states: {open: {transitions: {close: {target: done}}}, done: {}}
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "fleet.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, config: Path) -> Iterator[RunningFleet]:
    folder = tmp_path_factory.mktemp("listen") / "data"
    numbers = ("--port", "0", "--frontends", "2", "--workers", "0")
    with RunningFleet(folder, "--config", str(config), *numbers) as fleet:
        fleet.wait_ready()
        yield fleet


class Watcher(threading.Thread):
    """Listens to an item, reads it after each notification, and begins again after each disconnect."""

    def __init__(self, port: int, item: str) -> None:
        super().__init__(name="watcher")
        self._port = port
        self._uri = f"fleet://default/items/{item}"
        self._stopping = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self.seen = ""
        """The summary that was read last."""
        self.connects = 0
        self.results = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.connects += 1
                self._listen()
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                self._stopping.wait(0.05)  # a process or the store was killed

    def stop(self) -> None:
        self._stopping.set()
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.join(60)

    def _listen(self) -> None:
        wanted = {"notifications": {"resourceSubscriptions": [self._uri]}}
        head, body = modern("subscriptions/listen", wanted, "watch")
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
            self._connection = connection
            connection.request("POST", "/mcp/items", body, dict(head))
            response = connection.getresponse()
            while not self._stopping.is_set():
                line = response.readline()
                if not line:
                    return
                if line.startswith(b"data: "):
                    message = json.loads(line[6:])
                    if "result" in message:
                        self.results += 1
                        return
                    assert message.get("method", "").startswith("notifications/"), message
                    self._read()

    def _read(self) -> None:
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
            head, body = modern("resources/read", {"uri": self._uri})
            connection.request("POST", "/mcp/items", body, dict(head))
            contents = json.loads(connection.getresponse().read())["result"]["contents"]
            self.seen = json.loads(contents[0]["text"])["summary"]


def test_who_listens_and_reads_again_knows_the_present_state_whatever_dies(fleet: RunningFleet) -> None:
    with Http(fleet.port) as client:
        item = client.call("manage_items", operation="create", items=[{"title": "A"}])["items"][0]["id"]
    watchers = [Watcher(fleet.port, item) for _ in range(4)]
    for one in watchers:
        one.start()
    try:
        for number, victim in enumerate(("", "fe-0", "store", "fe-1", "store")):
            if victim:
                pid = fleet.state.store_pid if victim == "store" else fleet.pid(victim)
                assert pid is not None
                os.kill(pid, signal.SIGKILL)
                wait_until_sync(lambda: pid not in fleet.pids, what="its end")  # noqa: B023
            summary = f"version {number}"
            _update(fleet, item, summary)
            for one in watchers:
                wait_until_sync(lambda: one.seen == summary, what=f"{summary}, seen is {one.seen}")  # noqa: B023
    finally:
        for one in watchers:
            one.stop()
    assert max(one.connects for one in watchers) > 1
    # The system spreads connections over the processes, and each of them works again.
    wait_until_sync(lambda: all(_updated(fleet, item, "the end") for _ in range(8)), what="every process")


def _update(fleet: RunningFleet, item: str, summary: str) -> None:
    wait_until_sync(lambda: _updated(fleet, item, summary), what="an update")


def _updated(fleet: RunningFleet, item: str, summary: str) -> bool:
    try:
        with Http(fleet.port) as client:
            client.call("manage_items", operation="update", items=[{"id": item, "summary": summary}])
    except (OSError, http.client.HTTPException, AssertionError, ValueError, KeyError):
        return False
    return True


def test_a_reload_is_told_by_every_process(fleet: RunningFleet, config: Path) -> None:
    head, body = modern("subscriptions/listen", {"notifications": {"resourcesListChanged": True}}, "s")
    streams = []
    for _ in range(8):  # the system spreads connections over the processes
        connection = http.client.HTTPConnection("127.0.0.1", fleet.port, timeout=60)
        connection.request("POST", "/mcp/gateway", body, dict(head))
        response = connection.getresponse()
        assert b"acknowledged" in _data(response)
        streams.append((connection, response))
    config.write_text(CONFIG.replace("review:", "audit:"))
    fleet.process.send_signal(signal.SIGHUP)
    for connection, response in streams:
        assert b"notifications/resources/list_changed" in _data(response)
        connection.close()


def _data(response: http.client.HTTPResponse) -> bytes:
    while not (line := response.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return line


def test_a_client_on_stdio_listens_until_its_input_ends(fleet: RunningFleet) -> None:
    command = ("stdio", "--toolset", "items", "--data-dir", str(fleet.data_dir))
    (reads, asks), (answers, writes) = os.pipe(), os.pipe()
    with Http(fleet.port) as client, open(asks, "wb") as to, open(answers, "rb") as back:
        with open(reads, "rb") as stdin, open(writes, "wb") as stdout, open(os.devnull, "wb") as nothing:
            server = started(command, environment(), stdin, stdout, nothing)
        item = client.call("manage_items", operation="create", items=[{"title": "A"}])["items"][0]["id"]
        uri = f"fleet://default/items/{item}"
        wanted = {"notifications": {"resourceSubscriptions": [uri, f"{uri}/nothing"]}}
        for _, body in (modern("server/discover", {}, "d"), modern("subscriptions/listen", wanted, "s")):
            to.write(body + b"\n")
        to.flush()
        said = (json.loads(line) for line in back)
        assert next(said)["result"]["capabilities"]["resources"] == {"listChanged": False, "subscribe": True}
        assert next(said)["params"]["notifications"] == {"resourceSubscriptions": [uri]}
        client.call("manage_items", operation="update", items=[{"id": item, "summary": "changed"}])
        told = next(said)
        assert (told["method"], told["params"]["uri"]) == ("notifications/resources/updated", uri)
        to.close()
        (last,) = said
        assert (last["id"], last["result"]["resultType"]) == ("s", "complete")
        assert server.wait(60) == 0
