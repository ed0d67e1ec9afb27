"""Sums of usage, as the store has them (``lua/usage/sums.lua``)."""

from __future__ import annotations

import re

_SUM = re.compile(r"\d+,\d+,\d+,\d+,\d+")
Sum = tuple[int, ...]
NONE: Sum = (0,) * 5
MOST = 2**53 - 1
"""No sum rises further."""


def sum_of(text: str | None) -> Sum:
    """A sum as stored: input, output and cached tokens, micro-USD, ms.

    Raises:
        ValueError: it cannot be read.
    """
    if text is None:
        return NONE
    if _SUM.fullmatch(text) is None:
        raise ValueError(f"{text} is no sum of usage")
    return tuple(map(int, text.split(",")))


def plus(one: Sum, other: Sum) -> Sum:
    """Both together."""
    return tuple(mine + theirs for mine, theirs in zip(one, other, strict=True))
