"""A worker with a plain job that lasts until a file appears: ``slow_step.py READY RELEASE``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import workers.steps
from coordinator.metrics import logs
from coordinator.settings import load_settings
from tests.support.wait import wait_until_sync
from workers.process import WorkerProcess
from workers.run_kinds import make_run_kinds


def wait_for_release() -> str:
    """The job."""
    Path(sys.argv[1]).write_text("the job runs")
    wait_until_sync(Path(sys.argv[2]).exists, what="the release")
    return "done"


if __name__ == "__main__":
    workers.steps.STEPS["slow"] = wait_for_release
    logs.configure("info", "json")
    WorkerProcess(load_settings({}, os.environ, None).settings, "w-9", make_run_kinds, lambda: None).run()
