"""Checks of flags that several commands share. Imports little, because some commands need nothing else."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from coordinator.cli.exits import CommandFailed, Exit
from coordinator.settings import PROJECT_VARIABLE

if TYPE_CHECKING:
    from coordinator.settings import LoadedSettings

_PLAIN = re.compile(r"[\w-]+", re.ASCII)


def check_base_url(url: str | None, name: str = "--url") -> None:
    """Checks that a URL is one that a path can be appended to; ``name`` is that of its flag or variable."""
    if url is None:
        return
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and "," not in parts.netloc
        good = whole and not parts.query + parts.fragment
    except ValueError:
        good = False
    if not good:
        raise CommandFailed(f"{name} must be an http or https URL such as http://127.0.0.1:8420", Exit.USAGE)


def base_urls(text: str, name: str) -> list[str]:
    """The URLs of a list after commas, which names one project, without the slashes at their ends."""
    # Here, because most commands need no client.
    from coordinator.client.calls import address
    from coordinator.client.http import urls_of

    urls = urls_of(text)
    for url in urls or [text]:
        check_base_url(url, name)
    try:
        address(text)
    except ValueError as error:
        raise CommandFailed(f"{name}: {error}", Exit.USAGE) from None
    return [url.rstrip("/") for url in urls]


def check_range(flag: str, value: float, least: float, most: float) -> None:
    """Checks the number of a flag. Raises CommandFailed: it is out of range, or not a number."""
    # Written so that NaN fails too.
    if not least <= value <= most:
        raise CommandFailed(f"{flag} must be from {least} to {most}, not {value}", Exit.USAGE)


def by_flag(loaded: LoadedSettings, name: str) -> bool:
    """Whether a setting was given on the command line."""
    return loaded.sources[name].startswith("flag ")


def check_project_name(name: str, source: str = "", rule: re.Pattern[str] = _PLAIN) -> None:
    """Checks that a name can be part of a path; which of these can be a project, the fleet decides.

    Args:
        source: what names it; default: flag or variable.
        rule: what it must match.
    """
    if not rule.fullmatch(name):
        # Here, because the store takes long to import.
        from coordinator.store.keys import PROJECT_RULE

        source = source or (PROJECT_VARIABLE if os.environ.get(PROJECT_VARIABLE) == name else "--project")
        raise CommandFailed(f"{source}: must be {PROJECT_RULE}", Exit.USAGE)
