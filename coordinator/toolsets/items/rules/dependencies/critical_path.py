"""The critical path: the longest chain of unfinished items that wait for each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import TypeVar

K = TypeVar("K")


def critical_path(weights: Mapping[K, int], edges: Collection[tuple[K, K]]) -> list[K]:
    """The heaviest chain, the item that has to be done first at its beginning; empty if nothing waits.

    Of chains of the same weight the one that is found first in the order of ``weights`` is returned. Items in a circle,
    which no store allows, are on no chain.

    Args:
        weights: how much work each unfinished item is, more than 0.
        edges: unsatisfied ones, as (blocker, blocked). Those with an end that is not in ``weights`` do not count.
    """
    after: dict[K, list[K]] = {one: [] for one in weights}
    waits = dict.fromkeys(weights, 0)
    for blocker, blocked in edges:
        if blocker in waits and blocked in waits:
            after[blocker].append(blocked)
            waits[blocked] += 1
    longest, before = dict(weights), dict[K, K]()
    free = deque(one for one, blockers in waits.items() if not blockers)
    done: set[K] = set()
    while free:
        one = free.popleft()
        done.add(one)
        for blocked in after[one]:
            if (sum_ := longest[one] + weights[blocked]) > longest[blocked]:
                longest[blocked], before[blocked] = sum_, one
            waits[blocked] -= 1
            if not waits[blocked]:
                free.append(blocked)
    ends = [one for one in weights if one in done and one in before]
    if not ends:
        return []
    path = [max(ends, key=longest.__getitem__)]
    while path[-1] in before:
        path.append(before[path[-1]])
    return path[::-1]
