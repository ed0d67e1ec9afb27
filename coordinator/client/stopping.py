"""SIGTERM and SIGINT of a worker: the first stops in order, a second one at once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def stopping(stop: Callable[[], None], hurry: Callable[[], None]) -> Iterator[None]:
    """Calls ``stop`` on the first of these signals and ``hurry`` on each further one, in the running event loop.

    Only the main thread hears signals; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    calls = iter([stop])
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        for number in _SIGNALS:
            loop.add_signal_handler(number, lambda: next(calls, hurry)())
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)
