"""Listeners that go on whatever dies, and a writer that keeps writing."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import threading

from tests.support.fleets import Http


class Listener(threading.Thread):
    """Goes on from its last cursor until it is told to stop, by event stream or by polling."""

    def __init__(self, port: int, cursor: str, polls: bool) -> None:
        super().__init__(name="listener")
        self._port = port
        self.cursor = cursor
        self._polls = polls
        self._stopping = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self.ids: list[str] = []
        self.gaps: list[str] = []
        self.connects = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            self._connection = connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            try:
                self.connects += 1
                if self._polls:
                    self._poll(connection)
                else:
                    self._listen(connection)
            except (OSError, http.client.HTTPException, ValueError):
                self._stopping.wait(0.1)  # the front-end or the store was killed
            finally:
                connection.close()

    def stop(self) -> None:
        self._stopping.set()
        sock = self._connection.sock if self._connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # or it waits for the next heartbeat
        self.join(60)

    def _poll(self, connection: http.client.HTTPConnection) -> None:
        connection.request("GET", f"/feed/default?after={self.cursor}&waitMs=500")
        response = connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            assert response.status == 503, answer
            raise OSError("the store was killed")
        if "gap" in answer:
            self.gaps.append(answer["gap"]["reason"])
        self.ids += [event["eventId"] for event in answer["events"]]
        self.cursor = answer["cursor"]

    def _listen(self, connection: http.client.HTTPConnection) -> None:
        headers = {"accept": "text/event-stream", "last-event-id": self.cursor}
        connection.request("GET", "/feed/default", headers=headers)
        response = connection.getresponse()
        if response.status != 200:
            assert response.status == 503, response.read()
            raise OSError("the store was killed")
        cursor = ""
        while not self._stopping.is_set():
            line = response.readline().decode().rstrip("\n")
            if line.startswith("id: "):
                cursor = line[4:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
                if "reason" in data:
                    self.gaps.append(data["reason"])
                if "eventId" in data:
                    self.ids.append(data["eventId"])
                    assert data["cursor"] == cursor
                self.cursor = cursor
            elif not line and response.isclosed():
                return


class Writer(threading.Thread):
    """Creates items, whatever dies."""

    def __init__(self, port: int) -> None:
        super().__init__(name="writer")
        self._port = port
        self._stopping = threading.Event()
        self.writing = threading.Event()
        """Cleared: it pauses."""
        self.writing.set()
        self.count = 0

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                with Http(self._port, 20) as client:
                    while not self._stopping.is_set():
                        if not self.writing.wait(0.1):
                            continue
                        items = [{"title": f"item {n}"} for n in range(random.choice((1, 1, 1, 20)))]
                        client.call("manage_items", operation="create", items=items)
                        self.count += 1
                        self._stopping.wait(0.005)
            except (OSError, http.client.HTTPException, AssertionError, ValueError, KeyError):
                self._stopping.wait(0.05)

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)
