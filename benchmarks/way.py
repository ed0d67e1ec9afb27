"""How many files and functions does one call pass on its way, in Python and in Lua?

Makes each call some times over a front-end's fast path, in this process, from the bytes of its body to those of the
answer, on a store of its own. What runs in each round after the first ones, when everything is warm, counts:

- functions of the product in Python: how many, in how many files, how often they are called, and how often one is
  called that is in another file than the one called before it (moves). Comprehensions are not among them, because newer
  Pythons make no functions of them, nor is what is behind a cache or called by a timer. Admission is left out, because
  it is the same for every call, and so is what HTTP does before and after.
- the same in Lua, by a counter at the beginning of each function of the items' library. Apart from that, it is the
  library of the product, loaded under its name.
- commands of the server (``INFO commandstats``), with those that Lua calls.

The counts do not depend on the machine, so a test asserts bounds for them (``BOUNDS``). Where ``valgrind`` is
installed, the server's instructions are counted, too, in further rounds on a server under callgrind with the product's
own library: those of the functions that a call runs, with the C library's allocator.

    python -m benchmarks way [CALL]
    python -m benchmarks way "claim_item by id"      # also lists the functions of this call, in order
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Self
from uuid import uuid4

import msgspec

import coordinator
from benchmarks.callgrind import Callgrind
from benchmarks.server import Server
from benchmarks.support import Failed, Missed, console, embedded, folder, optional, table
from coordinator.identity.actors.callers import trusting_callers
from coordinator.identity.actors.resolver import Actors
from coordinator.processes.authentication import build_authenticator
from coordinator.settings import Settings
from coordinator.store import Store
from coordinator.toolsets.items.store.base import LIBRARY
from coordinator.toolsets.items.tools import claim_services
from coordinator.toolsets.items.tools import toolset as items_toolset
from coordinator.toolsets.tool import AGENT_HEADER, Services
from coordinator.toolsets.worker.tools import toolset as worker_toolset
from coordinator.transport import FrontEnd
from coordinator.transport.fast_path.calls import ParsedCall, Plan
from coordinator.transport.http.parts import Parts
from tests.transport.rig import modern, send

BOUNDS = {
    "claim_item by id": (43, 92, 13),
    "claim_item by selector": (53, 132, 16),
    "advance_item": (45, 118, 10),
    "work_next": (71, 201, 23),
    "work_done": (50, 122, 17),
    "get_context": (38, 82, 3),
}
"""Call -> the most files and functions that it may pass, Python and Lua together, and commands of the server."""
_ROUNDS, _WARM = 5, 1
"""How often each call is made, and how often before it counts."""
_DEADLINE_MS = 120_000
"""So long that no timer is due meanwhile."""
_ROOT = f"{Path(coordinator.__file__).parent}/"
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
_AGENT, _TAG = "way-1", "way"
_ACTOR = {"id": _AGENT, "kind": "subagent"}
_FUNCTION = re.compile(r"\bfunction\b ?([\w.]*)\([\w, .]*\)")
_READ = "way"
"""The function of the instrumented library that tells which functions have run since it was called last."""


class Step(NamedTuple):
    """A function that was called."""

    file: str
    name: str


class Way(NamedTuple):
    """What one call has passed."""

    python: Sequence[Step]
    lua: Sequence[Step]
    commands: int
    """Of the server."""
    instructions: int
    """Of the server's functions; 0: not counted."""

    @property
    def size(self) -> tuple[int, int, int]:
        """Files and functions, Python and Lua together, and commands."""
        steps = {*self.python, *self.lua}
        return len({step.file for step in steps}), len(steps), self.commands


class _Profile:
    """Notes the product's functions that begin while it is entered, once for each call of a coroutine or generator."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._frames: set[FrameType] = set()
        self._cached = {
            value.__wrapped__.__code__
            for name, module in [*sys.modules.items()]
            if name.startswith("coordinator.")
            for value in vars(module).values()
            if isinstance(value, functools._lru_cache_wrapper)
        }

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name in _COMPREHENSIONS or code in self._cached or frame in self._frames:
            return
        if code.co_filename.startswith(_ROOT):
            self._frames.add(frame)
            file = code.co_filename.removeprefix(_ROOT)
            self.steps.append(Step(file, f"{code.co_qualname}:{code.co_firstlineno}"))


class _Library:
    """The items' library with a counter at the beginning of each function, in a server."""

    def __init__(self, server: Server) -> None:
        self._client = server.client
        self._steps: list[Step] = []
        lines = LIBRARY.text.splitlines()
        counted = [self._counted(line, origin) for line, origin in zip(lines, LIBRARY.origins, strict=True)]
        counted[0] += "\nlocal way={}"
        counted.append(f"r('{_READ}',{{}},function() local told=way way={{}} return told end)")
        self._client.function_load("\n".join(counted))

    def _counted(self, line: str, origin: str) -> str:
        """A line of the library in which each function notes that it begins; what was made by the loader does not."""
        file, _, number = origin.rpartition(":")
        if not file:
            return line

        def count(found: re.Match[str]) -> str:
            self._steps.append(Step(file, f"{found[1] or 'function'}:{number}"))
            return f"{found[0]} way[#way+1]={len(self._steps) - 1} "

        return _FUNCTION.sub(count, line)

    def steps(self) -> list[Step]:
        """The functions that have run since it was called last."""
        return [self._steps[number] for number in self._client.fcall(LIBRARY.function(_READ), 0)]


class _Caller:
    """Calls tools over the fast path of a front-end, and notes the ways."""

    def __init__(self, front: FrontEnd, server: Server, counter: _Library | Callgrind) -> None:
        self._front, self._server, self._counter = front, server, counter
        self.ways: dict[str, list[Way]] = {name: [] for name in BOUNDS}

    async def call(self, toolset: str, tool: str, way: str = "", **arguments: Any) -> dict[str, Any]:
        """The structured content of the answer.

        Args:
            way: the name under which the way is noted; '': it is not.

        Raises:
            Failed: the fast path does not take the call, or its answer is a failure.
        """
        head, body = modern("tools/call", {"name": tool, "arguments": arguments}, **{AGENT_HEADER: _AGENT})
        plan = await self._plan(f"/mcp/{toolset}", head)
        self._counted()
        if not isinstance(self._counter, Callgrind):  # each command's statistics are made anew then: many instructions
            self._server.begin()
        with _Profile() as profile:
            answer = await self._answer(plan, body)
        if way:
            commands = self._server.commands()
            self.ways[way].append(Way(profile.steps, *self._counted(commands)))
        result: dict[str, Any] = msgspec.json.decode(answer)["result"]
        if result["isError"]:
            raise Failed(f"{tool}: {result['content'][0]['text']}")
        content: dict[str, Any] = result["structuredContent"]
        return content

    async def claim(self, way: str, **entry: Any) -> dict[str, Any]:
        """Claims an item; the claim's result."""
        asked = {"claims": [entry], "actor": _ACTOR, "requestId": str(uuid4())}
        claimed: dict[str, Any]
        (claimed,) = (await self.call("items", "claim_item", way, **asked))["claimResults"]
        if claimed["outcome"] != "success":
            raise Failed(f"a claim failed: {claimed}")
        return claimed

    async def advance(self, trigger: str, claimed: dict[str, Any], way: str = "") -> None:
        """Applies a trigger to a claimed item."""
        transition = {
            "itemId": claimed["itemId"], "trigger": trigger, "actor": _ACTOR, "fenceToken": claimed["fenceToken"]
        }  # fmt: skip
        asked = {"transitions": [transition], "requestId": str(uuid4())}
        (result,) = (await self.call("items", "advance_item", way, **asked))["results"]
        if not result["applied"]:
            raise Failed(f"a transition failed: {result}")

    def _counted(self, commands: int = 0) -> tuple[list[Step], int, int]:
        """What has run in the server since it was called last: functions in Lua, commands, instructions."""
        if isinstance(self._counter, Callgrind):
            return [], commands, self._counter.instructions()
        return self._counter.steps(), commands, 0

    def forget(self) -> None:
        """Forgets the ways so far."""
        self.ways = {name: [] for name in self.ways}

    async def _answer(self, plan: Plan, body: bytes) -> bytes:
        """As a connection answers a request whose head it knows."""
        parsed = self._front.fast_path.parse(plan, body)
        if not isinstance(parsed, ParsedCall):
            raise Failed(f"the fast path declines a call: {parsed}")
        entered = self._front.enter(parsed, plan, None)
        if not isinstance(entered, tuple):
            raise Failed(f"a call was shed: {entered.body.decode()}")
        return (await self._front.call(parsed, *entered)).body

    async def _plan(self, path: str, head: Sequence[tuple[str, str]]) -> Plan:
        headers = [(name.lower().encode(), value.encode()) for name, value in head]
        scope = {"path": path, "method": "POST", "headers": headers}
        plan = self._front.fast_path.plan(scope)
        if plan == "host":  # the first request: the guards have not admitted it yet
            await send(self._front, path=path, headers=head)
            plan = self._front.fast_path.plan(scope)
        if not isinstance(plan, Plan):
            raise Failed(f"the fast path declines a head: {plan}")
        return plan


@contextlib.asynccontextmanager
async def _served(url: str) -> AsyncIterator[FrontEnd]:
    """A front-end over a store, as ``fleet serve`` makes one."""
    settings = Settings(toolsets=("items", "worker"), request_deadline_ms=_DEADLINE_MS)
    async with contextlib.AsyncExitStack() as stack:
        store = Store(url, _DEADLINE_MS)
        await store.open()
        stack.push_async_callback(store.close)
        actors = Actors(settings.actor_authentication, store)
        stack.push_async_callback(actors.stop)
        authenticator = build_authenticator(settings, store)
        stack.push_async_callback(authenticator.stop)
        services = Services(settings, store, trusting_callers(actors.resolve))
        claiming = claim_services(services)
        toolsets = {one.name: one for one in (items_toolset(services, claiming), worker_toolset(services, claiming))}
        for toolset in toolsets.values():
            stack.push_async_callback(toolset.service.stop)
        yield FrontEnd(Parts(settings, store, toolsets, authenticator=authenticator))


async def _rounds(caller: _Caller) -> None:
    for number in range(_WARM + _ROUNDS):
        if number == _WARM:
            caller.forget()
        made = await caller.call("items", "manage_items", operation="create", items=[{"title": "n", "tags": _TAG}] * 3)
        item = made["items"][0]["id"]
        claimed = await caller.claim("claim_item by id", itemId=item, ttlSeconds=60)
        await caller.advance("start", claimed, "advance_item")
        await caller.call("items", "get_context", "get_context", itemId=item)
        await caller.advance("complete", claimed)
        claimed = await caller.claim("claim_item by selector", selector={"tags": _TAG})
        await caller.advance("start", claimed)
        await caller.advance("complete", claimed)
        await caller.call("worker", "work_next", "work_next", waitMs=0)
        await caller.call("worker", "work_done", "work_done")


def ways(url: str, callgrind: Callgrind | None = None) -> dict[str, Way]:
    """The way of each call on an empty store.

    Args:
        callgrind: under which the server runs: its instructions are counted, in place of functions in Lua.
    """

    async def measure() -> dict[str, list[Way]]:
        server = Server(url)
        counter = callgrind or _Library(server)
        async with _served(url) as front:
            caller = _Caller(front, server, counter)
            await _rounds(caller)
        server.close()
        return caller.ways

    return {name: _common(found) for name, found in asyncio.run(measure()).items()}


def _common(found: Sequence[Way]) -> Way:
    """What the ways of several rounds have in common."""
    first = min(found, key=lambda way: len(way.python))
    python = set(first.python).intersection(*(way.python for way in found))
    lua = set(first.lua).intersection(*(way.lua for way in found))
    return Way(
        [step for step in first.python if step in python],
        [step for step in first.lua if step in lua],
        min(way.commands for way in found),
        min(way.instructions for way in found),
    )


def beyond(found: dict[str, Way]) -> str:
    """Which calls pass more than their bounds; '': none."""
    return "; ".join(
        "{}: {} files, {} functions, {} commands".format(name, *way.size)
        for name, way in found.items()
        if any(one > most for one, most in zip(way.size, BOUNDS[name], strict=True))
    )


def _counted(steps: Sequence[Step]) -> tuple[int, int, int, int]:
    """Files, functions, calls and moves."""
    moves = sum(one.file != other.file for one, other in pairwise(steps))
    return len({step.file for step in steps}), len(set(steps)), len(steps), moves


def _instructions() -> dict[str, str]:
    """The server's instructions in each call."""
    with folder() as home:
        callgrind = Callgrind(home)
        with embedded("no", callgrind.binary()) as server:
            return {name: f"{way.instructions:,}" for name, way in ways(server.url, callgrind).items()}


def main(call: str = "") -> None:
    """Counts and prints.

    Args:
        call: one of ``BOUNDS``, whose functions are listed.

    Raises:
        Missed: a call passes more than its bounds.
    """
    with embedded("no") as server:
        found = ways(server.url)
    if empty := [name for name, way in found.items() if not (way.python and way.lua and way.commands)]:
        raise Failed(f"nothing was counted of {empty[0]}")
    instructions: dict[str, str] = {}
    with optional("instructions"):
        instructions = _instructions()
    rows: list[tuple[object, ...]] = []
    for name, way in found.items():
        rows.append((name, "Python", *_counted(way.python), "", ""))
        rows.append(("", "Lua", *_counted(way.lua), way.commands, instructions.get(name, "")))
        rows.append(("", "both", *way.size[:2], "", "", "", ""))
    table("Ways of calls", ("call", "in", "files", "functions", "calls", "moves", "commands", "instructions"), rows)
    if call:
        for steps in (found[call].python, found[call].lua):
            times = Counter(steps)
            for step in dict.fromkeys(steps):
                console.print(f"{times[step]:>4} {step.file} {step.name}", markup=False)
    if longer := beyond(found):
        raise Missed(longer)
