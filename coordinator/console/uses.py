"""Resources, usage and budgets in few words: amounts, shares, and what an item has of them."""

from __future__ import annotations

import htpy
from htpy import Node, span

from coordinator.console.parts import chip, number
from coordinator.toolsets.items import (
    ROLE_NAMES,
    ItemRow,
    Share,
    UsageSum,
    for_people,
    share_of,
    shown_limits,
    stored_sum,
)
from coordinator.units import clock, money

NEAR_PERCENT = 80
"""From which share on a budget is said to be nearly spent."""
_WIDTH = 60


def short_number(count: int) -> str:
    """A number of at most four digits and a letter: 12.3k."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if count >= size:
            unit = 1000 if letter == "k" else size
            return f"{count / unit:,.4g}{letter}"
    return number(count)


def amount(measure: str, value: int) -> str:
    """Something of what budgets limit."""
    if measure == "costMicroUsd":
        return money(value)
    return clock(value) + " h" if measure == "wallMs" else f"{short_number(value)} tokens"


def used(total: UsageSum) -> str:
    """A sum of usage: what of cost and tokens there is, else the time; empty: nothing."""
    sums = [("costMicroUsd", total.cost_micro_usd), ("tokens", total.tokens)]
    if not total.cost_micro_usd and not total.tokens:
        sums = [("wallMs", total.wall_ms)]
    return ", ".join(amount(measure, value) for measure, value in sums if value)


def share_text(share: Share) -> str:
    """How much of a budget is used."""
    return f"{share.percent} % of {amount(share.measure, share.limit)}"


def share_chip(share: Share) -> Node:
    """The same as a remark, that stands out when it is nearly or wholly spent."""
    kind = "trouble" if share.percent >= 100 else "warning" if share.percent >= NEAR_PERCENT else ""
    return chip("budget spent" if share.percent >= 100 else f"{share.percent} % of budget", kind, share_text(share))


def bar(share: Share) -> Node:
    """A share as a bar; it needs the text beside it."""
    filled = round(min(share.percent, 100) * _WIDTH / 100, 1)
    kind = "spent" if share.percent >= 100 else "near" if share.percent >= NEAR_PERCENT else ""
    return htpy.svg(class_=f"share {kind}".rstrip(), viewBox=f"0 0 {_WIDTH} 8", aria_hidden="true")[
        htpy.rect(".whole", width=str(_WIDTH), height="8", rx="2"), htpy.rect(width=f"{filled:g}", height="8", rx="2")
    ]


def of_card(item: ItemRow, busy: str) -> list[Node]:
    """What a card says of an item's resources (``busy``: those that others hold), usage and budget."""
    chips: list[Node] = []
    if item.spent and item.spent != item.id and ROLE_NAMES[item.role] != "terminal":
        chips.append(chip("budget spent", "trouble", "of an item above it: it is claimed no more"))
    total = stored_sum(item.usage, item.used_below)
    share = share_of(shown_limits(item.budget), total)
    if share is not None:
        chips.append(share_chip(share))
    if busy:
        chips.append(chip(f"busy: {for_people(busy)}", "warning", "what it demands and others hold, or may take soon"))
    elif item.holds:
        chips.append(chip(f"holds {for_people(item.holds)}", title="resources of its claim"))
    elif item.resources:
        chips.append(chip(f"demands {for_people(item.resources)}", title="resources that a claim takes"))
    if text := used(total):
        chips.append(span(".dim", title=f"used for it and below it: {text}")[text.partition(", ")[0]])
    return chips
