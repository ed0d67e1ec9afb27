"""SIGTERM and SIGINT of a worker: the first stops in order, a second one at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stopping(stop: Callable[[], object], hurry: Callable[[], object]) -> Iterator[None]:
    """Calls ``stop`` on the first of these signals and ``hurry`` on each further one, in the main thread.

    Only the main thread hears signals; elsewhere this does nothing. Child processes hear them as before.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    calls, process = iter([stop]), os.getpid()

    def heard(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != process:
            signal.signal(number, before[number])
            os.kill(os.getpid(), number)
            return
        next(calls, hurry)()

    before: dict[int, Any] = {number: signal.getsignal(number) or signal.SIG_DFL for number in _SIGNALS}
    for each in _SIGNALS:
        signal.signal(each, heard)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
