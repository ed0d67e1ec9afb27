"""Checks of flags that several commands share. Imports little, because some commands need nothing else."""

from __future__ import annotations

from urllib.parse import urlsplit

from coordinator.cli.exits import CommandFailed, Exit


def check_base_url(url: str | None) -> None:
    """Checks that the URL of ``--url`` is one that a path can be appended to.

    Raises:
        CommandFailed: it is not.
    """
    if url is None:
        return
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        good = whole and not parts.query + parts.fragment
    except ValueError:
        good = False
    if not good:
        raise CommandFailed("--url must be an http or https URL such as http://127.0.0.1:8420", Exit.USAGE)


def check_range(flag: str, value: float, least: float, most: float) -> None:
    """Checks the number of a flag.

    Raises:
        CommandFailed: it is out of range, or not a number.
    """
    # Written so that NaN fails too.
    if not least <= value <= most:
        raise CommandFailed(f"{flag} must be from {least} to {most}, not {value}", Exit.USAGE)
