"""A worker process with a step that lasts until a file appears: ``slow_step.py URL READY RELEASE``."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from redis import Redis

import workers.steps
from coordinator.store.address import parse
from tests.support.wait import wait_until_sync
from workers.worker import StepWorker


def wait_for_release() -> str:
    """The step."""
    Path(sys.argv[2]).write_text("the step runs")
    wait_until_sync(Path(sys.argv[3]).exists, 30, "the release")
    return "done"


if __name__ == "__main__":
    workers.steps.STEPS["slow"] = wait_for_release
    worker = StepWorker(Redis(**parse(sys.argv[1]).client_options()), "w-9")
    signal.signal(signal.SIGTERM, lambda number, frame: worker.stop())
    worker.run(lambda: None)
