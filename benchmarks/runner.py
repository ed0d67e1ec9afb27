"""What does `fleet run` cost for each item, and for each slot?

A runner with one slot completes items whose command is `true`, over one front-end; the time of an item less that of
starting `true` is the overhead: claim, logs, supervisor, note, completion. Then runners whose commands wait show the
memory that runner and supervisors take (PSS: what they share is counted once). The time of a start is told from that
of FEW items.

    python -m benchmarks runner [ROUNDS] [ITEMS] [SLOTS] [FEW]
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from uuid import uuid4

from benchmarks import support
from benchmarks.support import (
    Failed,
    Missed,
    Missing,
    add_items,
    children,
    console,
    embedded,
    folder,
    front_end,
    memory,
    running,
    table,
    until,
    url_of,
)  # fmt: skip

GOAL_MS, GOAL_MB = 60.0, 25.0


def _runner(port: int, tag: str, state: Path, slots: int, items: int, *command: str) -> Sequence[str]:
    words = ["run", "--url", url_of(port), "--tags", tag, "--state-dir", str(state), "--min-free", "0"]
    words += ["--workspace", str(state), "--slots", str(slots), "--max-items", str(items), "--", *command]
    return words


def _seconds(port: int, items: int) -> float:
    """How long a runner takes for so many items, its start included."""
    tag = f"bench-{uuid4().hex[:8]}"
    add_items(port, items, tags=tag)
    with folder() as state, open(state / "output", "w+b") as output, open(os.devnull, "rb") as nothing:
        began = time.perf_counter()
        command = _runner(port, tag, state, 1, items, "true")
        support.start("coordinator", command, os.environ, nothing, output, output).wait(300)
        took = time.perf_counter() - began
        output.seek(0)
        if (said := output.read()).count(b" done after") != items:
            raise Failed(f"not all of {items} items were completed:\n{said.decode()[-2000:]}")
        return took


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
    with folder() as state:
        command = _runner(port, tag, state, slots, slots, "sleep", "300")
        with running("coordinator", *command) as runner:
            until(lambda: len(_working(runner.pid)) == slots, f"{slots} commands are started")
            sizes = _pss(runner.pid), sum(map(_pss, _working(runner.pid)))
            runner.send_signal(signal.SIGTERM)
            runner.send_signal(signal.SIGINT)
            runner.wait(support.PATIENCE)
            return sizes


def _working(pid: int) -> list[int]:
    """The supervisors of a runner whose command has started."""
    return [one for one in children(pid) if children(one)]


def _pss(pid: int) -> float:
    return memory(pid, "Pss:") / 2**20


def main(rounds: str = "3", items: str = "100", slots: str = "8", few: str = "20") -> None:
    """Runs the rounds and prints."""
    if not os.path.exists("/proc/self/smaps_rollup"):
        raise Missing("it needs /proc of Linux")
    count, less, found = int(items), int(few), list[float]()
    with embedded("no") as store, front_end(store.url) as front:
        for _ in range(int(rounds)):
            start = _seconds(front.port, less)
            found.append((_seconds(front.port, less + count) - start) * 1e3 / count)
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
        raise Missed(f"{overhead:.0f} ms per item, {per_slot:.1f} MB per slot")
