"""Items in lists: windows of them, and cards that say what an item is, who has it, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import htpy
from htpy import Node, div, span
from markupsafe import Markup

from coordinator.client.held_back import left as left_by_agent
from coordinator.console.acts.buttons import choice, menu_opener
from coordinator.console.parts import agent_link, ago, chip, item_link, left, number, plain, role
from coordinator.console.uses import of_card
from coordinator.console.view import Row, Visit
from coordinator.toolsets.items import (
    FREE,
    PRIORITY_NAMES,
    ROLE_NAMES,
    STATES,
    BoardPage,
    ItemRow,
    Obstacle,
    Wanted,
    board_page,
    dashed,
    read_obstacles,
)

HEIGHT = 100
"""Of a card with the gap below it, in px."""
WINDOW = 30
"""Cards that a page has of a list at a time."""
_MOST_TAGS = 4
_READY = ("ready", "abandoned")
_LONGEST_SECONDS = 3_600
"""After which a list is looked at again at the latest that waits for a time: timers of pages know no longer ones."""
_TOLD = ("in-progress", "blocked", "done", "quarantined")
"""Labels that say no more than the role, or what holds the item back."""


async def window(visit: Visit, wanted: Wanted, limit: int = WINDOW) -> tuple[BoardPage, int]:
    """The items at the place that is asked for, and the place: the last ones, if the list has become shorter."""
    offset = visit.offset
    page = await visit.read(board_page, wanted, offset=offset, limit=limit)
    if not page.rows and page.total and offset:
        offset = max(0, page.total - limit)
        page = await visit.read(board_page, wanted, offset=offset, limit=limit)
    return page, offset


def again(now: int, items: Iterable[ItemRow]) -> int:
    """When to look at items again, in seconds, because no event says that their time has come; 0: need not be."""
    ends = [item.held_until for item in items if item.held_until] + [due(item) for item in items if due(item) > now]
    return max(1, min(_LONGEST_SECONDS, (min(ends) - now) // 1000 + 1)) if ends else 0


def due(item: ItemRow) -> int:
    """When it is due, in ms; 0: at no time, or it is done."""
    return int(item.due_at) if item.due_at.isdecimal() and ROLE_NAMES[item.role] != "terminal" else 0


async def cards(visit: Visit, items: Sequence[ItemRow], with_role: bool = False) -> list[Row]:
    """At most 100 cards as rows of a region. One more read says whose resources are busy, if any demand some.

    Args:
        with_role: whether they show the items' roles; columns of a board say it.
    """
    project, sees = visit.project, visit.viewer.sees_holders
    ready = [item.id for item in items if item.resources and not item.holds and STATES[item.state] in _READY]
    held: dict[str, Obstacle] = {}
    if ready:
        held = await visit.read(read_obstacles, visit.reads.config.terms(project), ready)
    return [
        Row(f"item:{dashed(item.id)}", _content(project, item, with_role, held.get(item.id, FREE).busy, sees), "entry")
        for item in items
    ]


@lru_cache(maxsize=2048)
def _content(project: str, item: ItemRow, with_role: bool, busy: str, sees: bool) -> Markup:
    """Rendered once for as long as the item stays as it is: tabs read the same cards again and again."""
    content = [
        choice(item.title),
        div(".entry-title")[item_link(project, dashed(item.id), plain(item.title))],
        menu_opener(project, dashed(item.id), item.title),
        div(".entry-line")[
            role(ROLE_NAMES[item.role]) if with_role else None,
            priority(item.priority),
            *(standing(project, item, sees) or [label(item)]),
            None if is_held(item) else span(".dim.push", title="in this role")[ago(item.role_changed)],
        ],
        div(".entry-line")[
            *troubles(item),
            _due_soon(item),
            *of_card(item, busy),
            span(title="children that have ended")[f"{item.ended_children}/{number(item.children)} children"]
            if item.children
            else None,
            *tags(item.tags),
        ],
    ]
    return htpy.fragment[content].__html__()


def priority(code: int) -> Node:
    name = PRIORITY_NAMES[code]
    return span(f".priority.{name}", title="priority")[name]


def is_held(item: ItemRow) -> bool:
    return STATES[item.state] == "held"


def standing(project: str, item: ItemRow, sees: bool) -> list[Node]:
    """Who has it, and for how long; only some viewers see who that is."""
    if is_held(item):
        return [span(".entry-holder")[agent_link(project, item.holder) if sees else "an agent"], left(item.expires)]
    if STATES[item.state] == "abandoned":
        reason = left_by_agent(item.attempts, item.max_attempts or 0, "")
        return [chip(reason, "warning", f"{item.holder if sees else 'an agent'} has left it in the middle")]
    return []


def label(item: ItemRow) -> Node:
    """Its label, if that says more than the rest."""
    return chip(item.status_label) if item.status_label and item.status_label not in _TOLD else None


def troubles(item: ItemRow) -> list[Node]:
    """What holds it back, and how often agents have failed with it."""
    chips: list[Node] = []
    if item.quarantined:
        chips.append(chip("quarantined", "trouble", "too many attempts have failed, or one was hopeless"))
    elif item.held_until and STATES[item.state] == "waiting" and not item.blockers:
        title, said = ("its notBefore", "ready: ") if postponed(item) else ("its back-off", "in back-off: ")
        chips.append(span(".chip.warning", title=title)[said, left(item.held_until)])
    if item.blockers:
        chips.append(chip(f"waits for {item.blockers}", "warning", "items that block it"))
    if item.attempts:
        most = f" of {item.max_attempts}" if item.max_attempts else ""
        chips.append(chip(f"{item.attempts}{most} failed", "warning", "attempts of agents"))
    if item.overdue:
        chips.append(span(".chip.trouble", title="its dueAt has passed")["overdue: ", ago(int(item.due_at))])
    if item.recurs:
        chips.append(chip("template", title="never offered: at its times items are made that repeat it"))
    if item.container:
        chips.append(chip("container", title="never offered: it is there for the items below it"))
    return chips


def _due_soon(item: ItemRow) -> Node:
    """When it is due, if that is to come."""
    return span(".chip", title="its dueAt")["due: ", left(due(item))] if due(item) and not item.overdue else None


def postponed(item: ItemRow) -> bool:
    """Whether its notBefore holds it back, and not a back-off."""
    return item.not_before == str(item.held_until)


def tags(listed: str | bool | None, most: int = _MOST_TAGS) -> list[Node]:
    """Some tags as chips, and how many there are besides."""
    names = listed.split(",") if isinstance(listed, str) and listed else []
    chips: list[Node] = [span(".chip.tag")[plain(name)] for name in names[:most]]
    return [*chips, htpy.span(".dim")[f"+{len(names) - most}"] if len(names) > most else None]
