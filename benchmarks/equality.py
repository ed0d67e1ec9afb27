"""Does the fast path ever answer differently from the SDK's server behind it?

Sends requests to two fronts, one with the fast path and one without, and compares status,
headers and the meaning of the body (tests/transport/fuzz.py generates the requests: valid ones of
both protocol eras, mutated in their headers, envelope, arguments or bytes). Prints how many the
fast path answered itself and every difference. Each process takes a share with its own seeds. The
exit code is 1 if there is a difference or the fast path answered too few.

    python -m benchmarks equality [REQUESTS] [PROCESSES] [SEED]
    python -m benchmarks equality 100000        # the number of the goal
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from benchmarks.support import Failed, Missed, console, table
from coordinator.wording import counted
from tests.transport import fuzz

GOAL = 0.4
SHOWN = 10


def _part(count: int, seed: int) -> fuzz.Report:
    return asyncio.run(fuzz.run(count, seed))


def main(requests: str = "4000", processes: str = "2", seed: str = "1") -> None:
    """Compares and prints.

    Raises:
        Failed: there is a difference.
        Missed: the fast path answered less than the goal.
    """
    parts, first = int(processes), int(seed)
    shares = [int(requests) // parts + (n < int(requests) % parts) for n in range(parts)]
    began = time.perf_counter()
    if parts == 1:
        reports = [_part(shares[0], first)]
    else:
        with ProcessPoolExecutor(parts, multiprocessing.get_context("spawn")) as pool:
            reports = list(pool.map(_part, shares, range(first, first + parts)))
    seconds = time.perf_counter() - began
    cases, hits = sum(report.cases for report in reports), sum(report.hits for report in reports)
    differences = [text for report in reports for text in report.differences]
    statuses = sum((report.statuses for report in reports), Counter[int]())
    table(
        f"Fast path against the SDK's server, seeds {first} to {first + parts - 1}, {seconds:.0f} s",
        ("requests", "by the fast path", "differences", "statuses"),
        [(f"{cases:,}", f"{hits / cases:.1%}", len(differences),
          ", ".join(f"{status}: {count:,}" for status, count in statuses.most_common()))],
    )  # fmt: skip
    for text in differences[:SHOWN]:
        console.print(text, markup=False)
    console.print(f"goals: 0 differences, at least {GOAL:.0%} by the fast path\n")
    said = f"{counted(len(differences), 'difference')}, {hits / cases:.1%} by the fast path"
    if differences:
        raise Failed(said)
    if hits / cases < GOAL:
        raise Missed(said)
