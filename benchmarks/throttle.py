"""Pauses processes, so that each runs only a share of the time, in turn: ``python -m benchmarks.throttle PID...``.

Each process runs ``RUN_MS`` of ``PERIOD_MS``, evenly spread, so that they do not compete for cores. They go on when
this one is ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

PERIOD_MS = 20.0
RUN_MS = 3.0


def main() -> None:
    """Runs until SIGTERM."""
    pids = [int(one) for one in sys.argv[1:]]
    ends: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ends.append(number))
    with contextlib.suppress(PermissionError):  # a late pause would make its share larger
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    turns = sorted(
        (at / 1000, number, pid)
        for place, pid in enumerate(pids)
        for at, number in (
            (PERIOD_MS * place / len(pids), signal.SIGCONT),
            (PERIOD_MS * place / len(pids) + RUN_MS, signal.SIGSTOP),
        )
    )
    print("ready", flush=True)
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        while not ends:
            for after, number, pid in turns:
                time.sleep(max(0.0, began + after - time.monotonic()))
                os.kill(pid, number)
            began += PERIOD_MS / 1000
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


if __name__ == "__main__":
    main()
