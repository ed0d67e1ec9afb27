"""Checks whether this host is fit for a fleet."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from coordinator.cli.doctor.findings import Finding
from coordinator.settings import Settings

_FILES = 4096


def check(settings: Settings) -> Iterator[Finding]:
    """Checks the limits of this host, and shows the times in the settings."""
    yield _files(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    # Always ok: settings with contradictory times are refused before a command gets them.
    yield Finding(
        "ok",
        "settings.times",
        f"store {settings.redis_timeout_ms} ms < request {settings.request_deadline_ms} ms < drain "
        f"{settings.drain_seconds} s",
    )


def _files(limit: int) -> Finding:
    if limit != resource.RLIM_INFINITY and limit < _FILES:
        return Finding(
            "warns",
            "host.files",
            f"a process may open {limit} files: each connection is one",
            f"raise the limit (ulimit -n, LimitNOFILE) to {_FILES} or more",
        )
    return Finding(
        "ok", "host.files", f"a process may open {'any number of' if limit == resource.RLIM_INFINITY else limit} files"
    )
