"""Process management of Linux; on other systems these functions do nothing, or what can be done there."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ON_LINUX = sys.platform == "linux"

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Makes the kernel signal this process when its parent (the thread that started it) exits."""
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Makes this process the parent of orphaned descendants (a subreaper)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def name_process(name: str) -> None:
    """Shows ``name`` (up to 15 bytes) in process listings, because a forked process has its template's command line."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()))


def end_session(session: int) -> None:
    """Kills the remaining processes of a dead session leader, in all process groups."""
    if not ON_LINUX:
        return
    for entry in Path("/proc").iterdir():
        # The leader is dead, so a process with its id is a new one.
        if entry.name.isdigit() and int(entry.name) != session:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(int(entry.name)) == session:
                    os.kill(int(entry.name), signal.SIGKILL)


def ended_children() -> Iterator[int]:
    """Zombie children of this process (adopted ones included)."""
    look = os.WEXITED | os.WNOHANG | os.WNOWAIT
    with contextlib.suppress(ChildProcessError):
        # Usually there is none, and scanning all processes of a host is slow.
        if ON_LINUX and os.waitid(os.P_ALL, 0, look):
            for entry in Path("/proc").iterdir():
                # ChildProcessError: it is not our child, or was reaped just now.
                with contextlib.suppress(ChildProcessError):
                    if entry.name.isdigit() and os.waitid(os.P_PID, int(entry.name), look):
                        yield int(entry.name)


def signal_if(pid: int, number: int, is_it: Callable[[], bool]) -> bool:
    """Signals a process, unless another one has its id by now; False: it has, or there is none.

    Args:
        is_it: whether the process is the one that is meant. From before it is asked until the signal is sent, the id
            stays that of one process, where the kernel lets a process be held (``pidfd_open``).
    """
    try:
        held = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):
        held = -1
    try:
        if not is_it():
            return False
        if held < 0:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(held, number)
        return True
    except ProcessLookupError:
        return False
    finally:
        if held >= 0:
            os.close(held)


def has_open(pid: int, path: Path) -> bool:
    """Whether a process of this user has a file open; False on systems that do not show it."""
    with contextlib.suppress(OSError):
        file = path.stat()
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                if os.path.samestat(entry.stat(), file):
                    return True
    return False


def _prctl(option: int, value: object) -> None:
    if ON_LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
