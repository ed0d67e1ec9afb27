"""A process full of agents: ``python -m coordinator.cli.demo.agent_process``, started by the demo only.

The SDK's client takes far more CPU than the fleet, so that one process could not carry 200 of
them. A process ends by itself when the demo does: its stdin ends then.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections import Counter

import anyio
import msgspec
import uvloop

from coordinator.cli.demo.agent import Agent, Crash
from coordinator.cli.demo.calls import Caller, Endpoint, Refused
from coordinator.cli.demo.messages import Orders, Progress, encoded
from coordinator.client.retries import Retryable

_PROGRESS_SECONDS = 0.25
_LAST_SECONDS = 10.0
"""How long agents may finish their items after they are told to stop."""
_MAX_FAILURES = 5
_CAREFUL = 25
"""One in this many agents checks every answer against its published schema."""


class AgentProcess:
    """The agents of this process."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._endpoint = Endpoint(orders.url, float(orders.agents), orders.behaviour.wait_ms / 1000)
        self._stop = asyncio.Event()
        self._counts: Counter[str] = Counter()
        self._crashes: list[Crash] = []
        self._failures: list[str] = []

    async def run(self, stdin: asyncio.StreamReader) -> None:
        """Runs the agents until stdin ends."""
        agents = [
            asyncio.create_task(self._live(number))
            for number in range(self._orders.first, self._orders.first + self._orders.agents)
        ]
        progress = asyncio.create_task(self._tell())
        await stdin.read()
        self._stop.set()
        _, late = await asyncio.wait(agents, timeout=_LAST_SECONDS)
        for task in late:
            task.cancel()
        await asyncio.gather(*agents, return_exceptions=True)
        progress.cancel()
        await asyncio.gather(progress, return_exceptions=True)
        self._write(over=True)

    async def _live(self, number: int) -> None:
        """Runs an agent under this number. If it crashes, another one with another id replaces it."""
        life = ended = 0
        while not self._stop.is_set() and len(self._failures) < _MAX_FAILURES:
            life += 1
            name = f"agent-{number}" + (f".{life}" if life > 1 else "")
            rng = random.Random(f"{self._orders.seed}:{name}")
            try:
                careful = number % _CAREFUL == 1
                async with Caller(self._endpoint, careful) as caller:
                    agent = Agent(name, caller, self._orders.behaviour, rng, self._stop, self._counts)
                    crash = await agent.run()
                if crash is not None:
                    self._crashes.append(crash)
            except Retryable:
                # Nobody answered for a long time; the next life tries again.
                self._counts["never_connected"] += 1
            except Refused as refusal:
                self._failures.append(f"{name}: {refusal}")
            except anyio.BrokenResourceError as error:
                # The SDK's client ends so when the answer to a call comes that was given up. The next life has another
                # client; what this one held comes back by itself.
                if self._stop.is_set():
                    break
                self._endpoint.meter.retries["client ended"] += 1
                ended += 1
                if ended > _MAX_FAILURES:
                    self._failures.append(f"{name}: {_told(error)}")
            except Exception as error:
                self._failures.append(f"{name}: {_told(error)}")

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            self._write()

    def _write(self, over: bool = False) -> None:
        progress = Progress(
            latencies=self._endpoint.meter.take(),
            retries=dict(self._endpoint.meter.retries),
            counts=dict(self._counts),
            crashes=self._crashes[:],
            failures=self._failures[:],
            over=over,
        )
        for told in (self._endpoint.meter.retries, self._counts, self._crashes):
            told.clear()
        try:
            sys.stdout.buffer.write(encoded(progress))
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # The demo is gone; stdin ends as well.
            self._stop.set()


def _told(error: BaseException) -> str:
    """The message of an exception; for a group, the messages of its exceptions."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_told(one) for one in error.exceptions)
    return f"{type(error).__name__}: {error}"


async def _run() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    said = await reader.readline()
    if said:  # else the demo ended before there was anything to do
        await AgentProcess(msgspec.json.decode(said, type=Orders)).run(reader)


def main() -> None:
    """Runs what stdin orders."""
    # The client logs what the agents handle.
    logging.disable(logging.CRITICAL)
    uvloop.run(_run())


if __name__ == "__main__":
    main()
