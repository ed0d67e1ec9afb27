"""Problems with settings: all are reported together, each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from coordinator.settings.redact import redacted

KeyPath = tuple[str | int, ...]
"""The path to something in the settings: names of sections and keys, and positions in lists."""


class SettingsError(Exception):
    """The settings are invalid.

    Args:
        problems: one sentence each: where, which setting, what is allowed.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            text = self.problems[0]
        else:
            text = f"{len(self.problems)} settings are wrong:\n" + "\n".join(f"  {line}" for line in self.problems)
        super().__init__(text)


class Faults(ValueError):
    """Raised by a struct's ``__post_init__`` if its fields contradict each other.

    Args:
        faults: where (relative to the struct), and a sentence about it.
    """

    def __init__(self, faults: Iterable[tuple[KeyPath, str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(sentence for _, sentence in self.faults))


def unknown(what: str, name: str, known: Iterable[str], within: str = "") -> str:
    """``unknown setting 'prot'; did you mean 'port'?``; without a similar name, the message lists all known ones.

    Args:
        within: a prefix of the name, such as ``steps.``.
    """
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f"did you mean {within + close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"
    return f"unknown {what} {within + short(name)!r}; {hint}"


def is_text(text: str) -> bool:
    """Whether the text can be encoded. Arguments, variables and file names may hold bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: Any) -> str:
    """A wrong value, short enough for a sentence; without the password, if it is a URL."""
    return short(redacted(repr(value)))


def short(text: str, most: int = 80) -> str:
    """A text, cut to the given number of characters."""
    return text if len(text) <= most else text[: most - 3] + "..."
