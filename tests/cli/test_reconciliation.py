"""The fleet's counters match the recorded history, over 10,000 calls and kills of front-ends.

Agents claim, block, resume and release items; a call whose connection breaks is retried with its request id until it
is answered. So the invariants are exact:

* the history has every call once, whatever was killed;
* without kills, each counter has grown exactly by the events in the history and in the clients' records;
* calls in flight on a killed front-end may or may not be counted, so with kills a counter may differ by at most one for
  each of them.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from coordinator.store.embedded.server import find_running
from tests.support.fleets import Http, RunningFleet, call_body, call_head, scrape
from tests.support.history import recorded
from tests.support.wait import wait_until_sync

FRONTENDS = 4
CLIENTS, ITEMS = 8, 5
ROUNDS = 46
"""Of six calls each, four of them with an event; calm phases take half as many, the rough one four times."""
EFFECTS = ("success", "already_claimed", "busy")
"""Counted when they happen, not when a retried call replays them."""
KILL_EVERY = 500
"""Calls between two kills."""


class Ledger:
    """The clients' calls and answers."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        """Answers, by tool and by outcome."""
        self.broken = 0
        """Calls whose connection broke before the answer."""
        self.lock = threading.Lock()
        self.kill: threading.Semaphore = threading.Semaphore(0)
        self._calls = itertools.count(1)

    def note(self, *names: str) -> None:
        with self.lock:
            self.answered.update(names)
            if next(self._calls) % KILL_EVERY == 0:
                self.kill.release()

    def lost(self) -> None:
        with self.lock:
            self.broken += 1


class Client:
    """One raw connection, reopened when it breaks."""

    def __init__(self, port: int, ledger: Ledger) -> None:
        self._port = port
        self._ledger = ledger
        self._socket: socket.socket | None = None

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The structured answer; retries until there is one."""
        body = call_body(tool, arguments)
        data = call_head(len(body)) + body
        answer = wait_until_sync(lambda: self._attempt(data), what="the fleet to answer")
        assert not answer["result"]["isError"], answer
        return answer["result"]["structuredContent"]

    def _attempt(self, data: bytes) -> Any:
        """The answer, or None if the connection broke."""
        sent = False
        try:
            if self._socket is None:
                self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
            sent = True
            self._socket.sendall(data)
            return msgspec.json.decode(self._answer(self._socket))
        except OSError:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            if sent:
                self._ledger.lost()
            return None

    @staticmethod
    def _answer(connection: socket.socket) -> bytes:
        data = b""
        while True:
            more = connection.recv(65_536)
            if not more:
                raise ConnectionResetError("closed")
            data += more
            head, end, body = data.partition(b"\r\n\r\n")
            if end and len(body) >= int(head.partition(b"content-length: ")[2].split(b"\r", 1)[0]):
                return body

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


class Seen(NamedTuple):
    """A snapshot without calls in flight."""

    counters: dict[str, float]
    history: Counter[str]
    """Events, by kind."""
    answered: Counter[str]


class World:
    """A fleet and the agents that call it."""

    def __init__(self, fleet: RunningFleet) -> None:
        self.fleet = fleet
        self.ledger = Ledger()
        with Http(fleet.port) as client:
            titles = [{"title": f"{n}"} for n in range(CLIENTS * ITEMS)]
            created = client.call("manage_items", operation="create", items=titles)
        ids = [item["id"] for item in created["items"]]
        self._items = [ids[n * ITEMS : (n + 1) * ITEMS] for n in range(CLIENTS)]

    def seen(self) -> Seen:
        url = find_running(self.fleet.data_dir)
        assert url is not None
        kinds = Counter(event.kind for event in recorded(url, "default"))
        return Seen(scrape(self.fleet.port), kinds, Counter(self.ledger.answered))

    def work(self, rounds: int) -> None:
        """All clients at once."""
        with ThreadPoolExecutor(CLIENTS) as pool:
            for done in [pool.submit(self._agent, number, rounds) for number in range(CLIENTS)]:
                done.result()

    def _agent(self, number: int, rounds: int) -> None:
        client = Client(self.fleet.port, self.ledger)
        me, rival = ({"id": f"{name}-{number}", "kind": "subagent"} for name in ("agent", "rival"))

        def signed(actor: dict[str, str], **arguments: Any) -> dict[str, Any]:
            return {"actor": actor, "requestId": str(uuid.uuid4()), **arguments}

        for _, item in zip(range(rounds), itertools.cycle(self._items[number]), strict=False):
            for actor, expected in ((me, "success"), (rival, "already_claimed")):
                answer = client.call("claim_item", signed(actor, claims=[{"itemId": item}]))
                assert answer["claimResults"][0]["outcome"] == expected
                self.ledger.note("claim_item", expected)
            for trigger in ("block", "resume"):
                transition = {"itemId": item, "trigger": trigger, "actor": me}
                answer = client.call("advance_item", {"transitions": [transition], "requestId": str(uuid.uuid4())})
                assert answer["summary"]["succeeded"] == 1, answer
                self.ledger.note("advance_item", "transition")
            assert client.call("query_items", {"operation": "get", "id": item})["id"] == item
            self.ledger.note("query_items")
            answer = client.call("claim_item", signed(me, releases=[{"itemId": item}]))
            assert answer["releaseResults"][0]["outcome"] == "success"
            self.ledger.note("claim_item", "release")
        client.close()

    def kill_frontends(self, stop: threading.Event) -> int:
        """Kills front-ends in turn, whenever the clients have made progress; returns how many."""
        killed = 0
        for number in itertools.count():
            while not self.ledger.kill.acquire(timeout=0.1):
                if stop.is_set():
                    return killed
            slot = f"fe-{number % FRONTENDS}"
            pid = self.fleet.pid(slot)
            if pid:
                os.kill(pid, signal.SIGKILL)
                killed += 1
        return killed


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with RunningFleet(
        tmp_path / "fleet", "--port", "0", "--frontends", str(FRONTENDS), "--workers", "0",
        FLEET_REQUEST_DEADLINE_MS="20000",  # generous, for a busy machine
    ) as fleet:  # fmt: skip
        fleet.wait_ready()
        yield World(fleet)


def grown(before: Seen, after: Seen) -> tuple[dict[str, float], Counter[str], Counter[str]]:
    """The growth of counters, history and ledger."""
    counters = {name: after.counters[name] - before.counters.get(name, 0.0) for name in after.counters}
    return counters, after.history - before.history, after.answered - before.answered


def figures(counters: dict[str, float]) -> dict[str, float]:
    """The counters with a counterpart, by the counterpart's name."""
    return {
        "success": counters["coordinator_claims_total{outcome=success}"],
        "already_claimed": counters["coordinator_claims_total{outcome=already_claimed}"],
        "busy": counters["coordinator_claim_conflicts_total{kind=busy}"],
        "claim_item": counters["coordinator_requests_total{outcome=ok,tool=claim_item}"],
        "advance_item": counters["coordinator_requests_total{outcome=ok,tool=advance_item}"],
        "query_items": counters["coordinator_requests_total{outcome=ok,tool=query_items}"],
        "requests": sum(value for name, value in counters.items() if name.startswith("coordinator_requests_total{")),
        "with id": counters["coordinator_idempotency_total{result=new}"]
        + counters["coordinator_idempotency_total{result=replay}"],
    }


def expected(ledger: Counter[str]) -> dict[str, float]:
    """The expected figures, by the ledger."""
    tools = {name: ledger[name] for name in ("claim_item", "advance_item", "query_items")}
    return {
        "success": ledger["success"],
        "already_claimed": ledger["already_claimed"],
        "busy": ledger["already_claimed"],
        **tools,
        "requests": sum(tools.values()),
        "with id": ledger["claim_item"] + ledger["advance_item"],
    }


def happened(ledger: Counter[str]) -> dict[str, int]:
    """The events that the answers report."""
    return {"claim": ledger["success"], "release": ledger["release"], "transition": ledger["transition"]}


@pytest.mark.chaos
def test_counters_equal_the_history_after_ten_thousand_calls_with_kills(world: World) -> None:
    begin = world.seen()

    world.work(ROUNDS // 2)
    calm = world.seen()
    counters, history, ledger = grown(begin, calm)
    assert world.ledger.broken == 0
    assert dict(history) == happened(ledger)
    assert figures(counters) == expected(ledger), "nobody was killed, so all is exact"
    assert counters["coordinator_idempotency_total{result=replay}"] == 0

    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        killing = pool.submit(world.kill_frontends, stop)
        world.work(ROUNDS * 4)
        stop.set()
        killed = killing.result()
    wait_until_sync(lambda: all(world.fleet.pid(f"fe-{n}") for n in range(FRONTENDS)), 60, "all front-ends to be back")
    rough = world.seen()
    counters, history, ledger = grown(calm, rough)
    assert killed >= 8
    unknown = world.ledger.broken
    assert 0 < unknown <= killed * CLIENTS
    assert dict(history) == happened(ledger), "each call that was answered happened once, whatever was killed"
    found, wanted = figures(counters), expected(ledger)
    off = {name: found[name] - wanted[name] for name in wanted}
    lost = {name: -off.pop(name) for name in EFFECTS}
    assert all(0 <= more <= unknown for more in off.values()), (off, unknown)
    assert all(0 <= less <= unknown for less in lost.values()), "a replay is no further claim"
    new, replay = (counters[f"coordinator_idempotency_total{{result={result}}}"] for result in ("new", "replay"))
    ids = wanted["with id"]
    assert ids - unknown <= new <= ids, "what was done and not counted was under way at a kill"
    assert replay <= unknown

    world.work(ROUNDS // 2)
    end = world.seen()
    counters, history, ledger = grown(rough, end)
    assert world.ledger.broken == unknown
    assert dict(history) == happened(ledger)
    assert figures(counters) == expected(ledger), "restarted processes continue counting where they were"
    assert sum(end.answered[name] for name in ("claim_item", "advance_item", "query_items")) >= 10_000
