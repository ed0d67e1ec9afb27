"""A program that counts calls in a slot, reports that, and waits to be killed: ``DIRECTORY SLOT CALLS``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from coordinator.metrics import Recording, SharedCells, install
from coordinator.transport.calls import count_answer
from coordinator.transport.metrics import INFLIGHT


def main() -> None:
    directory, slot, calls = sys.argv[1:]
    install(Recording(SharedCells(Path(directory), slot), slot))
    INFLIGHT.set(1)
    for _ in range(int(calls)):
        count_answer("claim_item", "ok", "fast", 0.002)
    print("counted", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
