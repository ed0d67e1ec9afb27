"""How many claim-and-complete cycles does the store do against PostgreSQL, both on disk before each answer?

50 clients each claim the best ready item, by priority, complexity and age, and complete it: two
calls and two commits. PostgreSQL gets one row update per commit (``FOR UPDATE SKIP LOCKED`` over
a partial index, prepared statements) from pgbench, which is written in C. The store gets the
very scripts of ``claim_item`` and ``advance_item``, with idempotency records, fences, leases, ranked
indexes, cascades, the event and transition logs, from one process of ours on epoll, whose cost
per cycle is printed next to pgbench's: client and server share the machine. Then PostgreSQL has
to keep such records too (``rivals/records.sql``). Rounds take turns; a ratio is the median of
the rounds' ratios. PostgreSQL spreads over all cores, the store is one thread; on a machine that
has other work to do only the CPU times mean something.
Both listen on Unix sockets and keep their files under the same temporary folder. Skipped where
PostgreSQL is not installed.

    python -m benchmarks postgres [ITEMS] [ROUNDS] [CYCLES] [CLIENTS]
    python -m benchmarks postgres 200000 7 20000
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
from benchmarks.rivals.cycles import Cycles
from benchmarks.rivals.postgresql import CLAIM_AND_COMPLETE, WITH_RECORDS, Rate, postgresql
from benchmarks.server import Server
from benchmarks.support import console, table

GOAL = 4.0


class Round(NamedTuple):
    """What one round measured of each side."""

    plain: Rate
    recording: Rate
    """PostgreSQL with the store's records."""
    ours: Rate


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


def main(items: str = "20000", rounds: str = "3", cycles: str = "3000", clients: str = "50") -> None:
    """Runs both and prints."""
    count, many, each, callers = int(items), int(rounds), int(cycles), int(clients)
    ready = count - count // FAMILY
    if ready < (many + 1) * each:
        raise SystemExit(f"{many} rounds and one to warm up take {(many + 1) * each} items; there are {ready}")
    with postgresql() as rival, postgresql() as recording, servers([count], fsync="always") as started:
        rival.fill(count, FAMILY)
        recording.fill(count, FAMILY)
        recording.keep_records()
        server = Server(started[count].url)
        ours = Cycles(started[count].url, PROJECT, callers)
        found: list[Round] = []
        for number in range(many + 1):
            rival.tidy()
            recording.tidy()
            theirs = rival.cycles(callers, each, CLAIM_AND_COMPLETE)
            recorded = recording.cycles(callers, each, WITH_RECORDS)
            server.begin()
            made = Rate(*ours.run(each), 2 * server.cost().cpu_us)
            if number:
                found.append(Round(theirs, recorded, made))
        ours.close()
        server.close()
        version = rival.sql("SHOW server_version").strip()
    table(
        f"Claim and complete, {count:,} items, {callers} clients, median of {many} rounds of {each:,} cycles",
        ("side", "cycles/s", "client CPU us/cycle", "server CPU us/cycle"),
        [
            _row(f"PostgreSQL {version}, pgbench", [one.plain for one in found]),
            _row("the same with the store's records", [one.recording for one in found]),
            _row("the store's scripts", [one.ours for one in found]),
        ],
    )
    plain = median([one.ours.per_second / one.plain.per_second for one in found])
    equal = median([one.ours.per_second / one.recording.per_second for one in found])
    console.print(
        f"{plain:.2f}x PostgreSQL (goal >= {GOAL}x), {equal:.2f}x with the same records; "
        f"one write to this disk takes {sync_ms():.2f} ms\n"
    )


def _row(side: str, rates: Sequence[Rate]) -> tuple[str, ...]:
    columns = zip(*rates, strict=True)
    return side, *(f"{median(list(column)):,.0f}" for column in columns)
