"""Collects the problems of a flow. Time and size are bounded, whatever a caller sends."""

from __future__ import annotations

import re
from collections.abc import Collection

from coordinator.errors import ToolFailure
from coordinator.settings.problems import unknown

MOST = 200
MOST_SHOWN = 20
"""The most problems in the message; ``problems`` beside the error has all kept ones."""
MOST_GUESSES = 10
"""For how many unknown names a similar one is searched, at most, because that is slow."""
MOST_COMPARED = 2_000
"""The most characters of known names that an unknown one is compared with."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]+\Z")
_LONGEST = 100
_LONGEST_SENTENCE = 600


def place(key: str, *rest: str) -> str:
    """The name of a place in the flow, for messages: ``flow.count.next``, ``flow["my step"].args``."""
    head = f"flow.{key}" if _PLAIN.match(key) and len(key) <= _LONGEST else f'flow["{key[:_LONGEST]}"]'
    return ".".join((head, *rest))


class Problems:
    """Collects problems. Each is a sentence that begins with its place."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self._seen: set[str] = set()
        self._more = 0
        self._guesses = 0

    def add(self, where: str, problem: str) -> None:
        if len(self.sentences) >= MOST:
            self._more += 1
            return
        sentence = f"{where}: {problem}"
        if sentence in self._seen:
            return
        self._seen.add(sentence)
        if len(sentence) > _LONGEST_SENTENCE:
            sentence = f"{sentence[:_LONGEST_SENTENCE]}..."
        # Text from a caller must not move the cursor of a terminal that shows the message.
        self.sentences.append("".join(letter if letter.isprintable() else "?" for letter in sentence))

    def unknown(self, where: str, what: str, name: str, known: Collection[str]) -> None:
        """Adds the problem of an unknown name, with a similar known name if there is one, else all known names."""
        self._guesses += 1
        name, length = name[:_LONGEST], 0
        for one in known:
            length += min(len(one), _LONGEST)
        if self._guesses > MOST_GUESSES or length > MOST_COMPARED:
            self.add(where, f"unknown {what} {name!r}")
        else:
            self.add(where, unknown(what, name, [one[:_LONGEST] for one in known]))

    def no_such_field(self, where: str, name: str, known: Collection[str]) -> None:
        """Adds the problem of an unknown field, with the allowed ones."""
        self.add(where, f"unknown field {name[:_LONGEST]!r}; allowed: {', '.join(known)}")

    def raise_if_any(self) -> None:
        """Raises ToolFailure VALIDATION_ERROR if there are problems: in its message, and one by one in ``problems``."""
        if not self.sentences:
            return
        count = len(self.sentences) + self._more
        if count == 1:
            message = self.sentences[0]
        else:
            rest = f"; and {count - MOST_SHOWN} more" if count > MOST_SHOWN else ""
            message = f"{count} problems: {'; '.join(self.sentences[:MOST_SHOWN])}{rest}"
        raise ToolFailure("VALIDATION_ERROR", message, data={"problems": self.sentences})
