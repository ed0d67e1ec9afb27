"""``fleet`` with a life bound to another process: ``python -m coordinator.cli.demo.tied LOG up ...``.

Whoever starts it holds the other end of its stdin. When that closes, in whatever way the
holder ended, this process gets the SIGTERM that lets it stop in order. What it has to say on stderr
goes to the file LOG.
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
