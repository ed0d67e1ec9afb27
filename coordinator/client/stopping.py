"""SIGTERM and SIGINT of a worker: the first stops in order, a second one at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stopping(stop: Callable[[], object], hurry: Callable[[], object]) -> Iterator[None]:
    """Calls ``stop`` on the first of these signals and ``hurry`` on each further one, in the main thread.

    Only the main thread hears signals; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    calls = iter([stop])

    def heard(_number: int, _frame: FrameType | None) -> None:
        next(calls, hurry)()

    before = {number: signal.signal(number, heard) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
