"""A worker with the protocol of an earlier release: ``old_worker.py SLOT``, settings from the environment."""

from __future__ import annotations

import os
import sys

from coordinator.metrics import logs
from coordinator.settings import load_settings
from coordinator.steps import times
from workers.process import WorkerProcess
from workers.run_kinds import make_run_kinds

if __name__ == "__main__":
    times.PROTOCOL = 0
    logs.configure("info", "json")
    settings = load_settings({}, os.environ, None).settings
    WorkerProcess(settings, sys.argv[1], make_run_kinds, lambda: print("ready", flush=True)).run()
