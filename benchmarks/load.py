"""Load over HTTP: plans that a generator (``openloop``) runs in a process of its own, and the claims that several
benchmarks measure: agents over keep-alive connections, each of which renews its claim again and again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from benchmarks.openloop import NUMBER, OK, REQUEST_ID, Calls, Kind, Plan, request
from benchmarks.support import PATIENCE, Failed, Process, cpu_us, folder, milliseconds, running

CONNECTIONS = 32
CLAIMED = b'"outcome":"success"'
_ID = "00000000-0000-7000-8000-000000000001"
_TURN = {
    "session_id": _ID, "thread_id": _ID, "model": "gpt-5", "turn_id": _ID, "turn_started_at_unix_ms": 1790000000000,
    "thread_source": "user", "turn_trigger": "exec", "sandbox": "none", "sandbox_mode": "danger-full-access",
    "auto_review_enabled": False, "node_repl_auto_review_required": False, "node_repl_disabled": False,
    "codex_version": "0.169.0",
}  # fmt: skip
_OF_HOST: dict[str, Any] = {
    "callId": f"call_Example{REQUEST_ID[-12:]}", "x-codex-turn-metadata": _TURN, "threadId": _ID, "sessionId": _ID,
    "windowId": f"{_ID}:0", "itemId": "fc_1", "progressToken": NUMBER,
}  # fmt: skip
"""What Codex adds to ``_meta``, some of it new in each call."""


class Generator:
    """A generator that runs a plan."""

    def __init__(self, process: Process, file: Path, seconds: float) -> None:
        self._process, self._file, self._seconds = process, file, seconds

    @property
    def works(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def measured(self) -> Calls:
        """Waits for its end; the results.

        Raises:
            Failed: it failed, or a connection was lost.
        """
        if code := self._process.wait(self._seconds + PATIENCE):
            raise Failed(f"the generator ended with {code}")
        return msgspec.msgpack.decode(self._file.with_suffix(".measured").read_bytes(), type=Calls)


@contextlib.contextmanager
def generating(plan: Plan) -> Iterator[Generator]:
    """Runs a plan. The block begins with the load."""
    with folder() as home:
        file = home / "plan.json"
        file.write_bytes(msgspec.json.encode(plan))
        with running("benchmarks.openloop", str(file), ready=b"begins") as process:
            yield Generator(process, file, plan.seconds)


class Server(NamedTuple):
    """A server of ``claim_item``: one or several processes on one port."""

    name: str
    port: int
    pids: Sequence[int]
    path: str = "/mcp/items"
    wire: Literal["modern", "legacy", "host"] = "modern"
    """``host``: modern, with a host's own keys in ``_meta``."""
    tokens: Sequence[str] = ()
    """Bearer tokens of the agents."""
    proofs: Sequence[str] = ()
    """Proofs of the agents."""
    expects: bytes = CLAIMED
    """What each answer contains."""


class Run(NamedTuple):
    """One run against one server."""

    per_second: float
    p99_ms: float
    cpu_us: float
    """CPU time of the server's processes per request."""
    requests: int


FIGURES = {"per_second": 0, "p99_ms": 2, "cpu_us": 1}
"""Of a run, with the digits to print."""


def agent(number: int) -> str:
    """The name of an agent, from 1."""
    return f"agent-{number}"


def _claims(server: Server, items: Sequence[str]) -> Kind:
    requests = []
    for number, item in enumerate(items):
        actor = {"id": agent(number + 1), "kind": "subagent"}
        if server.proofs:
            actor["proof"] = server.proofs[number]
        arguments = {"actor": actor, "requestId": REQUEST_ID, "claims": [{"itemId": item, "ttlSeconds": 900}]}
        signed = f"authorization: Bearer {server.tokens[number]}\r\n" if server.tokens else ""
        meta, legacy = _OF_HOST if server.wire == "host" else {}, server.wire == "legacy"
        requests.append(
            request(server.port, "claim_item", arguments, server.path, meta=meta, legacy=legacy, more=signed)
        )
    return Kind("claim_item", 1, tuple(requests), server.expects)


def measure(server: Server, items: Sequence[str], seconds: float, meanwhile: Callable[[], object] = tuple) -> Run:
    """One run against one server: each item is claimed by an agent of its own.

    Args:
        meanwhile: is called while the load runs.

    Raises:
        Failed: a call was answered with an error, or other than expected, or there were no answers.
    """
    with generating(Plan(server.port, CONNECTIONS, (_claims(server, items),), seconds)) as generator:
        before = sum(map(cpu_us, server.pids))
        meanwhile()
        calls = generator.measured()
        spent = sum(map(cpu_us, server.pids)) - before
    count = len(calls.outcome)
    if not count or calls.outcome.count(OK) < count:
        wrong = count - calls.outcome.count(OK)
        raise Failed(f"{server.name}: {wrong} of {count} answers are not as expected: {calls.refusal or calls.shed}")
    return Run(count / calls.seconds, milliseconds(calls.took, 0.99), spent / count, count)
