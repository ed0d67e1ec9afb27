"""Ports that tests put into settings before anything listens on them."""

from __future__ import annotations

import fcntl
import itertools
import os
import random
import socket
import tempfile
from functools import cache
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 12_000
_WORKERS = 16
"""Number of parallel test processes that never choose the same port."""


def _first_ephemeral() -> int:
    """The first ephemeral port of the kernel."""
    return int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768


def _ports_of_this_process() -> list[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
    found = list(range(_LOWEST + worker, max(_first_ephemeral(), 2 * _LOWEST), _WORKERS))
    random.SystemRandom().shuffle(found)  # parallel sessions begin elsewhere
    return found


_candidates = itertools.cycle(_ports_of_this_process())


@cache
def _taken() -> int:
    """A file shared by all test processes of the user, of which a process locks the bytes that are its ports."""
    path = Path(tempfile.gettempdir()) / f"coordinator-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _take(port: int) -> bool:
    try:
        fcntl.lockf(_taken(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def free_port() -> int:
    """A free port of the loopback interface that neither the kernel nor another test process gives to others.

    An ephemeral port that was released could be assigned to a connection of another test. And until something listens
    on the port, which takes a busy machine seconds, another session would find it free, too.
    """
    for port in _candidates:
        if not _take(port):
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("there are always more candidates")
