"""An orchestrator that gives 200 items to 20 agents and waits for them, over the front-ends of a fleet."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import threading
import time
import uuid
from typing import Any

from tests.support.fleets import MCP_HEADERS, Http, RunningFleet, call_body, scrape
from tests.support.wait import wait_until_sync

ITEMS, AGENTS = 200, 20
WAIT_MS = 50_000
_BROKEN = (OSError, http.client.HTTPException, AssertionError, ValueError, KeyError)
"""What a call raises if its front-end or the store was killed."""


class Agent(threading.Thread):
    """Claims and completes items below one, until it is told to stop."""

    def __init__(self, port: int, root: str, number: int, gate: threading.Event) -> None:
        super().__init__(name=f"agent {number}", daemon=True)
        self._port, self._root, self._gate = port, root, gate
        self._actor = {"id": f"agent-{root[:8]}-{number}", "kind": "subagent"}
        self._stopping = threading.Event()
        self._request, self._item = str(uuid.uuid4()), ""

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                with Http(self._port) as client:
                    while not self._stopping.is_set():
                        self._work(client)
            except _BROKEN:
                self._stopping.wait(0.05)

    def _work(self, client: Http) -> None:
        """One claim and its completion; goes on with what was broken."""
        self._gate.wait(60)
        if not self._item:
            claims = [{"selector": {"parentId": self._root}}]
            made = client.call("claim_item", actor=self._actor, requestId=self._request, claims=claims)
            self._request = str(uuid.uuid4())
            (claim,) = made["claimResults"]
            if claim["outcome"] != "success":
                self._stopping.wait(0.2)
                return
            self._item = claim["itemId"]
        client.call("advance_item", transitions=[{"itemId": self._item, "trigger": "complete", "actor": self._actor}])
        self._item = ""

    def stop(self) -> None:
        self._stopping.set()
        if self.ident is not None:
            self.join(60)


class Orchestrator(threading.Thread):
    """Waits until all items below one are done, repeating the call only when it is answered or broken."""

    def __init__(self, port: int, root: str) -> None:
        super().__init__(name="orchestrator", daemon=True)
        self._port, self._root = port, root
        self.calls = self.broken = 0
        self.answer: dict[str, Any] = {}

    def run(self) -> None:
        while not self.answer.get("waited", {}).get("met"):
            self.calls += 1
            try:
                with Http(self._port, 60) as client:
                    self.answer = wait(client, self._root)
            except _BROKEN:
                self.broken += 1
                wait_until_sync(self._is_answered, what="a front-end")

    def _is_answered(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port)):
                return True
        except OSError:
            return False


def wait(client: Http, root: str) -> dict[str, Any]:
    """The answer to a wait for a tree: an event stream if it is a front-end's first call."""
    body = call_body("get_context", {"itemId": root, "waitFor": "tree_terminal", "waitMs": WAIT_MS})
    client.connection.request("POST", "/mcp/items", body, MCP_HEADERS)
    text = client.connection.getresponse().read().decode()
    if not text.startswith("{"):
        text = next(line[5:] for line in reversed(text.splitlines()) if line.startswith("data:"))
    answer: dict[str, Any] = json.loads(text)["result"]["structuredContent"]
    assert "waited" in answer, answer
    return answer


def create(port: int) -> str:
    """A root with items to do; its id."""
    with Http(port) as client:
        root: str = client.call("manage_items", operation="create", items=[{"title": "root"}])["items"][0]["id"]
        items = [{"title": f"task {number}", "parentId": root} for number in range(ITEMS)]
        assert client.call("manage_items", operation="create", items=items)["created"] == ITEMS
    return root


def open_items(port: int, root: str) -> int:
    """How many items are still to do; all, if nobody can say."""
    try:
        with Http(port) as client:
            counts = client.call("get_context", itemId=root, waitFor="tree_terminal", waitMs=0)["waited"]["counts"]
    except _BROKEN:
        return ITEMS
    return ITEMS - int(counts["terminal"])


def waiting(port: int) -> float:
    """How many reads wait; -1 if nobody can say."""
    try:
        found = scrape(port)
    except _BROKEN:
        return -1
    return sum(value for name, value in found.items() if name.startswith("coordinator_reads_waiting"))


def work_off(fleet: RunningFleet, *victims: str) -> None:
    """Has a tree worked off, kills these meanwhile, and checks what that took the orchestrator."""
    port, gate = fleet.port, threading.Event()
    root = create(port)
    agents = [Agent(port, root, number, gate) for number in range(AGENTS)]
    orchestrator = Orchestrator(port, root)
    began = time.monotonic()
    try:
        orchestrator.start()
        wait_until_sync(lambda: waiting(port) == 1, what="the orchestrator's wait")
        for agent in agents:
            agent.start()
        gate.set()
        for number, victim in enumerate(victims, start=1):
            left = ITEMS - number * ITEMS // (len(victims) + 2)
            wait_until_sync(lambda: open_items(port, root) <= left, what="some work")  # noqa: B023
            pid = fleet.state.store_pid if victim == "store" else fleet.pid(victim)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            wait_until_sync(lambda: pid not in fleet.pids, what="its end")  # noqa: B023
        orchestrator.join(120)
        assert not orchestrator.is_alive()
    finally:
        gate.set()
        for agent in agents:
            agent.stop()
    took = time.monotonic() - began
    assert orchestrator.answer["item"]["role"] == "terminal"
    assert orchestrator.answer["waited"]["counts"]["terminal"] == ITEMS
    # One for each 50 s, and one for each that a kill broke; until the store is back, calls are refused.
    assert orchestrator.calls <= 1 + took // (0.94 * WAIT_MS / 1000) + orchestrator.broken
    assert orchestrator.broken <= 30 * len(victims)
    wait_until_sync(lambda: waiting(port) == 0, what="no wait")
