"""An open-loop load generator: arrivals are fixed in advance, whatever the server does.

``python -m benchmarks.openloop PLAN`` runs a plan (``Plan``, as JSON) and writes its results next to it. A call's
latency counts from its scheduled time, so calls that waited for a slow server, a free connection or the generator
itself are measured in full. In the closed loop, which measures capacity, every connection sends its next call when it
has the answer to the last.

It shares the cores with what it measures, so it is lean: one process, plain non-blocking sockets under epoll, requests
rendered ahead except their ids, answers scanned only for their length and three words. A call costs it about 15 us.
This CPU time is missing to the fleet, and the generator is late itself when cores are busy: its lateness is measured
too, and is part of every figure.
"""

from __future__ import annotations

import gc
import random
import select
import socket
import sys
import time
from array import array
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

OK, SHED, FAILED, BROKEN = range(4)
"""The outcome of a call: answered, shed, refused otherwise, or its connection was lost."""
_NAP_SECONDS = 0.0005
"""How long it sleeps between polls for answers and due calls: a wake-up for each one would cost as much CPU as
answering it. Latencies are longer by that."""
_LATE_SECONDS = 30.0
"""How much longer a closed loop lasts, until there are as many answers as connections."""
_REFUSAL_BYTES = 1_000
_SLOT = b"@ID@ID@ID@ID"
"""Placeholder for a call's number in a request: 12 digits."""
_HEAD = "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{lines}content-length: {length}\r\n\r\n"
_LINES = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
_MODERN = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"
_LEGACY = "mcp-protocol-version: 2025-11-25\r\n"
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
NUMBER = msgspec.Raw(_SLOT)
"""In a request, a number that is unique for each call."""
REQUEST_ID = f"00000000-0000-4000-8000-{_SLOT.decode()}"
"""The argument ``requestId``, unique for each call."""


class Kind(msgspec.Struct, frozen=True):
    """One kind of call."""

    name: str
    weight: float
    requests: tuple[bytes, ...]
    """Variants of the call; each call takes the next."""
    expects: bytes = b""
    """What an answer must contain; others are refusals."""


class Plan(msgspec.Struct, frozen=True):
    """The load to generate."""

    port: int
    connections: int
    kinds: tuple[Kind, ...]
    seconds: float
    rate: float = 0.0
    """Calls per second, by a Poisson process; 0: closed loop."""
    at_once: bool = False
    """All connections send one call at the same moment, and no more."""
    seed: int = 1


class Calls(msgspec.Struct):
    """The results, call by call."""

    began: float
    """By the monotonic clock, which all processes of a machine share."""
    seconds: float
    at: list[float]
    """Scheduled time of each call, from ``began``."""
    took: list[float]
    """Seconds from the scheduled time to the answer."""
    late: list[float]
    """Seconds from the scheduled time to the sending."""
    kind: list[int]
    outcome: list[int]
    shed: dict[str, int]
    """Shed calls, by code."""
    unanswered: int
    """In flight at the end, or never sent because no connection was free."""
    retry: int
    """Answers with ``Retry-After``."""
    refusal: str
    """The beginning of the first answer that was a refusal but did not shed the call; '': there was none."""


def request(
    port: int,
    tool: str,
    arguments: object,
    path: str = "/mcp/items",
    *,
    meta: Mapping[str, object] | None = None,
    legacy: bool = False,
    more: str = "",
) -> bytes:
    """A whole request; ``REQUEST_ID`` and ``NUMBER`` in it are replaced for each call.

    Args:
        meta: further keys of ``_meta``.
        legacy: as before revision 2026-07-28, without ``_meta``.
        more: further lines of the head.
    """
    call = {"name": tool, "arguments": arguments} | ({} if legacy else {"_meta": {**_META, **(meta or {})}})
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": NUMBER, "method": "tools/call", "params": call})
    lines = _LINES + (_LEGACY if legacy else _MODERN.format(tool=tool)) + more
    return _HEAD.format(path=path, port=port, lines=lines, length=len(body)).encode() + body


class _Run:
    """One run of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        pick = random.Random(plan.seed)
        self.kinds = [[one.split(_SLOT) for one in kind.requests] for kind in plan.kinds]
        self.next = [0] * len(plan.kinds)
        # Unique across runs, whatever their seed, and always 12 digits.
        self.number = random.SystemRandom().randrange(10**11, 9 * 10**11)
        weights = [kind.weight for kind in plan.kinds]
        self.order = array("B", pick.choices(range(len(weights)), weights, k=65_536))
        self.turn = 0
        self.poll = select.epoll()
        self.sockets: dict[int, socket.socket] = {}
        self.free: deque[int] = deque()
        self.waiting: deque[float] = deque()
        """Scheduled times of calls that wait for a free connection."""
        self.at, self.took, self.late = array("d"), array("d"), array("d")
        self.kind, self.outcome = array("B"), array("B")
        self.under_way: dict[int, tuple[float, float, int]] = {}
        """Connection -> scheduled time, sending time and kind of its call."""
        self.parts: dict[int, bytes] = {}
        self.shed: Counter[str] = Counter()
        self.retry = 0
        self.expects = [kind.expects for kind in plan.kinds]
        self.refusal = ""

    def connect(self) -> None:
        for _ in range(self.plan.connections):
            made = socket.create_connection(("127.0.0.1", self.plan.port))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setblocking(False)
            self.sockets[made.fileno()] = made
            self.poll.register(made.fileno(), select.EPOLLIN)
            self.free.append(made.fileno())

    def send(self, fd: int, due: float) -> None:
        kind = self.order[self.turn & 0xFFFF]
        self.turn += 1
        made = self.kinds[kind]
        which = self.next[kind]
        self.next[kind] = which + 1 if which + 1 < len(made) else 0
        self.number += 1
        self.under_way[fd] = due, time.monotonic(), kind
        try:
            self.sockets[fd].send((b"%d" % self.number).join(made[which]))
        except OSError:
            self.broken(fd)

    def broken(self, fd: int) -> None:
        self.poll.unregister(fd)
        self.sockets.pop(fd).close()
        found = self.under_way.pop(fd, None)
        if found is not None:
            self.note(*found, BROKEN, time.monotonic())

    def note(self, due: float, sent: float, kind: int, outcome: int, now: float) -> None:
        self.at.append(due)
        self.took.append(now - due)
        self.late.append(sent - due)
        self.kind.append(kind)
        self.outcome.append(outcome)

    def received(self, fd: int) -> bool:
        """Reads from a connection; True if its answer is complete."""
        try:
            data = self.sockets[fd].recv(262_144)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self.broken(fd)
            return False
        if fd in self.parts:
            data = self.parts.pop(fd) + data
        end = data.find(b"\r\n\r\n")
        at = data.find(b"content-length: ", 0, end) + 16
        if end < 0 or len(data) < end + 4 + int(data[at : data.find(b"\r", at)]):
            self.parts[fd] = data
            return False
        due, sent, kind = self.under_way.pop(fd)
        outcome, expected = OK, self.expects[kind]
        failed = data.find(b'"isError":true', len(data) - 200) >= 0 or data[9:12] != b"200"
        if failed or (expected and data.find(expected, end) < 0):
            outcome = FAILED
            if data.find(b'"kind":"shedding"') >= 0:
                outcome = SHED
                code = data.find(b'"code":"') + 8
                self.shed[data[code : data.find(b'"', code)].decode()] += 1
                self.retry += data.find(b"retry-after", 0, end) > 0
            else:
                self.refusal = self.refusal or data[:_REFUSAL_BYTES].decode(errors="replace")
        self.note(due, sent, kind, outcome, time.monotonic())
        return True

    def greet(self) -> None:
        """Makes the server accept every connection, before all are used at once."""
        for fd, one in self.sockets.items():
            one.send(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n\r\n" % self.plan.port)
            answer = b""
            while not answer.endswith(b"}"):  # its body
                if select.select([fd], [], [], 1.0)[0]:
                    answer += one.recv(4_096)

    def warm_up(self) -> None:
        """Every connection makes an unmeasured call, so that the server has cached all heads."""
        began = time.monotonic()
        for fd in list(self.sockets):
            self.send(fd, began)
        while self.under_way and time.monotonic() < began + 30:
            for fd, _ in self.poll.poll(1.0):
                self.received(fd)
        for kept in (self.at, self.took, self.late, self.kind, self.outcome):
            del kept[:]
        self.shed.clear()
        self.retry = 0

    def closed(self) -> float:
        began = time.monotonic()
        end, least = began + self.plan.seconds, len(self.sockets)
        for fd in list(self.sockets):
            self.send(fd, time.monotonic())
        while (now := time.monotonic()) < end or (len(self.outcome) < least and now < end + _LATE_SECONDS):
            time.sleep(_NAP_SECONDS)
            for fd, _ in self.poll.poll(0):
                if self.received(fd):
                    self.send(fd, time.monotonic())
        return began

    def open(self, arrivals: Sequence[float]) -> float:
        poll, free, waiting = self.poll.poll, self.free, self.waiting
        began = time.monotonic() + 0.05
        due, end = iter(arrivals), False
        coming = began + next(due)
        while not end or self.under_way or waiting:
            now = time.monotonic()
            while coming <= now and not end:
                if free:
                    self.send(free.popleft(), coming)
                else:
                    waiting.append(coming)
                following = next(due, None)
                end = following is None
                coming = began + (following or 0.0)
            time.sleep(_NAP_SECONDS)
            for fd, _ in poll(0):
                if self.received(fd):
                    if waiting:
                        self.send(fd, waiting.popleft())
                    else:
                        free.append(fd)
            if end and time.monotonic() > began + arrivals[-1] + 10:
                break
        return began

    def run(self) -> Calls:
        plan = self.plan
        self.connect()
        if plan.at_once:
            self.greet()
        else:
            self.warm_up()
        gc.collect()
        gc.disable()
        print("begins", flush=True)
        seconds = plan.seconds
        if plan.at_once:
            began = self.open([0.0] * plan.connections)
        elif plan.rate:
            pick, due, arrivals = random.Random(plan.seed), 0.0, array("d")
            while due < plan.seconds:
                arrivals.append(due)
                due += pick.expovariate(plan.rate)
            began = self.open(arrivals)
        else:
            began = self.closed()
            seconds = time.monotonic() - began
        at = [moment - began for moment in self.at]
        return Calls(
            began, seconds, at, list(self.took), list(self.late), list(self.kind), list(self.outcome),
            dict(self.shed), len(self.under_way) + len(self.waiting), self.retry, self.refusal,
        )  # fmt: skip


def main() -> None:
    """Runs the plan of the given file."""
    file = Path(sys.argv[1])
    found = _Run(msgspec.json.decode(file.read_bytes(), type=Plan)).run()
    file.with_suffix(".measured").write_bytes(msgspec.msgpack.encode(found))


if __name__ == "__main__":
    main()
