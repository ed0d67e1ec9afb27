"""A ``fleet`` command that stops when its starter ends: ``python -m coordinator.cli.demo.tied LOG up ...``.

The starter holds the other end of its stdin. When that closes, in whatever way the starter ended,
this process sends itself the SIGTERM that lets it stop in order. Its stderr goes to the file LOG.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

from coordinator import cli


def _watch() -> None:
    # Not sys.stdin: a reader that sits in there would keep the interpreter from ending.
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 2)
    os.close(log)
    threading.Thread(target=_watch, name="tie", daemon=True).start()
    sys.exit(cli.run(sys.argv[2:]))
