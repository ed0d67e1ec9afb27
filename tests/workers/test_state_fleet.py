"""A fleet with two front-ends and two workers in front of a server that keeps states; workers are killed, and drain."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from coordinator.steps.handoff import own_queue
from coordinator.store import keys
from coordinator.store.embedded.server import find_running
from coordinator.store.link.address import parse
from coordinator.store.link.clients import client as redis_client
from tests.gateway.fleet import GatewayFleet, Json
from tests.support.stateful import stateful
from tests.support.wait import process_alive, wait_until_sync
from tests.workers.pair import CAPABILITIES

SLOTS = ("", "2")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayFleet]:
    connection = msgspec.to_builtins(stateful())
    config = {
        "connections": {"it": connection},
        "gateway": {"version": "1.0.0", "capabilities": CAPABILITIES},
        "steps": {"slots": 8},
    }
    with GatewayFleet(tmp_path_factory.mktemp("states"), config) as fleet:
        yield fleet


class Owner:
    """A caller with one of its slots, and the words of its state."""

    def __init__(self, fleet: GatewayFleet, who: str, slot: str, token: str) -> None:
        self._agent = fleet.agent(token, f"/{slot}" if slot else "")
        self._name = who + slot
        self.words: list[str] = []
        self.pid = 0

    def known(self) -> bool:
        """Whether the fleet has read its token."""
        try:
            self._agent("gateway.home")
        except AssertionError:
            return False
        return True

    def call(self) -> str:
        """One more word; returns the class of the failure, if it is one."""
        word = f"{self._name}{len(self.words)}"
        body, _ = self._agent.reply(
            "workflow.start", definitionId="proxy_default", input={"capability": "add", "word": word}
        )
        if "inFlight" in body:
            body = wait_until_sync(lambda: self._ended(body), what="the end of the operation")
        if "error" in body:
            return str(body["error"]["details"]["errorClass"])
        if "lastFailure" in body:
            assert "has lost the state" in body["lastFailure"]["message"], body
            return "state_lost"
        self.words.append(word)
        result: Json = body["context"]["lastResult"]
        assert result["words"] == self.words
        self.pid = result["pid"]
        return ""

    def _ended(self, body: Json) -> Json:
        found = self._agent.get(body)
        return {} if "inFlight" in found else found

    def lost_once(self) -> None:
        self.words = []
        assert [self.call(), self.call()] == ["state_lost", ""]


@pytest.fixture(scope="module")
def owners(fleet: GatewayFleet) -> list[Owner]:
    tokens = {who: fleet.tokens.add(who, permissions=("gateway",)) for who in ("ann", "bob", "cyd")}
    found = [Owner(fleet, who, slot, token) for who, token in tokens.items() for slot in SLOTS]

    def known() -> bool:
        return all(one.known() for one in found)

    wait_until_sync(known, what="the tokens are known")
    return found


def worker_of(fleet: GatewayFleet, pid: int) -> int:
    """The worker that has started a process, perhaps through another one."""
    workers = {one.pid for one in fleet.fleet.state.processes if one.pid and one.slot.startswith("w-")}
    while pid not in workers:
        status = Path(f"/proc/{pid}/status").read_text()
        pid = int(status.split("PPid:")[1].split()[0])
        assert pid > 1
    return pid


def call_all(owners: list[Owner], rounds: int) -> None:
    with ThreadPoolExecutor(len(owners)) as pool:
        for _ in range(rounds):
            assert list(pool.map(Owner.call, owners)) == [""] * len(owners)


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.chaos)])
def test_states_survive_what_does_not_end_them(fleet: GatewayFleet, owners: list[Owner], number: int) -> None:
    for owner in owners:
        if not owner.words:
            assert owner.call() in ("", "state_lost")
    call_all(owners, 4)
    assert len({owner.pid for owner in owners}) == len(owners)
    by_worker = {owner: worker_of(fleet, owner.pid) for owner in owners}
    victim = by_worker[owners[0]]
    os.kill(victim, number)
    wait_until_sync(lambda: not process_alive(victim), what="the worker has ended")
    for owner in owners:
        if by_worker[owner] == victim:
            owner.lost_once()
        else:
            assert owner.call() == ""
    call_all(owners, 2)


def test_nothing_is_left_of_queues_of_single_workers(fleet: GatewayFleet, owners: list[Owner]) -> None:
    assert owners[0].words is not None
    url = find_running(str(fleet.fleet.data_dir))
    assert url is not None
    with redis_client(parse(url), keys.QUEUE) as client:
        own = own_queue("")
        assert not [one for one in client.smembers("fc:{RQ}:queues") if own.encode() in one]
        for key in client.scan_iter(match=f"*{own}*"):
            assert client.ttl(key) > 0 or not client.exists(key)
