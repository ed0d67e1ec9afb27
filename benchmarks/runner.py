"""What does `fleet run` cost for each item, and for each slot?

A runner with one slot completes items whose command is `true`, over one front-end; the time of an item less that of
starting `true` is the overhead: claim, logs, supervisor, note, completion. Then runners whose commands wait show the
memory that runner and supervisors take (PSS: what they share is counted once).

    python -m benchmarks runner [ROUNDS] [ITEMS] [SLOTS]
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from uuid import uuid4

from benchmarks.support import Failed, Missing, add_items, console, embedded, front_end, table, url_of

GOAL_MS, GOAL_MB = 60.0, 25.0
_SOME = 20
"""Items by which the time of a start is told from that of items."""


def _runner(port: int, tag: str, state: str, slots: int, items: int, *command: str) -> subprocess.Popen[bytes]:
    words = ["run", "--url", url_of(port), "--tags", tag, "--state-dir", state, "--min-free", "0"]
    words += ["--workspace", state, "--slots", str(slots), "--max-items", str(items), "--", *command]
    return subprocess.Popen([sys.executable, "-m", "coordinator", *words], stdout=subprocess.PIPE)


def _seconds(port: int, items: int) -> float:
    """How long a runner takes for so many items, its start included."""
    tag = f"bench-{uuid4().hex[:8]}"
    add_items(port, items, tags=tag)
    with tempfile.TemporaryDirectory() as state:
        began = time.perf_counter()
        done, _ = _runner(port, tag, state, 1, items, "true").communicate(timeout=300)
        if done.count(b" done after") != items:
            raise Failed(f"not all of {items} items were completed:\n{done.decode()[-2000:]}")
        return time.perf_counter() - began


def _bare(count: int = 50) -> float:
    """Milliseconds in which `true` is started and has ended."""
    began = time.perf_counter()
    for _ in range(count):
        subprocess.run(["true"], check=True)
    return (time.perf_counter() - began) * 1e3 / count


def _memory(port: int, slots: int) -> tuple[float, float]:
    """MB of a runner, and of all its supervisors, while all its slots work."""
    tag = f"bench-{uuid4().hex[:8]}"
    add_items(port, slots, tags=tag)
    with tempfile.TemporaryDirectory() as state:
        runner = _runner(port, tag, state, slots, slots, "sleep", "300")
        try:
            deadline = time.monotonic() + 60
            while len(supervisors := _working(runner.pid)) < slots:
                if time.monotonic() > deadline:
                    raise Failed(f"only {len(supervisors)} of {slots} commands were started")
                time.sleep(0.05)
            return _pss(runner.pid), sum(map(_pss, supervisors))
        finally:
            runner.send_signal(signal.SIGTERM)
            runner.send_signal(signal.SIGINT)
            runner.communicate(timeout=60)


def _working(pid: int) -> list[int]:
    """The supervisors of a runner whose command has started."""
    return [one for one in _children(pid) if _children(one)]


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _pss(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def main(rounds: str = "3", items: str = "100", slots: str = "8") -> None:
    """Runs the rounds and prints."""
    if not os.path.exists("/proc/self/smaps_rollup"):
        raise Missing("it needs /proc of Linux")
    count, found = int(items), []
    with embedded("no") as store, front_end(store.url) as front:
        for _ in range(int(rounds)):
            start = _seconds(front.port, _SOME)
            found.append((_seconds(front.port, _SOME + count) - start) * 1e3 / count)
        bare = _bare()
        sizes = {number: _memory(front.port, number) for number in (1, int(slots))}
    overhead = median(found) - bare
    table(
        f"Items whose command is `true`: {count}, median of {rounds} rounds",
        ("", "ms"),
        [["an item", f"{median(found):.1f}"], ["starting `true`", f"{bare:.1f}"], ["overhead", f"{overhead:.1f}"]],
    )
    rows = [
        [str(number), f"{runner:.1f}", f"{below:.1f}", f"{(runner + below) / number:.1f}"]
        for number, (runner, below) in sizes.items()
    ]
    table("Memory while commands run, in MB", ("slots", "runner", "supervisors", "per slot"), rows)
    per_slot = sum(sizes[int(slots)]) / int(slots)
    console.print(
        f"{overhead:.0f} ms per item and {per_slot:.1f} MB per slot; goals: <= {GOAL_MS:.0f} and {GOAL_MB:.0f}\n"
    )
    if overhead > GOAL_MS or per_slot > GOAL_MB:
        raise Failed(f"{overhead:.0f} ms per item, {per_slot:.1f} MB per slot")
