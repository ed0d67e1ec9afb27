"""The process that supervised processes are copied from: ``python -m coordinator.cli.template <descriptor> <role>...``.

What a front-end needs takes seconds of CPU time to import. The template imports it once,
before anything runs, and forks a process for each request on its socket; so a killed
process is back in a few hundredths of a second, at hardly any cost for those that still
live, and the code in memory is shared by all.

A copy does not stay the template's child: the process between them ends at once, and the
supervisor, which adopts orphans, becomes the parent. So the supervisor waits for it and signals
it like any child of its own, and nothing depends on the template's life.
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

from coordinator.cli import child
from coordinator.cli.exits import Exit
from coordinator.cli.linux import end_with_parent, name_process

MODULES: dict[str, tuple[str, ...]] = {
    "frontend": ("coordinator.cli.roles", "coordinator.cli.frontend"),
    "worker": ("coordinator.cli.roles", "workers.process", "workers.run_kinds"),
}
"""What a role imports. A module's ``prepare`` is called too; neither may start threads or open files."""

_SLOT_BYTES = 64
_PID_BYTES = 20


def main() -> int:
    """Serves requests until the supervisor closes the socket."""
    supervisor = os.getppid()
    end_with_parent(signal.SIGKILL)
    requests = socket.socket(fileno=int(sys.argv[1]))
    name_process("fleet template")
    # Hardly any of what is imported is garbage: to look for it again and again would take a fifth of the time.
    gc.disable()
    for role in sys.argv[2:]:
        for module in MODULES[role]:
            prepare = getattr(importlib.import_module(module), "prepare", None)
            if prepare is not None:
                prepare()
    gc.enable()
    gc.collect()
    gc.freeze()
    # Where it took too long nobody waits any more, and nobody asks either.
    with contextlib.suppress(BrokenPipeError):
        requests.send(b"ready")
    while True:
        slot, files, _, _ = socket.recv_fds(requests, _SLOT_BYTES, 3)
        if not slot:
            return Exit.OK
        said, says = os.pipe()
        between = os.fork()
        if not between:
            requests.close()
            os.close(said)
            _fork(slot.decode(), files, supervisor, says)
        os.close(says)
        os.waitpid(between, 0)
        # From now on the copy is the supervisor's child. Nothing is said where there was no room for one.
        requests.send(os.read(said, _PID_BYTES))
        for file in (said, *files):
            os.close(file)


def _fork(slot: str, files: list[int], supervisor: int, says: int) -> NoReturn:
    """Runs in the process between: forks the copy, says which it is and ends."""
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
    code: int = Exit.FAILED
    try:
        code = child.run(text, supervisor, status, control)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else Exit.FAILED
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Past the template's frames: nothing of its own is to run here.
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
