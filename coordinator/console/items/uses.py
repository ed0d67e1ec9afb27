"""What an item's page says of its resources, its usage and the budgets that it is under."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from htpy import Node, div, span

from coordinator.console.parts import chip, item_link, number, plain
from coordinator.console.uses import amount, bar, share_text
from coordinator.console.view import Visit
from coordinator.toolsets.items import (
    FREE,
    MEASURES,
    ROLE_NAMES,
    STATES,
    ItemRow,
    Obstacle,
    UsageSum,
    dashed,
    for_people,
    read_obstacles,
    shares_of,
    shown_limits,
    stored_sum,
)
from coordinator.units import clock, money


async def obstacle_of(visit: Visit, item: ItemRow) -> Obstacle:
    """What keeps agents from an item. Raises ToolFailure as ``read_obstacles``."""
    obstacles = await visit.read(read_obstacles, visit.reads.config.terms(visit.project), [item.id])
    return obstacles.get(item.id, FREE)


def is_kept(item: ItemRow, obstacle: Obstacle) -> bool:
    """Whether a spent budget keeps everybody from an item, so that it does not move."""
    return bool(obstacle.spent) and STATES[item.state] != "held"


def uses(project: str, item: ItemRow, obstacle: Obstacle) -> Node:
    """Lines of facts; nothing of what is not used."""
    return [
        div(".facts")[line] if (line := list(part)) else None
        for part in (_stopped(project, item, obstacle), _resources(item, obstacle), _usage(item))
    ]


def _stopped(project: str, item: ItemRow, obstacle: Obstacle) -> Iterator[Node]:
    """Why nobody gets it, and the claim on it is to end."""
    over = obstacle.spent
    if not over or item.recurs:  # a template is offered to nobody anyway
        return
    yield (
        chip("held back", "trouble", "no agent gets it")
        if is_kept(item, obstacle)
        else chip("stop", "trouble", "renewals of the claim tell its agent to finish or to release it")
    )
    measure = MEASURES[over["measure"] - 1]
    spent = f" is spent{' for today (UTC)' if over['day'] else ''}: {amount(measure, over['used'])}"
    yield span[_whose(project, item, over), spent, f" of {amount(measure, over['limit'])}"]


def _whose(project: str, item: ItemRow, budget: Mapping[str, Any]) -> Node:
    if budget["name"] == item.id:
        return "its budget"
    if budget["of"] == "item":
        return ["the budget of ", item_link(project, dashed(budget["name"]), ""), " above it"]
    return f"the budget of the {'agents ' if budget['of'] == 'agent' else 'project '}{plain(budget['name'])}"


def _resources(item: ItemRow, obstacle: Obstacle) -> Iterator[Node]:
    if item.holds:
        yield span[f"holds {plain(for_people(item.holds))}"]
        return
    if not item.resources:
        return
    yield span[f"demands {plain(for_people(item.resources))}"]
    if busy := obstacle.busy:
        yield chip(f"busy: {for_people(busy)}", "warning", "others hold it, or may take it soon")
    elif STATES[item.state] == "ready" and ROLE_NAMES[item.role] != "terminal":
        yield span(".ready")["all of it is free"]


def _usage(item: ItemRow) -> Iterator[Node]:
    own, both = stored_sum(item.usage), stored_sum(item.usage, item.used_below)
    if item.usage:
        yield _sum("used for it", own)
    if item.used_below:
        yield _sum("with all below it", both)
    for share in shares_of(shown_limits(item.budget), both):
        text = f"budget: {share_text(share)}"
        yield span(".budget")[
            bar(share), " ", text, [" ", chip("spent", "trouble", "no agent can claim it or anything below it")]
            if share.percent >= 100 else None,
        ]  # fmt: skip


def _sum(what: str, usage: UsageSum) -> Node:
    parts = [
        money(usage.cost_micro_usd) if usage.cost_micro_usd else "",
        f"{number(usage.input_tokens)} tokens in" if usage.input_tokens else "",
        f"{number(usage.cached_tokens)} of them cached" if usage.cached_tokens else "",
        f"{number(usage.output_tokens)} out" if usage.output_tokens else "",
        f"{clock(usage.wall_ms)} h" if usage.wall_ms else "",
    ]
    return span[span(".dim")[f"{what}: "], ", ".join(filter(None, parts))]
