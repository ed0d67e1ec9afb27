"""What Linux can do for a tree of processes; elsewhere these do nothing."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

ON_LINUX = sys.platform == "linux"

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Has the kernel send this process a signal when its parent (the thread that it is a child of) ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def name_process(name: str) -> None:
    """Shows ``name`` (15 bytes of it) in process listings: a forked process has its template's command line."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()))


def end_session(session: int) -> None:
    """Kills what is left of a session: what a process that has ended had started, in whichever groups."""
    if not ON_LINUX:
        return
    for entry in Path("/proc").iterdir():
        # A process with the session's number is another one that has it now: the leader has ended.
        if entry.name.isdigit() and int(entry.name) != session:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(entry.name)) == session:
                    os.kill(int(entry.name), signal.SIGKILL)


def ended_children() -> Iterator[int]:
    """Children of this process that have ended, adopted ones included, and that nobody has waited for."""
    look = os.WEXITED | os.WNOHANG | os.WNOWAIT
    with contextlib.suppress(ChildProcessError):
        # Most often there is none, and going through all processes of a host takes long.
        if ON_LINUX and os.waitid(os.P_ALL, 0, look):
            for entry in Path("/proc").iterdir():
                # Others' children, and what somebody has waited for just now.
                with contextlib.suppress(ChildProcessError):
                    if entry.name.isdigit() and os.waitid(os.P_PID, int(entry.name), look):
                        yield int(entry.name)


def _prctl(option: int, value: object) -> None:
    if ON_LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
