"""Claim-and-complete cycles on the store by many connections, each with one command in flight.

The counterpart of pgbench: one process on ``epoll`` that writes ready-made commands and reads
replies, without an event loop's futures between. Every connection is an agent. A cycle is two
script calls as the front-end makes them: ``claim_next`` with a selector that takes anything,
then ``advance_item`` complete for the item that came back, under its fence.
"""

from __future__ import annotations

import os
import select
import socket
import time
from itertools import count
from typing import NamedTuple
from uuid import uuid4

import hiredis
import msgspec

from coordinator.settings import Settings
from coordinator.store.address import parse
from coordinator.store.scripts import pack_key
from coordinator.toolsets.items.rules.configured import schema_config
from coordinator.toolsets.items.store import work
from coordinator.toolsets.items.store.work import Selector

TTL_MS = 900_000
_pack = msgspec.msgpack.Encoder().encode


class Rate(NamedTuple):
    """What one run measured."""

    per_second: float
    client_cpu_us: float
    """CPU time of this process per cycle."""


class _Agent:
    """One connection: a claim, then the completion of what was claimed, again and again."""

    __slots__ = ("fence", "item", "name", "reader", "sock")

    def __init__(self, sock: socket.socket, name: str) -> None:
        self.sock, self.name = sock, name
        self.reader = hiredis.Reader()
        self.item, self.fence = "", 0


class Cycles:
    """Runs cycles against the store behind a URL."""

    def __init__(self, url: str, project: str, clients: int) -> None:
        settings = Settings()
        self._address = parse(url)
        self._key = pack_key(project)
        self._claim, self._advance = work._CLAIM_NEXT, work._ADVANCE
        config = schema_config(settings)
        self._version, self._labels = config.version, config.packed_labels
        self._keep, self._events = settings.idempotency_seconds * 1000, settings.events_max
        self._selector, self._nothing = _pack(Selector()), _pack([])
        self._agents = {agent.sock.fileno(): agent for agent in (self._connect(n) for n in range(clients))}

    def _connect(self, number: int) -> _Agent:
        address = self._address
        if address.path:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(address.path)
        else:
            sock = socket.create_connection((address.host, address.port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        agent = _Agent(sock, f"agent-{number}")
        login = hiredis.pack_command(("AUTH", address.password or ""))  # type: ignore[arg-type]
        for command in (login, self._claim.pack_load(), self._advance.pack_load()):
            sock.sendall(command)
            self._read(agent)
        return agent

    def close(self) -> None:
        """Closes every connection."""
        for agent in self._agents.values():
            agent.sock.close()

    def run(self, cycles: int) -> Rate:
        """Makes so many cycles with all connections together.

        Raises:
            RuntimeError: an item could not be claimed or completed.
        """
        poll = select.epoll()
        for number in self._agents:
            poll.register(number, select.EPOLLIN)
        # Unique for a run; the server keeps a record for each, as it does for every caller.
        run = uuid4().hex[:12]
        requests = (f"{run}{number:020x}" for number in count())
        begun = done = 0
        cpu, clock = sum(os.times()[:2]), time.perf_counter()
        for agent in self._agents.values():
            begun += 1
            self._send_claim(agent, next(requests))
        while done < cycles:
            for number, _ in poll.poll():
                agent = self._agents[number]
                reply = self._read(agent)
                if agent.item:
                    if msgspec.msgpack.decode(reply)[0][1]:
                        raise RuntimeError(f"the item was not completed: {reply!r}")
                    done += 1
                    agent.item = ""
                    if begun < cycles:
                        begun += 1
                        self._send_claim(agent, next(requests))
                else:
                    outcome, agent.item, _, _, agent.fence = msgspec.msgpack.decode(reply)[1][0]
                    if outcome != "success":
                        raise RuntimeError(f"no item was claimed: {outcome}")
                    self._send_complete(agent, next(requests))
        clock = time.perf_counter() - clock
        cpu = sum(os.times()[:2]) - cpu
        poll.close()
        return Rate(done / clock, cpu / done * 1e6)

    def _send_claim(self, agent: _Agent, request: str) -> None:
        agent.sock.send(
            self._claim.pack(
                self._key,
                (request, "0" * 16, self._keep, self._events, agent.name, TTL_MS, self._selector, "0" * 16,
                 self._nothing, 0, "", ""),
            )
        )  # fmt: skip

    def _send_complete(self, agent: _Agent, request: str) -> None:
        element = _pack([(agent.item, "complete", agent.name, "", "", "", agent.fence)])
        agent.sock.send(
            self._advance.pack(
                self._key, (request, "0" * 16, self._keep, self._events, self._version, self._labels, element)
            )
        )

    @staticmethod
    def _read(agent: _Agent) -> bytes:
        reply: object = False
        while reply is False:
            agent.reader.feed(agent.sock.recv(65536))
            reply = agent.reader.gets()
        if isinstance(reply, Exception):
            raise RuntimeError(f"the store answered: {reply}")
        return reply  # type: ignore[return-value]
