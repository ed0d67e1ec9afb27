"""Resource limits of processes."""

from __future__ import annotations

import contextlib
import resource

MOST_FILES = 65_536


def raise_file_limit() -> None:
    """Raises the soft limit of open files to the hard one, at most to ``MOST_FILES``; children inherit it.

    Each connection is a file. The usual soft limit (1,024) is for programs that use ``select``.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # macOS has a further limit that getrlimit does not report.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
