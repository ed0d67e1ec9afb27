"""Sums of usage and units of resources, as models count them."""

from __future__ import annotations

from tests.items.client import Json

Demand = tuple[str, str, int]
"""Key, mode and units."""


def related(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def below(key: str, limited: str) -> bool:
    return key == limited or key.startswith(f"{limited}/")


NAMES = ("inputTokens", "outputTokens", "cachedTokens", "costMicroUsd", "wallMs")
Sum = tuple[int, ...]
NONE: Sum = (0,) * 5


def plus(one: Sum, other: Sum) -> Sum:
    return tuple(map(sum, zip(one, other, strict=True)))


def shown(parts: Sum) -> Json:
    return {**dict(zip(NAMES, parts, strict=True)), "tokens": parts[0] + parts[1]}
