"""Checks whether this host and its files are suitable for a fleet."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from coordinator.doctor.findings import Finding
from coordinator.identity.callers.token_file import TokenFileError, read_tokens
from coordinator.settings import Settings

_FILES = 4096
_FREE_MIB = 256


def check(settings: Settings) -> Iterator[Finding]:
    """Checks the limits of this host, its disk and the token file, and shows the times in the settings."""
    yield _files(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    if not settings.redis_url and os.path.exists(data := Path(settings.data_dir)):  # False also if it is closed to us
        yield _disk(data, shutil.disk_usage(data).free // 2**20)
    if settings.auth.tokens:
        yield _tokens(Path(settings.auth.tokens))
    # Always ok: contradictory times are rejected before a command gets its settings.
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


def _disk(data: Path, free_mib: int) -> Finding:
    said = f"{free_mib} MiB are free in {data}"
    if free_mib < _FREE_MIB:
        why = "the embedded Redis ends when it cannot write"
        return Finding("warns", "host.disk", f"{said}: {why}", f"make room for {_FREE_MIB} MiB or more")
    return Finding("ok", "host.disk", said)


def _tokens(path: Path) -> Finding:
    try:
        file, _ = read_tokens(path)
    except TokenFileError as error:
        advice = "until then a fleet that runs keeps the tokens it knows, and none can start"
        return Finding("fails", "auth.tokens", str(error), advice)
    return Finding("ok", "auth.tokens", f"{path} has {len(file.tokens)} tokens")
