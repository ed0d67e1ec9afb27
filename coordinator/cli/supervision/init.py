"""What process 1 of a container has to do: pass on signals, and wait for processes that nobody else waits for.

A command that is process 1 itself would do neither: the kernel drops signals that it has no handler for, and orphans
of commands and servers that steps start would stay behind as zombies. So the command runs in a child.
"""

from __future__ import annotations

import os
import signal
import sys

_OWN = {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP", "SIGTTIN", "SIGTTOU"}
"""Of faults of this process, and of its writing to a terminal: nothing to pass on."""
_BY_THE_KERNEL = 0x80
"""The origin (``si_code``) of what a terminal sends, which the child gets as well."""


def run_below() -> None:
    """Returns at once, but in process 1: there it returns in a child, and process 1 ends as that child does.

    Must be called before threads are started.
    """
    if os.getpid() != 1 or sys.platform != "linux":
        return
    awaited = signal.valid_signals() - {signal.Signals[name] for name in _OWN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return
    while True:
        heard = signal.sigwaitinfo(awaited)
        if heard.si_signo == signal.SIGCHLD:
            _reap(child)
        elif heard.si_code != _BY_THE_KERNEL:
            os.kill(child, heard.si_signo)


def _reap(child: int) -> None:
    """Waits for all that have ended; ends this process if the child has."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            return
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            # As shells say that a signal ended a command.
            os._exit(code if code >= 0 else 128 - code)
