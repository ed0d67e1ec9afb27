"""What went wrong with the settings, said in full: all problems together, each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

KeyPath = tuple[str | int, ...]
"""Where in the settings something is: names of sections and keys, and positions in lists."""


class SettingsError(Exception):
    """Settings that stop the start.

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
    """Raised by a struct's ``__post_init__`` for what is wrong in parts of it.

    Args:
        faults: where, as seen from the struct, and a sentence about it.
    """

    def __init__(self, faults: Iterable[tuple[KeyPath, str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(sentence for _, sentence in self.faults))


def unknown(what: str, name: str, known: Iterable[str], within: str = "") -> str:
    """``unknown setting 'prot'; did you mean 'port'?``, else all that is known.

    Args:
        within: what the name is a part of, put before it.
    """
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f"did you mean {within + close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"
    return f"unknown {what} {within + short(name)!r}; {hint}"


def is_text(text: str) -> bool:
    """Whether the text can be written: arguments, variables and names of files may hold bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: Any) -> str:
    """A wrong value, short enough for a sentence."""
    return short(repr(value))


def short(text: str, most: int = 80) -> str:
    """A text that somebody wrote, cut to the given number of characters."""
    return text if len(text) <= most else text[: most - 3] + "..."
