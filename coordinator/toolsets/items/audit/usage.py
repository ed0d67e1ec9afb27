"""Recomputes what follows from the usage of items and their budgets.

(``lua/usage/usage.lua`` and ``budgets.lua`` add up report by report.)
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from coordinator.toolsets.items.rules.classes import TERMINAL
from coordinator.toolsets.items.rules.records import Fields, parsed
from coordinator.toolsets.items.rules.usage.sums import MOST, NONE, Sum, plus, sum_of

_BUDGET = re.compile(r"\d*,\d*,\d*")
_AGENT = re.compile(r"(\S+) \d+:(\S+)")


def of_subtree(fields: Fields) -> Sum:
    """What was used for an item and below it. Raises as ``sum_of``."""
    return plus(sum_of(fields.get("us")), sum_of(fields.get("ub")))


def is_spent(fields: Fields) -> bool:
    """Whether a limit of the item's budget is reached. Raises as ``sum_of``."""
    inputs, outputs, _, cost, wall = of_subtree(fields)
    if "bu" not in fields:
        return False
    if _BUDGET.fullmatch(fields["bu"]) is None:
        raise ValueError(f"{fields['bu']} is no budget")
    limits = fields["bu"].split(",")
    used = cost, inputs + outputs, wall
    return any(limit and part >= int(limit) for limit, part in zip(limits, used, strict=True))


def item_problems(fields: Fields, listed: bool, rank: str | bool) -> Iterator[str]:
    """Compares what an item says of its budget, and its entries, with its sums.

    Args:
        listed: whether it is among the open items whose budget is spent.
        rank: its place among those with the most usage; False: it has none.
    """
    spent, (inputs, outputs, _, cost, _) = is_spent(fields), of_subtree(fields)
    if spent != ("bx" in fields):
        yield f"has {'spent' if spent else 'not spent'} its budget, but says otherwise"
    if listed != ("bx" in fields and parsed(fields["w"]).role != TERMINAL):
        yield f"is {'' if listed else 'not '}among the open items whose budget is spent"
    expected = cost or inputs + outputs
    if rank is not False and float(rank) != expected:
        yield f"is ranked by usage at {float(rank):.0f}, should be at {expected}"


class Used(NamedTuple):
    parent: str
    subtree: Sum
    below: Sum
    spent_ended: bool
    """Whether it has ended with a spent budget."""


def used(item: str, fields: Fields) -> dict[str, Used]:
    """What was used for an item, by its id, if anything was. Raises as ``sum_of``."""
    if "us" not in fields and "ub" not in fields:
        return {}
    spent_ended = "bx" in fields and parsed(fields["w"]).role == TERMINAL
    return {item: Used(fields.get("pa", ""), of_subtree(fields), sum_of(fields.get("ub")), spent_ended)}


def sum_problems(
    items: Mapping[str, Used], entries: Iterable[tuple[str, str]], spent_ended: int
) -> Iterator[tuple[str, str]]:
    """The problems of the sums of items, by id, and of those of the project, by ''.

    Args:
        entries: the fields and values of ``usage``.
        spent_ended: how many items are said to have ended with a spent budget.
    """
    if spent_ended != (ended := sum(one.spent_ended for one in items.values())):
        yield "", f"has {ended} ended items whose budget is spent, but counts {spent_ended}"
    roots = NONE
    for one in items.values():
        roots = roots if one.parent else plus(roots, one.subtree)
    yield from _tree_problems(items)
    for problem in _project_problems(entries, roots):
        yield "", problem


def _tree_problems(items: Mapping[str, Used]) -> Iterator[tuple[str, str]]:
    """Items whose sum is less than that of their children: id and problem. It may be more, of deleted ones."""
    found: dict[str, Sum] = {}
    for one in items.values():
        found[one.parent] = plus(found.get(one.parent, NONE), one.subtree)
    for parent, least in found.items():
        kept = items[parent].below if parent in items else NONE
        if parent and any(mine < min(theirs, MOST) for mine, theirs in zip(kept, least, strict=True)):
            yield parent, f"has a sum of {kept} below it, but its children have {least}"


def _project_problems(entries: Iterable[tuple[str, str]], roots: Sum) -> Iterator[str]:
    """Compares the sum of a project with those by day, model and agent, which add up to it, and with its items.

    Args:
        entries: the fields and values of ``usage``.
        roots: the sum of the items without a parent.
    """
    totals: dict[str, Sum] = {"p": NONE, "d": NONE, "m": NONE, "a": NONE}
    seen = Counter[str]()
    for name, text in entries:
        found = _AGENT.fullmatch(text) if name[0] == "a" else None
        totals[name[0]] = plus(totals[name[0]], sum_of(found[1] if found else text))
        seen[name[0]] += 1
    for kind, what in (("d", "days"), ("m", "models"), ("a", "agents")):
        if _bounded(totals[kind]) != totals["p"]:
            yield f"has a sum of {totals['p']}, but its {what} have {totals[kind]}"
    if any(kept < least for kept, least in zip(totals["p"], _bounded(roots), strict=True)):
        yield f"has a sum of {totals['p']}, but its items have {roots}"


def _bounded(parts: Sum) -> Sum:
    return tuple(min(part, MOST) for part in parts)
