"""What does the client library cost on top of the calls that it makes?

One agent completes items one after the other, over one front-end, each with one call that ends it, claims the next
and starts it: with ``fleet.jobs`` of ``coordinator.client``, and with the same call written by hand on a socket, with
neither retries nor renewals nor checks. Rounds take turns. Goals are ratios of the agent's own CPU time per item, and
of the time that an item takes.

    python -m benchmarks client [ROUNDS] [ITEMS]
"""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple
from uuid import uuid4

import uvloop

from benchmarks.loop import TAG, Extras, HandWritten
from benchmarks.support import Failed, Missed, add_items, console, embedded, front_end, middle, ratio, table, url_of
from coordinator.client import Fleet

OWN_CPU, ELAPSED = 1.3, 1.1
"""Goals."""
_AS_THE_CLIENT = Extras(claim={"include": ["item", "notes", "results"]})


class Cost(NamedTuple):
    """Microseconds per item."""

    elapsed: float
    own_cpu: float


async def _by_hand(port: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    done = await HandWritten(f"raw-{uuid4()}", reader, writer, extras=_AS_THE_CLIENT).work_by_one_call()
    writer.close()
    return done


async def _by_library(port: int) -> int:
    done = 0
    async with Fleet(url_of(port), token="", project="default") as fleet:
        async for job in fleet.jobs(tags=TAG, wait=False):
            async with job:
                await job.done(next=True)
                done += 1
    return done


def main(rounds: str = "5", items: str = "600") -> None:
    """Runs the rounds and prints."""
    sides = {"written by hand": _by_hand, "coordinator.client": _by_library}
    found: dict[str, list[Cost]] = {name: [] for name in sides}
    with embedded("no") as store, front_end(store.url) as front:
        for number in range(-1, int(rounds)):
            for name, drain in sides.items():
                count = int(items)
                add_items(front.port, count, tags=TAG)
                began, cpu = time.perf_counter(), time.process_time()
                done = uvloop.run(drain(front.port))
                cost = Cost((time.perf_counter() - began) * 1e6 / count, (time.process_time() - cpu) * 1e6 / count)
                if done != count:
                    raise Failed(f"{name}: {done} of {count} items were completed")
                if number >= 0:  # the first round warms up
                    found[name].append(cost)
    raw, ours = found.values()
    elapsed, own = (ratio(ours, raw, figure) for figure in Cost._fields)
    rows = [[name, *(f"{middle(costs, figure):.0f}" for figure in Cost._fields)] for name, costs in found.items()]
    table(f"One call an item: {items} items, median of {rounds} rounds", ("", "us/item", "own CPU us/item"), rows)
    told = f"own CPU {own:.2f}x of the same calls by hand (goal: <= {OWN_CPU}x), time {elapsed:.2f}x (<= {ELAPSED}x)"
    console.print(f"the client's loop: {told}\n")
    if own > OWN_CPU or elapsed > ELAPSED:
        raise Missed(told)
