"""The process that supervised processes are forked from: ``python -m`` this module ``<descriptor> <role>...``.

The imports of a front-end take seconds of CPU time. The template imports everything once, and forks a process for each
request on its socket. So a killed process is replaced within a few hundredths of a second, at almost no cost for the
others, and all share the code in memory.

It forks twice: the intermediate process exits at once, and the supervisor, which adopts orphans, becomes the parent of
the new process. So the supervisor can wait for it and signal it like any child, and does not depend on the template.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import socket
import sys
import time
from typing import NoReturn

from coordinator.linux import end_with_parent, name_process
from coordinator.processes.supervision import child

MODULES: dict[str, tuple[str, ...]] = {
    "frontend": ("coordinator.processes.supervision.roles", "coordinator.processes.frontend"),
    "worker": ("coordinator.processes.supervision.roles", "workers.process", "workers.run_kinds"),
}
"""The modules that a role imports. If a module has ``prepare``, it is called too. Neither may start threads or open
files."""

_SLOT_BYTES = 64
_PID_BYTES = 20


def main() -> int:
    """Serves requests until the supervisor closes the socket."""
    supervisor = os.getppid()
    end_with_parent(signal.SIGKILL)
    requests = socket.socket(fileno=int(sys.argv[1]))
    name_process("fleet template")
    # Imports create hardly any garbage, and collections would take a fifth of the time.
    gc.disable()
    for role in sys.argv[2:]:
        for module in MODULES[role]:
            prepare = getattr(importlib.import_module(module), "prepare", None)
            if prepare is not None:
                prepare()
    gc.enable()
    gc.collect()
    gc.freeze()
    # After a timeout, the supervisor has closed the socket.
    with contextlib.suppress(BrokenPipeError):
        requests.send(b"ready")
    while True:
        slot, files, _, _ = socket.recv_fds(requests, _SLOT_BYTES, 3)
        if not slot:
            return 0
        said, says = os.pipe()
        between = os.fork()
        if not between:
            requests.close()
            os.close(said)
            _fork(slot.decode(), files, supervisor, says)
        os.close(says)
        os.waitpid(between, 0)
        # The new process is now the supervisor's child. The answer is empty if the fork failed.
        requests.send(os.read(said, _PID_BYTES))
        for file in (said, *files):
            os.close(file)


def _fork(slot: str, files: list[int], supervisor: int, says: int) -> NoReturn:
    """Runs in the intermediate process: forks the new process, reports its id and exits."""
    between = os.getpid()
    copied = os.fork()
    if copied:
        os.write(says, b"%d" % copied)
        os._exit(0)
    os.close(says)
    os.setsid()
    name_process(f"fleet {slot}")
    while os.getppid() == between:
        time.sleep(0.0005)
    brief, status, control = files
    with open(brief, "rb") as told:
        text = told.read()
    code = 1
    try:
        code = child.run(text, supervisor, status, control)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Exits here, so that none of the template's own code runs in this process.
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
