"""What Linux can do for a tree of processes; elsewhere these do nothing."""

from __future__ import annotations

import ctypes
import signal
import sys

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


def _prctl(option: int, value: object) -> None:
    if ON_LINUX:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
