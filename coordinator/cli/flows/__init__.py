"""``fleet flows``: workflows as operators see them, drawn in the terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text of callers, tools and servers for a terminal: nothing in it can move the cursor."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
