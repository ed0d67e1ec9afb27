"""Moves what only a rarely called function uses into that function.

A script's text runs from the top at each call, and every function that it declares is made anew, whether
it is called or not. ``local function name(...) -- @rare`` in an included file says that most calls of
scripts do without it: included functions and tables of constants that nothing else uses are then declared
in its body, so that a script which does not come to call it pays for one function only. Variables that are
no constants stay outside, and keep what they hold from one call of the function to the next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from coordinator.store.lua_prune import Piece, pieces, reached, words_of

_RARE = re.compile(r"local function [A-Za-z_]\w*\(.*\) -- @rare\b.*")


def nested(lines: Sequence[str], prunable: Sequence[bool]) -> list[int]:
    """The indices of the lines in their new order; ``prunable`` says which lines come from includes."""
    found = pieces(lines, prunable)
    orders = {number: list(piece.span) for number, piece in enumerate(found)}
    words = {number: words_of(lines, piece.span) for number, piece in enumerate(found)}
    for number, piece in enumerate(found):
        if not (piece.names and _RARE.fullmatch(lines[piece.span[0]])):
            continue
        present = list(orders)
        without = reached(found, words, present, {number})
        inner = [n for n in present if n < number and n not in without and _movable(lines, found[n])]
        head, *rest = orders[number]
        orders[number] = [head, *(at for n in inner for at in orders.pop(n)), *rest]
        words[number] = words[number].union(*(words.pop(n) for n in inner))
    return [at for number in sorted(orders) for at in orders[number]]


def _movable(lines: Sequence[str], piece: Piece) -> bool:
    return lines[piece.span[0]].startswith("local function ") or all(name.isupper() for name in piece.names)
