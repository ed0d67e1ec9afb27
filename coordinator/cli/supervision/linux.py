"""Process management that only Linux has; on other systems these functions do nothing."""

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
    """Makes the kernel send this process a signal when its parent (the thread that started it) ends."""
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def name_process(name: str) -> None:
    """Shows ``name`` (up to 15 bytes) in process listings, because a forked process has its template's command line."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()))


def end_session(session: int) -> None:
    """Kills the processes that an ended session leader has left behind, in whatever process groups."""
    if not ON_LINUX:
        return
    for entry in Path("/proc").iterdir():
        # The leader has ended, so a process with its id is a new one.
        if entry.name.isdigit() and int(entry.name) != session:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(entry.name)) == session:
                    os.kill(int(entry.name), signal.SIGKILL)


def ended_children() -> Iterator[int]:
    """Ended children of this process (adopted ones included) that nobody has waited for yet."""
    look = os.WEXITED | os.WNOHANG | os.WNOWAIT
    with contextlib.suppress(ChildProcessError):
        # Usually there is none, and going through all processes of a host takes long.
        if ON_LINUX and os.waitid(os.P_ALL, 0, look):
            for entry in Path("/proc").iterdir():
                # ChildProcessError: it is not our child, or somebody has waited for it just now.
                with contextlib.suppress(ChildProcessError):
                    if entry.name.isdigit() and os.waitid(os.P_PID, int(entry.name), look):
                        yield int(entry.name)


def _prctl(option: int, value: object) -> None:
    if ON_LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
