"""How many claim-and-complete cycles does the store do against PostgreSQL, both on disk before each answer?

50 clients each claim the best ready item, by priority, complexity and age, and complete it: two calls and two
commits. Each side does it in two ways:

* the plain work: PostgreSQL updates a row per commit (``UPDATE`` with ``FOR UPDATE SKIP LOCKED`` over a partial
  index), once with statements sent as text, as psycopg2 sends them and pgbench by default, and once with prepared
  statements; the store runs the least scripts that do the same (``lua/plain_claim.lua``, ``plain_complete.lua``):
  the item with holder, end and fence, and the order of those that are ready. Neither has an index of claims' ends;
* with the product's records: the store runs the very scripts of ``claim_item`` and ``advance_item``, with idempotency
  records, fences, leases, ranked indexes, cascades, the event and transition logs; PostgreSQL keeps such records, too
  (``rivals/records.sql``, prepared statements).

PostgreSQL's clients are pgbench, which is written in C, the store's one process of ours on epoll; client and server
share the machine. Rounds take turns; a ratio is the median of the rounds' ratios. PostgreSQL spreads over all cores,
the store is one thread; on a machine that has other work to do only the CPU times mean something. Both listen on Unix
sockets and keep their files under the same temporary folder. Skipped where PostgreSQL is not installed.

    python -m benchmarks postgres [ITEMS] [ROUNDS] [CYCLES] [CLIENTS]
    python -m benchmarks postgres 200000 7 10000
    python -m benchmarks postgres 1000000 5 20000
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.loader import FAMILY, PROJECT, servers
from benchmarks.rivals.cycles import Cycles, FullCalls, PlainCalls
from benchmarks.rivals.postgresql import AS_TEXT, PREPARED, WITH_RECORDS, PostgreSQL, Rate, Workload, postgresql
from benchmarks.server import Server
from benchmarks.support import Failed, console, middle, ratio, table

GOAL = 4.0


class Round(NamedTuple):
    """What one round measured of each side."""

    rows_as_text: Rate
    """PostgreSQL."""
    rows_prepared: Rate
    rows_with_records: Rate
    plain_scripts: Rate
    """The store."""
    scripts_with_records: Rate


def sync_ms(times: int = 200) -> float:
    """What it takes to write a little to the disk that both sides use."""
    waits = []
    with tempfile.TemporaryFile() as file:
        for _ in range(times):
            file.write(b"x" * 512)
            began = time.perf_counter()
            file.flush()
            os.fdatasync(file.fileno())
            waits.append(time.perf_counter() - began)
    return median(waits) * 1000


def main(items: str = "30000", rounds: str = "3", cycles: str = "3000", clients: str = "50") -> None:
    """Runs both and prints."""
    count, many, each, callers = int(items), int(rounds), int(cycles), int(clients)
    ready, needed = count - count // FAMILY, 2 * (many + 1) * each  # one table serves two runs in a round
    if ready < needed:
        raise Failed(f"{many} rounds and one to warm up take {needed} items; there are {ready}")
    with postgresql() as rows, postgresql() as recording, servers(items, fsync="always") as urls:
        rows.fill(count, FAMILY)
        recording.fill(count, FAMILY)
        recording.keep_records()
        url = urls[count]
        plain = PlainCalls("plain")
        plain.fill(url, ready)
        server = Server(url)
        plain_cycles, cycles_of_ours = Cycles(url, plain, callers), Cycles(url, FullCalls(PROJECT), callers)
        found = [
            Round(
                _theirs(rows, callers, each, AS_TEXT),
                _theirs(rows, callers, each, PREPARED),
                _theirs(recording, callers, each, WITH_RECORDS),
                _ours(plain_cycles, server, each),
                _ours(cycles_of_ours, server, each),
            )
            for _ in range(many + 1)
        ][1:]  # the first one warms up
        for side, runs in ((rows, 2), (recording, 1)):
            if (done := side.completed()) != runs * (many + 1) * (each // callers * callers):
                raise Failed(f"PostgreSQL has completed {done} items")
        plain_cycles.close()
        cycles_of_ours.close()
        server.close()
        version = rows.sql("SHOW server_version").strip()
    table(
        f"Claim and complete, {count:,} items, {callers} clients, median of {many} rounds of {each:,} cycles",
        ("side", "cycles/s", "client CPU us/cycle", "server CPU us/cycle"),
        [
            _row(f"PostgreSQL {version}, statements as text", [one.rows_as_text for one in found]),
            _row("PostgreSQL, prepared statements", [one.rows_prepared for one in found]),
            _row("PostgreSQL with the product's records", [one.rows_with_records for one in found]),
            _row("the store, plain", [one.plain_scripts for one in found]),
            _row("the store with the product's records", [one.scripts_with_records for one in found]),
        ],
    )

    def against(ours: str, theirs: str) -> float:
        return ratio([getattr(one, ours) for one in found], [getattr(one, theirs) for one in found], "per_second")

    as_text, prepared = (against("plain_scripts", rows) for rows in ("rows_as_text", "rows_prepared"))
    records, unlike = (against("scripts_with_records", rows) for rows in ("rows_with_records", "rows_prepared"))
    console.print(
        f"cycles/s of the store against PostgreSQL's, plain: {as_text:.2f}x with statements as text (goal {GOAL}x),\n"
        f"{prepared:.2f}x with prepared ones; both with the records {records:.2f}x; the store with them against plain\n"
        f"rows and prepared statements {unlike:.2f}x. One write to this disk takes {sync_ms():.2f} ms\n"
    )


def _theirs(rival: PostgreSQL, clients: int, cycles: int, workload: Workload) -> Rate:
    rival.tidy()
    return rival.cycles(clients, cycles, workload)


def _ours(calls: Cycles, server: Server, cycles: int) -> Rate:
    server.begin()
    return Rate(*calls.run(cycles), 2 * server.cost().cpu_us)


def _row(side: str, rates: Sequence[Rate]) -> tuple[str, ...]:
    return side, *(f"{middle(rates, figure):,.0f}" for figure in Rate._fields)
