"""The duties of process 1 in a container: forward signals and reap orphans.

A command that runs as process 1 would do neither: the kernel drops signals without a handler, and orphaned children of
steps would stay zombies. So the command runs in a child.
"""

from __future__ import annotations

import os
import signal
import sys

_OWN = {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP", "SIGTTIN", "SIGTTOU"}
"""Signals that are not forwarded: faults of this process, and terminal output from the background."""
_BY_THE_KERNEL = 0x80
"""The origin (``si_code``) of signals from a terminal, which the child gets anyway."""


def run_below() -> None:
    """Returns at once, except in process 1: there it returns in a child, and process 1 exits like that child.

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
    """Reaps all exited processes; exits if the child has."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            return
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            # The exit code of shells for a command killed by a signal.
            os._exit(code if code >= 0 else 128 - code)
