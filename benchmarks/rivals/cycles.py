"""Claim-and-complete cycles on the store by many connections, each with one command in flight.

The counterpart of pgbench: one process on ``epoll`` that writes pre-rendered commands and reads
replies, without an event loop. Every connection is an agent. A cycle is two
script calls (``Calls``): one claims the best item, the other completes it.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import hiredis
import msgspec
import redis

from benchmarks.loader import item_id, title
from benchmarks.own_calls import Template, claims, transitions
from benchmarks.support import Failed
from coordinator.store import Library, Script, keys
from coordinator.store.idempotency import IdempotencyKey
from coordinator.store.link.address import parse
from coordinator.store.scripts import pack_key
from coordinator.toolsets.items.rules.selection import Selector
from coordinator.toolsets.items.store.agents.presence import Claimant

TTL_MS = 900_000
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.decode


class Rate(NamedTuple):
    """What one run measured."""

    per_second: float
    client_cpu_us: float
    """CPU time of this process per cycle."""


class Calls(Protocol):
    """The two calls of a cycle as commands, and the decoding of their replies."""

    @property
    def scripts(self) -> Sequence[Script[Any]]:
        """The scripts to load first."""

    def claim(self, request: str, agent: str) -> bytes:
        """Claims the best item there is."""

    def claimed(self, reply: bytes) -> tuple[str, int]:
        """The item that was claimed, and its fence; id '' where none was."""

    def complete(self, request: str, agent: str, item: str, fence: int) -> bytes:
        """Completes the item."""

    def completed(self, reply: bytes) -> bool:
        """Whether it was completed."""


class FullCalls:
    """What the front-end calls: ``claim_next`` with a selector that takes anything, and ``advance_item`` complete.

    With idempotency records, fences, leases, ranked indexes, cascades, the event and the transition log.
    """

    def __init__(self, project: str) -> None:
        self._key = pack_key(project)
        request, element = IdempotencyKey("request", "0" * 16), self._element("", "", 0)
        claim = claims.claim_next(project, request, Claimant("agent"), TTL_MS, Selector(), [])
        self._claim = Template(claim, "request", "agent")
        complete = transitions.advance(project, request.slice(0), [element])
        self._complete = Template(complete, request.slice(0).key, _pack([element]))
        self.scripts = (self._claim.script, self._complete.script)

    def _element(self, item: str, agent: str, fence: int) -> tuple[Any, ...]:
        return item, "complete", agent, "", "", "", fence

    def claim(self, request: str, agent: str) -> bytes:
        """See ``Calls``."""
        return self._claim.pack(self._key, request, agent)

    def claimed(self, reply: bytes) -> tuple[str, int]:
        """See ``Calls``."""
        outcome, item, _, _, fence, *_ = _unpack(reply)[1][0]
        return (item, fence) if outcome == "success" else ("", 0)

    def complete(self, request: str, agent: str, item: str, fence: int) -> bytes:
        """See ``Calls``."""
        return self._complete.pack(self._key, request, _pack([self._element(item, agent, fence)]))

    def completed(self, reply: bytes) -> bool:
        """See ``Calls``."""
        return not _unpack(reply)[0][1]


LIBRARY = Library("benchmarks")


class PlainCalls:
    """The minimum: what PostgreSQL's row updates do, and nothing else. In a separate project."""

    scripts = (
        Script(LIBRARY, "plain_claim", tuple[str, int]),
        Script(LIBRARY, "plain_complete", bool),
    )

    def __init__(self, project: str) -> None:
        self._project = project
        self._key = pack_key(project)

    def fill(self, url: str, items: int) -> None:
        """Makes items to claim, in an order of priority, complexity and age."""
        client = redis.Redis(**parse(url).client_options())
        ranked = keys.ranked.key(self._project, "*")
        with client, client.pipeline(transaction=False) as pipe:
            for number in range(items):
                score = (number * 7 % 3) * 2**45 + (number * 11 % 10) * 2**41 + number
                pipe.hset(keys.item.key(self._project, item_id(number)), mapping={"t": title(number), "r": "queue"})
                pipe.zadd(ranked, {item_id(number): score})
            pipe.execute()

    def claim(self, request: str, agent: str) -> bytes:
        """See ``Calls``."""
        return self.scripts[0].pack(self._key, (agent, TTL_MS))

    def claimed(self, reply: bytes) -> tuple[str, int]:
        """See ``Calls``."""
        item, fence = _unpack(reply)
        return item, fence

    def complete(self, request: str, agent: str, item: str, fence: int) -> bytes:
        """See ``Calls``."""
        return self.scripts[1].pack(self._key, (agent, item))

    def completed(self, reply: bytes) -> bool:
        """See ``Calls``."""
        return bool(_unpack(reply))


class _Agent:
    """One connection, which claims and completes items in a loop."""

    __slots__ = ("item", "name", "reader", "sock")

    def __init__(self, sock: socket.socket, name: str) -> None:
        self.sock, self.name = sock, name
        self.reader = hiredis.Reader()
        self.item = ""

    def ask(self, command: bytes) -> None:
        """Sends a command."""
        self.sock.send(command)

    def answer(self) -> bytes:
        """The reply to the last command.

        Raises:
            Failed: it is an error.
        """
        reply: object = False
        while reply is False:
            self.reader.feed(self.sock.recv(65536))
            reply = self.reader.gets()
        if isinstance(reply, Exception):
            raise Failed(f"the store answered: {reply}")
        return reply  # type: ignore[return-value]


class Cycles:
    """Runs cycles against the store behind a URL."""

    def __init__(self, url: str, calls: Calls, clients: int) -> None:
        self._address = parse(url)
        self._calls = calls
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
        texts = {script.function_library.text for script in self._calls.scripts}
        loads = [hiredis.pack_command(("FUNCTION", "LOAD", "REPLACE", text)) for text in texts]  # type: ignore[arg-type]
        for command in (login, *loads):
            sock.sendall(command)
            agent.answer()
        return agent

    def close(self) -> None:
        """Closes every connection."""
        for agent in self._agents.values():
            agent.sock.close()

    def run(self, cycles: int) -> Rate:
        """Runs ``cycles`` cycles over all connections together.

        Raises:
            Failed: an item could not be claimed or completed.
        """
        calls = self._calls
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
            agent.ask(calls.claim(next(requests), agent.name))
        while done < cycles:
            for number, _ in poll.poll():
                agent = self._agents[number]
                reply = agent.answer()
                if agent.item:
                    if not calls.completed(reply):
                        raise Failed(f"the item was not completed: {reply!r}")
                    done += 1
                    agent.item = ""
                    if begun < cycles:
                        begun += 1
                        agent.ask(calls.claim(next(requests), agent.name))
                else:
                    agent.item, fence = calls.claimed(reply)
                    if not agent.item:
                        raise Failed(f"no item was claimed: {reply!r}")
                    agent.ask(calls.complete(next(requests), agent.name, agent.item, fence))
        clock = time.perf_counter() - clock
        cpu = sum(os.times()[:2]) - cpu
        poll.close()
        return Rate(done / clock, cpu / done * 1e6)
