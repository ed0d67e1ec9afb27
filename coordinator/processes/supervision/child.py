"""One supervised process: a fork of the template, or ``python -m`` this module ``<slot> <status> <control>``.

It gets its brief in a file (or on stdin, if there is no template). So every process runs with exactly the settings that
the supervisor has checked, and no password appears in a process listing. The slot is on the command line for people
who read process listings; the other arguments are file descriptors.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import structlog

from coordinator.processes.errors import ProcessProblem
from coordinator.processes.supervision.brief import Brief
from coordinator.processes.supervision.lifecycle import SupervisedLifecycle


def run(text: bytes, parent: int, status: int, control: int) -> int:
    """Runs the role in a brief, and returns the exit code.

    Args:
        text: the brief, as JSON.
        parent: process id of the supervisor.
        status: descriptor that reports are written to.
        control: descriptor that the outcomes of reloads are read from.
    """
    brief = msgspec.json.decode(text, type=Brief)
    lifecycle = SupervisedLifecycle(parent, status, control, brief.refused_reload)
    # Imported only now, when the child is tied to its supervisor, because it takes a second.
    from coordinator.processes.supervision import roles

    try:
        roles.run(brief.role, brief.slot, brief.settings, Path(brief.metrics_dir), lifecycle)
    except ProcessProblem as error:
        lifecycle.failed(error.kind, str(error))
        return 1
    except Exception as error:
        structlog.get_logger(__name__).exception("process failed")
        lifecycle.failed("failed", f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.stdin.buffer.read(), os.getppid(), int(sys.argv[2]), int(sys.argv[3])))
