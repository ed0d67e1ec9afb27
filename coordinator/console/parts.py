"""Small pieces that several pages show: icons, roles, times, links to items."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import quote

import htpy
import msgspec
from htpy import Node, a, code, span, time

from coordinator.console.view import Visit, path_of

_PATHS = {
    # Each on a grid of 16, drawn with lines of 1.5.
    "fleet": "M8 1.5v4M2 14l6-4 6 4M2 9l6-4 6 4",
    "theme": "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
    "overview": "M2 13V8M6 13V3M10 13V6M14 13v-3",
    "board": "M2 3h3v10H2zM6.5 3h3v6h-3zM11 3h3v8h-3z",
    "approvals": "M2 8l4 4 8-9",
    "agents": "M8 7a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 14c0-3 2-5 5-5s5 2 5 5",
    "usage": "M8 2v12M11 4.5C10.5 3.5 9.5 3 8 3 6 3 5 4 5 5.5 5 9 11 7 11 10.5c0 1.5-1 2.5-3 2.5-1.5 0-2.5-.5-3-1.5",
    "flows": "M3 3h3v3H3zM10 10h3v3h-3zM6 4.5h4.5a1 1 0 0 1 1 1V10",
    "gateway": "M2 14V5l6-3 6 3v9M6 14V9h4v5",
    "sessions": "M3 3h10v7H7l-3 3v-3H3z",
    "system": "M2 3h12v4H2zM2 9h12v4H2zM5 5h.1M5 11h.1",
    "projects": "M2 4h4l1.5 2H14v7H2z",
    "queue": "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z",
    "work": "M5 3l7 5-7 5z",
    "review": "M3 3h10v10H3z",
    "blocked": "M8 2v7M8 12.5v.5",
    "done": "M3 8.5l3.5 3.5L13 4.5",
    "failed": "M4 4l8 8M12 4l-8 8",
    "cancelled": "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM4 12l8-8",
    "paused": "M5.5 3v10M10.5 3v10",
    "pending": "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.5l2.5 1.5",
    "gate": "M4 7.5h8v6H4zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5",
    "ready": "M8 3l5 5-5 5-5-5z",
    "none": "M3 8h2M7 8h2M11 8h2",
}
_UNSEEN = re.compile(
    # Not the joiners of emoji and scripts.
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
SPRITE: Node = htpy.svg(".sprite", aria_hidden="true", width="0", height="0")[
    [htpy.symbol(id=f"i-{name}", viewBox="0 0 16 16")[htpy.path(d=path)] for name, path in _PATHS.items()]
]
"""All icons, once per page."""
ROLES = {"queue": "queue", "work": "work", "review": "review", "blocked": "blocked", "terminal": "done"}
"""How pages call the roles of items."""


def indented(json: str) -> str:
    """JSON on several lines; what is only its beginning stays as it is."""
    try:
        return msgspec.json.format(json, indent=2)
    except msgspec.DecodeError:
        return json


def icon(name: str) -> Node:
    """An icon; it needs a text beside it."""
    known = name if name in _PATHS else "queue"
    return htpy.svg(".icon", aria_hidden="true", viewBox="0 0 16 16")[htpy.use(href=f"#i-{known}")]


def icon_path(name: str) -> str:
    """The lines of an icon, on a grid of 16."""
    return _PATHS.get(name, _PATHS["queue"])


def role(name: str, text: str | None = None) -> Node:
    """A role, as shape, word and colour."""
    label = ROLES.get(name, name)
    return span(f".role.{label}")[icon(label), label if text is None else text]


def state(tone: str, shape: str, text: str) -> Node:
    """A state, as shape, word and colour."""
    return span(f".role.{tone}")[icon(shape), text]


def ago(ms: int) -> Node:
    """A moment in the past, kept up to date by the page."""
    return time(datetime=_iso(ms), data_ago=str(ms))[_exact(ms)]


def left(ms: int) -> Node:
    """A countdown to a moment, kept up to date by the page."""
    return time(".left", datetime=_iso(ms), data_left=str(ms))[_exact(ms)]


def item_link(project: str, id: str, title: str) -> Node:
    return a(".item", href=path_of("item", project, id))[title or short(id)]


def agent_link(project: str, agent: str) -> Node:
    return a(".agent", href=path_of("agents", project) + f"?agent={quote(agent, safe='')}")[plain(agent)]


def holder_link(visit: Visit, agent: str) -> Node:
    """A link to the agent that holds an item, if the viewer may see which one that is."""
    return agent_link(visit.project, agent) if visit.viewer.sees_holders else span(".dim")["an agent"]


def item_id(id: str) -> Node:
    """An item's id: its first digits, all of them when copied."""
    return code(".id", data_copy=id, title=id, tabindex="0")[short(id)]


def whole_id(id: str) -> Node:
    """An id that is shown whole, to be copied."""
    return code(".id", data_copy=id, tabindex="0")[id]


def spaced(*parts: Node) -> Node:
    """Parts with spaces between them; those that are None are left out."""
    return [node for part in parts if part is not None for node in (" ", part)][1:]


def short(id: str) -> str:
    """The first eight digits of an id."""
    return id[:8]


def plain(text: str) -> str:
    """Text of others with its control characters, and those that hide or turn text around, made visible."""
    return _UNSEEN.sub(lambda char: f"\\u{ord(char[0]):04x}", text)


def sentence(text: str) -> str:
    """A message as a sentence; one that begins with the name of a field keeps that as it is written."""
    said = plain(text)
    first = said.partition(" ")[0]
    if first.isalpha():
        said = said[0].upper() + said[1:]
    return said if said.endswith((".", "!", "?")) else said + "."


def chip(text: str, kind: str = "", title: str = "") -> Node:
    """A short remark. ``kind``: ``warning`` or ``trouble``; none: it is only a remark."""
    return span(class_=f"chip {kind}".rstrip(), title=plain(title) or None)[plain(text)]


def number(count: int, more: bool = False) -> str:
    """A count with thousands separated; with a plus sign if there are more."""
    return f"{count:,}" + ("+" if more else "")


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _exact(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
